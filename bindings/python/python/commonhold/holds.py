"""Whole holds on other machines: one origin serves all maps of a hold, and one replica follows
them."""

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from . import _native
from .scope import Closing

if TYPE_CHECKING:
    from .hold import Hold


class HoldOrigin(_native.HoldOrigin, Closing):
    """Serves all maps of a hold to replicas, at the same addresses: those that exist, and those that
    are created while it runs. Queues, channels and logs are not served, and neither are maps whose
    names begin with a dot.

    Each map gets a stream, a connection for each replica, and threads of its own. A
    :class:`HoldReplica` follows all maps, a :class:`Replica` one of them. A context manager, which
    closes it.

    :param maps: patterns of the names of the maps to serve: ``*`` stands for any characters, ``?``
      for one; without patterns, all maps
    :param notice: called with a line of text when something happens, by a thread; it must not call
      the origin
    :param options: those of :class:`Origin`, for each map's origin, except ``explicit``
    """

    def __new__(
        cls,
        hold: "Hold",
        maps: Sequence[str] = (),
        *,
        notice: Optional[Callable[[str], None]] = None,
        **options: Any,
    ) -> "HoldOrigin":
        return super().__new__(cls, hold, _patterns(maps), notice=notice, **options)

    def maps(self) -> List[Dict[str, Any]]:
        """The maps that it serves: name, replicas, and the reason why a map cannot be served at the
        moment."""
        found: List[Dict[str, Any]] = json.loads(self._maps())
        return found


class HoldReplica(_native.HoldReplica, Closing):
    """Keeps the maps of a hold equal to those of an origin's hold (:class:`HoldOrigin`): those that
    exist, and those that are created later.

    A map that is dropped at the origin stays, and is reported as dropped. A map that this hold has as
    an ordinary map is skipped, and is followed if the ordinary map goes away. A context manager,
    which closes it; the maps stay.

    :param origin: an address
    :param maps: patterns of the names of the maps to follow, as for :class:`HoldOrigin`
    :param on_ready: called with a map's name and a position when the map has the origin's state, for
      the first time or again. The replica's threads make the calls, several at a time
    :param on_lost: called with a map's name and the reason when its connection is lost or cannot be
      made; with ``None`` instead of a name for the connection that names the maps
    :param on_skipped: called with a map's name and the reason when it cannot be followed
    :param on_dropped: called with the name of a map that the origin no longer has
    :param options: those of :class:`Replica`, for each map's replica, except ``origin_map``,
      ``prefix`` and the callbacks
    """

    def __new__(
        cls,
        hold: "Hold",
        origin: str,
        maps: Sequence[str] = (),
        *,
        on_ready: Optional[Callable[[str, str], None]] = None,
        on_lost: Optional[Callable[[Optional[str], str], None]] = None,
        on_skipped: Optional[Callable[[str, str], None]] = None,
        on_dropped: Optional[Callable[[str], None]] = None,
        **options: Any,
    ) -> "HoldReplica":
        if "origin_map" in options:
            raise TypeError("a whole hold has all maps under their own names: omit origin_map")
        calls: Dict[str, Any] = {
            "ready": on_ready,
            "lost": on_lost,
            "skipped": on_skipped,
            "dropped": on_dropped,
        }

        def listener(what: str, *about: Any) -> None:
            call = calls[what]
            if call is not None:
                call(*about)

        listens = any(call is not None for call in calls.values())
        return super().__new__(
            cls, hold, origin, _patterns(maps), listener=listener if listens else None, **options
        )

    def status(self) -> Dict[str, Any]:
        """Its status: whether it is connected, and each map with its state and the status of its
        replica."""
        found: Dict[str, Any] = json.loads(self._status())
        return found


def _patterns(maps: Sequence[str]) -> List[str]:
    if isinstance(maps, str):
        raise TypeError(f"expected a sequence of patterns, got a str: [{maps!r}] has one pattern")
    return list(maps)
