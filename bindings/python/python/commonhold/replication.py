"""Maps on other machines: an origin serves a map's changes, a replica applies them to its own
map."""

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from . import _native
from .scope import Closing
from .watch import KINDS, Change

if TYPE_CHECKING:
    from .hold import Hold


class Origin(_native.Origin, Closing):
    """Serves one map to replicas: at addresses (:meth:`listen`), and over attached sockets.

    Writers of the map are not affected. A context manager, which closes it.

    :param secret: bytes that both sides must know
    :param stream_bytes: how many bytes of changes the map keeps for replicas that were away, if it
      has no stream yet
    :param threads: threads that serve
    :param uids: users whose processes may connect over unix sockets
    :param explicit: changes are sent when :meth:`transmit` is called, not as they happen
    :param notice: called with a line of text when something happens, by a thread; it must not call
      the origin
    """

    def __new__(
        cls,
        hold: "Hold",
        name: str,
        *,
        stream_bytes: Optional[int] = None,
        threads: Optional[int] = None,
        secret: Optional[bytes] = None,
        uids: Optional[Sequence[int]] = None,
        explicit: bool = False,
        most_replicas: Optional[int] = None,
        notice: Optional[Callable[[str], None]] = None,
    ) -> "Origin":
        return super().__new__(
            cls,
            hold,
            name,
            stream_bytes=stream_bytes,
            threads=threads,
            secret=secret,
            uids=None if uids is None else list(uids),
            explicit=explicit,
            most_replicas=most_replicas,
            notice=notice,
        )

    def replicas(self) -> List[Dict[str, Any]]:
        """The connected replicas."""
        found: List[Dict[str, Any]] = json.loads(self._replicas())
        return found


class Replica(_native.Replica, Closing):
    """Replicates an origin's map to a map of a hold. Every process that has the hold open reads it
    like any map; writing to it is ``ReadOnlyError``.

    It restores a lost connection; no change that the stream still has is sent twice. A context
    manager, which closes it; the map stays.

    :param origin: an address, or a connected stream socket
    :param on_change: called with each :class:`Change`, by the replica's thread
    :param on_ready: called with the position when the map has the origin's state, for the first
      time or again
    :param on_lost: called with the reason when the connection is lost or cannot be made
    """

    def __new__(
        cls,
        hold: "Hold",
        name: str,
        origin: Any,
        *,
        secret: Optional[bytes] = None,
        first_pause: float = 0.05,
        longest_pause: float = 5.0,
        on_change: Optional[Callable[[Change], None]] = None,
        on_ready: Optional[Callable[[str], None]] = None,
        on_lost: Optional[Callable[[str], None]] = None,
    ) -> "Replica":
        listener = None
        if on_change or on_ready or on_lost:

            def listener(what: str, fields: Any) -> None:
                if what == "changed" and on_change:
                    on_change(Change(KINDS.get(fields[0], "unknown"), *fields[1:]))
                elif what == "ready" and on_ready:
                    on_ready(fields)
                elif what == "lost" and on_lost:
                    on_lost(fields)

        return super().__new__(
            cls,
            hold,
            name,
            origin,
            secret=secret,
            first_pause=first_pause,
            longest_pause=longest_pause,
            listener=listener,
        )

    def status(self) -> Dict[str, Any]:
        """Its status: connected, ready, position, lag, last error."""
        found: Dict[str, Any] = json.loads(self._status())
        return found
