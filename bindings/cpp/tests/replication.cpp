// Origins, replicas and journals in C++, and what they call back.
#include "ground.hpp"

#include <thread>

namespace ch = commonhold;
using namespace std::chrono_literals;

TEST_F(Ground, ReplicasFollow) {
    ch::map map = hold.maps().open_or_create("it");
    map.set("a", "1");
    ch::origin origin(hold, "it", {.secret = "known to both of them"});
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    std::atomic<int> changes = 0, ready = 0;
    ch::replica_options options{.secret = "known to both of them", .name = "near"};
    options.changed = [&](const ch::change &change) { changes += change.key == "b"; };
    options.ready = [&](ch_position) { ready++; };
    ch::replica replica = ch::replica::connect(other, "copy", address, std::move(options));
    EXPECT_TRUE(replica.wait_ready(20s));
    map.set("b", "2");
    ch_position end = map.follow().end();
    EXPECT_TRUE(replica.wait_for(end, 20s));
    ch::map copy = other.maps().open("copy");
    EXPECT_EQ(copy.get("b"), "2");
    EXPECT_THROW(copy.set("c", "3"), ch::read_only);
    EXPECT_EQ(copy.digest(), map.digest());
    EXPECT_TRUE(changes == 1 && ready == 1 && origin.replicas() == 1 && replica.status().connected);
    map.set("d", "4");
    EXPECT_EQ(map.wait_for_replicas(1, 20s), 1u);
    EXPECT_EQ(copy.get("d"), "4");
    map.wait_for_replica("near", 20s);
    EXPECT_THROW(map.wait_for_replica("far", 1ms), ch::timed_out);
    EXPECT_EQ(map.wait_for_replicas_to(end, 1, 20s), 1u);
    map.wait_for_replica_to(end, "near", 20s);
    EXPECT_THROW(map.wait_for_replicas(2, 1ms), ch::timed_out);
    origin.finish(10s);
    ch::origin open(hold, "it", {.allow_unauthenticated = true}), closed(hold, "it");
    EXPECT_THROW(closed.listen("tcp:0.0.0.0:0"), ch::invalid);
    EXPECT_EQ(open.listen("tcp:0.0.0.0:0").find("tcp:0.0.0.0:"), 0u);
    ch::journal journal(hold, "it", place("it.journal"));
    map.set("c", "3");
    map.sync_to(map.sync(20s), 20s);
    EXPECT_FALSE(journal.is_over());
    journal.finish();
    ch::hold again = ch::hold::create(place("again.hold"));
    EXPECT_NE(ch::journal::rebuild(again, "it", place("it.journal")).find("pairs"), std::string::npos);
    EXPECT_EQ(again.maps().open("it").get("c"), "3");
}

TEST_F(Ground, ReplicasOfAPrefixHaveNoOtherKeys) {
    using namespace std::string_literals;
    ch::map map = hold.maps().open_or_create("it");
    map.set("a\0b"s, "1");
    map.set("a\1b"s, "1");
    ch::origin origin(hold, "it");
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    EXPECT_THROW(ch::replica::connect(other, "copy", address, {.prefix = std::string(256, 'n')}), ch::invalid);
    {
        ch::replica replica = ch::replica::connect(other, "copy", address, {.prefix = "a\0"s});
        EXPECT_TRUE(replica.wait_ready(20s));
        map.set("a\0c"s, "2");
        map.set("b", "2");
        EXPECT_EQ(map.wait_for_replicas(1, 20s), 1u);
        ch::map copy = other.maps().open("copy");
        EXPECT_EQ(copy.size(), 2u);
        EXPECT_EQ(copy.get("a\0c"s), "2");
    }
    EXPECT_THROW(ch::replica::connect(other, "copy", address), ch::mismatch);
    EXPECT_THROW(other.maps().promote("copy"), ch::mismatch);
}

// Is called back slowly; records whether its contents were freed meanwhile.
struct slow {
    struct seen {
        std::atomic<int> calls = 0;
        std::atomic<bool> inside = false, freed_inside = false;

        void call() {
            inside = true;
            calls++;
            std::this_thread::sleep_for(100ms);
            inside = false;
        }
        void wait_for_call_after(int before) const {
            while (calls == before) std::this_thread::yield();
        }
    };
    explicit slow(seen &it) : it(it) {}
    ~slow() { it.freed_inside = it.inside.load(); }

    seen &it;
};

TEST_F(Ground, WhatIsAssignedToEndsBeforeWhatItCalls) {
    hold.maps().open_or_create("it").set("a", "1");
    slow::seen notices, changes;
    ch::origin_options noticing;
    noticing.notice = [&notices, held = std::make_shared<slow>(notices)](std::string_view) { notices.call(); };
    ch::origin origin(hold, "it", std::move(noticing));
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    ch::replica_options changing;
    changing.changed = [&changes, held = std::make_shared<slow>(changes)](const ch::change &) { changes.call(); };
    ch::replica replica = ch::replica::connect(other, "copy", address, std::move(changing));
    EXPECT_TRUE(replica.wait_ready(20s));
    int before = changes.calls;
    hold.maps().open_or_create("it").set("b", "2");
    changes.wait_for_call_after(before);
    ch::replica second = ch::replica::connect(other, "second", address);
    replica = std::move(second);
    EXPECT_FALSE(changes.inside || changes.freed_inside);
    EXPECT_TRUE(replica.wait_ready(20s));
    before = notices.calls;
    ch::replica third = ch::replica::connect(other, "third", address);
    notices.wait_for_call_after(before);
    origin = ch::origin(hold, "it");
    EXPECT_FALSE(notices.inside || notices.freed_inside);
}

TEST_F(Ground, ReadersLimitTheAgeOfAReplicasContents) {
    ch::typed_map map = hold.maps().open_or_create<std::uint32_t, std::uint32_t>("it");
    map.set(1, 10);
    EXPECT_EQ(map.bytes().lag(), std::nullopt);
    map.bytes().ensure_fresh(0s);
    EXPECT_EQ(map.get_fresh(1, 0s), 10u);
    std::optional<ch::origin> origin(std::in_place, hold, "it");
    std::string address = origin->listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    ch::replica replica = ch::replica::connect(other, "it", address);
    ASSERT_TRUE(replica.wait_ready(20s));
    ch::typed_map copy = other.maps().open_or_create<std::uint32_t, std::uint32_t>("it");
    origin.reset();
    while (copy.bytes().lag().value_or(0ns) <= 50ms) std::this_thread::sleep_for(1ms);
    EXPECT_THROW(copy.bytes().ensure_fresh(50ms), ch::stale);
    EXPECT_THROW(copy.get_fresh(1, 50ms), ch::stale);
    EXPECT_THROW(copy.bytes().get_fresh("none", 50ms), ch::stale);
    copy.bytes().ensure_fresh(1h);
    EXPECT_EQ(copy.get_fresh(1, 1h), 10u);
    EXPECT_EQ(copy.get_fresh(2, std::chrono::hours::max()), std::nullopt);
}

TEST_F(Ground, OptionsReachTheLibrary) {
    ch::map map = hold.maps().open_or_create("it");
    map.set("a", std::string(200000, 'x'));
    ch::origin origin(hold, "it", {.compression = CH_COMPRESS_ALWAYS});
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    ch::replica replica = ch::replica::connect(other, "copy", "unix:" + place("nothing"),
                                               {.first_pause = 1ms,
                                                .also = {address},
                                                .origin_map = "it",
                                                .stream_bytes = 1 << 20,
                                                .adopt = true,
                                                .compression = CH_COMPRESS_ALWAYS});
    ASSERT_TRUE(replica.wait_ready(20s));
    ch_map_stat_t stat = other.maps().open("copy").stat();
    EXPECT_EQ(stat.stream_bytes, 1u << 20);
    EXPECT_EQ(stat.stream_end.stream, map.stat().stream_end.stream);
    auto number = [&](const std::string &name) {
        std::string status = replica.describe(), key = "\"" + name + "\":";
        return std::stoul(status.substr(status.find(key) + key.size()));
    };
    while (number("sync_bytes") < 200000) std::this_thread::sleep_for(1ms);
    EXPECT_LT(number("sync_wire_bytes"), 100000u);
    EXPECT_THROW(ch::replica::connect(other, "it", address, {.also = {"nowhere"}}), ch::invalid);
    ch::replica wrong = ch::replica::connect(other, "it", address, {.origin_map = "wrong"});
    while (wrong.describe().find("'wrong'") == std::string::npos) std::this_thread::sleep_for(1ms);
    ch::journal_options keeping{.keep = 1h, .segment_time = 1ms, .archive = place("segments")};
    ch::journal journal(hold, "it", place("it.journal"), keeping);
    do {
        map.increment("n");
        map.sync(20s);
    } while (std::filesystem::is_empty(place("segments")));
    journal.finish();
    EXPECT_THROW(ch::journal(hold, "it", place("it.journal"), {.segment_time = 1ms}), ch::invalid);
    ch::hold again = ch::hold::create(place("again.hold"));
    ch::journal::rebuild(again, "it", place("it.journal"), {.skip_damaged = true});
    EXPECT_EQ(again.maps().open("it").get("n"), map.get("n"));
}

TEST_F(Ground, AnEarlierStateIsRebuilt) {
    ch::map map = hold.maps().open_or_create("it");
    ch::journal journal(hold, "it", place("it.journal"));
    map.set("first", "1");
    map.sync(20s);
    auto at = std::chrono::system_clock::now();
    std::this_thread::sleep_for(300ms); // a pause, of which the journal notes the beginning
    map.set("second", "2");
    journal.finish();
    EXPECT_NE(ch::journal::find_state(place("it.journal"), at).find("it.journal"), std::string::npos);
    ch::hold other = ch::hold::create(place("other.hold"));
    std::string report = ch::journal::rebuild_state(other, "it", place("it.journal"), at);
    EXPECT_NE(report.find("\"time_ms\":"), std::string::npos);
    EXPECT_TRUE(other.maps().open("it").contains("first"));
    EXPECT_FALSE(other.maps().open("it").contains("second"));
    auto early = ch::journal::time("1970-01-01 00:01");
    EXPECT_EQ(early.time_since_epoch(), 60s);
    EXPECT_THROW(ch::journal::find_state(place("it.journal"), early), ch::invalid);
    EXPECT_THROW(ch::journal::time("now"), ch::invalid);
}

TEST_F(Ground, PromotingReturnsPositionAndEpoch) {
    ch::map map = hold.maps().open_or_create("it");
    map.set("a", "1");
    ch::hold other = ch::hold::create(place("other.hold"));
    {
        ch::origin origin(hold, "it");
        ch::replica replica = ch::replica::connect(other, "it", origin.listen("unix:" + place("socket")));
        ASSERT_TRUE(replica.wait_ready(20s));
        EXPECT_THROW(other.maps().promote("it"), ch::busy);
    }
    std::optional<ch_promotion> done = other.maps().promote("it");
    ASSERT_TRUE(done && done->has_position);
    EXPECT_EQ(done->position.stream, map.stat().stream_end.stream);
    EXPECT_GT(done->epoch, 0u);
    EXPECT_FALSE(other.maps().promote("it"));
}
