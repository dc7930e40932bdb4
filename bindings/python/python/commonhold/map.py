"""Maps: mutable mappings of bytes to bytes."""

import json as _json
import pickle as _pickle
from collections.abc import ItemsView, Iterable, MutableMapping, ValuesView
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

from . import _native
from .views import BYTES, JSON, NUMBER, STR, Codec, ListView, View
from .watch import Watcher

if TYPE_CHECKING:
    from .hold import Hold

Seconds = Union[float, timedelta]
_Missing = object()

if TYPE_CHECKING:
    _Mapping = MutableMapping[bytes, bytes]
else:
    _Mapping = MutableMapping


class Map(_native.Map, _Mapping):  # type: ignore[misc]
    """A map in a hold, bytes to bytes, shared by every process that has the hold open.

    Keys and values are ``bytes``, or any object with the buffer protocol; text raises ``TypeError``
    (see :meth:`str`). Reads never wait. Each change to one key is atomic. Iteration holds no lock:
    keys that are present throughout are seen exactly once.

    In addition to the methods of a ``dict``: :meth:`set`, :meth:`add`, :meth:`replace`,
    :meth:`compare_exchange`, :meth:`take`, :meth:`increment`, :meth:`get_many`, :meth:`set_many`,
    and the same by uid. ``ttl=`` requires a cache.
    """

    __slots__ = ("hold", "__weakref__")

    hold: "Hold"
    """Its hold."""

    def __new__(cls, hold: "Hold", name: str, **options: Any) -> "Map":
        made = super().__new__(cls, hold, name, **options)
        made.hold = hold
        return made

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (self.hold, self.name)

    # Mapping's own __eq__ would copy both to dicts, even in an accidental comparison.
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Map):
            return (self.hold.uuid, self.name) == (other.hold.uuid, other.name)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.hold.uuid, self.name))

    def items(self) -> "ItemsView[bytes, bytes]":
        """The pairs, as a view."""
        return _Items(self)

    def values(self) -> "ValuesView[bytes]":
        """The values, as a view."""
        return _Values(self)

    def pairs(self, cursor: Optional[int] = None) -> _native.Pairs:
        """An iterator over the pairs, optionally starting at the ``cursor`` of another such
        iterator, in this or another process."""
        return self._pairs(cursor)

    def get_many(self, keys: "Iterable[Any]") -> "List[Optional[bytes]]":
        """The values of many keys, in the same order, with ``None`` for absent keys; several times
        faster than one by one."""
        return self._get_many(keys)

    def pop(self, key: Any, default: Any = _Missing) -> Any:
        """Deletes a key and returns the value it had, as one atomic step."""
        found = self.take(key)
        if found is not None:
            return found
        if default is _Missing:
            raise KeyError(key)
        return default

    def popitem(self) -> Tuple[bytes, bytes]:
        """Removes and returns an arbitrary pair."""
        for key in self:
            value = self.take(key)
            if value is not None:
                return key, value
        raise KeyError("popitem(): the map is empty")

    def setdefault(self, key: Any, default: Any = b"") -> bytes:
        """The value of a key, which is first set to ``default`` if it is absent."""
        while True:
            found: Optional[bytes] = self.get(key)
            if found is not None:
                return found
            if self.add(key, default):
                return bytes(default)

    def update(  # type: ignore[override]
        self, *given: Any, ttl: Optional[Seconds] = None, **named: Any
    ) -> Any:
        """``update(pairs)`` sets many pairs, as a ``dict``'s does.

        ``update(key, change)`` changes one value in an atomic step: ``change(value)`` gets the
        value, or ``None`` if the key is absent, and returns the new one, or ``None`` to delete the
        key. It is called again if another process changed the key in the meantime. It runs under no
        lock, and may use the map. Returns true if the key is present afterwards.
        """
        if len(given) == 2:
            key, change = given
            if not callable(change):
                raise TypeError("update(key, change): change must be callable")
            if named:
                raise TypeError("update(key, change) takes no pairs")
            return self._update(key, change, ttl=ttl)
        if len(given) > 2:
            raise TypeError(f"update() takes at most 2 positional arguments, not {len(given)}")
        if named:
            raise TypeError("keys are bytes: give update() a mapping, or use the view .str()")
        if given:
            self.set_many(given[0], ttl=ttl)
        return None

    def __ior__(self, pairs: Any) -> "Map":
        """``map |= pairs`` sets many pairs."""
        self.set_many(pairs)
        return self

    def stat(self) -> Dict[str, Any]:
        """Statistics: pairs, segments, bytes, load; of a cache hits, misses, expired, evicted.
        Reads every segment."""
        found: Dict[str, Any] = _json.loads(self._stat())
        return found

    def watch(self, position: Optional[str] = None, *, stream_bytes: Optional[int] = None) -> Watcher:
        """The map's changes, from now on or from the ``position`` of another watcher, in this or
        another process.

        The map needs a stream (:meth:`Maps.begin_stream`). ``stream_bytes`` gives it one that keeps
        this number of bytes; 0 leaves an existing stream as it is.
        """
        if stream_bytes is not None:
            self.hold.maps.begin_stream(self.name, stream_bytes)
        return Watcher(self._follow(position))

    # ---- views; last, because they have names of types ----

    def view(self, key: Codec = BYTES, value: Codec = BYTES) -> "View[Any, Any]":
        """The same map with keys and values in another form: each a pair of functions, to bytes and
        from bytes. ``commonhold.BYTES``, ``STR``, ``NUMBER`` and ``JSON`` are such pairs."""
        return View(self, key, value)

    def lists(self, key: Codec = BYTES, value: Codec = BYTES) -> "ListView[Any, Any]":
        """Values are lists of elements, with atomic push, pop, shift and unshift."""
        return ListView(self, key, value)

    def numbers(self, key: Codec = STR) -> "View[Any, int]":
        """Values are 64-bit numbers, as for :meth:`increment`; keys are text by default."""
        return View(self, key, NUMBER)

    def json(self, key: Codec = STR) -> "View[Any, Any]":
        """Values are anything that JSON can represent; keys are text by default."""
        return View(self, key, JSON)

    def pickle(self, key: Codec = STR, protocol: Optional[int] = None) -> "View[Any, Any]":
        """Values are pickled. **Any process that can write to the map can then make this process
        execute arbitrary code**; use this only among processes that trust each other."""
        return View(self, key, Codec(lambda value: _pickle.dumps(value, protocol), _pickle.loads))

    def str(self) -> "View[str, str]":
        """Keys and values are text, in UTF-8."""
        return View(self, STR, STR)


class _Items(ItemsView):  # type: ignore[type-arg]
    _mapping: Map

    def __iter__(self) -> Iterator[Tuple[bytes, bytes]]:
        return iter(self._mapping.pairs())


class _Values(ValuesView):  # type: ignore[type-arg]
    _mapping: Map

    def __iter__(self) -> Iterator[bytes]:
        return (value for _, value in self._mapping.pairs())

    def __contains__(self, value: object) -> bool:
        return any(value == other for other in self)


def _open_again(hold: "Hold", name: "str") -> Map:
    return hold.maps.open(name)
