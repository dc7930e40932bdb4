"""A cache backend for Django, shared by all processes of a machine, without a server.

.. code-block:: python

    CACHES = {
        "default": {
            "BACKEND": "commonhold.django.CommonholdCache",
            "LOCATION": "site",              # the hold: a bare name, or a path
            "TIMEOUT": 300,
            "OPTIONS": {
                "max_bytes": 256 << 20,      # of this cache's pairs; MAX_ENTRIES also works
                "map": "django",             # the map in the hold
                "serializer": "pickle",      # or "json", or an object with dumps() and loads()
            },
        }
    }

Stored values survive the death of a worker and restarts of the others; if the hold is in memory,
they are lost when the machine stops. When the cache is full, it evicts the oldest pairs that no
process has read. Django promises that every value that can be pickled can be cached (sessions,
responses and template fragments rely on it), so ``pickle`` is this backend's default serializer:
**any process that may write to the hold can then make the workers execute arbitrary code**. By
default only its owner can open a hold (mode 0600); with ``"serializer": "json"`` there is no such
risk.
"""

import json
import math
import pickle
import struct
import time
from typing import Any, Dict, Iterable, List, Optional

from django.core.cache.backends.base import (  # type: ignore[import-untyped]
    DEFAULT_TIMEOUT,
    BaseCache,
)

from .errors import FullError
from .hold import open as open_hold

#: Before each value: when it expires, in seconds since 1970, or infinity.
_EXPIRY = struct.Struct("<d")


class _Json:
    """Any JSON value."""

    def dumps(self, value: Any) -> bytes:
        return json.dumps(value, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class _Pickle:
    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


_SERIALIZERS = {"json": _Json, "pickle": _Pickle}


class CommonholdCache(BaseCache):  # type: ignore[misc]
    """Django's cache in a map of a hold; see the module."""

    def __init__(self, location: str, params: Dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS") or {})
        entries = options.pop("MAX_ENTRIES", params.get("MAX_ENTRIES", params.get("max_entries")))
        options.pop("CULL_FREQUENCY", None)
        serializer = options.pop("serializer", "pickle")
        if isinstance(serializer, str):
            serializer = _SERIALIZERS[serializer]()
        elif isinstance(serializer, type):
            serializer = serializer()
        self._serializer = serializer
        map_name = options.pop("map", "django")
        max_bytes = options.pop("max_bytes", 256 << 20)
        #: The hold, with any options of `commonhold.open`.
        self.hold = open_hold(location or "django", **options)
        #: The map in it.
        self.map = self.hold.cache(map_name, max_bytes=_limit(max_bytes), max_entries=_limit(entries))

    def _key(self, key: Any, version: Optional[int]) -> bytes:
        made: str = self.make_and_validate_key(key, version=version)
        return made.encode("utf-8", "surrogatepass")

    def _seconds(self, timeout: Any) -> float:
        """Time to live from now on; infinity: without end; 0 and less: expired."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        return math.inf if timeout is None else float(timeout)

    def _packed(self, value: Any, seconds: float) -> bytes:
        data: bytes = self._serializer.dumps(value)
        return _EXPIRY.pack(time.time() + seconds) + data

    def _value(self, found: bytes) -> Any:
        return self._serializer.loads(found[_EXPIRY.size :])

    @staticmethod
    def _ttl(seconds: float) -> Optional[float]:
        return None if seconds == math.inf else seconds

    def get(self, key: Any, default: Any = None, version: Optional[int] = None) -> Any:
        found = self.map.get(self._key(key, version))
        return default if found is None else self._value(found)

    def set(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None
    ) -> None:
        made, seconds = self._key(key, version), self._seconds(timeout)
        if seconds <= 0:
            self.map.delete(made)
        else:
            self.map.set(made, self._packed(value, seconds), ttl=self._ttl(seconds))

    def add(
        self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None
    ) -> bool:
        made, seconds = self._key(key, version), self._seconds(timeout)
        packed = self._packed(value, seconds)
        if seconds <= 0:
            return made not in self.map
        return self.map.add(made, packed, ttl=self._ttl(seconds))

    def touch(
        self, key: Any, timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None
    ) -> bool:
        made, seconds = self._key(key, version), self._seconds(timeout)
        if seconds <= 0:
            return self.map.delete(made)
        expiry = _EXPIRY.pack(time.time() + seconds)
        while True:
            found = self.map.get(made)
            if found is None:
                return False
            new = expiry + found[_EXPIRY.size :]
            if self.map.compare_exchange(made, found, new, ttl=self._ttl(seconds)):
                return True

    def incr(self, key: Any, delta: int = 1, version: Optional[int] = None) -> int:
        made = self._key(key, version)
        while True:
            found = self.map.get(made)
            if found is None:
                raise ValueError(f"Key '{key}' not found")
            (expires,) = _EXPIRY.unpack_from(found)
            left = max(expires - time.time(), 0.001)
            number: int = self._value(found) + delta
            new = found[: _EXPIRY.size] + self._serializer.dumps(number)
            if self.map.compare_exchange(made, found, new, ttl=self._ttl(left)):
                return number

    def delete(self, key: Any, version: Optional[int] = None) -> bool:
        return self.map.delete(self._key(key, version))

    def has_key(self, key: Any, version: Optional[int] = None) -> bool:
        return self._key(key, version) in self.map

    def get_many(self, keys: Iterable[Any], version: Optional[int] = None) -> Dict[Any, Any]:
        wanted = list(keys)
        found = self.map.get_many([self._key(key, version) for key in wanted])
        return {
            key: self._value(value) for key, value in zip(wanted, found) if value is not None
        }

    def set_many(
        self, data: Dict[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: Optional[int] = None
    ) -> List[Any]:
        seconds = self._seconds(timeout)
        if seconds <= 0:
            self.delete_many(data, version)
            return []
        packed = [
            (key, self._key(key, version), self._packed(value, seconds))
            for key, value in data.items()
        ]
        try:
            self.map.set_many([pair[1:] for pair in packed], ttl=self._ttl(seconds))
            return []
        except FullError:
            return [key for key, made, value in packed if self.map.get(made) != value]

    def delete_many(self, keys: Iterable[Any], version: Optional[int] = None) -> None:
        made = [self._key(key, version) for key in keys]
        for key in made:
            self.map.delete(key)

    def clear(self) -> None:
        self.map.clear()

    def close(self, **_: Any) -> None:
        """Django calls this after each request; the hold stays open."""


def _limit(value: Any) -> Optional[int]:
    return None if value is None else int(value)
