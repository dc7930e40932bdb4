"""Commonhold compared with its rivals in Python; see README.md in this folder."""

import collections
import multiprocessing
import os
import random
import shelve
import statistics
import subprocess
import sys
import tempfile
import time

import commonhold

KEYS = [b"key %08d" % i for i in range(10_000)]
VALUE = b"x" * 100
BATCH = 32


class Rival:
    """A rival with get, set and more; missing operations are skipped."""

    def __init__(self, name, get, set, get_many=None, send_recv=None, text=False, most=len(KEYS), close=lambda: None):
        self.name, self.get, self.set, self.get_many = name, get, set, get_many
        self.send_recv, self.close = send_recv, close
        numbers = [b"%d" % number for number in range(len(KEYS))]
        self.keys, self.numbers = ([key.decode() if text else key for key in keys[:most]] for keys in (KEYS, numbers))


def commonholds(place):
    hold = commonhold.open(f"{place}/bench.hold")
    map, channel = hold.map("m"), hold.channel("c")
    producer, consumer = channel.producer(), channel.consumer()
    send, recv = producer.send, consumer.recv

    def both():
        send(VALUE)
        recv()

    return Rival("commonhold", map.__getitem__, map.__setitem__, map.get_many, both, close=hold.close)


def dicts(place):
    own, queue = {}, collections.deque()

    def both():
        queue.append(VALUE)
        queue.popleft()

    return Rival("dict", own.__getitem__, own.__setitem__, send_recv=both)


def diskcaches(place):
    import diskcache

    cache = diskcache.Cache(f"{place}/diskcache")
    return Rival("diskcache", cache.__getitem__, cache.__setitem__, close=cache.close)


def shelves(place):
    shelf = shelve.open(f"{place}/shelf")
    return Rival("shelve", shelf.__getitem__, shelf.__setitem__, text=True, close=shelf.close)


def managers(place):
    manager = multiprocessing.Manager()
    own, queue = manager.dict(), multiprocessing.SimpleQueue()

    def both():
        queue.put(VALUE)
        queue.get()

    return Rival("Manager", own.__getitem__, own.__setitem__, send_recv=both, close=manager.shutdown)


def ultra_dicts(place):
    from UltraDict import UltraDict

    # Each change goes to a buffer that other processes read; a full one costs a copy of everything.
    shared = UltraDict(buffer_size=1 << 24, auto_unlink=True)
    return Rival("UltraDict", shared.__getitem__, shared.__setitem__, close=shared.close)


def shared_memory_dicts(place):
    from shared_memory_dict import SharedMemoryDict

    shared = SharedMemoryDict(name=f"commonhold-bench-{os.getpid()}", size=1 << 20)

    def close():
        shared.shm.close()
        shared.shm.unlink()

    # Each change writes the whole dict.
    return Rival("shm-dict", shared.__getitem__, shared.__setitem__, text=True, most=100, close=close)


def redises(place):
    import redis

    socket = f"{place}/redis"
    how = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", place]
    server = subprocess.Popen(["redis-server", *how], stdout=subprocess.DEVNULL)
    client = redis.Redis(unix_socket_path=socket)
    for _ in range(1000):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.01)

    def both():
        client.rpush("c", VALUE)
        client.lpop("c")

    def close():
        server.kill()
        server.wait()

    return Rival("redis", client.get, client.set, client.mget, both, close=close)


# A name for people, and what makes a rival.
RIVALS = {
    "dict": dicts,
    "UltraDict": ultra_dicts,
    "shared-memory-dict": shared_memory_dicts,
    "diskcache": diskcaches,
    "shelve": shelves,
    "multiprocessing.Manager": managers,
    "redis": redises,
}


def present(place):
    """Commonhold and the rivals that are installed."""
    yield commonholds(place)
    for name, make in RIVALS.items():
        try:
            yield make(place)
        except (ImportError, OSError) as reason:
            print(f"*** left out: {name}: {reason}")


def measured(act, seconds):
    """Nanoseconds per call of act(n), which does n operations, more and more until it takes long
    enough."""
    count = 100
    while True:
        begin = time.perf_counter()
        act(count)
        took = time.perf_counter() - begin
        if took >= seconds:
            return took / count * 1e9
        count = max(count * 2, int(count * seconds / max(took, 1e-9) * 1.1))


def works(rival):
    """The names of the lines and what they do."""
    dice = random.Random(1)
    keys = dice.choices(rival.keys, k=1 << 16)
    texts = dice.choices(rival.numbers, k=1 << 16)

    def get(count):
        act = rival.get
        for i in range(count):
            act(keys[i & 0xFFFF])

    def set(count):
        act = rival.set
        for i in range(count):
            act(keys[i & 0xFFFF], VALUE)

    def get_many(count):
        act = rival.get_many or (lambda some: [rival.get(key) for key in some])
        for i in range(0, count, BATCH):
            at = i & 0xFFE0
            act(keys[at : at + BATCH])

    def send_recv(count):
        act = rival.send_recv
        for _ in range(count):
            act()

    def localmemcache(count):
        read, write = rival.get, rival.set
        for i in range(count):
            text = texts[i & 0xFFFF]
            write(text, text)
            read(text)

    return [work for work in (get, set, get_many, send_recv, localmemcache) if work is not send_recv or rival.send_recv]


def main(seconds=0.2, rounds=5):
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="commonhold-bench-") as place:
        rivals = list(present(place))
        times = collections.defaultdict(list)
        try:
            for rival in rivals:
                for key in rival.keys:
                    rival.set(key, VALUE)
            for _ in range(rounds):
                for rival in rivals:
                    for work in works(rival):
                        times[work.__name__, rival.name].append(measured(work, seconds))
        finally:
            for rival in rivals:
                rival.close()
    load, cpus = os.getloadavg()[0], os.cpu_count()
    print(f"Python {sys.version.split()[0]}, {cpus} CPUs, load {load:.2f}, medians of {rounds}, ns per operation")
    print(f"{'':14}" + "".join(f"{rival.name:>12}" for rival in rivals))
    names = ["get", "set", "get_many", "send_recv", "localmemcache"]
    for name in names:
        cells = [times.get((name, rival.name)) for rival in rivals]
        print(f"{name:14}" + "".join(f"{statistics.median(c):12.0f}" if c else f"{'-':>12}" for c in cells))
    ours = statistics.median(times["get", "commonhold"])
    for rival in rivals[1:]:
        print(f"get: {rival.name} / commonhold = {statistics.median(times['get', rival.name]) / ours:.2f}")


if __name__ == "__main__":
    main(*(float(argument) for argument in sys.argv[1:2]))
