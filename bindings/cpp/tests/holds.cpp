// Origins and replicas of whole holds in C++.
#include "ground.hpp"

#include <thread>

namespace ch = commonhold;
using namespace std::chrono_literals;

TEST_F(Ground, WholeHoldsAreServedAndFollowed) {
    ch::map prices = hold.maps().open_or_create("prices"), people = hold.maps().open_or_create("people");
    hold.maps().open_or_create("plain");
    prices.set("a", "1");
    ch::hold_origin_options serving{.origin = {.stream_bytes = 1 << 20, .secret = "s"}, .maps = {"p*"}};
    ch::hold_origin origin(hold, std::move(serving));
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    other.maps().open_or_create("plain");
    std::atomic<int> ready = 0, lost = 0, skipped = 0, dropped = 0;
    ch::hold_replica_options following{.replica = {.secret = "s", .first_pause = 1ms}, .maps = {"pr*", "pe*", "plain"}};
    following.ready = [&](std::string_view map, ch_position) { ready += map == "prices"; };
    following.lost = [&](std::optional<std::string_view> map, std::string_view why) { lost += !map && !why.empty(); };
    following.skipped = [&](std::string_view map, std::string_view why) { skipped += map == "plain" && !why.empty(); };
    following.dropped = [&](std::string_view map) { dropped += map == "people"; };
    ch::hold_replica replica = ch::hold_replica::connect(other, address, std::move(following));
    ASSERT_TRUE(replica.wait_ready(20s));
    EXPECT_EQ(other.maps().open("prices").get("a"), "1");
    EXPECT_EQ(origin.maps(), 3u);
    EXPECT_NE(origin.describe().find("\"people\""), std::string::npos);
    EXPECT_NE(replica.describe().find("\"skipped\""), std::string::npos);
    hold.maps().open_or_create("prompt").set("b", "2");
    while (replica.describe().find("\"prompt\"") == std::string::npos) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(replica.wait_ready(20s));
    EXPECT_EQ(other.maps().open("prompt").get("b"), "2");
    hold.maps().drop("people");
    while (!ready || !skipped || !dropped) std::this_thread::sleep_for(1ms);
    prices.set("c", "3");
    origin.finish(20s);
    EXPECT_EQ(other.maps().open("prices").get("c"), "3");
    while (!lost) std::this_thread::sleep_for(1ms);
}

TEST_F(Ground, WholeHoldsRefuseWhatOnlyOneMapHas) {
    EXPECT_THROW(ch::hold_origin(hold, {.origin = {.explicit_transmission = true}}), ch::invalid);
    EXPECT_THROW(ch::hold_origin(hold, {.maps = {""}}), ch::invalid);
    EXPECT_THROW(ch::hold_origin(hold, {.maps = {std::string("a\0b", 3)}}), ch::invalid);
    EXPECT_THROW(ch::hold_replica::connect(hold, "tcp:1", {.replica = {.origin_map = "it"}}), ch::invalid);
    EXPECT_THROW(ch::hold_replica::connect(hold, "tcp:1", {.replica = {.lost = [](std::string_view) {}}}), ch::invalid);
    ch::hold_replica replica = ch::hold_replica::connect(hold, "unix:" + place("nothing"));
    EXPECT_FALSE(replica.wait_ready(1ms));
}
