"""A hold, its maps, a queue, a channel, a log: the quick start of the README."""

import logging

import commonhold

with commonhold.open("quickstart", delete_on_last_exit=True) as hold:
    stock = hold.map("stock")  # bytes to bytes, as a dict
    stock[b"apple"] = b"12 crates"
    assert stock.get(b"pear") is None and len(stock) == 1

    prices = hold.map("prices").json()  # text to whatever JSON can say
    prices["apple"] = {"euro": 3}
    prices.update("apple", lambda price: {**price, "dollar": 4})  # one atomic step
    assert hold.map("visits").increment(b"home") == 1

    sessions = hold.cache("sessions", max_entries=10_000, ttl=3600)
    sessions.set(b"a1b2", b"user 5", ttl=60)

    frames = hold.queue("frames", 4, 4096, ["free", "full"])
    element = frames["free"].pull()
    memoryview(element)[:5] = b"hello"  # in place: no copy
    frames["full"].push(element)  # perhaps another process pulls it

    ticks = hold.channel("ticks")
    with ticks.consumer() as consumer, ticks.producer() as producer:
        producer.send(b"apple 3")
        assert consumer.recv() == b"apple 3"

    logger = logging.getLogger("shop")
    logger.addHandler(hold.log("events").handler())
    logger.warning("no more pears")
    print(hold.log("events").dump()[0].text.decode())
