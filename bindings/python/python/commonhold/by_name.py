"""The structures of a hold by name: ``Hold.maps``, ``Hold.queues``, ``Hold.channels``,
``Hold.logs``."""

import json
from typing import TYPE_CHECKING, Any, ClassVar, Dict, Iterator, List, Optional, Sequence

from .channel import Channel
from .log import Log, level_code
from .map import Map
from .queue import Queue

if TYPE_CHECKING:
    from .hold import Hold


class Structures:
    """The common part of :class:`Maps`, :class:`Queues`, :class:`Channels` and :class:`Logs`.

    ``name in hold.maps`` is true if there is a map of this name; ``for name in hold.maps``
    iterates over the names.
    """

    __slots__ = ("hold",)

    _kind: ClassVar[str]

    hold: "Hold"
    """Their hold."""

    def __init__(self, hold: "Hold") -> None:
        self.hold = hold

    def __repr__(self) -> str:
        return f"<the {self._kind}s in {self.hold.path}>"

    def __iter__(self) -> Iterator[str]:
        return iter([found["name"] for found in self.list()])

    def __contains__(self, name: object) -> bool:
        return any(found == name for found in self)

    def __len__(self) -> int:
        return len(self.list())

    def drop(self, name: str) -> bool:
        """Drops a structure with everything in it; false if there is none.

        Other handles on it raise ``NotFoundError`` from then on. ``BusyError`` while another
        process has a queue, channel or log open. ``MismatchError`` if the name is that of another
        kind of structure.
        """
        return self.hold._drop(self._kind, name)

    # Last: it has the name of a type.
    def list(self) -> List[Dict[str, Any]]:
        """All structures of this kind, sorted by name, as ``hold list --format json`` prints
        them."""
        found: List[Dict[str, Any]] = json.loads(self.hold._list(self._kind))
        return found


class Maps(Structures):
    """The maps of a hold by name; see :attr:`Hold.maps`."""

    __slots__ = ()

    _kind = "map"

    def open(self, name: str) -> Map:
        """Opens a map, whatever its options. ``NotFoundError`` if there is none."""
        return Map(self.hold, name, how="open")

    def open_or_create(self, name: str, **options: Any) -> Map:
        """Opens a map, or creates it if there is none. The options are those of :meth:`Hold.map`,
        which is the short form of this method."""
        return Map(self.hold, name, **options)

    def create(self, name: str, **options: Any) -> Map:
        """Creates a map. ``ExistsError`` if there is one. The options are those of
        :meth:`Hold.map`."""
        return Map(self.hold, name, how="create", **options)

    def begin_stream(self, name: str, bytes: int = 0) -> bool:
        """Gives a map a stream, an ordered record of its changes, which :meth:`Map.watch` needs.

        The stream keeps the last ``bytes`` (0: 64 MiB). A stream of another size begins again, and
        its watchers get ``LappedError``. False if the map has a stream of this size, or of any size
        and ``bytes`` is 0.
        """
        return self.hold._begin_stream(name, bytes)

    def promote(self, name: str) -> Optional[Dict[str, Any]]:
        """Makes a replica's map writable for every process, because its origin will not come back.
        ``None`` if it is writable already; ``BusyError`` while its replica lives.

        Returns the ``position`` of the old origin's stream that the map has reached (``None`` if it
        is not known), and the ``epoch`` of the map from now on: replicas that have seen it refuse the
        old origin.
        """
        text = self.hold._promote(name)
        return None if text is None else dict(json.loads(text))


class Queues(Structures):
    """The queues of a hold by name; see :attr:`Hold.queues`."""

    __slots__ = ()

    _kind = "queue"

    def open(self, name: str) -> Queue:
        """Opens a queue, whatever its options. ``NotFoundError`` if there is none."""
        return Queue(self.hold, name, how="open")

    def open_or_create(
        self,
        name: str,
        elements: int,
        element_bytes: int,
        queues: Sequence[str] = ("free",),
        *,
        orphans: Optional[str] = None,
    ) -> Queue:
        """Opens a queue, or creates it if there is none; see :meth:`Hold.queue`, the short form of
        this method."""
        return Queue(self.hold, name, elements, element_bytes, [*queues], orphans=orphans)

    def create(
        self,
        name: str,
        elements: int,
        element_bytes: int,
        queues: Sequence[str] = ("free",),
        *,
        orphans: Optional[str] = None,
    ) -> Queue:
        """Creates a queue. ``ExistsError`` if there is one."""
        names = [*queues]
        return Queue(self.hold, name, elements, element_bytes, names, orphans=orphans, how="create")

    def stat(self, name: str) -> Dict[str, Any]:
        """The statistics of a queue; works even in a read-only hold, where no queue can be
        opened."""
        found: Dict[str, Any] = json.loads(self.hold._queue_stat(name))
        return found


class Channels(Structures):
    """The channels of a hold by name; see :attr:`Hold.channels`."""

    __slots__ = ()

    _kind = "channel"

    def open(self, name: str) -> Channel:
        """Opens a channel, whatever its ring. ``NotFoundError`` if there is none."""
        return Channel(self.hold, name, how="open")

    def open_or_create(self, name: str, ring_bytes: int = 1 << 20) -> Channel:
        """Opens a channel, or creates it if there is none; see :meth:`Hold.channel`, the short form
        of this method."""
        return Channel(self.hold, name, ring_bytes)

    def create(self, name: str, ring_bytes: int = 1 << 20) -> Channel:
        """Creates a channel. ``ExistsError`` if there is one."""
        return Channel(self.hold, name, ring_bytes, how="create")


class Logs(Structures):
    """The logs of a hold by name; see :attr:`Hold.logs`."""

    __slots__ = ()

    _kind = "log"

    def open(self, name: str) -> Log:
        """Opens a log, whatever its options. ``NotFoundError`` if there is none."""
        return Log(self.hold, name, how="open")

    def open_or_create(self, name: str, **options: Any) -> Log:
        """Opens a log, or creates it if there is none. The options are those of :meth:`Hold.log`,
        which is the short form of this method."""
        return Log(self.hold, name, **_log_options(options))

    def create(self, name: str, **options: Any) -> Log:
        """Creates a log. ``ExistsError`` if there is one. The options are those of
        :meth:`Hold.log`."""
        return Log(self.hold, name, how="create", **_log_options(options))


def _log_options(options: Dict[str, Any]) -> Dict[str, Any]:
    level = options.get("level", "info")
    return {**options, "level": level_code(level)}


__all__ = ["Channels", "Logs", "Maps", "Queues", "Structures"]
