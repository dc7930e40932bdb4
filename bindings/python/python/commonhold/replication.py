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

    Writers of the map do not wait for replicas, except when they clear the map. A context manager,
    which closes it.

    :param secret: bytes that both sides must know
    :param allow_unauthenticated: may listen without a secret where other machines can connect; every
      client that connects can then read the map
    :param stream_bytes: how many bytes of changes the map keeps for replicas that were away; a
      stream of another size begins again (:meth:`Maps.begin_stream`)
    :param threads: threads that serve
    :param uids: users whose processes may connect over unix sockets
    :param compression: whether the pairs of a full sync are compressed, if the replica allows it
      too: ``"auto"`` (over TCP to another machine), ``"always"`` or ``"never"``
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
        allow_unauthenticated: bool = False,
        uids: Optional[Sequence[int]] = None,
        explicit: bool = False,
        most_replicas: Optional[int] = None,
        compression: str = "auto",
        notice: Optional[Callable[[str], None]] = None,
    ) -> "Origin":
        return super().__new__(
            cls,
            hold,
            name,
            stream_bytes=stream_bytes,
            threads=threads,
            secret=secret,
            allow_unauthenticated=allow_unauthenticated,
            uids=None if uids is None else list(uids),
            explicit=explicit,
            most_replicas=most_replicas,
            compression=compression,
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
    :param replica_name: the name for :meth:`Map.wait_for_replica` at the origin, different from
      those of the origin's other replicas
    :param also: further addresses of the map, such as those of relays: if the connection is lost,
      the replica tries all addresses in turn, and continues at its position where it can
    :param origin_map: the map's name at the origin, if it is another
    :param stream_bytes: for a relay: the map gets a stream of this size with the origin's positions,
      unless it has a stream
    :param adopt: accepts, for one connection, an origin of another map, or one of an earlier epoch
      than the replica has seen; its map then replaces the replica's
    :param compression: as for :class:`Origin`
    :param prefix: only the pairs whose keys begin with these 1 to 255 bytes: the origin sends no
      others. The map keeps to the prefix, cannot be served to other replicas, and cannot be promoted
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
        replica_name: str = "",
        also: Sequence[str] = (),
        origin_map: Optional[str] = None,
        stream_bytes: Optional[int] = None,
        adopt: bool = False,
        compression: str = "auto",
        prefix: Optional[bytes] = None,
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
            replica_name=replica_name,
            also=also,
            origin_map=origin_map,
            stream_bytes=stream_bytes,
            adopt=adopt,
            compression=compression,
            prefix=prefix,
            listener=listener,
        )

    def status(self) -> Dict[str, Any]:
        """Its status: connected, ready, position, lag, last error."""
        found: Dict[str, Any] = json.loads(self._status())
        return found

    @staticmethod
    def verify(
        hold: "Hold",
        map: str,
        origin: str,
        *,
        secret: Optional[bytes] = None,
        timeout: float = 30.0,
    ) -> Dict[str, Any]:
        """Compares a replica's map with its origin, pair by pair, or only the keys of its prefix if it
        has one; needs memory for a copy of the map.

        :param hold: the replica's
        :param origin: an address
        :param timeout: in seconds; then ``TimedOutError``
        :returns: a report: ``equal``, ``pairs``, ``different`` (a number), ``differing`` (the keys, 100
          at most) and others
        """
        equal, text = _native.Replica._verify(hold, map, origin, secret, timeout)
        report: Dict[str, Any] = json.loads(text)
        report["differing"] = [bytes(key) for key in report["differing"]]
        return {"equal": equal, **report}
