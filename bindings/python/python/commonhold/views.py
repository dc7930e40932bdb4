"""Views of maps: the same pairs in another form. The map underneath stays a map of bytes, which
other languages read as such."""

import json
import struct
from collections.abc import MutableMapping
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
)

from .errors import MismatchError, TooLargeError

if TYPE_CHECKING:
    from .map import Map, Seconds

_K = TypeVar("_K")
_V = TypeVar("_V")


class Codec(NamedTuple):
    """Conversions of a type to bytes and back."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _encode_text(text: str) -> bytes:
    if type(text) is not str and not isinstance(text, str):
        raise TypeError(f"a str is required, not {type(text).__name__!r}")
    return text.encode()


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _decode_number(value: bytes) -> int:
    if len(value) != 8:
        raise MismatchError(f"a value of {len(value)} bytes is not a number of 8 bytes")
    return int.from_bytes(value, "little", signed=True)


def _encode_number(value: int) -> bytes:
    try:
        return struct.pack("<q", value)
    except struct.error as error:
        if isinstance(value, int):
            raise OverflowError(f"{value} has more than 64 bits") from None
        raise TypeError(str(error)) from None


BYTES = Codec(bytes, bytes)
STR = Codec(_encode_text, bytes.decode)
JSON = Codec(_encode_json, json.loads)
NUMBER = Codec(_encode_number, _decode_number)

_Missing = object()


class View(MutableMapping, Generic[_K, _V]):  # type: ignore[type-arg]
    """A map with keys and values in another form; has the same operations as :class:`Map`."""

    __slots__ = ("map", "_key", "_value", "_out_key", "_out")

    def __init__(self, map: "Map", key: Codec, value: Codec) -> None:
        #: The map of bytes.
        self.map = map
        self._key, self._out_key = key
        self._value, self._out = value

    def __repr__(self) -> str:
        return f"<view of {self.map!r}>"

    def __getitem__(self, key: _K) -> _V:
        found = self.map.get(self._key(key))
        if found is None:
            raise KeyError(key)
        value: _V = self._out(found)
        return value

    def __setitem__(self, key: _K, value: _V) -> None:
        self.map[self._key(key)] = self._value(value)

    def __delitem__(self, key: _K) -> None:
        if not self.map.delete(self._key(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._key(key) in self.map

    def __len__(self) -> int:
        return len(self.map)

    def __bool__(self) -> bool:
        return bool(self.map)

    def __iter__(self) -> Iterator[_K]:
        return map(self._out_key, self.map)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, View):
            return self.map == other.map
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def get(self, key: _K, default: Any = None) -> Any:
        """The value of a key; ``default`` if it is absent."""
        found = self.map.get(self._key(key))
        return default if found is None else self._out(found)

    def get_fresh(self, key: _K, max_age: "Seconds") -> Optional[_V]:
        """The value of a key, or ``None``; raises ``StaleError`` if it comes from a replica's contents
        that are older than ``max_age``."""
        found = self.map.get_fresh(self._key(key), max_age)
        return None if found is None else self._out(found)

    def items(self) -> Any:
        """The pairs, as a view."""
        return _Items(self)

    def values(self) -> Any:
        """The values, as a view."""
        return _Values(self)

    def set(self, key: _K, value: _V, *, ttl: "Optional[Seconds]" = None) -> int:
        """Sets the value of a key; returns its uid."""
        return self.map.set(self._key(key), self._value(value), ttl=ttl)

    def add(self, key: _K, value: _V, *, ttl: "Optional[Seconds]" = None) -> bool:
        """Sets a value only if the key is absent; false if it is present."""
        return self.map.add(self._key(key), self._value(value), ttl=ttl)

    def replace(self, key: _K, value: _V, *, ttl: "Optional[Seconds]" = None) -> bool:
        """Sets a value only if the key is present; false if it is absent."""
        return self.map.replace(self._key(key), self._value(value), ttl=ttl)

    def compare_exchange(
        self,
        key: _K,
        expected: Optional[_V],
        new: Optional[_V],
        *,
        ttl: "Optional[Seconds]" = None,
    ) -> bool:
        """Changes a key from one value to another (``None``: absent), if it has the first, byte for
        byte. True if it was changed."""
        return self.map.compare_exchange(
            self._key(key),
            None if expected is None else self._value(expected),
            None if new is None else self._value(new),
            ttl=ttl,
        )

    def delete(self, key: _K) -> bool:
        """Deletes a key; false if it is absent."""
        return self.map.delete(self._key(key))

    def take(self, key: _K) -> Optional[_V]:
        """Deletes a key and returns the value it had, as one atomic step; ``None`` if it is
        absent."""
        found = self.map.take(self._key(key))
        return None if found is None else self._out(found)

    def pop(self, key: _K, default: Any = _Missing) -> Any:
        """Deletes a key and returns the value it had, as one atomic step."""
        found = self.map.take(self._key(key))
        if found is not None:
            return self._out(found)
        if default is _Missing:
            raise KeyError(key)
        return default

    def popitem(self) -> Tuple[_K, _V]:
        """Removes and returns an arbitrary pair."""
        key, value = self.map.popitem()
        return self._out_key(key), self._out(value)

    def setdefault(self, key: _K, default: Any = None) -> Any:
        """The value of a key, which is set first if it is absent."""
        return self._out(self.map.setdefault(self._key(key), self._value(default)))

    def increment(self, key: _K, by: int = 1, *, ttl: "Optional[Seconds]" = None) -> int:
        """Adds to a value that is an 8-byte number, as one atomic step; an absent key counts as 0.
        Returns the sum."""
        return self.map.increment(self._key(key), by, ttl=ttl)

    def update(self, *given: Any, ttl: "Optional[Seconds]" = None, **named: Any) -> Any:
        """``update(pairs)`` sets many pairs; ``update(key, change)`` changes one as an atomic step;
        see :meth:`Map.update`."""
        if len(given) == 2:
            key, change = given

            def changed(value: Optional[bytes]) -> Optional[bytes]:
                new = change(None if value is None else self._out(value))
                return None if new is None else self._value(new)

            return self.map.update(self._key(key), changed, ttl=ttl)
        pairs = dict(*given, **named)
        self.set_many(pairs.items(), ttl=ttl)
        return None

    def __ior__(self, pairs: Any) -> "View[_K, _V]":
        """``view |= pairs`` sets many pairs."""
        self.set_many(pairs)
        return self

    def get_many(self, keys: Iterable[_K]) -> List[Optional[_V]]:
        """The values of many keys, in their order, ``None`` for those absent."""
        found = self.map.get_many(map(self._key, keys))
        return [None if value is None else self._out(value) for value in found]

    def set_many(self, pairs: Any, *, ttl: "Optional[Seconds]" = None) -> None:
        """Sets many pairs: a mapping, or an iterable of pairs."""
        listed = pairs.items() if hasattr(pairs, "keys") else pairs
        self.map.set_many(((self._key(k), self._value(v)) for k, v in listed), ttl=ttl)

    def remaining_ttl(self, key: _K) -> Optional[float]:
        """The seconds until a pair expires: ``math.inf`` if it never does; ``None`` if the key is
        absent."""
        return self.map.remaining_ttl(self._key(key))

    def touch(self, key: _K, ttl: "Seconds") -> bool:
        """Makes a pair expire ``ttl`` (seconds, or a ``timedelta``) from now, and keeps its value.
        False if the key is absent. Caches only."""
        return self.map.touch(self._key(key), ttl)

    def uid(self, key: _K) -> Optional[int]:
        """The uid of a key; ``None`` if it is absent."""
        return self.map.uid(self._key(key))

    def get_uid(self, uid: int) -> Optional[Tuple[_K, _V]]:
        """Key and value of a uid; ``None`` if there is none (any more)."""
        found = self.map.get_uid(uid)
        return None if found is None else (self._out_key(found[0]), self._out(found[1]))

    def clear(self) -> None:
        """Deletes every key."""
        self.map.clear()


class _Items:
    def __init__(self, view: "View[Any, Any]") -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        view = self._view
        return ((view._out_key(key), view._out(value)) for key, value in view.map.pairs())

    def __contains__(self, pair: Tuple[Any, Any]) -> bool:
        key, value = pair
        found = self._view.get(key, _Missing)
        return found is not _Missing and bool(found == value)


class _Values:
    def __init__(self, view: "View[Any, Any]") -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[Any]:
        return (self._view._out(value) for _, value in self._view.map.pairs())


class ListView(Generic[_K, _V]):
    """Values are lists: each change of one, at either end, is one atomic step.

    Every change writes the whole list, which suits lists of up to a few kilobytes; use queues and
    channels for longer ones. An empty list is not stored: the key is absent.
    """

    __slots__ = ("map", "_key", "_value", "_out")

    def __init__(self, map: "Map", key: Codec, value: Codec) -> None:
        #: The map of bytes.
        self.map = map
        self._key = key.encode
        self._value, self._out = value

    def push(self, key: _K, element: _V) -> int:
        """Appends an element; returns the new length."""
        return self._insert(key, element, lambda elements, new: elements + new)

    def unshift(self, key: _K, element: _V) -> int:
        """Puts an element in front; returns the new length."""
        return self._insert(key, element, lambda elements, new: new + elements)

    def pop(self, key: _K) -> Optional[_V]:
        """Takes the last element; ``None`` if there is none."""
        return self._remove(key, -1)

    def shift(self, key: _K) -> Optional[_V]:
        """Takes the first element; ``None`` if there is none."""
        return self._remove(key, 0)

    def len(self, key: _K) -> int:
        """The number of elements; 0 if the key is absent."""
        return len(_split(self.map.get(self._key(key))))

    def get(self, key: _K) -> List[_V]:
        """All elements, from the first, as they were at one moment."""
        return [self._out(element) for element in _split(self.map.get(self._key(key)))]

    def _insert(self, key: _K, element: _V, put: Callable[[bytes, bytes], bytes]) -> int:
        encoded = self._value(element)
        if len(encoded) > 0xFFFF_FFFF:
            raise TooLargeError("a list element has at most 2^32 - 1 bytes")
        length = struct.pack("<I", len(encoded))
        count = 0

        def change(value: Optional[bytes]) -> bytes:
            nonlocal count
            count = len(_split(value)) + 1
            return struct.pack("<I", count) + put((value or b"")[4:], length + encoded + length)

        self.map.update(self._key(key), change)
        return count

    def _remove(self, key: _K, at: int) -> Optional[_V]:
        taken: Optional[bytes] = None

        def change(value: Optional[bytes]) -> Optional[bytes]:
            nonlocal taken
            elements = _split(value)
            if not elements:
                taken = None
                return None
            taken = elements.pop(at)
            return _join(elements) if elements else None

        self.map.update(self._key(key), change)
        return None if taken is None else self._out(taken)


def _split(value: Optional[bytes]) -> List[bytes]:
    """The elements of a list: a count, then each with its length before and after it."""
    if value is None:
        return []
    elements = []
    try:
        (count,) = struct.unpack_from("<I", value)
        at = 4
        for _ in range(count):
            (length,) = struct.unpack_from("<I", value, at)
            element = value[at + 4 : at + 4 + length]
            (again,) = struct.unpack_from("<I", value, at + 4 + length)
            if again != length:
                raise MismatchError("a value is not a list")
            elements.append(element)
            at += length + 8
    except struct.error:
        raise MismatchError("a value is not a list") from None
    if at != len(value) or not count:
        raise MismatchError("a value is not a list")
    return elements


def _join(elements: List[bytes]) -> bytes:
    parts = [struct.pack("<I", len(elements))]
    for element in elements:
        length = struct.pack("<I", len(element))
        parts += [length, element, length]
    return b"".join(parts)
