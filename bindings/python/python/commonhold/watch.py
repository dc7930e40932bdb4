"""A map's changes as they happen."""

from typing import AsyncIterator, Iterator, NamedTuple, Optional

from . import _native
from .aio import in_thread, pending

#: Names of the kinds of changes, by their numbers.
KINDS = {1: "set", 2: "delete", 3: "expire", 4: "evict", 5: "clear", 6: "gap"}


class Change(NamedTuple):
    """One change of a map."""

    #: ``"set"``, ``"delete"``, ``"expire"``, ``"evict"``, ``"clear"``, or ``"gap"``: some key
    #: changed, too large for the stream.
    kind: str
    key: bytes
    #: The new value, of a ``"set"``.
    value: bytes
    #: When the pair expires, in milliseconds since 1970; 0: never.
    expires_ms: int
    #: The offset in the stream after this change.
    end: int


class Watcher:
    """Iterates over a map's changes, waiting for each; see :meth:`Map.watch`. Also works with
    ``async for``.

    Each change comes once, in the order of each key. No writer waits for a watcher; one that is too
    slow gets ``LappedError`` and must read the map again.
    """

    def __init__(self, follower: _native.Follower) -> None:
        self._follower = follower

    def next(self, timeout: Optional[float] = None) -> Optional[Change]:
        """The next change; ``None`` if there is none within ``timeout`` seconds (``None``: without
        limit)."""
        fields = self._follower._next(timeout)
        return None if fields is None else Change(KINDS.get(fields[0], "unknown"), *fields[1:])

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        change = self.next()
        if change is None:
            raise StopIteration
        return change

    async def __aiter__(self) -> AsyncIterator[Change]:
        while True:
            change = None if pending(self) else self.next(0)
            if change is None:
                change = await in_thread(self, lambda: self.next(0.5))
            if change is not None:
                yield change

    @property
    def position(self) -> str:
        """Its position; for :meth:`Map.watch`, in this or another process."""
        return self._follower.position

    @property
    def lag_bytes(self) -> int:
        """The number of bytes of the stream that it has not read yet."""
        return self._follower.lag_bytes()[0]
