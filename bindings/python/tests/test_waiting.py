"""Every wait ends: by its timeout, or by a signal; even when a third process is stopped, and in a
forked child."""

import contextlib
import gc
import os
import signal
import subprocess
import threading
import time

import pytest
from conftest import forked, until

import commonhold
from commonhold import errors

MAP = "m = hold.map('m')\nprint('ready', flush=True)\nwhile True: m[b'k'] = b'x' * 100"
QUEUE = "q = hold.queues.open('q')['free']\ne = q.pull()\nprint('ready', flush=True)\nwhile True: e = q.push_pull(e, q)"


@pytest.fixture
def stopped(place, run):
    """Stops a program in the middle of a change: when what ``prepare`` gives, of an impatient
    handle, runs into its lock."""
    children, holds = [], []

    def stop(code, prepare):
        child = run(code)
        children.append(child)
        assert child.stdout.readline() == "ready\n"
        holds.append(commonhold.open(f"{place}/it.hold", lock_timeout=0.001))
        act = prepare(holds[-1])
        while True:
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            try:
                act()
            except errors.TimedOutError:
                return child
            child.send_signal(signal.SIGCONT)
            time.sleep(0.0003)

    yield stop
    for child in children:
        child.kill()
        child.wait()
    for hold in holds:
        hold.close()


def setting(hold):
    map = hold.map("m")
    return lambda: map.set(b"k", b"hasty")


def pulling(hold):
    return hold.queues.open("q")["free"].try_pull


def pushing(hold):
    queue = hold.queues.open("q")["free"]
    has = []

    def push():
        with contextlib.suppress(errors.TimedOutError):  # Another lock.
            if not has:
                has.append(queue.try_pull())
        if has and has[0] is not None:
            queue.push(has[0])
            has.clear()

    return push


def interrupted(run, code):
    """Runs a program that prints a line when it is about to wait, then presses Ctrl-C, which must
    end it."""
    child = run(code, stderr=subprocess.PIPE)
    assert child.stdout.readline() == "waits\n"
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    child.send_signal(signal.SIGINT)
    assert child.wait(20) != 0
    with child.stderr:
        assert "KeyboardInterrupt" in child.stderr.read()


WRITES = {
    "set": "hold.map('m')[b'k'] = b'mine'",
    "set_many": "hold.map('m').set_many({b'a': b'1', b'k': b'mine', b'z': b'2'})",
    "increment": "hold.map('m').increment(b'k')",
    "update": "hold.map('m').update(b'k', lambda old: b'mine')",
    "delete": "del hold.map('m')[b'k']",
    "take": "hold.map('m').take(b'k')",
    "freeze": "hold.freeze()",
    "check": "hold.check()",
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_writing_waits_for_a_stopped_process_until_ctrl_c(hold, run, stopped, write):
    hold.map("m")
    stopped(MAP, setting)
    interrupted(run, f"hold.map('m'); print('waits', flush=True)\n{write}")


@pytest.mark.parametrize("wait", ["wait_for_replicas(1)", "wait_for_replica('near')"])
def test_waiting_for_replicas_ends_with_ctrl_c(hold, run, wait):
    hold.map("m")
    with hold.origin("m"):
        interrupted(run, f"m = hold.map('m'); print('waits', flush=True)\nm.{wait}")


PULLS = ("q.pull()", "q.try_pull()", "q.pull_many(2)")
PUSHES = ("q.push(e)", "q.push_many([e])", "q.push_pull(e, q)", "e.release()")


@pytest.mark.parametrize(
    ("prepare", "acts"), [(pulling, PULLS), (pushing, PUSHES)], ids=["pull", "push"]
)
def test_moving_waits_for_a_stopped_process_until_ctrl_c(hold, run, stopped, prepare, acts):
    hold.queue("q", 50, 64)
    first = "q = hold.queues.open('q')['free']; e = q.pull(); print('has', flush=True); sys.stdin.readline()"
    children = []
    for act in acts:
        code = f"{first}; print('waits', flush=True)\ntry: {act}\n"
        # At once: its elements in flight belong to its recoverer.
        code += "except KeyboardInterrupt: os.write(2, b'KeyboardInterrupt'); os._exit(9)"
        children.append(run(code, stdin=subprocess.PIPE, stderr=subprocess.PIPE))
        assert children[-1].stdout.readline() == "has\n"
    stopped(QUEUE, prepare)
    for child in children:
        with child.stdin, child.stderr:
            child.stdin.write("go\n")
            child.stdin.flush()
            assert child.stdout.readline() == "waits\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.3)
            child.send_signal(signal.SIGINT)
            assert child.wait(20) != 0
            assert "KeyboardInterrupt" in child.stderr.read()


def test_a_stopped_process_is_waited_for_as_long_as_the_hold_says(hold, place, stopped):
    map, queue = hold.map("m"), hold.queue("q", 4, 64)["free"]
    stopped(MAP, setting)
    with commonhold.open(f"{place}/it.hold", lock_timeout=0.2) as patient:
        mine = patient.map("m")
        for act in (lambda: mine.set(b"k", b""), lambda: mine.take(b"k"), lambda: mine.update(b"k", bytes)):
            with pytest.raises(errors.TimedOutError):
                act()
        assert mine[b"k"] in (b"x" * 100, b"hasty")
        patient.map("other")[b"a"] = b"1"
    assert queue.pull(1) is not None and map.get(b"k") is not None


def test_an_element_without_references_comes_back_when_it_can(hold, stopped):
    queue = hold.queue("q", 8, 64)["free"]
    mine = [queue.pull(), queue.pull()]
    child = stopped(QUEUE, pushing)
    mine.clear()
    gc.collect()  # Does not wait.
    child.kill()
    child.wait()
    hold.sweep()

    def all_are_back():
        queue.try_pull()  # And it goes back, with those that could not before.
        return len(queue) >= 7  # The impatient one may have one in flight.

    until(all_are_back)


def alarm(seconds=0.05):
    """A handler of signals that raises InterruptedError soon."""

    def raise_it(*_):
        raise InterruptedError

    signal.signal(signal.SIGALRM, raise_it)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def test_many_messages_wait_for_room_until_a_signal_or_a_timeout(hold):
    channel = hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    messages = [b"%03d" % i * 30 for i in range(100)]
    sent = producer.send_many(messages, timeout=0.05)
    assert 20 < sent < 100
    assert [consumer.try_recv() for _ in range(sent)] == messages[:sent] and consumer.try_recv() is None
    alarm()
    with pytest.raises(InterruptedError):
        producer.send_many(messages)
    again = producer.sequence - sent
    assert 20 < again < 100
    assert [consumer.try_recv() for _ in range(again)] == messages[:again] and consumer.try_recv() is None
    reader = threading.Thread(target=lambda: [consumer.recv(20) for _ in range(100)])
    reader.start()
    assert producer.send_many(iter(messages)) == 100
    reader.join(20)
    assert not reader.is_alive() and consumer.try_recv() is None


@pytest.mark.parametrize("wait", ["recv", "view", "pull", "reserve", "next", "recv_many", "send"])
def test_a_signal_ends_a_wait(hold, wait):
    queue, channel = hold.queue("q", 1, 64)["free"], hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    hold.map("m")
    watcher, element = hold.map("m").watch(stream_bytes=1 << 16), queue.pull()
    while wait in ("reserve", "send") and producer.try_send(b"x" * 500) is not None:
        pass
    calls = {
        "recv": consumer.recv,
        "view": consumer.view,
        "recv_many": consumer.recv_many,
        "pull": queue.pull,
        "reserve": lambda: producer.reserve(500),
        "send": lambda: producer.send(b"x" * 500),
        "next": watcher.next,
    }
    alarm()
    with pytest.raises(InterruptedError):
        calls[wait]()
    assert element.number is not None


def test_only_shown_arrays_are_released(hold):
    channel = hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    producer.send(b"first")
    before = consumer.view()
    consumer.rejoin("oldest")
    shown = consumer.view()
    assert before.sequence == shown.sequence == 0
    with memoryview(shown) as seen:
        before.release()
        del before
        while producer.try_send(b"x" * 500) is not None:
            pass
        assert bytes(seen) == b"first"
        with pytest.raises(BufferError):
            shown.release()
    shown.release()
    assert consumer.recv() == b"x" * 500


def test_a_reservation_that_is_over_commits_nothing(hold):
    channel = hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    first, second = producer.reserve(5), producer.reserve(6)
    memoryview(second)[:] = b"second"
    with pytest.raises(errors.InvalidError):
        first.commit()
    assert first.cancel() is False
    del first
    with pytest.raises(errors.TooLargeError):
        second.commit(7)
    assert second.commit() == 0 and consumer.recv() == b"second" and consumer.try_recv() is None


def test_a_forked_child_drops_the_handles_in_use_by_its_parent(hold):
    """Another thread of the parent's has it locked while it waits, and is not there in the
    child."""
    queue, channel = hold.queue("q", 2, 64)["free"], hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    element, held = queue.pull(), queue.pull()
    notifier, watcher = queue.notifier(), hold.map("m").watch(stream_bytes=1 << 16)
    waiting = [threading.Thread(target=wait) for wait in (consumer.recv, watcher.next, queue.pull)]
    for thread in waiting:
        thread.start()
    things = [consumer, producer, element, notifier, watcher]
    del producer, element, notifier
    participants = len(hold.participants())

    def child():
        with pytest.raises((errors.ClosedError, errors.BusyError)):
            consumer.recv(5)
        with pytest.raises((errors.ClosedError, errors.BusyError)):
            consumer.close()
        with pytest.raises(errors.BusyError):
            watcher.next(0)
        things.clear()
        gc.collect()
        assert len(hold.participants()) == participants

    assert forked(child) == 0
    assert len(hold.participants()) == participants
    things[1].send(b"for the parent")
    hold.map("m")[b"a"] = b"1"
    queue.push(held)
    for thread in waiting:
        thread.join(20)
        assert not thread.is_alive()
    with things[3]:
        queue.push(things[2])
    things.clear()
    assert len(queue) == 2


def test_a_forked_child_ends_nothing_of_its_parents(hold, place):
    hold.map("m")[b"a"] = b"1"
    with commonhold.open(f"{place}/other.hold") as other, hold.origin("m") as origin:
        with other.replica("copy", origin.listen(f"unix:{place}/socket")) as replica:
            assert replica.wait_ready(20)
            things = [origin, replica]

            def child():
                for call in (origin.transmit, replica.status, lambda: replica.wait_ready(5)):
                    with pytest.raises(errors.InvalidError):
                        call()
                replica.close()
                origin.close(5)
                things.clear()
                gc.collect()

            with hold.freeze() as freeze:
                assert forked(lambda: (child(), freeze.release())) == 0
                with pytest.raises(errors.BusyError):
                    hold.map("m")[b"a"] = b"frozen"
            hold.map("m")[b"a"] = b"2"
            until(lambda: other.maps.open("copy").get(b"a") == b"2")


def test_patience_may_be_without_end(hold):
    channel = hold.channel("c", 4096)
    consumer = channel.consumer(policy="patient", patience=float("inf"))
    with channel.producer() as producer:
        producer.send(b"a")
        assert consumer.recv(float("inf")) == b"a"
        while producer.send_many([b"x" * 500], timeout=0.01):
            pass
    with commonhold.open(hold.path, lock_timeout=float("inf")) as again:
        again.map("m")[b"a"] = b"1"
