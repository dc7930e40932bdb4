"""Kills, forks, threads, the garbage collector, the other ways to begin a process."""

import gc
import multiprocessing
import os
import pickle
import signal
import threading

import pytest
from conftest import forked, until

import commonhold
from commonhold import errors


def test_a_killed_writer_harms_no_other(hold, run):
    map, numbers = hold.map("m"), hold.map("m").numbers()
    for _ in range(5):
        child = run("m = hold.map('m')\ni = 0\nwhile True:\n m[b'%d' % (i % 99)] = b'x' * (i % 900); m.increment(b'n'); i += 1")
        before = numbers.get("n", 0)
        until(lambda: numbers.get("n", 0) > before + 500)
        child.kill()
        child.wait()
        map[b"mine"] = b"1"
        assert hold.sweep() <= 1 and hold.check()["ok"]


def test_elements_of_dead_processes_come_back(hold, run):
    queue, channel = hold.queue("q", 3, 64), hold.channel("c", 4096)
    consumer = channel.consumer()
    child = run("q = hold.queues.open('q'); e = [q['free'].pull(), q['free'].pull()]\nv = memoryview(e[0])\np = hold.channels.open('c').producer(); p.send(b'last')\nprint('ready', flush=True); time.sleep(100)")
    assert child.stdout.readline() == "ready\n" and len(queue["free"]) == 1
    with pytest.raises(errors.BusyError):
        channel.producer()
    child.kill()
    child.wait()
    assert [bool(queue["free"].pull(10)) for _ in range(3)] == [True] * 3
    assert consumer.recv(10) == b"last" and channel.producer().send(b"next") == 1


def test_a_forked_child_uses_inherited_handles(hold):
    map, queue, log = hold.map("m"), hold.queue("q", 4, 64), hold.log("l")
    element = queue["free"].pull()
    channel = hold.channel("c")
    producer, consumer = channel.producer(), channel.consumer()
    parent = hold.participant()

    def child():
        map[b"child"] = b"1"
        assert map.increment(b"n") == 1 and hold.participant()["slot"] != parent["slot"]
        mine = queue["free"].pull()
        queue["free"].push(mine)
        log.info("child")
        with pytest.raises(errors.Error):
            queue["free"].push(element)
        with pytest.raises(errors.ClosedError):
            producer.send(b"x")
        with channel.consumer("oldest") as own:
            assert own.try_recv() is None
        gc.collect()

    assert forked(child) == 0
    assert map[b"child"] == b"1" and log.dump()[0].text == b"child"
    producer.send(b"parent")
    assert consumer.recv() == b"parent"
    queue["free"].push(element)
    assert len(queue["free"]) == 4


def test_a_fork_in_the_middle_of_threads(hold):
    map, ends = hold.map("m"), threading.Event()

    def write(number):
        while not ends.is_set():
            map[b"%d" % number] = b"x" * 100

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for i in range(5):
            assert forked(lambda: map.__setitem__(b"child %d" % i, b"1")) == 0
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert all(map[b"child %d" % i] == b"1" for i in range(5))


def count(map, times):
    """Run by other processes."""
    for _ in range(times):
        map.increment(b"n")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(hold, method):
    map, context = hold.map("m"), multiprocessing.get_context(method)
    children = [context.Process(target=count, args=(map, 1000)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert map.numbers()["n"] == 2000


def test_threads_lose_nothing(hold):
    map = hold.map("m")

    def work():
        for _ in range(500):
            map.increment(b"n")
            map.update(b"u", lambda value: b"%d" % (int(value or 0) + 1))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert map.numbers()["n"] == 3000 and map[b"u"] == b"3000"


def test_a_stopped_writer_stops_no_other_thread(hold, run, place):
    """A store that waits for a stopped process releases the interpreter, and ends in time."""
    child = run("f = hold.freeze()\nprint('frozen', flush=True)\ntime.sleep(100)")
    assert child.stdout.readline() == "frozen\n"
    child.send_signal(signal.SIGSTOP)
    with commonhold.open(f"{place}/it.hold", lock_timeout=0.3) as patient:
        ticks, got = [], []

        def store():
            try:
                patient.map("new")[b"a"] = b"b"
            except errors.TimedOutError as error:
                got.append(error)

        thread = threading.Thread(target=store)
        thread.start()
        while thread.is_alive():
            ticks.append(1)
            thread.join(0.01)
        assert len(ticks) > 5 and len(got) == 1
    child.kill()
    child.wait()
    hold.map("m")[b"a"] = b"b"


def test_ctrl_c_ends_a_wait(hold, run):
    child = run(
        "c = hold.channel('c').consumer()\n"
        "try:\n print('waits', flush=True)\n c.recv()\nexcept KeyboardInterrupt:\n print('ended', flush=True)"
    )
    assert child.stdout.readline() == "waits\n"
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "ended\n" and child.wait(10) == 0


def test_handles_in_cycles_are_collected(place):
    for _ in range(20):
        hold = commonhold.open(f"{place}/cycle.hold")
        map = hold.map("m")
        map[b"a"] = b"b"
        hold.itself = [hold, map, hold.queue("q", 2, 64)["free"].try_pull()]
        del hold, map
    gc.collect()
    with commonhold.open(f"{place}/cycle.hold") as hold:
        assert len(hold.participants()) == 1 and hold.check()["ok"]


def test_nothing_leaks(place):
    """Each opening gives back its descriptors and its mapping."""

    def round():
        with commonhold.open(f"{place}/it.hold") as hold:
            element = hold.queue("q", 2, 64)["free"].pull()
            memoryview(element).release()
            with hold.channel("c").consumer() as consumer, hold.channels.open("c").producer() as producer:
                producer.send(b"x")
                consumer.view().release()
            hold.log("l", rings=2).info("x")

    def maps():
        gc.collect()
        with open("/proc/self/maps") as file:
            return sum("it.hold" in line for line in file), len(os.listdir("/proc/self/fd"))

    round()
    before = maps()
    for _ in range(20):
        round()
    assert maps() == before


def test_pickled_maps_in_a_pool(hold):
    assert pickle.loads(pickle.dumps(hold)).path == hold.path
    map = hold.map("m")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(count, [(map, 10)] * 4)
    assert map.numbers()["n"] == 40


def test_a_waiting_thread_lets_the_previous_one_continue(hold, run):
    # In a child, because an error here stops the interpreter.
    freezes = run("""
import threading
frozen = threading.Event()

def first():
    with hold.freeze():
        frozen.set()
        time.sleep(0.1)

thread = threading.Thread(target=first)
thread.start()
frozen.wait()
with hold.freeze():
    print("frozen after it")
thread.join()
""")
    listens = run("""
import threading
hold.map("m")
ready, found = threading.Event(), []

def notice(text):
    if "not encrypted" in text:
        ready.set()
        time.sleep(0.1)

origin = hold.origin("m", notice=notice, allow_unauthenticated=True)
thread = threading.Thread(target=lambda: ready.wait() and found.extend(origin.addresses))
thread.start()
address = origin.listen("tcp:0.0.0.0:0")
thread.join()
print(found == [address])
origin.close()
""")
    assert freezes.communicate(timeout=30)[0] == "frozen after it\n"
    assert listens.communicate(timeout=30)[0] == "True\n"
