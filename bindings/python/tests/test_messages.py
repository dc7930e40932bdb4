"""Queues, channels, logs; buffers that outlive closed handles."""

import asyncio
import gc
import logging
import os
import select
import threading
import time

import numpy as np
import pytest
from conftest import until

import commonhold
from commonhold import aio, errors


@pytest.fixture
def queue(hold):
    return hold.queue("frames", 4, 64, ["free", "full"])


def test_an_element_that_cannot_be_released_stays_in_flight(hold, queue):
    free = queue["free"]
    element = free.pull()
    with hold.freeze(), pytest.raises(errors.BusyError):
        element.release()
    assert element.number is not None and len(free) == 3
    child = os.fork()
    if child == 0:
        element.release()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(free) == 3, "it is the parent's"
    element.release()
    assert element.number is None and len(free) == 4, "released to the orphans"


def test_elements_move_without_a_copy(queue):
    free, full = queue["free"], queue["full"]
    element = free.pull()
    assert len(element) == 64 and (len(free), len(full)) == (3, 0)
    array = np.frombuffer(element, dtype=np.uint32)
    array[:] = 7
    assert array.flags.writeable and bytes(element)[:4] == b"\7\0\0\0"
    with pytest.raises(BufferError):
        full.push(element)
    del array
    element.write(b"begin")
    full.push(element)
    for wrong in (lambda: full.push(element), lambda: memoryview(element)):
        with pytest.raises((ValueError, BufferError)):
            wrong()
    assert element.number is None
    element = full.try_pull()
    assert bytes(element)[:8] == b"begin\0\0\0" and full.try_pull() is None
    with pytest.raises(TimeoutError):
        full.pull(timeout=0.01)
    got = full.push_pull(element, free)
    assert len(free) == 2 and len(full) == 1
    many = free.pull_many(10)
    assert len(many) == 2
    full.push_many(many)
    assert len(full) == 3
    with got:
        pass
    assert len(free) == 1, "released to the orphans"
    del many, element
    element = free.pull()
    del element
    gc.collect()
    assert len(free) == 1, "collected, it goes to the orphans"
    for wrong in (b"bytes", 5, bytearray(64)):
        with pytest.raises(TypeError):
            full.push(wrong)
    with pytest.raises(errors.NotFoundError):
        queue["none"]
    with pytest.raises(TypeError):
        commonhold.Element()
    assert [named.name for named in queue] == ["free", "full"] and queue.stat()["elements"] == 4


def test_an_element_that_is_refused_stays_in_flight(place, queue):
    with commonhold.open(f"{place}/other.hold") as other, commonhold.open(queue.hold.path) as again:
        theirs = other.queue("frames", 4, 64, ["free", "full"])
        element = queue["free"].pull()
        for foreign in (theirs, again.queues.open("frames")):
            for refused in (
                lambda: foreign["full"].push(element),
                lambda: foreign["full"].push_many([foreign["free"].pull(), element]),
                lambda: foreign["full"].push_pull(element, foreign["free"]),
                lambda: queue["full"].push_pull(element, foreign["free"]),
                lambda: queue["full"].push_many([element, element]),
            ):
                with pytest.raises(ValueError):
                    refused()
                assert element.number is not None and len(foreign["full"]) == 0
        queue.hold.queues.open("frames")["full"].push_many([element])
        assert element.number is None and len(queue["full"]) == 1


def test_viewed_bytes_stay_whatever_is_closed(place):
    hold = commonhold.open(f"{place}/a.hold")
    other = commonhold.open(f"{place}/a.hold")
    queue = hold.queue("q", 2, 4096)
    element = queue["free"].pull()
    array = np.frombuffer(element, dtype=np.uint8)
    array[:] = 5
    del element
    hold.close()
    gc.collect()
    with pytest.raises(errors.ClosedError):
        queue["free"]
    theirs = other.queues.open("q")
    taken = theirs["free"].pull()
    assert theirs["free"].try_pull() is None, "the other one is still in flight"
    taken.write(b"z" * 4096)
    array[0] = 6
    assert array[0] == 6 and (array[1:] == 5).all()
    del array, hold, queue
    gc.collect()
    other.sweep()
    assert len(theirs["free"]) == 1, "in flight no more"


def test_messages_stay_as_long_as_one_looks(place):
    hold = commonhold.open(f"{place}/a.hold")
    channel = hold.channel("c", 4096)
    consumer, producer = channel.consumer(), channel.producer()
    for i in range(3):
        producer.send(bytes([i]) * 500)
    message = consumer.view()
    view = memoryview(message)
    assert view.readonly and message.sequence == 0 and len(message) == 500
    with pytest.raises(BufferError):
        consumer.recv()
    with pytest.raises(BufferError):
        message.release()
    while producer.try_send(b"more" * 100) is not None:
        pass
    assert bytes(view) == b"\0" * 500
    consumer.close()
    del message, consumer
    gc.collect()
    assert producer.try_send(b"x" * 400) is None and bytes(view) == b"\0" * 500
    hold.close()
    assert bytes(view) == b"\0" * 500
    view.release()
    with pytest.raises(errors.ClosedError):
        producer.send(b"")


def test_channels(hold):
    channel = hold.channel("c", 1 << 16)
    first = channel.consumer()
    with channel.producer() as producer:
        with pytest.raises(errors.BusyError):
            channel.producer()
        assert [producer.send(b"%d" % i) for i in range(3)] == [0, 1, 2]
        assert producer.send_many([b"3", bytearray(b"4")]) == 2 and producer.try_send(b"5") == 5
        assert first.recv() == b"0" and first.try_recv() == b"1" and first.sequence == 2
        assert first.recv_many(3) == [b"2", b"3", b"4"] and next(first) == b"5"
        assert first.try_recv() is None and first.recv_many(3, timeout=0.01) == []
        with pytest.raises(errors.TimedOutError) as caught:
            first.recv(timeout=0.01)
        assert isinstance(caught.value, TimeoutError)
        with channel.consumer("oldest") as late, late.view() as message:
            assert bytes(message) == b"0" and np.frombuffer(message, np.uint8)[0] == ord("0")
        with producer.reserve(8) as room:
            room[:] = b"reserved"
        reservation = producer.reserve(100)
        np.frombuffer(reservation, np.uint8)[:5] = 1
        assert reservation.commit(5) == 7
        with pytest.raises(ValueError):
            reservation.commit()
        with pytest.raises(RuntimeError), producer.reserve(8):
            raise RuntimeError
        assert first.recv() == b"reserved" and first.recv() == b"\1" * 5 and first.try_recv() is None
        with pytest.raises(errors.TooLargeError):
            producer.send(b"x" * 70_000)
        with pytest.raises(TypeError):
            producer.send("text")
        while producer.try_send(b"x" * 1000) is not None:
            pass
        with pytest.raises(errors.TimedOutError):
            producer.send(b"x" * 1000, timeout=0.02)
        assert channel.stat()["slowest"] and producer.waits_for()
    with pytest.raises(errors.ClosedError):
        producer.send(b"")
    lossy = channel.consumer(policy="lossy")
    with pytest.raises(errors.InvalidError):
        lossy.view(0)
    for wrong in ({"join": "x"}, {"policy": "x"}, {"policy": "patient"}, {"patience": 1}):
        with pytest.raises(ValueError):
            channel.consumer(**wrong)


def test_a_with_of_a_reservation_releases_its_room(hold):
    channel = hold.channel("c")
    consumer, producer = channel.consumer(), channel.producer()
    with producer.reserve(3) as room:
        room[:] = b"one"
    with pytest.raises(ValueError):
        room[0]
    with pytest.raises(KeyError), producer.reserve(3) as room:
        raise KeyError("the body's")
    with pytest.raises(KeyError), producer.reserve(3) as room:
        array = np.frombuffer(room, np.uint8)
        raise KeyError("the body's")
    with pytest.raises(BufferError):
        producer.send(b"while it is in use")
    del array
    room.release()
    reservation = producer.reserve(3)
    with pytest.raises(BufferError), reservation as room:
        array = np.frombuffer(room, np.uint8)
    del array
    room.release()
    reservation.cancel()
    producer.send(b"two")
    assert consumer.recv() == b"one" and consumer.recv() == b"two" and consumer.try_recv() is None


WAITS = """
import signal
channel = hold.channel("c", 4096)
consumer, producer = channel.consumer(), channel.producer()
if used == "producer":
    while producer.try_send(b"x" * 500) is not None:
        pass
used = {"consumer": consumer, "producer": producer}[used]

def handle(*_):
    try:
        used.sequence  # Until it waits.
    except commonhold.errors.BusyError:
        signal.setitimer(signal.ITIMER_REAL, 0)
        used.close()
        if raises:
            raise KeyError

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
try:
    call()
except (commonhold.errors.ClosedError, KeyError) as error:
    assert isinstance(error, KeyError) == raises
    used.close()
    if used is producer:
        channel.producer()
    else:
        producer.send_many([b"x" * 500] * 100)  # It blocks no consumer.
    print("closed")
"""


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize(
    "used, call",
    [
        ("consumer", "consumer.recv()"),
        ("consumer", "consumer.view()"),
        ("producer", "producer.send(b'x' * 500)"),
        ("producer", "producer.reserve(500)"),
    ],
)
def test_a_signal_handler_closes_what_it_interrupts(hold, run, used, call, raises):
    child = run(f"used, raises, call = {used!r}, {raises}, lambda: {call}\n" + WAITS)
    assert child.communicate(timeout=30)[0] == "closed\n"


def test_a_thread_that_waits_lets_others_run_and_is_woken(hold):
    channel, queue = hold.channel("c"), hold.queue("q", 1, 8, ["a", "b"])
    consumer, producer = channel.consumer(), channel.producer()
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(consumer.recv())),
        threading.Thread(target=lambda: got.append(bytes(queue["b"].pull())[:1])),
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    producer.send(b"message")
    element = queue["a"].pull()
    element.write(b"e")
    queue["b"].push(element)
    for thread in threads:
        thread.join(10)
    assert sorted(got) == [b"e", b"message"]
    # Closing ends a wait.
    ended = []

    def wait():
        try:
            consumer.recv()
        except errors.ClosedError:
            ended.append(1)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.02)
    consumer.close()
    thread.join(10)
    assert ended == [1]


def test_event_loops(hold):
    channel, queue = hold.channel("c"), hold.queue("q", 3, 8, ["a", "b"])
    consumer, producer, map = channel.consumer(), channel.producer(), hold.map("m")
    watcher = map.watch(stream_bytes=65536)

    async def main():
        waits = [
            asyncio.ensure_future(consumer.recv_async()),
            asyncio.ensure_future(queue["b"].pull_async()),
            asyncio.ensure_future(watcher.__aiter__().__anext__()),
        ]
        cancelled = asyncio.ensure_future(queue["b"].pull_async())
        await asyncio.sleep(0.02)
        assert not any(wait.done() for wait in waits)
        cancelled.cancel()
        producer.send(b"hello")
        queue["b"].push(queue["a"].pull())
        map[b"a"] = b"b"
        message, element, change = await asyncio.wait_for(asyncio.gather(*waits), 10)
        assert message == b"hello" and element.number is not None and change.key == b"a"
        # A cancelled wait loses nothing.
        wait = asyncio.ensure_future(consumer.recv_async())
        await asyncio.sleep(0.02)
        wait.cancel()
        await asyncio.sleep(0)
        producer.send(b"after")
        producer.send(b"last")
        got = [await asyncio.wait_for(consumer.recv_async(), 10)]
        async for message in consumer:
            got.append(message)
            break
        assert got == [b"after", b"last"]

    asyncio.run(main())
    with queue["a"].notifier() as notifier:
        queue["a"].push(queue["a"].pull())
        assert select.select([notifier], [], [], 10)[0]


def test_a_cancelled_watcher_keeps_the_order(hold):
    map = hold.map("m")
    watcher = map.watch(stream_bytes=65536)

    async def main():
        task = asyncio.ensure_future(watcher.__aiter__().__anext__())
        while not aio.pending(watcher):
            await asyncio.sleep(0)
        task.cancel()
        map[b"a"] = map[b"b"] = b""
        while not aio._waiting[watcher].done():
            await asyncio.sleep(0.001)
        keys = []
        async for change in watcher:
            keys.append(change.key)
            if len(keys) == 2:
                return keys

    assert asyncio.run(main()) == [b"a", b"b"]


def test_tasks_that_wait_for_the_same_get_one_each(hold):
    channel, map = hold.channel("c"), hold.map("m")
    consumer, producer = channel.consumer(), channel.producer()
    watcher = map.watch(stream_bytes=65536)

    async def main():
        waits = [asyncio.ensure_future(consumer.recv_async()) for _ in range(3)]
        changes = [asyncio.ensure_future(watcher.__aiter__().__anext__()) for _ in range(3)]
        await asyncio.sleep(0.02)
        for i in range(3):
            producer.send(b"%d" % i)
            map[b"%d" % i] = b""
        messages = await asyncio.wait_for(asyncio.gather(*waits), 10)
        keys = [change.key for change in await asyncio.wait_for(asyncio.gather(*changes), 10)]
        return sorted(messages), sorted(keys)

    assert asyncio.run(main()) == ([b"0", b"1", b"2"],) * 2


def test_logs(hold):
    log = hold.log("l", rings=8, ring_bytes=4096, level=logging.INFO)
    assert log.info("one") == "accepted" and log.debug("not wanted") == "filtered"
    assert log.write(b"\xfftwo", "error") == "accepted" and log.write("sur\udcff", logging.WARNING)
    log.level = "debug"
    assert log.level == "debug" and log.enabled("debug") and not log.enabled("trace")
    lines = log.dump()
    assert [line.text for line in lines[:2]] == [b"one", b"\xfftwo"]
    assert [line.level for line in lines] == ["info", "error", "warn"]
    assert any(line.who for line in log.dump(announcements=True))
    reader = log.reader()
    assert len(reader.poll(all=True)) == 3
    with pytest.raises(errors.TooLargeError):
        log.info("x" * 5000)
    with pytest.raises(ValueError):
        log.write("x", "loud")
    with log.collector() as collector:
        with pytest.raises(errors.BusyError):
            log.collector()
        assert b"one" in collector.poll(finish=True)
    while log.info("x" * 100) == "accepted":
        pass
    assert log.stat()["dropped"] == 1


def test_a_handler_for_logging(hold, place):
    log = hold.log("l", level="debug")
    logger = logging.getLogger("commonhold.test")
    handler = log.handler()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        logger.debug("value %d", 5)
        try:
            1 / 0
        except ZeroDivisionError:
            logger.exception("failed")
        logger.critical("x" * 200_000)
        threads = [threading.Thread(target=logger.info, args=("thread %d", i)) for i in range(4)]
        for thread in threads:
            thread.start()
            thread.join()
    finally:
        logger.removeHandler(handler)
    lines = log.dump()
    assert lines[0].text == b"commonhold.test: value 5" and lines[0].level == "debug"
    assert b"ZeroDivisionError" in lines[1].text and len(lines[2].text) > 60_000 and len(lines) == 7
    collector = log.collector()
    thread = threading.Thread(target=collector.run, args=(f"{place}/log.txt",))
    thread.start()
    until(lambda: (lambda stat: stat["waiting_bytes"] == 0)(log.stat()))
    collector.stop()
    thread.join(10)
    collector.close()
    with open(f"{place}/log.txt") as file:
        assert "thread 3" in file.read()
