"""The hold: the file, and the operations on all of it."""

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _native
from .by_name import Channels, Logs, Maps, Queues
from .channel import Channel
from .errors import HoldNotFoundError, NotFoundError
from .holds import HoldOrigin, HoldReplica
from .journal import Journal, Sync
from .log import Log
from .map import Map, Seconds
from .queue import Queue
from .replication import Origin, Replica
from .scope import Closing

Path = Union[str, "os.PathLike[str]"]


class Hold(_native.Hold, Closing):
    """A memory-mapped file that many processes share; see :func:`open`.

    It is a context manager, which closes the hold. Any thread may use it, and so may a forked
    child, which becomes a separate participant with its first operation. If it is pickled, the
    receiving process opens it again.
    """

    def __new__(cls, name: Path, **options: Any) -> "Hold":
        try:
            made = super().__new__(cls, name, **options)
        except NotFoundError as error:
            raise HoldNotFoundError(*error.args) from None
        again = {key: options[key] for key in ("read_only", "lock_timeout") if key in options}
        made._again = again
        return made

    def __repr__(self) -> str:
        return f"<commonhold hold {str(self.path)!r}{', closed' if self.closed else ''}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (self.path, self._again)

    @property
    def path(self) -> str:
        """The path of the file."""
        return str(self._path)

    @property
    def maps(self) -> Maps:
        """The maps by name: ``open``, ``open_or_create``, ``create``, ``drop``, ``list``."""
        return Maps(self)

    @property
    def queues(self) -> Queues:
        """The queues by name."""
        return Queues(self)

    @property
    def channels(self) -> Channels:
        """The channels by name."""
        return Channels(self)

    @property
    def logs(self) -> Logs:
        """The logs by name."""
        return Logs(self)

    def map(
        self,
        name: str,
        *,
        fixed: Optional[Tuple[int, int]] = None,
        cache: bool = False,
        max_bytes: Optional[int] = None,
        max_entries: Optional[int] = None,
        ttl: Optional[Seconds] = None,
        value_room: int = 0,
    ) -> Map:
        """Opens a map, or creates it if there is none: short for ``hold.maps.open_or_create()``.

        ``fixed=(key_bytes, value_bytes)``: all keys and values have these lengths; pairs of up to
        32 bytes are kept in the index itself. ``cache=True``: pairs are evicted beyond
        ``max_bytes`` or ``max_entries``, and expire after ``ttl`` (seconds or a ``timedelta``),
        unless a change sets another time. ``None`` means no limit. ``value_room``: a hint for
        values that grow.

        Raises ``MismatchError`` if the map exists with other options, or if the name belongs to
        another kind of structure.
        """
        return Map(
            self,
            name,
            fixed=fixed,
            cache=cache,
            max_bytes=max_bytes,
            max_entries=max_entries,
            ttl=ttl,
            value_room=value_room,
        )

    def cache(
        self,
        name: str,
        *,
        max_bytes: Optional[int] = None,
        max_entries: Optional[int] = None,
        ttl: Optional[Seconds] = None,
    ) -> Map:
        """Opens or creates a map in cache mode; see :meth:`map`."""
        return self.map(name, cache=True, max_bytes=max_bytes, max_entries=max_entries, ttl=ttl)

    def queue(
        self,
        name: str,
        elements: int,
        element_bytes: int,
        queues: Sequence[str] = ("free",),
        *,
        orphans: Optional[str] = None,
    ) -> Queue:
        """Opens a queue, or creates it if there is none: short for
        ``hold.queues.open_or_create()``.

        A new queue has ``elements`` of ``element_bytes`` each, which move between the ``queues``.
        All of them start in the first. Elements that a process had in flight when it died go to
        ``orphans``, which is the first queue by default.
        """
        return self.queues.open_or_create(name, elements, element_bytes, queues, orphans=orphans)

    def channel(self, name: str, ring_bytes: int = 1 << 20) -> Channel:
        """Opens a channel, or creates it if there is none: short for
        ``hold.channels.open_or_create()``.

        A new channel has a ring of ``ring_bytes``: a power of two, at least four times the longest
        message.
        """
        return self.channels.open_or_create(name, ring_bytes)

    def log(
        self,
        name: str,
        *,
        rings: int = 64,
        ring_bytes: int = 256 << 10,
        overwrite: bool = False,
        level: Union[int, str] = "info",
        direct: bool = False,
    ) -> Log:
        """Opens a log, or creates it if there is none: short for ``hold.logs.open_or_create()``.

        At most ``rings`` threads, in all processes, can write. A full ring drops new lines or, with
        ``overwrite``, the oldest ones. ``level``: a name, or a number as in `logging`. ``direct``:
        lines also go to standard error while there is no collector.
        """
        return self.logs.open_or_create(
            name,
            rings=rings,
            ring_bytes=ring_bytes,
            overwrite=overwrite,
            level=level,
            direct=direct,
        )

    def origin(self, map: str, **options: Any) -> Origin:
        """Serves a map to replicas; see :class:`Origin`."""
        return Origin(self, map, **options)

    def replica(self, map: str, origin: Any, **options: Any) -> Replica:
        """Replicates an origin's map; see :class:`Replica`."""
        return Replica(self, map, origin, **options)

    def hold_origin(self, maps: Sequence[str] = (), **options: Any) -> HoldOrigin:
        """Serves all maps to replicas; see :class:`HoldOrigin`."""
        return HoldOrigin(self, maps, **options)

    def hold_replica(self, origin: str, maps: Sequence[str] = (), **options: Any) -> HoldReplica:
        """Replicates all maps of an origin's hold; see :class:`HoldReplica`."""
        return HoldReplica(self, origin, maps, **options)

    def journal(
        self,
        map: str,
        file: Path,
        *,
        sync: Sync = "always",
        compact_bytes: Optional[int] = None,
        stream_bytes: Optional[int] = None,
        replace: bool = False,
        keep: Optional[Seconds] = None,
        archive: Optional[Path] = None,
        segment_time: Optional[Seconds] = None,
    ) -> Journal:
        """Keeps a journal of a map in a file; see :class:`Journal`."""
        return Journal(
            self,
            map,
            file,
            sync=sync,
            compact_bytes=compact_bytes,
            stream_bytes=stream_bytes,
            replace=replace,
            keep=keep,
            archive=archive,
            segment_time=segment_time,
        )

    def structures(self) -> List[Dict[str, Any]]:
        """The queues, channels and logs, sorted by name."""
        return _list(self._structures())

    def stat(self) -> Dict[str, Any]:
        """Sizes and counts."""
        return _parsed(self._stat())

    def participants(self) -> List[Dict[str, Any]]:
        """All participants, live or dead: slot, generation, pid, program, since_ms, alive."""
        return _list(self._participants())

    def participant(self) -> Dict[str, Any]:
        """This handle in the table of participants."""
        return _parsed(self._participant())

    def check(self) -> Dict[str, Any]:
        """Checks the whole hold; returns ``["ok"]`` and ``["problems"]``. Writers wait during the
        check, readers do not."""
        return _parsed(self._check())

    def backup(self, to: Path) -> Dict[str, Any]:
        """Copies all maps, as they were at one moment, to a new file, while other processes
        continue to write."""
        return _parsed(self._backup(to))


def open(
    name: Path,
    *,
    create: bool = True,
    exclusive: bool = False,
    read_only: bool = False,
    max_bytes: Optional[int] = None,
    mode: int = 0o600,
    directory: Optional[Path] = None,
    delete_on_last_exit: bool = False,
    lock_timeout: Optional[float] = None,
) -> Hold:
    """Opens a hold, or creates it.

    :param name: a bare name stands for a hold in memory; a name that contains a slash or ends in
      ``.hold`` is a path
    :param create: create the hold if it does not exist; if false, raise ``HoldNotFoundError``
    :param exclusive: create the hold; raise ``ExistsError`` if it exists
    :param read_only: take no slot and write nothing; this needs no permission to write
    :param max_bytes: at creation: the maximum size of the file, 64 GiB by default
    :param mode: at creation: the permission bits
    :param directory: the directory of bare names; by default ``$COMMONHOLD_DIR``, or ``/dev/shm``
    :param delete_on_last_exit: delete the file when the last process that uses it ends, even by a
      crash; a forked child counts as a user
    :param lock_timeout: seconds after which an operation stops waiting for a lock whose holder is
      stopped, and raises ``TimedOutError``
    """
    options: Dict[str, Any] = {
        "create": create,
        "exclusive": exclusive,
        "read_only": read_only,
        "max_bytes": max_bytes,
        "mode": mode,
        "directory": directory,
        "delete_on_last_exit": delete_on_last_exit,
    }
    if lock_timeout is not None:
        options["lock_timeout"] = lock_timeout
    return Hold(name, **options)


def list(directory: Optional[Path] = None) -> List[Dict[str, Any]]:
    """The holds in a directory (``None``: where bare names live), sorted by name; also those that
    cannot be opened, with the reason."""
    return _list(_native.list(directory))


def remove(name: Path, *, force: bool = False) -> None:
    """Deletes the file of a hold, and never a file that is not a hold.

    Raises ``BusyError`` if a process has it open, unless ``force`` is true. Processes that have it
    open then continue to use the deleted file.
    """
    _native.remove(name, force=force)


def resolve(name: Path, directory: Optional[Path] = None) -> str:
    """The path that a name stands for."""
    return str(_native.resolve(name, directory))


def restore(backup: Path, name: Path) -> Dict[str, Any]:
    """Creates a hold from a backup; no process sees it before it is complete."""
    return _parsed(_native.restore(backup, name))


def salvage(name: Path) -> Dict[str, Any]:
    """Saves the intact pairs of a file hold that was open when the system stopped."""
    return _parsed(_native.salvage(name))


def _open_again(path: str, options: Dict[str, Any]) -> Hold:
    return Hold(path, create=False, **options)


def _list(text: str) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = json.loads(text)
    return found


def _parsed(text: str) -> Dict[str, Any]:
    found: Dict[str, Any] = json.loads(text)
    return found
