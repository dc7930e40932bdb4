"""`cached`: a decorator whose results are shared by all processes, and computed by one at a
time."""

import asyncio
import functools
import hashlib
import inspect
import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple, TypeVar

from .views import JSON, Codec

if TYPE_CHECKING:
    from .hold import Hold
    from .map import Map, Seconds

_F = TypeVar("_F", bound=Callable[..., Any])

#: How long to sleep between two checks for a result, at first and at most.
_FIRST, _LAST = 0.0005, 0.02
#: How often to check whether the computing process lives.
_LOOK = 0.05


def cached(
    hold: "Hold",
    *,
    ttl: "Optional[Seconds]" = None,
    name: str = "cached",
    key: Optional[Callable[..., Any]] = None,
    value: Codec = JSON,
    wait: float = 30.0,
    max_bytes: Optional[int] = None,
    max_entries: Optional[int] = None,
) -> Callable[[_F], _F]:
    """Keeps a function's results in the hold, for all processes.

    While one caller computes a result, other callers wait for the same result, for at most ``wait``
    seconds; then they compute it themselves. If the computing process dies, or the function raises,
    another caller takes its place at once. Stored results survive all processes.

    >>> import commonhold
    >>> with commonhold.open("site", directory=tmp) as hold:
    ...     @commonhold.cached(hold, ttl=60)
    ...     def area(width, height):
    ...         print("computing")
    ...         return width * height
    ...     area(3, 4), area(3, 4)
    computing
    (12, 12)

    :param ttl: how long results are kept: seconds or a ``timedelta``; ``None``: as long as there is
      room
    :param name: the cache in the hold (a map in cache mode, opened or created); one cache may serve
      many functions
    :param key: makes the key from the arguments: any JSON value, or bytes; by default the arguments
      themselves, which must then be JSON values
    :param value: how results become bytes: by default JSON, so a tuple comes back as a list, even
      for the caller that computed it
    :param max_bytes: limit of the cache when it is created; likewise ``max_entries``

    The decorated function has ``.forget(*args, **kwargs)``, which forgets one result,
    ``.refresh(...)``, which computes and stores a new one, ``.map`` and ``.__wrapped__``. Coroutine
    functions may be decorated, too.
    """

    def decorate(function: Any) -> Any:
        cache = _Cache(hold, name, ttl, value, wait, max_bytes, max_entries)
        prefix = f"{function.__module__}.{function.__qualname__}"
        signature = inspect.signature(function)

        def key_of(args: Tuple[Any, ...], kwargs: Any) -> bytes:
            if key is not None:
                said = key(*args, **kwargs)
            else:
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                said = [bound.args, bound.kwargs]
            return _key(prefix, said)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                return await cache.get_async(key_of(args, kwargs), lambda: function(*args, **kwargs))

            async def renew(*args: Any, **kwargs: Any) -> Any:
                return cache.store(key_of(args, kwargs), await function(*args, **kwargs))

            refresh: Callable[..., Any] = renew

        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return cache.get(key_of(args, kwargs), lambda: function(*args, **kwargs))

            def refresh(*args: Any, **kwargs: Any) -> Any:
                return cache.store(key_of(args, kwargs), function(*args, **kwargs))

        def forget(*args: Any, **kwargs: Any) -> bool:
            return cache.map.delete(key_of(args, kwargs))

        wrapper.map = cache.map  # type: ignore[attr-defined]
        wrapper.forget = forget  # type: ignore[attr-defined]
        wrapper.refresh = refresh  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _key(prefix: str, said: Any) -> bytes:
    if isinstance(said, bytes):
        text = said
    else:
        try:
            text = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:
            raise TypeError(f"{prefix}: arguments that JSON cannot represent need cached(key=...): {error}") from None
    if len(text) > 200:
        text = hashlib.sha256(text).hexdigest().encode()
    return prefix.encode() + b" " + text


class _Cache:
    """Results in a map in cache mode. A second map, in which no pair is evicted, records the
    computing processes."""

    def __init__(
        self,
        hold: "Hold",
        name: str,
        ttl: "Optional[Seconds]",
        value: Codec,
        wait: float,
        max_bytes: Optional[int],
        max_entries: Optional[int],
    ) -> None:
        self.hold = hold
        self.map: "Map" = hold.cache(name, max_bytes=max_bytes, max_entries=max_entries)
        self.computing = hold.map(name + ".computing")
        self.ttl, self.value, self.wait = ttl, value, wait

    def find(self, key: bytes) -> Optional[bytes]:
        found: Optional[bytes] = self.map.get(key)
        return found

    def store(self, key: bytes, result: Any) -> Any:
        encoded = self.value.encode(result)
        self.map.set(key, encoded, ttl=self.ttl)
        return self.value.decode(encoded)

    def get(self, key: bytes, compute: Callable[[], Any]) -> Any:
        found = self.find(key)
        if found is not None:
            return self.value.decode(found)
        turn = _Turn(self, key)
        while not turn.is_mine():
            time.sleep(turn.pause())
            found = self.find(key)
            if found is not None:
                return self.value.decode(found)
        try:
            # The result may have come just before our turn.
            found = self.find(key)
            return self.value.decode(found) if found is not None else self.store(key, compute())
        finally:
            turn.end()

    async def get_async(self, key: bytes, compute: Callable[[], Any]) -> Any:
        found = self.find(key)
        if found is not None:
            return self.value.decode(found)
        turn = _Turn(self, key)
        while not turn.is_mine():
            await asyncio.sleep(turn.pause())
            found = self.find(key)
            if found is not None:
                return self.value.decode(found)
        try:
            found = self.find(key)
            return self.value.decode(found) if found is not None else self.store(key, await compute())
        finally:
            turn.end()


class _Turn:
    """A wait for the turn to compute, and the turn itself."""

    def __init__(self, cache: _Cache, key: bytes) -> None:
        self.cache, self.key = cache, key
        me = cache.hold.participant()
        # Unique: each turn belongs to one thread.
        self.token = f"{me['slot']}.{me['generation']} {os.urandom(8).hex()}".encode()
        self.ends = time.monotonic() + cache.wait
        self.nap, self.look = _FIRST, 0.0

    def is_mine(self) -> bool:
        computing = self.cache.computing
        if computing.add(self.key, self.token):
            return True
        now = time.monotonic()
        if now >= self.ends:
            # The computing process takes too long: it continues, and this one computes, too.
            computing[self.key] = self.token
            return True
        if now < self.look:
            return False
        self.look = now + _LOOK
        other: Optional[bytes] = computing.get(self.key)
        return (
            other is not None
            and not self.lives(other)
            and computing.compare_exchange(self.key, other, self.token)
        )

    def lives(self, other: bytes) -> bool:
        owner = other.split(b" ")[0].decode()
        return any(
            found["alive"] and f"{found['slot']}.{found['generation']}" == owner
            for found in self.cache.hold.participants()
        )

    def pause(self) -> float:
        nap, self.nap = self.nap, min(self.nap * 1.5, _LAST)
        return nap

    def end(self) -> None:
        self.cache.computing.compare_exchange(self.key, self.token, None)
