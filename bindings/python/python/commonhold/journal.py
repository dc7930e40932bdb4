"""Journals: a journal records a map's changes in a file."""

import json
import math
import os
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from . import _native
from .errors import InvalidError
from .scope import Closing

if TYPE_CHECKING:
    from .hold import Hold

Path = Union[str, "os.PathLike[str]"]
Seconds = Union[float, timedelta]
Sync = Union[str, Seconds]
Time = Union[datetime, float, str]


class Journal(_native.Journal, Closing):
    """Records every change of a map in a file, from which the map is rebuilt after a crash of the
    system. Any process may write to the map, and wait until its changes are durable
    (:meth:`Map.sync`).

    An existing file is resumed if the map has all its changes. If the journal's process is killed,
    the next journal resumes the file. At the end of a ``with`` block, the journal makes all changes
    durable and ends, or raises ``SystemFailedError``.

    Raises ``MismatchError`` if the map is a cache or a replica, or if the file has changes that the
    map lacks (:meth:`rebuild`); ``BusyError`` if the map, or the file, has a journal already.

    >>> import commonhold
    >>> with commonhold.open("ledger", directory=tmp) as hold:
    ...     accounts = hold.map("accounts").str()
    ...     with hold.journal("accounts", f"{tmp}/accounts.journal"):
    ...         accounts["ann"] = "100"
    ...         position = hold.map("accounts").sync(60)      # on the disk
    >>> with commonhold.open("another", directory=tmp) as hold:
    ...     report = commonhold.Journal.rebuild(hold, "accounts", f"{tmp}/accounts.journal")
    ...     hold.map("accounts").str()["ann"]
    '100'

    :param sync: when changes are made durable: ``"always"``, ``"never"`` (when the system writes
      them; :meth:`Map.sync` then raises), or the maximum time after a write, in seconds or as a
      ``timedelta``
    :param compact_bytes: a smaller file is not compacted when it has doubled; 16 MiB by default
    :param stream_bytes: how many bytes of changes the map keeps for a journal that lags; a stream of
      another size begins again (:meth:`Maps.begin_stream`)
    :param replace: discards the file, whatever is in it; with ``keep``, it becomes a segment
    :param keep: how long earlier states of the map can be restored, in seconds or as a
      ``timedelta``: a file that the next one replaces stays as a segment, until no state within this
      time needs it
    :param archive: the directory of the segments, on the file system of the file; the file's path
      and ``.d`` by default
    :param segment_time: a new file begins at the latest after this time, unless nothing changes; an
      hour by default
    """

    def __new__(
        cls,
        hold: "Hold",
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
    ) -> "Journal":
        return super().__new__(
            cls,
            hold,
            map,
            file,
            sync=_policy(sync),
            compact_bytes=compact_bytes,
            stream_bytes=stream_bytes,
            replace=replace,
            keep=keep,
            archive=archive,
            segment_time=segment_time,
        )

    @staticmethod
    def rebuild(
        hold: "Hold",
        map: str,
        file: Path,
        *,
        at: Optional[Time] = None,
        archive: Optional[Path] = None,
        skip_damaged: bool = False,
    ) -> Dict[str, Any]:
        """Rebuilds a map that does not exist from its journal; returns a report. No process can open
        the map before it is whole.

        With ``at``, the map becomes what it was in the state that :meth:`find_state` returns for this
        time. A journal does not continue the file then, which has changes that the map lacks.

        Raises ``ExistsError`` if there is a map of this name; ``DamagedError`` if the file is not a
        journal, or if a part of it that was durable is damaged, which ``skip_damaged`` leaves out.
        """
        if at is None and archive is not None:
            raise InvalidError("archive has no effect without a time: set at, too")
        at_ms = None if at is None else _milliseconds(at)
        found: Dict[str, Any] = json.loads(
            _native.Journal._rebuild(hold, map, file, at_ms, archive, skip_damaged)
        )
        return found

    @staticmethod
    def find_state(
        file: Path, at: Time, *, archive: Optional[Path] = None, skip_damaged: bool = False
    ) -> Dict[str, Any]:
        """Finds the last state of a map whose time is not later than ``at``, in the journal's file and
        its segments; returns its ``file`` and its time (``time_ms``, in milliseconds since 1970).

        Raises ``InvalidError``, with the times that can be restored, if there is no such state, or if
        it is not known because a segment is missing or the journal did not run.

        :param at: a ``datetime`` (without a zone it is local time), seconds since 1970, or text such as
          ``"2026-11-23 10:15"`` or ``"2026-11-23T10:15:00+02:00"`` (without a zone it is UTC)
        :param archive: the directory of the segments; the file's path and ``.d`` by default
        """
        found: Dict[str, Any] = json.loads(
            _native.Journal._find_state(file, _milliseconds(at), archive, skip_damaged)
        )
        return found

    def status(self) -> Dict[str, Any]:
        """Its status: file, position, durable, bytes, compactions, error and others."""
        found: Dict[str, Any] = json.loads(self._status())
        return found


def _policy(sync: Sync) -> str:
    """The library's text for when changes are made durable."""
    if isinstance(sync, str):
        return sync
    seconds = sync.total_seconds() if isinstance(sync, timedelta) else sync
    if not 0.001 <= seconds <= 3600:
        raise InvalidError(
            f"expected sync to be 'always', 'never', or from 0.001 to 3600 seconds, got {seconds!r}"
        )
    return f"every-ms={math.ceil(seconds * 1000)}"


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _milliseconds(at: Time) -> int:
    """A time in milliseconds since 1970."""
    if isinstance(at, str):
        return _native.Journal._time(at)
    if isinstance(at, datetime):
        found = (at.astimezone() - _EPOCH) // timedelta(milliseconds=1)
    else:
        found = round(at * 1000)
    if found < 0:
        raise InvalidError(f"expected a time from 1970 on, got {at!r}")
    return found
