"""Waiting in an event loop for events without a file descriptor: a thread waits.

If the task was cancelled meanwhile, the result of the thread is kept for the next caller, so a
cancelled wait loses nothing.
"""

import asyncio
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_waiting: "WeakKeyDictionary[Any, Future[Any]]" = WeakKeyDictionary()
_threads: ThreadPoolExecutor


def _begin() -> None:
    """Works in a forked child, too, which has none of the threads."""
    global _threads
    _threads = ThreadPoolExecutor(max_workers=64, thread_name_prefix="commonhold-wait")
    _waiting.clear()


_begin()
os.register_at_fork(after_in_child=_begin)


async def in_thread(owner: Any, act: Callable[[], _T]) -> _T:
    """The result of ``act``, called in a thread; or the kept result of an earlier ``act`` for
    this owner."""
    while True:
        future = _waiting.get(owner)
        if future is None:
            future = _waiting[owner] = _threads.submit(act)
        # The thread continues if this is cancelled.
        await asyncio.wait([asyncio.wrap_future(_shielded(future))])
        # One of several waiting tasks gets the result; the others begin again.
        if _waiting.get(owner) is future:
            del _waiting[owner]
            found: _T = future.result()
            return found


def pending(owner: Any) -> bool:
    """True if a thread waits for this owner, or a result is kept for it."""
    return owner in _waiting


def _shielded(future: "Future[_T]") -> "Future[None]":
    """Done when the other is; cancelling it does not affect the other."""
    done: "Future[None]" = Future()

    def tell(_: "Future[_T]") -> None:
        if not done.cancelled():
            try:
                done.set_result(None)
            except Exception:  # Cancelled this very moment.
                pass

    future.add_done_callback(tell)
    return done
