"""Journals: what survives kills of the journal's process and the loss of the hold."""

import gc
import os
import shutil
import time
from datetime import datetime, timedelta, timezone

import pytest

import commonhold
from commonhold import Journal, errors
from conftest import forked, until

KEEP = """
journal = hold.journal("m", {file!r})
print("keeps", flush=True)
time.sleep(600)
"""


@pytest.fixture
def map(hold):
    return hold.map("m")


@pytest.fixture
def file(place):
    return f"{place}/m.journal"


@pytest.fixture
def keeper(run, file):
    """Starts a process that keeps the journal until it is killed."""

    def start():
        child = run(KEEP.format(file=file))
        assert child.stdout.readline() == "keeps\n"
        return child

    return start


def kill(child):
    child.kill()
    child.wait()


def rebuilt(place, file, **options):
    """The map of the journal, in a new hold."""
    path = f"{place}/again.hold"
    with commonhold.open(path, exclusive=True) as again:
        report = Journal.rebuild(again, "m", file, **options)
        found = dict(again.maps.open("m"))
    commonhold.remove(path)
    assert report["pairs"] + report["changes"] >= len(found)
    return found


def test_confirmed_changes_survive_the_hold_and_the_journals_process(place, run, file):
    path = f"{place}/it.hold"
    with commonhold.open(path) as hold:
        map = hold.map("m")
        map.set_many([(b"before %d" % i, b"x") for i in range(500)])
        journal = run(KEEP.format(file=file))
        assert journal.stdout.readline() == "keeps\n"
        for i in range(500):
            map[b"key %d" % i] = b"x" * i
        assert "." in map.sync(60)
        kill(journal)
        with pytest.raises(errors.NotFoundError):
            map.sync(60)
        map[b"away"] = b"1"
        del map[b"key 7"]
        journal = run(KEEP.format(file=file))
        assert journal.stdout.readline() == "keeps\n"
        map[b"resumed"] = b"2"
        map.sync(60)
        wanted = dict(map)
        kill(journal)
    commonhold.remove(path, force=True)
    assert rebuilt(place, file) == wanted


def test_a_map_is_rebuilt_in_place_and_its_journal_resumed(hold, map, place, file):
    with hold.journal("m", file) as journal:
        map[b"a"] = b"1"
    with pytest.raises(errors.ClosedError):
        journal.status()
    journal.close()
    assert hold.maps.drop("m")
    Journal.rebuild(hold, "m", file)
    with pytest.raises(errors.ExistsError):
        Journal.rebuild(hold, "m", file)
    map = hold.maps.open("m")
    assert dict(map) == {b"a": b"1"}
    with hold.journal("m", file):
        map[b"b"] = b"2"
    assert rebuilt(place, file) == {b"a": b"1", b"b": b"2"}


@pytest.mark.parametrize(
    "sync, shown",
    [
        ("always", "always"),
        (0.02, "every-ms 20"),
        (timedelta(seconds=1), "every-ms 1000"),
        ("never", "never"),
    ],
)
def test_policies_of_syncs(hold, map, place, file, sync, shown):
    with hold.journal("m", file, sync=sync) as journal:
        status = journal.status()
        assert (status["sync"], status["file"], status["pid"]) == (shown, file, os.getpid())
        map[b"a"] = b"1"
        if sync == "never":
            with pytest.raises(errors.Error):
                map.sync(60)
        else:
            map.sync(60)
        assert not journal.is_over
    assert rebuilt(place, file) == {b"a": b"1"}


@pytest.mark.parametrize("sync", ["sometimes", 0, -1, 3601, float("nan"), timedelta(hours=2)])
def test_policies_that_do_not_exist(hold, map, file, sync):
    with pytest.raises(errors.InvalidError, match="expected"):
        hold.journal("m", file, sync=sync)
    assert not os.path.exists(file)


def test_a_file_is_compacted(hold, map, place, file):
    with hold.journal("m", file, compact_bytes=4096, stream_bytes=1 << 20) as journal:

        def compacted():
            map[b"key"] = b"x" * 1000
            map.sync(60)
            return journal.status()["compactions"] > 0

        until(compacted, 60)
    assert rebuilt(place, file) == {b"key": b"x" * 1000}


def test_a_map_or_a_file_has_one_journal(hold, map, keeper, file):
    hold.map("second")
    other = keeper()
    with pytest.raises(errors.BusyError):
        hold.journal("m", file + ".2")
    with pytest.raises(errors.BusyError):
        hold.journal("second", file, replace=True)
    kill(other)
    hold.journal("m", file).close()


def test_maps_and_files_that_cannot_have_a_journal(hold, map, place, file):
    hold.cache("c")
    with open(f"{place}/text", "wb") as text:
        text.write(b"not a journal" * 100)
    with pytest.raises(errors.MismatchError):
        hold.journal("c", file)
    with pytest.raises(errors.NotFoundError):
        hold.journal("none", file)
    with pytest.raises(errors.Error):
        hold.journal("m", f"{place}/none/it")
    for skip in (False, True):
        with pytest.raises(errors.DamagedError):
            Journal.rebuild(hold, "new", f"{place}/text", skip_damaged=skip)
    with pytest.raises(TypeError):
        hold.journal("m", file, compact=1)


def test_damage_is_refused_or_skipped(hold, map, place, file):
    with hold.journal("m", file):
        map.sync(60)  # So that the file has each key once.
        for i in range(2000):
            map[b"key %d" % i] = b"x" * 100
        map.sync(60)
    with open(file, "r+b") as damaged:
        damaged.seek(100_000)
        damaged.write(b"\xff" * 3000)
    with commonhold.open(f"{place}/refused.hold") as refused:
        with pytest.raises(errors.DamagedError):
            Journal.rebuild(refused, "m", file)
    kept = rebuilt(place, file, skip_damaged=True)
    assert 1900 < len(kept) < 2000


def test_the_end_reports_changes_that_are_not_durable(hold, map, place):
    os.mkdir(f"{place}/folder")
    with pytest.raises(errors.SystemFailedError, match="folder/it"):
        with hold.journal("m", f"{place}/folder/it") as journal:
            map[b"a"] = b"1"
            map.sync(60)
            shutil.rmtree(f"{place}/folder")
            map[b"b"] = b"2"
    with pytest.raises(errors.ClosedError):
        journal.is_over


def test_a_journal_is_over_when_its_map_is_dropped(hold, map, file):
    journal = hold.journal("m", file)
    hold.maps.drop("m")
    until(lambda: journal.is_over, 60)
    with pytest.raises(errors.SystemFailedError, match="was dropped"):
        journal.close()


def test_a_forked_child_ends_nothing(hold, map, place, file):
    journal = hold.journal("m", file)
    things = [journal]

    def child():
        for call in (journal.status, lambda: journal.is_over):
            with pytest.raises(errors.InvalidError, match="parent"):
                call()
        journal.close()
        things.clear()
        gc.collect()

    assert forked(child) == 0
    map[b"a"] = b"1"
    map.sync(60)
    journal.close()
    assert rebuilt(place, file) == {b"a": b"1"}


def test_a_journal_without_references_ends_durable(hold, map, place, file):
    journal = hold.journal("m", file)
    map[b"a"] = b"1"
    del journal
    gc.collect()
    hold.journal("m", file + ".2").close()
    assert rebuilt(place, file) == {b"a": b"1"}


def test_segments_are_kept(hold, map, place, file):
    for options in {"archive": place}, {"segment_time": 1}:
        with pytest.raises(errors.InvalidError, match="set keep"):
            hold.journal("m", file, **options)
    archive = f"{place}/segments"
    hour = timedelta(hours=1)
    with hold.journal("m", file, keep=hour, archive=archive, segment_time=0.001) as journal:
        while not os.listdir(archive):
            map.increment(b"n")
            map.sync(60)
        until(lambda: journal.status()["segments"] > 0)
        assert journal.status()["archive"] == archive
    with hold.journal("m", file, keep=3600) as journal:
        assert journal.status()["archive"] == f"{file}.d"


def test_an_earlier_state_is_rebuilt(hold, map, place, file):
    with hold.journal("m", file):
        map[b"first"] = b"1"
        map.sync(60)
        at = datetime.now(timezone.utc)
        time.sleep(0.3)  # A pause, of which the journal notes the beginning.
        map[b"second"] = b"2"
    state = Journal.find_state(file, at)
    assert state["file"] == file and state["time_ms"] <= at.timestamp() * 1000
    for same in at.replace(tzinfo=None).isoformat(), at.astimezone().replace(tzinfo=None), at.timestamp():
        assert rebuilt(place, file, at=same) == {b"first": b"1"}
    assert rebuilt(place, file) == {b"first": b"1", b"second": b"2"}
    with commonhold.open(f"{place}/again.hold") as again:
        report = Journal.rebuild(again, "m", file, at=at)
        assert report["time_ms"] == state["time_ms"] and report["file"] == file
        with pytest.raises(errors.ExistsError):
            Journal.rebuild(again, "m", file, at=at)
        with pytest.raises(errors.InvalidError, match="set at"):
            Journal.rebuild(again, "other", file, archive=place)
    for wrong in "now", -1, 1000, datetime(1900, 1, 1, tzinfo=timezone.utc):
        with pytest.raises(errors.InvalidError):
            Journal.find_state(file, wrong)
    with pytest.raises(errors.NotFoundError):
        Journal.find_state(f"{place}/none", at)


def test_an_earlier_state_is_in_a_segment(hold, map, place, file):
    archive = f"{place}/segments"
    with hold.journal("m", file, keep=3600, archive=archive):
        map[b"first"] = b"1"
        map.sync(60)
        at = datetime.now(timezone.utc)
        time.sleep(0.3)
        map[b"second"] = b"2"
        map.sync(60)
    with hold.journal("m", file, keep=3600, archive=archive, replace=True):
        map.sync(60)
    with pytest.raises(errors.InvalidError):
        Journal.find_state(file, at)
    assert rebuilt(place, file, at=at, archive=archive) == {b"first": b"1"}
    assert os.path.dirname(Journal.find_state(file, at, archive=archive)["file"]) == archive
