"""The decorator `cached`: one computes, the others wait, even when it dies."""

import asyncio
import threading
import time

import pytest
from conftest import until

import commonhold


def test_results_are_kept_and_forgotten(hold):
    calls = []

    @commonhold.cached(hold, ttl=60)
    def add(a, b=1, *, c=0):
        "Adds."
        calls.append((a, b, c))
        return [a + b + c]

    assert add(1) == add(1, 1) == add(a=1, c=0) == [2] and calls == [(1, 1, 0)]
    assert add(1, 2) == [3] and len(calls) == 2 and add.__doc__ == "Adds."
    assert add.forget(1) and not add.forget(1) and add(1) == [2] and len(calls) == 3
    assert add.refresh(1) == [2] and len(calls) == 4
    with pytest.raises(TypeError, match="key="):
        add({1, 2})
    assert len(add.map) == 2 and not hold.maps.open("cached.computing")


def test_none_is_a_result_and_an_exception_is_not(hold):
    calls = []

    @commonhold.cached(hold, value=commonhold.Codec(repr_bytes, eval))
    def find(key):
        calls.append(key)
        if key == "bad":
            raise LookupError(key)
        return None

    assert find("a") is None and find("a") is None and calls == ["a"]
    for _ in range(2):
        with pytest.raises(LookupError):
            find("bad")
    assert calls == ["a", "bad", "bad"] and not hold.maps.open("cached.computing")


def repr_bytes(value):
    return repr(value).encode()


def test_time_to_live(hold):
    calls = []

    @commonhold.cached(hold, ttl=0.03)
    def now():
        calls.append(1)
        return 1

    now()
    until(lambda: (now(), len(calls))[1] == 2)


CHILD = """
@commonhold.cached(hold, ttl=600, key=lambda: "k")
def slow():
    with open(sys.argv[1] if len(sys.argv) > 1 else "/dev/null", "a") as f: f.write("x")
    hold.map("calls").increment(b"n")
    print("computing", flush=True)
    time.sleep(float(os.environ["SLOW"]))
    return 42
slow.__wrapped__.__qualname__ = "slow"
print(slow(), flush=True)
"""


def start(run, slow):
    import os

    return run(CHILD, env={**os.environ, "SLOW": str(slow)})


def test_one_process_computes_for_all(hold, run):
    children = [start(run, 0.3) for _ in range(4)]
    outputs = [child.communicate(timeout=60)[0].split() for child in children]
    assert all(output[-1] == "42" for output in outputs)
    assert hold.map("calls").numbers()["n"] == 1 and sum("computing" in o for o in outputs) == 1


def test_when_the_computing_process_is_killed_another_one_computes(hold, run):
    first = start(run, 100)
    assert first.stdout.readline() == "computing\n"
    others = [start(run, 0.1) for _ in range(2)]
    time.sleep(0.3)
    first.kill()
    first.wait()
    begin = time.monotonic()
    for other in others:
        assert other.communicate(timeout=60)[0].split()[-1] == "42"
    assert time.monotonic() - begin < 15 and hold.map("calls").numbers()["n"] == 2
    # Stored by those, which are gone: it is still there.
    assert start(run, 100).communicate(timeout=60)[0].split() == ["42"]


def test_a_wait_is_limited(hold):
    ends, calls = threading.Event(), []

    @commonhold.cached(hold, wait=0.1)
    def slow():
        calls.append(1)
        if len(calls) == 1:
            ends.wait(20)
        return len(calls)

    thread = threading.Thread(target=slow)
    thread.start()
    until(lambda: calls)
    assert slow() == 2
    ends.set()
    thread.join()
    assert not hold.maps.open("cached.computing")


def test_threads_and_coroutines(hold):
    calls = []

    @commonhold.cached(hold)
    def slow(x):
        calls.append(x)
        time.sleep(0.05)
        return x

    threads = [threading.Thread(target=slow, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]

    @commonhold.cached(hold)
    async def later(x):
        calls.append(x)
        await asyncio.sleep(0.05)
        return x

    async def main():
        return await asyncio.gather(*(later(2) for _ in range(8)))

    assert asyncio.run(main()) == [2] * 8 and calls == [1, 2]
