"""The hold, exceptions, pickling, the documents' examples."""

import doctest
import os
import pickle

import pytest
from conftest import until

import commonhold
from commonhold import errors


def test_opening_and_dropping(place):
    path = f"{place}/a.hold"
    with pytest.raises(FileNotFoundError) as caught:
        commonhold.open(path, create=False)
    assert isinstance(caught.value, errors.NotFoundError) and caught.value.code == 1
    with commonhold.open("bare", directory=place) as hold:
        assert hold.path == f"{place}/bare.hold" and len(hold.uuid) == 32
        with pytest.raises(FileExistsError):
            commonhold.open("bare", directory=place, exclusive=True)
        assert hold.stat()["participants"] == 1 and hold.participant()["pid"] == os.getpid()
        assert hold.participants()[0]["alive"]
        hold.map("m")[b"a"] = b"b"
        with commonhold.open(hold.path, read_only=True) as reader:
            assert reader.map("m")[b"a"] == b"b"
            with pytest.raises(PermissionError):
                reader.map("m")[b"a"] = b"c"
        with pytest.raises(errors.BusyError):
            commonhold.remove(hold.path)
        assert [found["name"] for found in commonhold.list(place)] == ["bare"]
        hold.backup(f"{place}/backup")
    with pytest.raises(errors.ClosedError):
        hold.sweep()
    commonhold.remove(f"{place}/bare.hold")
    assert commonhold.restore(f"{place}/backup", path)["pairs"] == 1
    with commonhold.open(path) as again:
        assert again.map("m")[b"a"] == b"b" and again.sweep() == 0 and again.trim() >= 0
    with open(f"{place}/no.hold", "w") as file:
        file.write("x" * 10_000)
    with pytest.raises(errors.NotAHoldError):
        commonhold.open(f"{place}/no.hold")
    with pytest.raises(ValueError):
        commonhold.open("a\0b")
    with pytest.raises(TypeError):
        commonhold.open(5)


def test_the_tree_of_exceptions():
    found = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, Exception)]
    assert all(issubclass(cls, commonhold.Error) for cls in found)
    assert sorted(errors.BY_CODE) == list(range(1, 23))
    assert all(cls.code == code for code, cls in errors.BY_CODE.items())
    assert errors.BY_CODE[99] is commonhold.Error, "kinds to come"
    for cls in found:
        assert str(cls("it's so")) == "it's so" and pickle.loads(pickle.dumps(cls("x"))).args == ("x",)


def test_a_full_hold(place):
    with commonhold.open(f"{place}/small.hold", max_bytes=2 << 20) as hold:
        map = hold.map("m")
        with pytest.raises(errors.FullError):
            for i in range(100_000):
                map[b"%d" % i] = b"x" * 1000
        assert hold.check()["ok"] and len(map) > 500


def test_freezing(hold, run):
    map = hold.map("m")
    with hold.freeze():
        with pytest.raises(errors.BusyError):
            map[b"a"] = b"b"
        assert map.get(b"a") is None
    map[b"a"] = b"b"


def test_handles_are_pickled_by_name(hold):
    map, queue = hold.map("m"), hold.queue("q", 2, 64)
    map[b"a"] = b"b"
    again = pickle.loads(pickle.dumps(map))
    assert again[b"a"] == b"b" and again == map and again.hold.path == hold.path
    assert pickle.loads(pickle.dumps(queue["free"])).name == "free"
    log, channel = hold.log("l", rings=2), hold.channel("c")
    assert pickle.loads(pickle.dumps(log)).name == "l"
    assert pickle.loads(pickle.dumps(channel)).ring_bytes == channel.ring_bytes
    with pytest.raises(TypeError):
        pickle.dumps(queue["free"].pull())


def test_deletion_by_the_last_user(place):
    hold = commonhold.open(f"{place}/brief.hold", delete_on_last_exit=True)
    hold.close()
    until(lambda: not os.path.exists(hold.path))


@pytest.mark.parametrize(
    "module", [commonhold, commonhold.cache, commonhold.journal, commonhold.log]
)
def test_examples_in_the_documents(module, place):
    assert doctest.testmod(module, extraglobs={"tmp": place}).failed == 0


@pytest.mark.parametrize(
    "plural, options",
    [("maps", ()), ("queues", (2, 64)), ("channels", (4096,)), ("logs", ())],
)
def test_structures_by_name(hold, plural, options):
    structures = getattr(hold, plural)
    assert list(structures) == [] and structures.list() == [] and "it" not in structures
    with pytest.raises(errors.NotFoundError):
        structures.open("it")
    made = structures.create("it", *options)
    with pytest.raises(errors.ExistsError):
        structures.create("it", *options)
    assert structures.open_or_create("it", *options).name == structures.open("it").name == made.name
    other = hold.queues if plural == "maps" else hold.maps
    with pytest.raises(errors.MismatchError):
        other.drop("it")
    with pytest.raises(errors.MismatchError):
        other.open("it")
    structures.open_or_create("second", *options)
    assert list(structures) == ["it", "second"] and len(structures) == 2 and "it" in structures
    assert "it" not in other and list(other) == []
    assert [found["name"] for found in structures.list()] == ["it", "second"]
    assert repr(structures) == f"<the {plural} in {hold.path}>"
    assert structures.drop("second") and not structures.drop("second")


def test_structures_of_all_kinds(hold):
    hold.queues.create("q", 3, 64)
    hold.logs.create("l", level="debug")
    hold.maps.create("m", fixed=(4, 4))
    assert [found["name"] for found in hold.structures()] == ["l", "q"]
    with commonhold.open(hold.path, read_only=True) as reader:
        assert reader.queues.stat("q")["elements"] == 3
        assert reader.maps.open("m").options() == {"fixed": (4, 4)}
    assert hold.maps.begin_stream("m", 1 << 16) and not hold.maps.begin_stream("m")
    assert not hold.maps.promote("m")
    with pytest.raises(errors.InvalidError):
        commonhold.Map(hold, "m", how="close")
    assert commonhold.resolve("x", "/a") == "/a/x.hold"
