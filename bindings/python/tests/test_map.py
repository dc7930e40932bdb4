"""The contract of maps, in all modes."""

import array
import collections.abc
import datetime
import math
import pickle
import threading

import pytest
from conftest import until

import commonhold
from commonhold import errors

MODES = {
    "general": {},
    "fixed": {"fixed": (4, 24)},
    "word": {"fixed": (4, 4)},
    "cache": {"cache": True, "max_entries": 100_000, "ttl": 3600},
}


@pytest.fixture(params=MODES)
def any_map(request, hold):
    return hold.map("it", **MODES[request.param])


def key(i):
    return i.to_bytes(4, "little")


def value(map, i):
    room = map.options().get("fixed", (0, 12))[1]
    return bytes((7 * i + j) % 256 for j in range(room))


def test_it_is_a_mutable_mapping(any_map):
    model = {}
    assert isinstance(any_map, collections.abc.MutableMapping)
    for i in range(1000):
        any_map[key(i)] = model[key(i)] = value(any_map, i)
    for i in range(0, 1000, 3):
        del any_map[key(i)]
        del model[key(i)]
    assert dict(any_map) == dict(any_map.items()) == model
    assert sorted(any_map) == sorted(any_map.keys()) == sorted(model)
    assert sorted(any_map.values()) == sorted(model.values())
    assert len(any_map) == len(model) and any_map and key(1) in any_map and key(0) not in any_map
    assert any_map.pop(key(1)) == model[key(1)] and any_map.pop(key(1), 5) == 5
    for absent in (lambda: any_map[key(0)], lambda: any_map.pop(key(0))):
        with pytest.raises(KeyError) as caught:
            absent()
        assert caught.value.args == (key(0),) and not isinstance(caught.value, commonhold.Error)
    with pytest.raises(KeyError):
        del any_map[key(0)]
    taken, _ = any_map.popitem()
    assert taken not in any_map
    assert any_map.setdefault(key(0), value(any_map, 5)) == value(any_map, 5)
    assert any_map.setdefault(key(0), value(any_map, 6)) == value(any_map, 5)
    assert any_map.clear() == 665 and not any_map
    with pytest.raises(KeyError):
        any_map.popitem()


def test_operations_that_only_maps_have(any_map):
    one, other = value(any_map, 1), value(any_map, 2)
    assert any_map.add(key(1), one) is True and any_map.add(key(1), other) is False
    assert any_map.replace(key(2), one) is False and any_map.replace(key(1), other) is True
    assert not any_map.compare_exchange(key(1), one, other)
    assert any_map.compare_exchange(key(1), other, one) and any_map[key(1)] == one
    assert any_map.compare_exchange(key(3), None, one) and any_map.compare_exchange(key(3), one, None)
    assert any_map.take(key(1)) == one and any_map.take(key(1)) is None
    assert any_map.delete(key(1)) is False
    any_map.set_many({key(i): value(any_map, i) for i in range(100)})
    any_map.update([(key(100), one)])
    found = any_map.get_many(key(i) for i in range(0, 200, 2))
    assert found[:50] == [value(any_map, i) for i in range(0, 100, 2)] and found[51:] == [None] * 49
    pair = any_map.random_pair()
    assert any_map[pair[0]] == pair[1]


def test_a_pair_is_found_again(any_map):
    one, other = value(any_map, 1), value(any_map, 2)
    pair = any_map.pair(key(1))
    assert pair.key == key(1) and pair.get() is None
    pair.set(one)
    assert pair.get() == one == any_map[key(1)]
    any_map[key(1)] = other
    assert pair.get() == other
    del any_map[key(1)]
    assert pair.get() is None
    for i in range(10, 2000):
        any_map[key(i)] = one
    pair.set(one)
    pair.set(other)
    assert pair.get() == other == any_map[key(1)]


def test_a_pair_counts_and_ends_with_its_map(hold):
    pair = hold.map("it").pair(b"12345678")
    assert [pair.increment(), pair.increment(5), pair.increment(-7)] == [1, 6, -1]
    assert int.from_bytes(pair.get(), "little", signed=True) == -1
    pair.set(b"text")
    with pytest.raises(errors.MismatchError):
        pair.increment()
    hold.maps.drop("it")
    with pytest.raises(errors.NotFoundError):
        pair.get()
    hold.close()
    with pytest.raises(errors.ClosedError):
        pair.get()


def test_threads_share_a_pair(hold):
    pair = hold.map("it").pair(b"12345678")
    threads = [
        threading.Thread(target=lambda: [pair.increment() for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pair.increment(0) == 2000


def test_uids(any_map):
    one, other = value(any_map, 1), value(any_map, 2)
    uid = any_map.set(key(1), one)
    assert any_map.uid(key(1)) == uid and any_map.uid(key(2)) is None
    for i in range(10, 2000):
        any_map[key(i)] = one
    assert any_map.get_uid(uid) == (key(1), one)
    assert any_map.set_uid(uid, key(1), other) and not any_map.set_uid(uid, key(2), other)
    assert any_map.compare_exchange_uid(uid, key(1), other, one)
    assert any_map.take_uid(uid, key(1)) == one and any_map.get_uid(uid) is None
    assert any_map.delete_uid(uid, key(1)) is False


def test_update_is_atomic_and_passes_exceptions_on(hold):
    map = hold.map("it")
    assert map.update(b"n", lambda value: (value or b"") + b"x") is True
    assert map.update(b"n", lambda value: value + b"y") is True and map[b"n"] == b"xy"
    with pytest.raises(ZeroDivisionError):
        map.update(b"n", lambda value: 1 / 0)
    with pytest.raises(TypeError):
        map.update(b"n", lambda value: "text")
    assert map[b"n"] == b"xy" and map.update(b"n", lambda _: None) is False and b"n" not in map
    # It may use the map, which then is asked again.
    calls = []

    def change(value):
        calls.append(value)
        if len(calls) == 1:
            map[b"n"] = b"other"
        return b"mine"

    map.update(b"n", change)
    assert calls == [None, b"other"] and map[b"n"] == b"mine"


def test_numbers(hold):
    map = hold.map("it")
    assert map.increment(b"n") == 1 and map.increment(b"n", -5) == -4
    uid = map.uid(b"n")
    assert map.increment_uid(uid, b"n", 2) == -2 and map.increment_uid(uid, b"x", 2) is None
    numbers = map.numbers()
    assert numbers["n"] == -2
    numbers["m"] = 2**63 - 1
    assert map[b"m"] == (2**63 - 1).to_bytes(8, "little")
    with pytest.raises(OverflowError):
        numbers["m"] = 2**63
    map[b"short"] = b"1"
    for wrong in (lambda: map.increment(b"short"), lambda: numbers["short"]):
        with pytest.raises(errors.MismatchError):
            wrong()
    with pytest.raises(OverflowError):
        map.increment(b"n", 2**64)


def test_time_to_live(hold):
    cache = hold.cache("it", ttl=datetime.timedelta(hours=1))
    assert cache.mode == "cache" and cache.options()["ttl"] == 3600
    cache.set(b"set", b"1", ttl=0.03)
    cache.add(b"add", b"1", ttl=datetime.timedelta(milliseconds=30))
    cache.set_many([(b"many", b"1")], ttl=0.03)
    cache.increment(b"n", ttl=0.03)
    cache.update(b"u", lambda _: b"1", ttl=0.03)
    cache[b"stays"] = b"1"
    until(lambda: sorted(cache) == [b"stays"])
    assert cache.expire() == 5 and len(cache) == 1 and cache.stat()["expired"] >= 5
    assert cache.remaining_ttl(b"absent") is None and not cache.touch(b"absent", 1)
    assert 0 < cache.remaining_ttl(b"stays") <= 3600
    assert cache.touch(b"stays", datetime.timedelta(hours=2)) and cache[b"stays"] == b"1"
    assert 3600 < cache.remaining_ttl(b"stays") <= 7200
    view = cache.view(commonhold.STR, commonhold.BYTES)
    assert view.touch("stays", 10_000) and view.remaining_ttl("stays") > 7200
    general = hold.map("general")
    general[b"a"] = b"b"
    assert general.remaining_ttl(b"a") == math.inf
    with pytest.raises(errors.MismatchError):
        general.touch(b"a", 1)
    with pytest.raises(errors.MismatchError):
        general.set(b"a", b"b", ttl=1)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError):
            cache.set(b"a", b"b", ttl=wrong)


def test_values_of_any_length(hold):
    map = hold.map("it")
    for length in (0, 1, 511, 512, 513, 70_000, 5_000_000):
        map[b"k"] = data = bytes(i % 251 for i in range(length))
        assert map[b"k"] == map.get(b"k") == data
    map[b""] = b""
    assert map[b""] == b"" and map.get(b"") == b""
    map[b"\0a\0"] = b"\0"
    assert map[b"\0a\0"] == b"\0"


def test_all_that_is_like_bytes(hold):
    map = hold.map("it")
    map[bytearray(b"a")] = memoryview(b"12")
    map[b"b"] = array.array("i", [1, 2])
    assert map[memoryview(b"a")] == b"12" and len(map[b"b"]) == 8
    with pytest.raises(BufferError):
        map[b"c"] = memoryview(b"123456")[::2]


def test_wrong_types_are_type_errors(hold):
    map = hold.map("it")
    for wrong in ("a", 1, None, [1]):
        for act in (
            lambda: map[wrong],
            lambda: map.get(wrong),
            lambda: map.set(b"a", wrong),
            lambda: map.__setitem__(wrong, b""),
            lambda: map.add(wrong, b""),
            lambda: map.get_many([b"a", wrong]),
            lambda: map.set_many([(b"a", wrong)]),
            lambda: wrong in map,
        ):
            with pytest.raises(TypeError):
                act()
    for act in (
        lambda: map.get(),
        lambda: map.get(b"a", 1, 2),
        lambda: map.set(b"a"),
        lambda: map.set(b"a", b"b", tll=1),
        lambda: map.get(b"a", x=1),
        lambda: commonhold.Map.get(5, b"a"),
        lambda: hold.map(b"bytes"),
        lambda: hold.map("a", fixed=5),
        lambda: map.update(b"a", b"b"),
        lambda: map.update(a=b"b"),
        lambda: map.increment(b"a", 1.5),
    ):
        with pytest.raises(TypeError):
            act()


def test_names_and_options(hold):
    for wrong in ("", "a\0b", "x" * 201):
        with pytest.raises(errors.InvalidError) as caught:
            hold.map(wrong)
        assert isinstance(caught.value, ValueError) and caught.value.code == 15
    with pytest.raises(UnicodeEncodeError):
        hold.map("\udcff")
    hold.map("it")
    with pytest.raises(errors.MismatchError):
        hold.map("it", fixed=(4, 4))
    with pytest.raises(errors.NotFoundError) as caught:
        hold.maps.open("none")
    assert isinstance(caught.value, LookupError) and "none" in str(caught.value)
    with pytest.raises(ValueError):
        hold.map("other", max_entries=5)
    with pytest.raises(ValueError):
        hold.map("fixed", fixed=(2, 2))[b"123"] = b"12"
    assert hold.maps.open("fixed").options() == {"fixed": (2, 2)}
    assert [found["name"] for found in hold.maps.list()] == ["fixed", "it"]
    assert hold.maps.drop("it") and not hold.maps.drop("it")


def test_views(hold):
    map = hold.map("it")
    text = map.str()
    text["käse"] = "schön"
    assert map["käse".encode()] == "schön".encode() and text["käse"] == "schön"
    assert dict(text.items()) == {"käse": "schön"} and list(text.values()) == ["schön"]
    text.update({"a": "1"}, b="2")
    assert text.get_many(["a", "b", "c"]) == ["1", "2", None] and ("a", "1") in text.items()
    assert text.update("a", lambda value: value + "!") and text.pop("a") == "1!"
    assert text.setdefault("new", "x") == "x" and text.take("new") == "x" and "new" not in text
    for wrong in (lambda: text[b"a"], lambda: text.set("a", 5), lambda: text.get(5)):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(KeyError) as caught:
        text["none"]
    assert caught.value.args == ("none",)
    map[b"bad"] = b"\xff"
    with pytest.raises(UnicodeDecodeError):
        text["bad"]
    json = map.json()
    json["j"] = {"a": [1, None, "ü"]}
    assert json["j"] == {"a": [1, None, "ü"]} and map[b"j"] == '{"a":[1,null,"ü"]}'.encode()
    assert json.compare_exchange("j", {"a": [1, None, "ü"]}, [2]) and json["j"] == [2]
    pickled = map.pickle()
    pickled["p"] = {1, 2}
    assert pickled["p"] == {1, 2} and pickle.loads(map[b"p"]) == {1, 2}
    codec = commonhold.Codec(lambda n: n.to_bytes(2, "big"), lambda b: int.from_bytes(b, "big"))
    own = hold.map("own").view(key=codec, value=codec)
    own[5] = 6
    assert dict(own) == {5: 6} and own.get_uid(own.uid(5)) == (5, 6)


def test_lists(hold):
    lists = hold.map("it").lists(key=commonhold.views.STR)
    assert lists.push("l", b"a") == 1 and lists.push("l", b"b") == 2 and lists.unshift("l", b"") == 3
    assert lists.get("l") == [b"", b"a", b"b"] and lists.len("l") == 3
    assert lists.pop("l") == b"b" and lists.shift("l") == b"" and lists.pop("l") == b"a"
    assert lists.pop("l") is None and lists.shift("none") is None and b"l" not in lists.map
    for damaged in (b"", b"xy", b"\1\0\0\0\2\0\0\0a\1\0\0\0", b"\0\0\0\0"):
        lists.map[b"l"] = damaged
        for act in (lambda: lists.push("l", b""), lambda: lists.pop("l"), lambda: lists.get("l")):
            with pytest.raises(errors.MismatchError):
                act()
        assert lists.map[b"l"] == damaged


def test_iteration_resumes_by_cursor(hold):
    map = hold.map("it")
    map.set_many([(key(i), b"") for i in range(5000)])
    seen, pairs = set(), map.pairs()
    for found, _ in pairs:
        seen.add(found)
        if len(seen) > 2000 and pairs.at_cursor:
            break
    rest = [found for found, _ in map.pairs(pairs.cursor)]
    assert len(rest) + len(seen) == 5000 and len(seen | set(rest)) == 5000
    for i, found in enumerate(map):  # Changing it meanwhile is allowed.
        map[found + b"x"] = b""
        if i > 100:
            break


def test_a_closed_handle_is_a_clean_error(hold, place):
    other = commonhold.open(f"{place}/it.hold")
    map = other.map("it")
    map[b"a"] = b"b"
    keys = iter(map)
    other.close()
    other.close()
    assert other.closed
    for act in (
        lambda: map[b"a"],
        lambda: map.get(b"a"),
        lambda: map.set(b"a", b"b"),
        lambda: len(map),
        lambda: next(keys),
        lambda: list(map),
        lambda: other.map("it"),
        lambda: other.stat(),
        lambda: other.queue("q", 1, 1),
    ):
        with pytest.raises(errors.ClosedError) as caught:
            act()
        assert isinstance(caught.value, ValueError)


def test_watching(hold):
    map = hold.map("it")
    with pytest.raises(errors.NotFoundError):
        map.watch()
    watcher = map.watch(stream_bytes=65536)
    position = watcher.position
    map[b"a"] = b"1"
    del map[b"a"]
    for watcher in (watcher, map.watch(position)):
        first, second = watcher.next(), next(watcher)
        assert (first.kind, first.key, first.value) == ("set", b"a", b"1")
        assert (second.kind, second.key) == ("delete", b"a")
        assert watcher.next(0) is None and watcher.next(0.01) is None
    for i in range(5000):
        map[b"a"] = b"x" * 100
    with pytest.raises(errors.LappedError):
        watcher.next()
    with pytest.raises(ValueError):
        map.watch("nonsense")


def test_a_digest_tells_maps_apart(hold):
    one, other = hold.map("one"), hold.map("other")
    one.set_many({b"a": b"1", b"b": b"2"})
    other.set_many({b"b": b"2", b"a": b"1"})
    assert one.digest() == other.digest()
    other[b"a"] = b"2"
    assert one.digest() != other.digest()


def test_pairs_are_joined_and_codecs_are_public(hold):
    map = hold.map("m")
    same = map
    map |= {b"a": b"1"}
    map |= [(b"b", b"2")]
    assert map is same and dict(map) == {b"a": b"1", b"b": b"2"}
    view = map.view(key=commonhold.STR, value=commonhold.JSON)
    view |= {"c": [1, 2]}
    assert view.map is map and view["c"] == [1, 2] and map[b"c"] == b"[1,2]"
    numbers = map.view(commonhold.BYTES, commonhold.NUMBER)
    numbers |= {b"n": 5}
    assert map.increment(b"n") == 6
    with pytest.raises(TypeError):
        map |= {"text": b""}
