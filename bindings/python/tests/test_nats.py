"""Bridges to NATS as supervised programs. The tests need ``hold-nats`` and ``nats-server``."""

import os
import pathlib
import random
import shutil
import socket
import subprocess

import pytest
from conftest import until

import commonhold
from commonhold import errors, nats

TARGET = pathlib.Path(__file__).parents[3] / "target"


def bridge_program():
    """The program: installed, or the newest one that was built here."""
    named = os.environ.get("HOLD_NATS") or shutil.which("hold-nats")
    built = sorted(TARGET.glob("*/hold-nats"), key=lambda path: path.stat().st_mtime)
    return named or (str(built[-1]) if built else None)


def server_program():
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")


@pytest.fixture
def server(place, monkeypatch):
    """The address of a server."""
    bridge, program = bridge_program(), server_program()
    if not bridge:
        pytest.skip("hold-nats is not built: cargo build -p commonhold-nats")
    if not program:
        pytest.skip("nats-server is not installed: apt-get install nats-server")
    monkeypatch.setenv("HOLD_NATS", bridge)
    for _ in range(10):
        port = random.randrange(20_000, 32_000)
        arguments = ["--jetstream", "--store_dir", place, "--addr", "127.0.0.1", "--port", str(port)]
        child = subprocess.Popen(
            [program, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: child.poll() is not None or answers(port), 60)
        if child.poll() is None:
            break
    yield f"nats://127.0.0.1:{port}"
    child.kill()
    child.wait()


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def runs(pid):
    """Whether the process runs; one that nobody has waited for does not."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def command(*arguments, server):
    return subprocess.run(
        [os.environ["HOLD_NATS"], *arguments, "--server", server], capture_output=True, text=True
    )


def test_a_mirror_and_a_publisher_are_supervised(hold, server):
    for bucket in ("flags", "prices"):
        assert command("create-bucket", bucket, server=server).returncode == 0
    hold.map("prices")[b"apple"] = b"3"
    with nats.publish(hold, "prices", "prices", server=[server], in_flight=8) as publisher:
        publisher.wait_ready(60)
        assert command("get", "prices", "apple", server=server).stdout == "3\n"
        with nats.mirror(hold, "prices", "copy", server=server, poll="200ms") as mirror:
            mirror.wait_ready(60)
            copy = hold.maps.open("copy")
            assert copy[b"apple"] == b"3"
            hold.map("prices")[b"pear"] = b"4"
            until(lambda: copy.get(b"pear") == b"4", 60)
            until(lambda: (mirror.status() or {}).get("ready"), 60)
            status = mirror.status()
            assert status["direction"] == "mirror" and status["pid"] == mirror.pid
            mirror.check()
        with pytest.raises(errors.ClosedError):
            mirror.check()
        assert not runs(mirror.pid)


def test_the_errors_of_the_program_are_exceptions(hold, server):
    bridge = nats.mirror(hold, "none", "m", server=server)
    with pytest.raises(nats.BridgeError, match="bucket 'none' does not exist") as raised:
        bridge.wait_ready(60)
    assert raised.value.exit_code == 3
    with pytest.raises(nats.BridgeError, match="bucket 'none' does not exist"):
        bridge.close()
    # A server that is not there: it tries again, and says why.
    bridge = nats.mirror(hold, "none", "m", server="nats://127.0.0.1:1")
    with pytest.raises(errors.TimedOutError, match="not ready after"):
        bridge.wait_ready(0.2)
    bridge.close()


def test_a_bridge_ends_with_its_process(hold, server, run):
    assert command("create-bucket", "flags", server=server).returncode == 0
    child = run(
        "import commonhold.nats\n"
        f"bridge = commonhold.nats.mirror(hold, 'flags', 'm', server={server!r})\n"
        "bridge.wait_ready(60)\nprint(bridge.pid, flush=True)\ntime.sleep(1000)"
    )
    pid = int(child.stdout.readline())
    child.kill()
    child.wait()
    until(lambda: not runs(pid), 60)


def test_a_missing_program_is_named(hold, monkeypatch):
    monkeypatch.delenv("HOLD_NATS", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(commonhold.errors.NotFoundError, match="cargo install"):
        nats.mirror(hold, "flags", "m")
