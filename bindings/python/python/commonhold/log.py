"""Logs: lines from many threads and processes, merged by time; and a handler for `logging`."""

import json
import logging
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import _native
from .scope import Closing

if TYPE_CHECKING:
    from .hold import Hold

_NAMES = {1: "error", 2: "warn", 3: "info", 4: "debug", 5: "trace"}
_CODES = {name: code for code, name in _NAMES.items()}
_CODES.update(warning=2, critical=1, fatal=1)


def level_code(level: Union[int, str]) -> int:
    """The log's number of a level: a name (``"info"``), or a number of `logging` (20)."""
    if isinstance(level, str):
        try:
            return _CODES[level.lower()]
        except KeyError:
            raise ValueError(f"expected the level error, warn, info, debug or trace, got {level!r}") from None
    if level >= logging.ERROR:
        return 1
    if level >= logging.WARNING:
        return 2
    if level >= logging.INFO:
        return 3
    return 4 if level >= logging.DEBUG else 5


class Line(NamedTuple):
    """A line of a log."""

    #: When it was written, in nanoseconds since 1970.
    time_ns: int
    #: ``"error"``, ``"warn"``, ``"info"``, ``"debug"``, ``"trace"``; ``None`` for the
    #: log's own lines.
    level: Optional[str]
    #: The short name of the thread that wrote it.
    thread: str
    text: bytes
    #: It came after younger lines were delivered.
    late: bool
    #: The number of lines of this thread that are missing before it.
    lost: int
    #: Whether it was collected.
    collected: bool
    #: ``(pid, tid, name)``, if it announces a thread.
    who: Optional[Tuple[int, int, str]]


def _line(fields: Tuple[Any, ...]) -> Line:
    level = None if fields[1] is None else _NAMES[fields[1]]
    return Line(fields[0], level, *fields[2:])


class Log(_native.Log):
    """A log in a hold. Each thread writes into a ring of its own, so no writer waits, and an
    accepted line survives its writer."""

    def __new__(cls, hold: "Hold", name: str, **options: Any) -> "Log":
        made = super().__new__(cls, hold, name, **options)
        made.hold = hold
        return made

    def __repr__(self) -> str:
        return f"<commonhold log {self.name!r} in {self.hold.path}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (self.hold, self.name)

    def write(self, text: Union[str, bytes], level: Union[int, str] = "info") -> str:
        """Writes one line: ``"accepted"``, ``"filtered"`` (the level is not enabled) or
        ``"dropped"`` (no room; counted). Never waits."""
        return self._write(level_code(level), text)

    def error(self, text: Union[str, bytes]) -> str:
        """Writes a line of level error."""
        return self._write(1, text)

    def warn(self, text: Union[str, bytes]) -> str:
        """Writes a line of level warn."""
        return self._write(2, text)

    def info(self, text: Union[str, bytes]) -> str:
        """Writes a line of level info."""
        return self._write(3, text)

    def debug(self, text: Union[str, bytes]) -> str:
        """Writes a line of level debug."""
        return self._write(4, text)

    @property
    def level(self) -> str:
        """The least important level that is enabled; setting it affects all processes."""
        return _NAMES[self._level]

    @level.setter
    def level(self, level: Union[int, str]) -> None:
        self._set_level(level_code(level))

    def enabled(self, level: Union[int, str]) -> bool:
        """True if this level is enabled."""
        return self._enabled(level_code(level))

    def dump(self, *, announcements: bool = False) -> List[Line]:
        """All lines in the hold, collected or not, merged by time; works while others write, and
        after any crash."""
        lines = [_line(fields) for fields in self._dump()]
        return lines if announcements else [line for line in lines if line.who is None]

    def reader(self) -> "LogReader":
        """Reads the log as it grows, without collecting it."""
        return LogReader(self)

    def collector(
        self, *, hold_back: float = 0.005, level: Union[int, str] = "trace"
    ) -> "Collector":
        """Becomes the log's collector, which continues where a dead one ended. ``BusyError`` while
        another one lives."""
        return Collector(self, hold_back=hold_back, level=level_code(level))

    def handler(self, level: int = logging.NOTSET) -> "LogHandler":
        """A handler for `logging` that writes here."""
        return LogHandler(self, level)

    def stat(self) -> Dict[str, Any]:
        """The dropped lines, the collector, and the rings with their threads."""
        found: Dict[str, Any] = json.loads(self._stat())
        return found


class LogReader:
    """From :meth:`Log.reader`."""

    def __init__(self, log: Log) -> None:
        self._reader = log._reader()

    def poll(self, *, all: bool = False, announcements: bool = False) -> List[Line]:
        """The lines since the last call that are old enough to be in order; ``all``: even the
        youngest ones."""
        lines = [_line(fields) for fields in self._reader.poll(all)]
        return lines if announcements else [line for line in lines if line.who is None]


class Collector(_native.Collector, Closing):
    """Collects a log; from :meth:`Log.collector`. A context manager."""


class _NoLock:
    """Replaces a handler's lock."""

    def acquire(self) -> None:
        pass

    def release(self) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class LogHandler(logging.Handler):
    """Writes the records of `logging` to a log in a hold: in microseconds, without waiting; no
    record is lost if the process is killed.

    >>> import commonhold
    >>> with commonhold.open("service", directory=tmp) as hold:
    ...     logger = logging.getLogger("shop")
    ...     logger.addHandler(LogHandler(hold.log("events")))
    ...     logger.warning("no more %s", "apples")
    ...     [line.text for line in hold.log("events").dump()]
    [b'shop: no more apples']

    Newlines within a message are kept. Time, level and thread are the log's own, so
    the default format is only ``name: message``.
    """

    def __init__(self, log: Log, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self.log = log
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def createLock(self) -> None:
        """No lock is needed: threads write independently, and a fork in the middle of a line
        blocks no thread."""
        self.lock = _NoLock()  # type: ignore[assignment]

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record. A line too long for the log is cut."""
        try:
            code = level_code(record.levelno)
            if not self.log._enabled(code):
                return
            text = self.format(record)
            try:
                self.log._write(code, text)
            except ValueError as error:
                if getattr(error, "code", 0) != 4:  # TooLarge
                    raise
                most = min(16 << 20, int(self.log.stat()["ring_bytes"]) // 4) - 64
                self.log._write(code, text.encode("utf-8", "replace")[:most])
        except Exception:
            self.handleError(record)


def _open_again(hold: "Hold", name: str) -> Log:
    return hold.logs.open(name)
