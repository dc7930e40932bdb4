"""Origins and replicas."""

import socket
from datetime import timedelta

import pytest
from conftest import until

import commonhold
from commonhold import Replica, errors


def test_replication(place):
    with commonhold.open(f"{place}/a.hold") as one, commonhold.open(f"{place}/b.hold") as other:
        map = one.map("prices")
        map.set_many([(b"%d" % i, b"x") for i in range(1000)])
        changes = []
        with one.origin("prices") as origin:
            at = origin.listen(f"unix:{place}/socket")
            with other.replica(
                "prices", at, replica_name="near", on_change=changes.append
            ) as replica:
                assert replica.wait_ready(20) and replica.status()["ready"]
                copy = other.maps.open("prices")
                assert dict(copy) == dict(map) and copy.is_replica
                watcher = map.watch()
                map[b"new"] = b"value"
                watcher.next()
                assert replica.wait_for(watcher.position, 20) and copy[b"new"] == b"value"
                assert changes[-1].kind == "set" and changes[-1].key == b"new"
                with pytest.raises(errors.ReadOnlyError):
                    copy[b"a"] = b"b"
                assert [it["name"] for it in origin.replicas()] == ["near"]
                map[b"waited"] = b"for"
                assert map.wait_for_replicas(1, 20) == 1 and copy[b"waited"] == b"for"
                map[b"waited"] = b"by name"
                map.wait_for_replica("near", 20)
                assert copy[b"waited"] == b"by name"
                with pytest.raises(errors.TimedOutError, match="1 of 2 replicas"):
                    map.wait_for_replicas(2, 0.01)
                with pytest.raises(errors.TimedOutError, match="no replica with the name 'far'"):
                    map.wait_for_replica("far", timeout=0.01)
                with pytest.raises(errors.InvalidError, match="an empty one"):
                    map.wait_for_replica("")
            with pytest.raises(errors.ClosedError):
                replica.status()
        stream = map.stat()["stream"]["end"].split(".")[0]
        done = other.maps.promote("prices")
        assert done["epoch"] > 0 and done["position"].startswith(stream)
        assert other.maps.promote("prices") is None
        copy[b"mine"] = b"now"
    with pytest.raises(ValueError):
        commonhold.open(f"{place}/a.hold").origin("prices").listen("nonsense")
    with commonhold.open(f"{place}/a.hold").origin("prices") as origin:
        with pytest.raises(errors.InvalidError, match="allow_unauthenticated"):
            origin.listen("tcp:0.0.0.0:0")


def spoil(path, old, new):
    """Changes bytes of a hold as rotten memory does."""
    with open(path, "r+b") as file:
        at = file.read().index(old)
        file.seek(at)
        file.write(new)


def test_a_replica_follows_the_keys_of_a_prefix(place):
    with commonhold.open(f"{place}/a.hold") as one, commonhold.open(f"{place}/b.hold") as other:
        map = one.map("prices")
        map.set_many([(b"a\0b", b"1"), (b"a\1b", b"1")])
        with one.origin("prices") as origin:
            at = origin.listen(f"unix:{place}/socket")
            for prefix in (b"", b"n" * 256):
                with pytest.raises(errors.InvalidError, match="a prefix of"):
                    other.replica("prices", at, prefix=prefix)
            with other.replica("prices", at, prefix=b"a\0") as replica:
                assert replica.wait_ready(20) and replica.status()["prefix"] == "a\\x00"
                map[b"a\0c"] = b"2"
                map[b"b"] = b"2"
                assert map.wait_for_replicas(1, 20) == 1
                assert dict(other.maps.open("prices")) == {b"a\0b": b"1", b"a\0c": b"2"}
                report = Replica.verify(other, "prices", at)
                assert (report["equal"], report["pairs"]) == (True, 2)
            with pytest.raises(errors.MismatchError, match="all keys are wanted"):
                other.replica("prices", at)
            with pytest.raises(errors.MismatchError, match="cannot become the origin"):
                other.maps.promote("prices")


def test_a_replica_is_verified(place):
    with commonhold.open(f"{place}/a.hold") as one, commonhold.open(f"{place}/b.hold") as other:
        map = one.map("prices")
        map.set_many([(b"%d" % i, b"value %d of a replica" % i) for i in range(100)])
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(f"{place}/socket")
        listening.listen()
        with one.origin("prices", secret=b"s") as origin, listening:
            at = origin.listen_on(listening)
            assert at == f"unix:{place}/socket"
            with other.replica("prices", at, secret=b"s") as replica:
                assert replica.wait_ready(20)
                report = Replica.verify(other, "prices", at, secret=b"s", timeout=60)
                assert (report["equal"], report["pairs"], report["different"]) == (True, 100, 0)
                spoil(other.path, b"value 77 of", b"valve 77 of")
                report = Replica.verify(other, "prices", at, secret=b"s", timeout=60)
                assert (report["equal"], report["differing"]) == (False, [b"77"])
                with pytest.raises(errors.NotFoundError):
                    Replica.verify(other, "none", at, secret=b"s")
                with pytest.raises(errors.InvalidError):
                    Replica.verify(other, "prices", "nonsense")
        with pytest.raises(errors.TimedOutError):
            Replica.verify(other, "prices", f"unix:{place}/nothing", timeout=0.05)


def test_a_wait_for_a_replica_ends_with_the_replica(place):
    with commonhold.open(f"{place}/a.hold") as one, commonhold.open(f"{place}/b.hold") as other:
        map = one.map("prices")
        ours, theirs = socket.socketpair()
        with one.origin("prices") as origin, ours, theirs:
            number = origin.attach(ours)
            with other.replica("prices", theirs) as replica:
                assert replica.wait_ready(20)
                assert origin.detach(number)
                stream = map.watch().position.split(".")[0]
                assert replica.wait_for(f"{stream}.999999999") is False
                assert replica.wait_ready() and replica.status()["ended"]


def test_readers_limit_the_age_of_a_replicas_contents(hold, place, run):
    map = hold.map("prices")
    map[b"a"] = b"1"
    assert map.lag() is None and map.get_fresh(b"a", 0) == b"1"
    map.ensure_fresh(0)
    at = f"unix:{place}/socket"
    origin = run(
        f"origin = hold.origin('prices'); origin.listen({at!r}); print(1, flush=True); time.sleep(99)"
    )
    assert origin.stdout.readline() == "1\n"
    with commonhold.open(f"{place}/b.hold") as other, other.replica("prices", at) as replica:
        assert replica.wait_ready(20)
        origin.kill()
        copy = other.maps.open("prices")
        until(lambda: (copy.lag() or 0) > 0.05)
        for age in 0.05, timedelta(milliseconds=50):
            for read in (
                lambda: copy.ensure_fresh(age),
                lambda: copy.get_fresh(b"a", age),
                lambda: copy.get_fresh(b"b", max_age=age),
                lambda: copy.str().get_fresh("a", age),
            ):
                with pytest.raises(errors.StaleError, match="must not be older"):
                    read()
        copy.ensure_fresh(timedelta(hours=1))
        assert copy.get_fresh(b"a", 3600) == b"1" and copy.get_fresh(b"b", float("inf")) is None
        assert copy.str().get_fresh("a", 3600) == "1" and copy.str().get_fresh("b", 3600) is None
        for wrong, error in (-1, errors.InvalidError), ("1", TypeError), (None, TypeError):
            with pytest.raises(error):
                copy.ensure_fresh(wrong)


@pytest.fixture
def pair(place):
    """Two holds, with a map in the first."""
    with commonhold.open(f"{place}/a.hold") as one, commonhold.open(f"{place}/b.hold") as other:
        map = one.map("prices")
        map.set_many([(b"%d" % i, b"x" * 1000) for i in range(300)])
        yield one, other


def test_both_sides_decide_on_compression(pair, place):
    one, other = pair
    for number, (ours, theirs, packed) in enumerate(
        [("always", "always", True), ("never", "always", False), ("always", "auto", False)]
    ):
        with one.origin("prices", compression=ours) as origin:
            at = origin.listen(f"unix:{place}/socket")
            with other.replica(f"copy {number}", at, compression=theirs) as replica:
                until(lambda: replica.status()["sync_bytes"] > 300_000)
                assert (replica.status()["sync_wire_bytes"] < 100_000) == packed
    for wrong in (
        lambda: one.origin("prices", compression="some"),
        lambda: other.replica("m", at, compression=""),
    ):
        with pytest.raises(errors.InvalidError, match="'auto', 'always' or 'never'"):
            wrong()


def test_a_replica_goes_on_at_another_address_and_relays(pair, place):
    one, middle = pair
    at, also = f"unix:{place}/socket", f"unix:{place}/also"
    origin = one.origin("prices")
    origin.listen(at)
    with (
        commonhold.open(f"{place}/c.hold") as last,
        middle.replica("prices", at, stream_bytes=1 << 20) as replica,
        middle.origin("prices") as relay,
    ):
        assert replica.wait_ready(20)
        ours, theirs = (it.maps.open("prices").stat()["stream"] for it in (one, middle))
        assert theirs["bytes"] == 1 << 20 and theirs["end"] == ours["end"]
        relay.listen(also)
        with last.replica("copy", at, also=[also], origin_map="prices") as second:
            assert second.wait_ready(20)
            origin.close()
            until(lambda: second.status()["origin"] == also and second.status()["connected"])
            assert second.status()["synchronisations"] == 1
        with pytest.raises(errors.InvalidError, match="nowhere"):
            last.replica("m", at, also=["nowhere"])
        with last.replica("m", also, origin_map="wrong", first_pause=0.001) as wrong:
            until(lambda: "wrong" in (wrong.status()["last_error"] or ""))


def test_a_replica_adopts_another_map_only_if_it_may(pair, place):
    one, other = pair
    at = f"unix:{place}/socket"
    one.map("next")[b"b"] = b"2"
    with one.origin("prices") as origin, other.replica("m", origin.listen(at)) as replica:
        assert replica.wait_ready(20)
    with one.origin("next") as origin:
        origin.listen(at)
        with other.replica("m", at, first_pause=0.001) as replica:
            until(lambda: "map 'next' of hold" in (replica.status()["last_error"] or ""))
            assert b"b" not in other.maps.open("m")
        with other.replica("m", at, adopt=True):
            until(lambda: b"b" in other.maps.open("m"))


def test_wrong_options(pair, place):
    one, other = pair
    for wrong in (
        lambda: one.origin("prices", thread=1),
        lambda: one.origin("prices", threads="1"),
        lambda: other.replica("m", "tcp:1", also="tcp:2"),
        lambda: other.replica("m", "tcp:1", stream_bytes=-1.5),
    ):
        with pytest.raises(TypeError):
            wrong()
