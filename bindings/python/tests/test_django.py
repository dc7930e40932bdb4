"""The backend against what Django documents of its cache API (and tests of its own backends)."""

import pickle
import threading
import warnings

import pytest
from conftest import until

import commonhold

django = pytest.importorskip("django")
from django.conf import settings  # noqa: E402

if not settings.configured:
    settings.configure(USE_TZ=True, SECRET_KEY="x", MIDDLEWARE=[], ROOT_URLCONF=[])
    django.setup()

from django.core.cache import CacheHandler  # noqa: E402
from django.core.cache.backends.base import InvalidCacheKey  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.utils.safestring import mark_safe  # noqa: E402


@pytest.fixture
def caches(place):
    def make(**more):
        options = more.pop("OPTIONS", {})
        one = {"BACKEND": "commonhold.django.CommonholdCache", "LOCATION": f"{place}/dj.hold"}
        shared = {**one, "OPTIONS": options, **more}
        return CacheHandler({"default": shared, "v2": {**shared, "VERSION": 2}, "prefix": {**shared, "KEY_PREFIX": "p"}})

    return make


@pytest.fixture
def cache(caches):
    return caches()["default"]


def test_simple(cache):
    cache.set("key", "value")
    assert cache.get("key") == "value" and cache.get("none") is None and cache.get("none", "d") == "d"
    assert cache.has_key("key") and "key" in cache and "none" not in cache
    assert cache.delete("key") is True and cache.delete("key") is False
    assert cache.add("a", 1) is True and cache.add("a", 2) is False and cache.get("a") == 1
    cache.clear()
    assert cache.get("a") is None


def test_none_can_be_cached(cache):
    cache.set("n", None)
    assert cache.get("n", "default") is None and "n" in cache and cache.add("n", 1) is False
    assert cache.get_or_set("n", "other") is None


def test_kinds_of_values(cache):
    class_like = {"string": "x", "int": 42, "list": [1, (2, 3)], "set": {1}, "bytes": b"\0", "ü": "☃"}
    cache.set("stuff", class_like)
    assert cache.get("stuff") == class_like
    cache.set("safe", mark_safe("<b>"))
    assert hasattr(cache.get("safe"), "__html__")
    cache.set("response", HttpResponse("text"))
    assert cache.get("response").content == b"text"
    with pytest.raises((pickle.PickleError, AttributeError, TypeError)):
        cache.set("lambda", lambda: 1)
    cache.set("bool", True)
    assert cache.get("bool") is True


def test_get_or_set(cache):
    assert cache.get_or_set("a", 1) == 1 and cache.get_or_set("a", 2) == 1
    assert cache.get_or_set("b", lambda: 5) == 5 and cache.get("b") == 5
    assert cache.get_or_set("c", None) is None


def test_many(cache):
    assert cache.set_many({"a": 1, "b": 2, "c": 3}) == []
    assert cache.get_many(["a", "c", "x"]) == {"a": 1, "c": 3} and cache.get_many(iter(["b"])) == {"b": 2}
    cache.delete_many(["a", "b"])
    assert cache.get_many(["a", "b", "c"]) == {"c": 3}


def test_counting(cache):
    cache.set("n", 41)
    assert cache.incr("n") == 42 and cache.incr("n", 10) == 52 and cache.decr("n") == 51 and cache.incr("n", -50) == 1
    for wrong in (cache.incr, cache.decr):
        with pytest.raises(ValueError):
            wrong("none")
    cache.set("brief", 1, 0.2)
    cache.incr("brief")
    until(lambda: cache.get("brief") is None), "incr keeps the timeout"
    threads = [threading.Thread(target=lambda: [cache.incr("n") for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("n") == 401


def test_timeouts(caches):
    cache = caches(TIMEOUT=0.05)["default"]
    cache.set("default", 1)
    cache.set("ever", 1, timeout=None)
    cache.set("hour", 1, timeout=3600)
    cache.set("never", 1, timeout=0)
    cache.set("past", 1, timeout=-1)
    assert cache.get("never") is None and cache.get("past") is None
    assert cache.add("zero", 1, timeout=0) is True and cache.get("zero") is None
    cache.set("gone", 1, timeout=3600)
    cache.set("gone", 1, timeout=0)
    assert "gone" not in cache
    until(lambda: cache.get("default") is None)
    assert cache.add("default", 2) is True
    assert cache.get("ever") == cache.get("hour") == 1
    assert cache.touch("hour", 0.03) is True and cache.touch("none") is False
    until(lambda: cache.get("hour") is None)
    cache.set("t", 1, 0.1)
    assert cache.touch("t", None) is True
    assert cache.touch("ever", 0) is True and cache.get("ever") is None
    cache.set_many({"x": 1, "y": 2}, 0.03)
    until(lambda: cache.get_many(["x", "y"]) == {})
    assert cache.get("t") == 1
    assert caches(TIMEOUT=None)["default"].default_timeout is None


def test_versions_and_prefixes(caches):
    all_caches = caches()
    cache, second, prefixed = all_caches["default"], all_caches["v2"], all_caches["prefix"]
    cache.set("k", 1)
    assert second.get("k") is None and second.get("k", version=1) == 1 and prefixed.get("k") is None
    cache.set("k", 2, version=2)
    assert second.get("k") == 2
    assert cache.incr_version("k", 2) == 3 and cache.get("k") is None and cache.get("k", version=3) == 1
    with pytest.raises(ValueError):
        cache.incr_version("none")
    assert cache.decr_version("k", version=3) == 2
    assert cache.delete("k", version=2) and cache.get("k", version=2) is None


def test_keys(cache):
    for bad in ("with space", "control\x01", "x" * 300):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                cache.set(bad, 1)
                assert cache.get(bad) == 1
            except InvalidCacheKey:
                pass
            assert caught
    cache.set("ключ", "значение")
    assert cache.get("ключ") == "значение"


def test_other_handles_and_processes_see_it(caches, place):
    cache = caches()["default"]
    cache.set("k", {"a": 1})
    cache.close()
    assert cache.get("k") == {"a": 1}, "Django closes caches after each request"
    assert caches()["default"].get("k") == {"a": 1}
    from conftest import forked

    assert forked(lambda: cache.set("child", 1)) == 0 and cache.get("child") == 1


def test_serializers_and_limits(caches, place):
    cache = caches(OPTIONS={"serializer": "json", "map": "j"})["default"]
    cache.set("k", {"a": [1]})
    assert cache.get("k") == {"a": [1]} and cache.incr_version("k") == 2
    with pytest.raises(TypeError):
        cache.set("k", {1})
    with commonhold.open(f"{place}/dj.hold") as hold:
        assert any(value.endswith(b'{"a":[1]}') for value in hold.maps.open("j").values())
    small = caches(OPTIONS={"map": "small", "MAX_ENTRIES": 500})["default"]
    for i in range(5000):
        small.set(f"k{i}", i)
    assert len(small.map) <= 500 and small.get("k4999") == 4999


def test_async(cache):
    import asyncio

    async def main():
        await cache.aset("k", 1)
        assert await cache.aget("k") == 1 and await cache.aincr("k") == 2
        assert await cache.aget_many(["k"]) == {"k": 2} and await cache.adelete("k")

    asyncio.run(main())


def test_sessions_and_the_middleware(caches, monkeypatch):
    from django.contrib.sessions.backends import cache as sessions

    monkeypatch.setattr(sessions, "caches", caches())
    one = sessions.SessionStore()
    one["user"] = 5
    one.save()
    assert sessions.SessionStore(one.session_key)["user"] == 5
    one.delete()
    assert "user" not in sessions.SessionStore(one.session_key)
