"""Channels: one producer sends messages to many consumers, and none is lost."""

import json
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Iterator, Optional, Tuple, Type

from . import _native
from .aio import in_thread, pending
from .errors import TimedOutError
from .scope import Closing, Held

if TYPE_CHECKING:
    from .hold import Hold

_SLICE = 0.2


class Channel(_native.Channel):
    """A channel in a hold: one :meth:`producer` sends, every :meth:`consumer` receives all
    messages, in any process."""

    def __new__(cls, hold: "Hold", name: str, *ring_bytes: int, **options: Any) -> "Channel":
        made = super().__new__(cls, hold, name, *ring_bytes, **options)
        made.hold = hold
        return made

    def __repr__(self) -> str:
        return f"<commonhold channel {self.name!r} in {self.hold.path}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (self.hold, self.name)

    def producer(self, *, spin: bool = False) -> "Producer":
        """Becomes the producer. Earlier messages stay, and their numbers continue. ``BusyError``
        while another producer lives. ``spin``: wait without sleeping, at the cost of a whole
        processor."""
        return Producer(self, spin=spin)

    def consumer(
        self,
        join: str = "now",
        policy: str = "lossless",
        *,
        patience: Optional[float] = None,
        spin: bool = False,
    ) -> "Consumer":
        """Becomes a consumer, from ``"now"`` on or from the ``"oldest"`` message that is still in
        the ring.

        ``policy``: for a ``"lossless"`` consumer the producer waits without limit, for a
        ``"lossy"`` one not at all, for a ``"patient"`` one for ``patience`` seconds, after which it
        drops the consumer: the next call of that one raises ``ClosedError``.
        """
        return Consumer(self, join, policy, patience=patience, spin=spin)

    def stat(self) -> Dict[str, Any]:
        """The producer, the consumers, and the one that is furthest behind."""
        found: Dict[str, Any] = json.loads(self._stat())
        return found


class Producer(_native.Producer, Closing):
    """Sends the messages of a channel; from :meth:`Channel.producer`. Another producer may begin
    when it is closed or its process is dead.

    ``send(message, timeout=None)`` waits for room while a lossless consumer lags; ``try_send`` does
    not wait. ``send_many(messages, timeout=None)`` sends many; it returns the number sent in time.
    A message is anything with the buffer protocol.
    """

    def reserve(self, len: int, timeout: Optional[float] = None) -> "Reservation":
        """Reserves room for a message of ``len`` bytes, to be written in place."""
        made: Reservation = self._reserve(len, Reservation, timeout)
        return made


class Reservation(_native.Buffer):
    """Room for a message, writable through the buffer protocol, for example ``numpy.frombuffer``;
    sent by :meth:`commit`.

    A context manager, which returns a memoryview of the room; at its end it releases the view and
    commits the message, or cancels it after an exception. Bytes that are not written have undefined
    contents.
    """

    __slots__ = ("_room",)
    _room: memoryview

    def commit(self, len: Optional[int] = None) -> int:
        """Sends the message, or only its first ``len`` bytes; returns its number. ``BufferError``
        while a memoryview or an array of it is in use."""
        return _native.Producer._commit(self, len)

    def cancel(self) -> bool:
        """Cancels the reservation; false if it was committed or cancelled already."""
        return _native.Producer._cancel(self)

    def __enter__(self) -> memoryview:
        self._room = memoryview(self)
        return self._room

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is None:
            self._room.release()
            self.commit()
            return
        # The traceback may still hold a view of the room; then the producer's next message cancels
        # it.
        with suppress(BufferError):
            self._room.release()
            self.cancel()


class Consumer(_native.Consumer, Closing):
    """Receives the messages of a channel; from :meth:`Channel.consumer`. Iterating over it waits
    for each message, and so does ``async for``.

    ``recv(timeout=None)`` waits for a message, ``try_recv()`` returns ``None`` if there is none
    now; both return ``bytes``, a copy. :meth:`view` shows a message in place.
    """

    def view(self, timeout: Optional[float] = None) -> "Message":
        """Shows the next message in place, without a copy; waits for it. Only for lossless
        consumers.

        The producer does not overwrite it before it is released: by :meth:`Message.release`, by the
        end of a ``with``, by the next receiving call, or when the last reference to it is gone.
        """
        made: Message = self._view(Message, timeout)
        return made

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return self.recv()

    async def recv_async(self) -> bytes:
        """The next message; other tasks run meanwhile. A cancelled call loses nothing: the next
        call returns the message.

        Do not mix calls of this kind with the others.
        """

        def wait() -> Optional[bytes]:
            try:
                return self.recv(_SLICE)
            except TimedOutError:
                return None

        while True:
            message = None if pending(self) else self.try_recv()
            if message is None:
                message = await in_thread(self, wait)
            if message is not None:
                return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.recv_async()


class Message(_native.Buffer, Held):
    """A message in place in the hold, read-only, through the buffer protocol. A context manager,
    which releases it.

    It stays valid as long as a memoryview or an array of it exists, even after ``close()``.
    """

    __slots__ = ()

    @property
    def sequence(self) -> int:
        """Its number in the channel."""
        return _native.Consumer._sequence(self)

    def release(self) -> None:
        """Marks it as received: the producer may overwrite it. ``BufferError`` while a memoryview
        or an array of it is in use."""
        _native.Consumer._release(self)


def _open_again(hold: "Hold", name: str) -> Channel:
    return hold.channels.open(name)
