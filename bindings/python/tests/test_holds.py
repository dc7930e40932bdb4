"""Origins and replicas of whole holds."""

import socket
import threading

import pytest
from conftest import until

import commonhold
from commonhold import HoldReplica, errors


@pytest.fixture
def other(place):
    with commonhold.open(f"{place}/b.hold") as other:
        yield other


def states(replica):
    return {map["name"]: map["state"] for map in replica.status()["maps"]}


def test_all_maps_of_another_process_are_followed(hold, other, place, run):
    for name in "prices", "people", "plain", "quantities":
        hold.map(name)[b"a"] = name.encode()
    other.map("plain")
    at = f"unix:{place}/socket"
    options = "stream_bytes=1 << 20, secret=b's', compression='always'"
    origin = run(
        f"origin = hold.hold_origin(['p*'], {options}); origin.listen({at!r})\n"
        "print(1, flush=True); time.sleep(99)"
    )
    assert origin.stdout.readline() == "1\n"
    events = []
    with other.hold_replica(
        at,
        ["pr*", "pl*", "pe*"],
        secret=b"s",
        first_pause=0.001,
        on_ready=lambda map, position: events.append(("ready", map, "." in position)),
        on_lost=lambda map, why: events.append(("lost", map, bool(why))),
        on_skipped=lambda map, why: events.append(("skipped", map, bool(why))),
        on_dropped=lambda map: events.append(("dropped", map, True)),
    ) as replica:
        assert replica.wait_ready(60)
        assert states(replica) == {"people": "followed", "plain": "skipped", "prices": "followed"}
        assert other.maps.open("prices")[b"a"] == b"prices" and "quantities" not in other.maps
        hold.map("prompt")[b"b"] = b"2"
        until(lambda: "prompt" in states(replica), 60)
        assert replica.wait_ready(60) and other.maps.open("prompt")[b"b"] == b"2"
        hold.maps.drop("people")
        until(lambda: states(replica)["people"] == "dropped", 60)
        assert other.maps.open("people")[b"a"] == b"people"
        origin.kill()
        wanted = ("ready", "prices"), ("skipped", "plain"), ("dropped", "people"), ("lost", None)
        for what, map in wanted:
            until(lambda: (what, map, True) in events, 60)
    with pytest.raises(errors.ClosedError):
        replica.status()
    with pytest.raises(errors.ClosedError):
        replica.wait_ready()


def test_an_origin_of_a_hold_serves_single_maps(hold, other, place):
    hold.map("prices")[b"a"] = b"1"
    hold.map("others")
    notices = []
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{place}/socket")
    listening.listen()
    with hold.hold_origin(stream_bytes=1 << 20, notice=notices.append) as origin, listening:
        at = origin.listen_on(listening)
        assert origin.addresses == [at] == [f"unix:{place}/socket"]
        with other.replica("copy", at, origin_map="prices", replica_name="near") as replica:
            assert replica.wait_ready(60) and other.maps.open("copy")[b"a"] == b"1"
            maps = {map["name"]: map for map in origin.maps()}
            assert sorted(maps) == ["others", "prices"] and maps["others"]["replicas"] == []
            assert [it["name"] for it in maps["prices"]["replicas"]] == ["near"]
            hold.map("prices")[b"last"] = b"2"
            origin.close(60)
            assert other.maps.open("copy")[b"last"] == b"2"
        assert notices
    with pytest.raises(errors.ClosedError):
        origin.maps()


def test_wrong_arguments(hold, other):
    for wrong, error in (
        (lambda: hold.hold_origin("p*"), TypeError),
        (lambda: hold.hold_origin([1]), TypeError),
        (lambda: hold.hold_origin([""]), errors.InvalidError),
        (lambda: hold.hold_origin(explicit=True), errors.InvalidError),
        (lambda: hold.hold_origin(thread=1), TypeError),
        (lambda: other.hold_replica("tcp:1", origin_map="prices"), TypeError),
        (lambda: other.hold_replica("tcp:1", on_change=print), TypeError),
        (lambda: other.hold_replica("tcp:1", prefix=b"a"), errors.InvalidError),
        (lambda: other.hold_replica("nonsense"), errors.InvalidError),
        (lambda: HoldReplica(other, "tcp:1", [""]), errors.InvalidError),
    ):
        with pytest.raises(error):
            wrong()
    with hold.hold_origin() as origin, pytest.raises(errors.InvalidError):
        origin.listen("tcp:0.0.0.0:0")


def test_closing_ends_a_wait(other, place):
    replica = other.hold_replica(f"unix:{place}/nothing")
    assert not replica.wait_ready(0.01)
    raised = []

    def waits():
        with pytest.raises(errors.ClosedError):
            replica.wait_ready()
        raised.append(True)

    thread = threading.Thread(target=waits)
    thread.start()
    replica.close()
    thread.join(60)
    assert raised
