"""Queues: elements of one size that move by reference between named queues, in any process. No
element is copied or lost."""

import asyncio
import json
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple, Type

from . import _native
from .scope import Closing, Held

if TYPE_CHECKING:
    from .hold import Hold


class Queue(_native.Queue):
    """A queue in a hold: its elements, and the named queues that they move between
    (``queue["free"]``).

    At any moment, each element is either in one of the queues or in flight in one process, which
    alone may touch its bytes. Elements that a dead process had in flight move to the orphan queue.
    """

    def __new__(cls, hold: "Hold", name: str, *how: Any, **options: Any) -> "Queue":
        made = super().__new__(cls, hold, name, *how, **options)
        made.hold = hold
        return made

    def __repr__(self) -> str:
        return f"<commonhold queue {self.name!r} in {self.hold.path}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (self.hold, self.name)

    def __getitem__(self, name: str) -> "NamedQueue":
        return NamedQueue(self, name, Element)

    def __iter__(self) -> "Iterator[NamedQueue]":
        return (self[name] for name in self.names)

    def stat(self) -> Dict[str, Any]:
        """Its options, the length of each queue, and the processes with elements in flight."""
        found: Dict[str, Any] = json.loads(self._stat())
        return found


class NamedQueue(_native.NamedQueue):
    """One of the named queues: first in, first out. Its length is the number of elements a
    moment ago."""

    def __new__(cls, queue: Queue, name: str, element_class: "Type[Element]") -> "NamedQueue":
        made = super().__new__(cls, queue, name, element_class)
        made.queue = queue
        return made

    def __repr__(self) -> str:
        return f"<{self.name!r} of {self.queue!r}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _named_again, (self.queue, self.name)

    def notifier(self) -> "Notifier":
        """A file descriptor, for event loops of any kind, that becomes readable when elements are
        pushed."""
        return Notifier(self)

    async def pull_async(self) -> "Element":
        """Pulls the element at the front; other tasks run while there is none."""
        element: Optional[Element] = self.try_pull()
        if element is not None:
            return element
        loop = asyncio.get_running_loop()
        with self.notifier() as notifier:
            while True:
                signalled = asyncio.Event()
                loop.add_reader(notifier.fileno(), signalled.set)
                try:
                    element = self.try_pull()
                    if element is not None:
                        return element
                    await signalled.wait()
                finally:
                    loop.remove_reader(notifier.fileno())
                notifier.clear()


class Element(_native.Buffer, Held):
    """An element in flight: its bytes in place, writable through the buffer protocol.

    ``memoryview(element)[:5] = b"hello"``, ``numpy.frombuffer(element, dtype=...)``. Pushing it
    while a memoryview or an array of it is in use is a ``BufferError``. **An element that is
    neither pushed nor released goes to the orphan queue** when the last reference to it is gone, or
    at the end of a ``with``.
    """

    __slots__ = ()

    @property
    def number(self) -> Optional[int]:
        """Its number, which is the same in every process; ``None`` after it was pushed."""
        return _native.NamedQueue._number(self)

    def release(self) -> None:
        """Releases it to the orphan queue. Has no effect after a push, or in a forked child, where
        the element belongs to the parent. After an error it is still in flight."""
        _native.NamedQueue._release(self)

    def write(self, data: Any, at: int = 0) -> None:
        """Writes bytes from position ``at`` on."""
        with memoryview(self) as view, memoryview(data) as source:
            source = source.cast("B")
            if at < 0 or at + len(source) > len(view):
                raise ValueError(f"{len(source)} bytes at {at} exceed the element's {len(view)}")
            view[at : at + len(source)] = source


class Notifier(Closing):
    """A file descriptor that is readable when there are elements; see :meth:`NamedQueue.notifier`.

    Wait until it is readable, :meth:`clear` it, and pull until the queue is empty. A forked child
    must create its own.
    """

    def __init__(self, queue: NamedQueue) -> None:
        self._notifier = queue._notifier()

    def fileno(self) -> int:
        """The descriptor."""
        return self._notifier.fileno()

    def clear(self) -> None:
        """Clears the signal. Call it before pulling."""
        self._notifier.clear()

    def close(self) -> None:
        """Closes it."""
        self._notifier.close()


def _open_again(hold: "Hold", name: str) -> Queue:
    return hold.queues.open(name)


def _named_again(queue: Queue, name: str) -> NamedQueue:
    return queue[name]


__all__ = ["Notifier", "Element", "NamedQueue", "Queue"]
