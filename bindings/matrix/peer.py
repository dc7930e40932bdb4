"""The matrix's peer in Python; see README.md in this folder."""

import sys
import time

import commonhold

OPTIONS = {
    "cache": {"cache": True, "max_entries": 1000, "ttl": 3600},
    "word": {"fixed": (4, 4)},
    "fixed": {"fixed": (4, 24)},
}
KINDS = {"set": 1, "delete": 2, "expire": 3, "evict": 4, "clear": 5, "gap": 6}


def hash32(data):
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{value:08x}"


def data(i, length):
    return bytes((7 * i + j) % 256 for j in range(length))


def pairs(hold, what, write):
    map = hold.map(what, **OPTIONS.get(what, {}))
    inline = what in ("word", "fixed")
    for i in range(200) if write else ():
        key = i.to_bytes(4, "little") if inline else b"key %d" % i
        map[key] = data(i, {"word": 4, "fixed": 24}.get(what, i))
        if i % 10 == 0:
            del map[key]
    for i in range(200):
        key = i.to_bytes(4, "little") if inline else b"key %d" % i
        print(f"{i} {map.uid(key)} {hash32(map[key])}" if key in map else f"{i} none")


def lists(hold, write):
    lists = hold.map("list").lists()
    if write:
        lists.push(b"l", b"a")
        lists.push(b"l", b"b")
        lists.unshift(b"l", b"c")
    print(b",".join(lists.get(b"l")).decode())


def counter(hold, write):
    map = hold.map("counter")
    for by in (-5, 7, 40) if write else ():
        map.increment(b"n", by)
    print(map.increment(b"n", 0))


def queue(hold, write):
    queue = hold.queue("queue", 4, 16, ["free", "full"])
    source, target = ("free", "full") if write else ("full", "free")
    for n in range(3):
        element = queue[source].pull(10)
        if write:
            element.write(bytes([65 + n]))
        print(chr(bytes(element)[0]))
        queue[target].push(element)


def channel(hold, write):
    channel = hold.channel("channel", 1 << 16)
    if write:
        with channel.producer() as producer:
            for i in range(50):
                print(producer.send(data(i, i)), hash32(data(i, i)))
        return
    with channel.consumer("oldest") as consumer:
        while True:
            number, message = consumer.sequence, consumer.try_recv()
            if message is None:
                break
            print(number, hash32(message))


def log(hold, write):
    log = hold.log("log")
    for i in range(5) if write else ():
        log.info(f"line {i}")
    for line in log.dump():
        print(line.text.decode())


def stream(hold, write):
    map, at = hold.map("stream"), hold.map("at").str()
    if write:
        at["from"] = map.watch(stream_bytes=1 << 16).position
        map[b"a"], map[b"b"] = b"1", b"2"
        del map[b"a"]
    watcher = map.watch(at["from"])
    while (change := watcher.next(0)) is not None:
        print(f"{KINDS[change.kind]} {change.key.decode()} {change.value.decode()}".rstrip())


def errors(hold, _):
    map = hold.map("errors")
    map[b"short"], map[b"n"] = b"ab", b"1"
    for act in (
        lambda: hold.maps.open("none"),
        lambda: hold.map("errors", fixed=(4, 4)),
        lambda: map.increment(b"n"),
        lambda: hold.map(""),
        lambda: hold.queues.open("errors"),
        lambda: hold.channel("ring", 5),
        lambda: map.lists().push(b"short", b"x"),
        lambda: commonhold.open(hold.path, exclusive=True),
    ):
        try:
            act()
            print(0)
        except commonhold.Error as error:
            print(error.code)


def storm(hold):
    map, i = hold.map("storm"), 0
    while True:
        map[b"key %d" % (i % 100)] = data(i, i % 100)
        map.increment(b"n")
        i += 1


def sound(hold):
    map = hold.map("storm")
    for _ in range(5000):
        if map.increment(b"mine", 0) > 0 or map.increment(b"n", 0) >= 1000:
            break
        time.sleep(0.001)
    map.increment(b"mine")
    hold.sweep()
    report = hold.check()
    print("sound" if report["ok"] else "\n".join(report["problems"]))


def main(command, *rest):
    hold = commonhold.open(rest[-1], create=command in ("write", "storm"))
    if command in ("storm", "sound"):
        return {"storm": storm, "sound": sound}[command](hold)
    what, write = rest[0], command == "write"
    others = dict(
        list=lists, counter=counter, queue=queue, channel=channel, log=log, stream=stream, errors=errors
    )
    if what in others:
        return others[what](hold, write)
    return pairs(hold, what, write)


main(*sys.argv[1:])
