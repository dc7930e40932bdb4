"""The base of all tests: a place in memory for each, and children that are always reaped."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

import commonhold


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="commonhold-py-") as folder:
        yield folder


@pytest.fixture
def hold(place):
    with commonhold.open(f"{place}/it.hold") as hold:
        yield hold
    with commonhold.open(f"{place}/it.hold", create=False) as again:
        report = again.check()
        assert report["ok"], report["problems"]
        assert report["allocated"] == report["reachable"]


@pytest.fixture(autouse=True)
def doctest_place(doctest_namespace, place):
    doctest_namespace["tmp"] = place


@pytest.fixture
def run(place):
    """Starts a program that knows ``hold``; its process."""
    started = []

    def start(code, **more):
        head = f"import commonhold, os, sys, time\nhold = commonhold.open({place + '/it.hold'!r})\n"
        child = subprocess.Popen(
            [sys.executable, "-c", head + code], stdout=subprocess.PIPE, text=True, **more
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdout.close()


def until(such, seconds=20):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not such():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def forked(act):
    """Runs ``act`` in a forked child; its exit code, 0 if it did not raise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        except BaseException:  # noqa: B036 - a child ends here, whatever it is.
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
