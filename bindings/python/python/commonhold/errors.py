"""Exceptions: :class:`Error` and one class for each kind.

Each class is also the exception that Python's own types raise in such a case, so ``except
KeyError``, ``except TimeoutError`` or ``except ValueError`` work as expected. A message names the
object, the problem and the remedy. ``code`` is the number of the kind, the same in every language.

An absent key is a plain ``KeyError``, as in a ``dict``.
"""

from typing import Dict, Type


class Error(Exception):
    """Any error of this library."""

    #: The number of the kind; 0 for the class itself.
    code: int = 0

    def __str__(self) -> str:
        # KeyError would show a representation.
        return str(self.args[0]) if len(self.args) == 1 else Exception.__str__(self)


class NotFoundError(Error, LookupError):
    """The map, queue, channel or log does not exist, or was dropped."""

    code = 1


class HoldNotFoundError(NotFoundError, FileNotFoundError):
    """The hold does not exist."""


class ExistsError(Error, FileExistsError):
    """It should be created, but already exists."""

    code = 2


class FullError(Error):
    """There is no room: the size limit, the file system or the file size limit has been reached.
    Nothing was lost; everything that needs no more room still works."""

    code = 3


class TooLargeError(Error, ValueError):
    """A key, value, message or line that is longer than the structure allows."""

    code = 4


class ClosedError(Error, ValueError):
    """The handle is closed."""

    code = 5


class ReadOnlyError(Error, PermissionError):
    """The handle was opened read-only, or only a replica writes the map."""

    code = 6


class PermissionDeniedError(Error, PermissionError):
    """The operating system refused access."""

    code = 7


class NotAHoldError(Error):
    """The file is not a hold."""

    code = 8


class VersionError(Error):
    """The file has a format that this version cannot read."""

    code = 9


class TruncatedError(Error):
    """The file is shorter than its header states."""

    code = 10


class DamagedError(Error):
    """The contents contradict each other."""

    code = 11


class UncleanError(Error):
    """The system stopped while the file hold was open; use :func:`commonhold.salvage`."""

    code = 12


class BusyError(Error):
    """Another user has it open, but the operation needs exclusive use."""

    code = 13


class UnsupportedError(Error, OSError):
    """The file system does not support holds."""

    code = 14


class InvalidError(Error, ValueError):
    """A name, option or argument is not valid."""

    code = 15


class MismatchError(Error, ValueError):
    """It was created with other options, is another kind of structure, or a value is not what the
    operation needs."""

    code = 16


class ReentrantError(Error, RuntimeError):
    """An operation was started inside another one on the same thread."""

    code = 17


class TimedOutError(Error, TimeoutError):
    """The operation timed out."""

    code = 18


class TooManyParticipantsError(Error):
    """Every participant slot is taken by a living process."""

    code = 19


class SystemFailedError(Error, OSError):
    """Another error of the operating system."""

    code = 20


class LappedError(Error):
    """A follower was too slow: its next change in the stream was overwritten."""

    code = 21


class StaleError(Error):
    """A replica's contents are older than the reader allows."""

    code = 22


class _ByCode(Dict[int, Type[Error]]):
    def __missing__(self, code: int) -> Type[Error]:
        return Error


BY_CODE: Dict[int, Type[Error]] = _ByCode(
    (found.code, found)
    for found in list(globals().values())
    if isinstance(found, type) and issubclass(found, Error) and found not in (Error, HoldNotFoundError)
)
"""The class of each code."""
