"""Bridges to NATS JetStream: the program ``hold-nats``, supervised.

A bridge runs as a process of its own. It ends with this process, and its errors are exceptions:

    with commonhold.open("shop") as hold:
        with commonhold.nats.mirror(hold, "flags", "flags") as bridge:
            bridge.wait_ready(10)
            hold.map("flags")[b"dark-mode"]

Keyword arguments are options of the command: ``server=["nats://a:4222"]`` is ``--server``,
``take_over=True`` is ``--take-over``, ``ack_wait="5s"`` is ``--ack-wait``.
"""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .__main__ import command
from .errors import ClosedError, Error, NotFoundError, TimedOutError
from .scope import Closing

if TYPE_CHECKING:
    from .hold import Hold

__all__ = ["Bridge", "BridgeError", "mirror", "program", "publish", "receive", "send"]

#: Lines of the program's messages that are kept.
_KEPT = 50


class BridgeError(Error):
    """The program ended by itself. The message is what it printed last; ``exit_code`` is its exit
    code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def program() -> str:
    """The path of the program: ``$HOLD_NATS``, the one that the wheel installed, or ``hold-nats``
    in ``PATH``.

    :raises NotFoundError: if it is not installed
    """
    found = os.environ.get("HOLD_NATS") or command("hold-nats") or shutil.which("hold-nats")
    if not found:
        raise NotFoundError(
            "the program hold-nats is not installed: expected it in PATH; install the wheel that "
            "./package makes, run 'cargo install --path crates/commonhold-nats', or set the "
            "environment variable HOLD_NATS to its path"
        )
    return str(found)


class Bridge(Closing):
    """A program that runs. A context manager, which stops it.

    Use :func:`mirror`, :func:`publish`, :func:`send` or :func:`receive` to start one.
    """

    def __init__(self, hold: "Hold", name: str, arguments: List[str]) -> None:
        self._hold, self._name = hold, name
        self._lines: List[str] = []
        self._ready = threading.Event()
        self._is_stopped = False
        self._process = subprocess.Popen(
            # The pipe closes when this process ends, whatever ends it.
            [program(), *arguments, "--until-eof", "--format", "json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._readers = [
            threading.Thread(target=self._read, args=(pipe,), daemon=True)
            for pipe in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: Any) -> None:
        with pipe:
            for line in pipe:
                if pipe is self._process.stdout and '"ready"' in line:
                    self._ready.set()
                else:
                    self._lines.append(line.rstrip())
                    del self._lines[:-_KEPT]

    @property
    def pid(self) -> int:
        """The process id of the program."""
        return self._process.pid

    @property
    def messages(self) -> List[str]:
        """What the program printed last, such as reasons why it tries again."""
        return list(self._lines)

    def check(self) -> None:
        """Returns if the program runs.

        :raises BridgeError: if it ended by itself
        :raises ClosedError: if it was stopped
        """
        if self._is_stopped:
            raise ClosedError("the bridge was stopped; start another one")
        code = self._process.poll()
        if code is None:
            return
        for reader in self._readers:
            reader.join(1)
        raise BridgeError("\n".join(self._lines) or f"hold-nats ended with code {code}", code)

    def wait_ready(self, timeout: Optional[float] = None) -> None:
        """Waits until both sides are equal for the first time.

        :param timeout: seconds; ``None`` for no limit
        :raises TimedOutError: if the time is over; the bridge goes on
        :raises BridgeError: if the program ended by itself
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._ready.wait(0.05):
            self.check()
            if end is not None and time.monotonic() >= end:
                last = self._lines[-1] if self._lines else "it printed no message"
                raise TimedOutError(f"the bridge is not ready after {timeout} s: {last}")
        self.check()

    def status(self) -> Optional[Dict[str, Any]]:
        """The bridge's report about itself, at most a second old: ``connected``, ``ready``,
        ``lag_messages``, ``lag_ms``, ``in_flight``, ``messages``, ``last_error`` and more. ``None``
        before the first one.

        :raises BridgeError: if the program ended by itself
        """
        self.check()
        try:
            reports = self._hold.maps.open(".reports")
        except NotFoundError:
            return None
        key = f"bridge {self._name} {self.pid} ".encode()
        for found, value in reports.items():
            if bytes(found).startswith(key):
                report: Dict[str, Any] = json.loads(bytes(value))
                return report
        return None

    def close(self) -> None:
        """Stops the program, and waits until it has ended. The next bridge continues where it
        stopped.

        :raises BridgeError: if it ended by itself, with an error
        """
        if self._is_stopped:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            # The next bridge continues after a kill, too.
            self._process.kill()
            code = 0 if self._process.wait() < 0 else self._process.returncode
        for reader in self._readers:
            reader.join(1)
        if self._process.stdin:
            self._process.stdin.close()
        self._is_stopped = True
        # It may have died of the signal before it could handle it.
        if code not in (0, -signal.SIGTERM):
            raise BridgeError("\n".join(self._lines) or f"hold-nats ended with code {code}", code)


def mirror(hold: "Hold", bucket: str, map: str, **options: Any) -> Bridge:
    """Keeps the map equal to a bucket. Other processes read the map; none can write it."""
    return Bridge(hold, map, ["mirror", bucket, hold.path, map, *_options(options)])


def publish(hold: "Hold", map: str, bucket: str, **options: Any) -> Bridge:
    """Keeps a bucket equal to the map."""
    return Bridge(hold, map, ["publish", hold.path, map, bucket, *_options(options)])


def send(hold: "Hold", channel: str, subject: str, **options: Any) -> Bridge:
    """Publishes the messages of a channel to a stream."""
    return Bridge(hold, channel, ["send", hold.path, channel, subject, *_options(options)])


def receive(hold: "Hold", subject: str, name: str, **options: Any) -> Bridge:
    """Delivers the messages of a stream to a channel or, with ``to``, to a named queue."""
    return Bridge(hold, name, ["receive", subject, hold.path, name, *_options(options)])


def _options(options: Dict[str, Any]) -> List[str]:
    arguments = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, (tuple, set, frozenset)) or type(value) is list:
            arguments += [f"{option}={one}" for one in value]
        elif value is not None and value is not False:
            arguments.append(f"{option}={value}")
    return arguments
