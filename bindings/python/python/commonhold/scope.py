"""Objects that the end of a ``with`` closes or releases."""

from typing import Any, TypeVar

_T = TypeVar("_T")


class Closing:
    """Closed at the end of a ``with``."""

    __slots__ = ()

    def close(self) -> None:
        """Ends it."""
        raise NotImplementedError

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Held:
    """Bytes in the hold, visible through the buffer protocol, released at the end of a ``with``."""

    __slots__ = ()

    def release(self) -> None:
        """Releases it."""
        raise NotImplementedError

    def __bytes__(self) -> bytes:
        with memoryview(self) as view:  # type: ignore[arg-type]
            return view.tobytes()

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()
