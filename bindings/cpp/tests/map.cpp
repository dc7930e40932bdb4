// Maps in C++: pairs, uids, batches, ranges, callbacks, lists, typed maps and typed channels.
#include "ground.hpp"

#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace ch = commonhold;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<ch::map> && std::is_nothrow_move_assignable_v<ch::map>);
static_assert(std::ranges::input_range<ch::map> && std::ranges::input_range<ch::pair_range>);
static_assert(std::ranges::view<ch::key_range>);
static_assert(ch::plain_key<int> && ch::plain<double> && !ch::plain_key<double> && !ch::plain<int *>);
static_assert(!ch::plain<std::string> && ch::plain<std::array<int, 3>>);
static_assert(!std::is_constructible_v<ch::bytes_in, std::nullptr_t> && !std::is_constructible_v<ch::bytes_in, int>);

TEST_F(Ground, MapsAreOptionalsAndRanges) {
    ch::map map = hold.maps().open_or_create("it");
    EXPECT_EQ(map.get("a"), std::nullopt);
    ch::uid uid = map.set("a", "1");
    EXPECT_EQ(map.get("a"), "1");
    EXPECT_EQ(map.uid("a"), uid);
    EXPECT_EQ(map.get_uid(uid)->key, "a");
    EXPECT_FALSE(map.add("a", "2"));
    EXPECT_TRUE(map.replace("a", "2"));
    EXPECT_TRUE(map.compare_exchange("a", "2", std::nullopt));
    EXPECT_TRUE(map.compare_exchange("a", std::nullopt, "3"));
    EXPECT_FALSE(map.compare_exchange("a", std::nullopt, "3"));
    EXPECT_EQ(map.take("a"), "3");
    EXPECT_FALSE(map.erase("a"));
    EXPECT_EQ(map.increment("n", 5), 5);
    EXPECT_EQ(map.increment("n"), 6);
    std::string large(100'000, 'x');
    map.set(std::string("large"), large);
    EXPECT_EQ(map.get("large"), large);
    std::vector<std::byte> raw(3, std::byte{0});
    map.set(raw, raw);
    EXPECT_EQ(map.get(std::string_view("\0\0\0", 3)), std::string(3, '\0'));
    std::byte room[2];
    EXPECT_EQ(map.get_into(raw, room), 3u);
    EXPECT_TRUE(map.contains("n") && map.random_pair());
    std::set<std::string> keys;
    for (auto [key, value] : map) {
        keys.insert(std::string(key));
        EXPECT_EQ(map.get(key), value);
    }
    EXPECT_EQ(keys.size(), map.size());
    auto lengths = map.keys() | std::views::transform([](std::string_view key) { return key.size(); });
    std::size_t sum = 0;
    for (std::size_t length : lengths) sum += length;
    EXPECT_EQ(sum, 9u);
    EXPECT_EQ(map.clear(), 3u);
    EXPECT_TRUE(map.empty() && map.name() == "it" && !map.is_replica());
}

TEST_F(Ground, PairsAreFoundAgain) {
    ch::map map = hold.maps().open_or_create("it");
    ch::pair_handle pair = map.pair("12345678");
    EXPECT_EQ(pair.get(), std::nullopt);
    EXPECT_EQ(pair.increment(5), 5);
    EXPECT_EQ(pair.increment(), 6);
    EXPECT_EQ(map.increment("12345678"), 7);
    EXPECT_TRUE(map.erase("12345678"));
    EXPECT_EQ(pair.get(), std::nullopt);
    ch::uid uid = pair.set("12 bytes");
    EXPECT_EQ(uid, map.uid("12345678"));
    EXPECT_EQ(pair.get(), "12 bytes");
    std::string large(100'000, 'x');
    pair.set(large);
    EXPECT_EQ(pair.get(), large);
    std::byte room[2];
    EXPECT_EQ(pair.get_into(room), large.size());
    uid = pair.set("1");
    EXPECT_EQ(uid, map.uid("12345678"));
    EXPECT_THROW(pair.increment(), ch::mismatch);
    hold.maps().drop("it");
    EXPECT_THROW(pair.get(), ch::not_found);
}

TEST_F(Ground, UidsCheckTheirKey) {
    ch::map map = hold.maps().open_or_create("it");
    ch::uid uid = map.set("k", std::string_view("\1\0\0\0\0\0\0\0", 8));
    EXPECT_EQ(map.increment_uid(uid, "k", 1), 2);
    EXPECT_EQ(map.increment_uid(uid, "other", 1), std::nullopt);
    EXPECT_TRUE(map.set_uid(uid, "k", "v"));
    EXPECT_FALSE(map.set_uid(uid, "other", "v"));
    EXPECT_TRUE(map.compare_exchange_uid(uid, "k", "v", "w"));
    EXPECT_TRUE(map.update_uid(uid, "k", [](auto old) { return std::optional(std::string(*old) + "x"); }));
    EXPECT_EQ(map.take_uid(uid, "k"), "wx");
    EXPECT_FALSE(map.erase_uid(uid, "k"));
    EXPECT_EQ(map.get_uid(uid), std::nullopt);
}

TEST_F(Ground, BatchesTakeAnyRange) {
    ch::map map = hold.maps().open_or_create("it");
    std::map<std::string, std::string> pairs{{"a", "1"}, {"b", ""}, {"c", "3"}};
    map.set_many(pairs);
    ch::values values;
    EXPECT_EQ(map.get_many(std::vector<std::string_view>{"c", "none", "b"}, values), 2u);
    EXPECT_EQ(values.size(), 3u);
    EXPECT_EQ(values[0], "3");
    EXPECT_EQ(values[1], std::nullopt);
    EXPECT_EQ(values[2], "");
}

TEST_F(Ground, BatchesKeepWhatARangeMakesOnTheWay) {
    ch::map map = hold.maps().open_or_create("it");
    ch::channel channel = hold.channels().open_or_create("channel", 65536);
    ch::consumer consumer = channel.consumer();
    ch::producer producer = channel.producer();
    ch::values values;
    auto numbers = std::views::iota(0, 50);
    // Some fit into the string itself, others do not.
    auto text = [](int i) { return std::string(std::size_t(i), char('A' + i)) + std::to_string(i); };
    auto texts = numbers | std::views::transform(text);
    auto check = [&](std::string_view prefix) {
        for (int i : numbers) EXPECT_EQ(map.get(std::string(prefix) + text(i)), text(i)) << prefix << i;
    };
    map.set_many(numbers | std::views::transform([&](int i) { return std::pair(text(i), text(i)); }));
    check("");
    map.set_many(numbers | std::views::transform([&](int i) { return ch::pair{"struct" + text(i), text(i)}; }));
    check("struct");
    std::vector<std::string> kept(texts.begin(), texts.end());
    map.set_many(numbers | std::views::transform([&](int i) {
                     return std::pair<std::string, const std::string &>("half" + text(i), kept[std::size_t(i)]);
                 }));
    check("half");
    EXPECT_EQ(map.get_many(texts, values), 50u);
    for (int i : numbers) EXPECT_EQ(values[std::size_t(i)], text(i));
    EXPECT_EQ(producer.send_many(texts), 50u);
    // Each pair and key of an iteration, and each word of a stream, is valid until the next.
    ch::map copy = hold.maps().open_or_create("copy");
    copy.set_many(map);
    EXPECT_EQ(copy.digest(), map.digest());
    EXPECT_EQ(map.get_many(copy.keys(), values), 150u);
    std::istringstream words("one two three");
    EXPECT_EQ(producer.send_many(std::views::istream<std::string>(words)), 3u);
    for (int i : numbers) EXPECT_EQ(consumer.recv(), text(i));
    for (auto word : {"one", "two", "three"}) EXPECT_EQ(consumer.recv(), word);
}

template <class Element>
concept lasting = ch::detail::lasting<Element>;
static_assert(lasting<std::string &> && lasting<const std::vector<std::byte> &> && lasting<const char (&)[3]>);
static_assert(lasting<std::string_view> && lasting<std::span<const std::byte>> && lasting<const char *>);
static_assert(!lasting<std::string> && !lasting<std::string &&> && !lasting<ch::bytes>);

TEST_F(Ground, CallbacksDecideAndThrow) {
    ch::map map = hold.maps().open_or_create("it");
    auto longer = [](std::optional<std::string_view> old) { return std::optional(std::string(old.value_or("")) + "x"); };
    EXPECT_TRUE(map.update("k", longer));
    EXPECT_TRUE(map.update("k", longer));
    EXPECT_EQ(map.get("k"), "xx");
    EXPECT_FALSE(map.update("k", [](auto) { return std::optional<std::string>(); }));
    EXPECT_THROW(map.update("k", [](auto) -> std::optional<std::string> { throw std::logic_error("no"); }),
                 std::logic_error);
    EXPECT_FALSE(map.contains("k"));
    EXPECT_THROW(hold.with_frozen([&] { map.set("k", "v"); }), ch::busy);
    hold.with_frozen([&] { EXPECT_EQ(map.get("k"), std::nullopt); });
    map.set("k", "v");
}

TEST_F(Ground, ListsAndCachesAndStreams) {
    ch::map map = hold.maps().open_or_create("it", ch::map_options::cache(0, 1000, 1h));
    EXPECT_EQ(map.push("k", "b"), 1u);
    EXPECT_EQ(map.unshift("k", "a"), 2u);
    EXPECT_EQ(map.list("k"), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(map.pop("k"), "b");
    EXPECT_EQ(map.shift("k"), "a");
    EXPECT_EQ(map.shift("k"), std::nullopt);
    EXPECT_TRUE(map.compare_exchange_with_ttl("brief", std::nullopt, "life", 1ms));
    while (map.contains("brief")) std::this_thread::sleep_for(1ms);
    EXPECT_FALSE(map.compare_exchange_with_ttl("brief", "life", "longer", 1h));
    EXPECT_TRUE(map.compare_exchange_with_ttl("brief", std::nullopt, "longer", 1h));
    EXPECT_EQ(map.get("brief"), "longer");
    EXPECT_EQ(map.remaining_ttl("absent"), std::nullopt);
    EXPECT_FALSE(map.touch("absent", 1h));
    map.set_with_ttl("touched", "value", 1min);
    EXPECT_LE(map.remaining_ttl("touched"), 1min);
    EXPECT_TRUE(map.touch("touched", 1h));
    EXPECT_GT(map.remaining_ttl("touched"), 1min);
    EXPECT_EQ(map.get("touched"), "value");
    EXPECT_TRUE(hold.maps().begin_stream("it", 1 << 16));
    ch::follower follower = map.follow();
    auto start = follower.position();
    map.set_with_ttl("short", "lived", 1ms);
    map.set("k", "v");
    EXPECT_EQ(follower.recv().key, "short");
    ch::change change = follower.recv();
    EXPECT_TRUE(change.kind == CH_CHANGE_SET && change.key == "k" && change.value == "v");
    while (map.contains("short")) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(map.follow(start).recv_timeout(1s)->key, "short");
    EXPECT_GT(map.stat().misses, 0u);
}

TEST_F(Ground, TypedMapsAndChannels) {
    auto points = hold.maps().open_or_create<std::uint32_t, Point>("points");
    points.set(7, {1, 2});
    EXPECT_EQ(points.get(7), (Point{1, 2}));
    EXPECT_EQ(points.get(8), std::nullopt);
    points.update(7, [](std::optional<Point> old) { return std::optional(Point{old->x + 1, old->y}); });
    EXPECT_TRUE(points.compare_exchange(7, {2, 2}, {3, 3}) && !points.add(7, {}) && points.add(9, {9, 9}));
    std::map<std::uint32_t, Point> all;
    for (auto [key, value] : points.entries()) all[key] = value;
    EXPECT_EQ(all, (std::map<std::uint32_t, Point>{{7, {3, 3}}, {9, {9, 9}}}));
    EXPECT_TRUE(points.erase(9) && points.size() == 1);
    ch::maps maps = hold.maps();
    EXPECT_THROW((maps.open_or_create<std::uint32_t, double>("points").get(7),
                  maps.open_or_create<std::uint64_t, Point>("points")),
                 ch::mismatch);

    ch::channel channel = hold.channels().open_or_create("ticks", 4096);
    ch::typed_consumer<Point> consumer(channel);
    ch::typed_producer<Point> producer(channel);
    EXPECT_EQ(consumer.try_recv(), std::nullopt);
    producer.send({4, 5});
    EXPECT_EQ(consumer.recv(), (Point{4, 5}));
    producer.bytes().send("odd");
    EXPECT_THROW(consumer.recv(), ch::mismatch);
}

// A typed map over a map of other types: nothing is read beyond a value's end.
TEST_F(Ground, TypedMapsRefuseOtherLengths) {
    struct Page {
        char bytes[4096];
    };
    hold.maps().open_or_create("fixed", ch::map_options::fixed(4, 8));
    EXPECT_THROW((ch::typed_map<std::uint32_t, Page>(hold.maps().open("fixed"))), ch::mismatch);
    EXPECT_THROW((ch::typed_map<std::uint64_t, std::uint64_t>(hold.maps().open("fixed"))), ch::mismatch);
    ch::map general = hold.maps().open_or_create("general");
    ch::typed_map<std::uint32_t, Page> pages(hold.maps().open("general"));
    pages.set(1, {});
    EXPECT_TRUE(pages.get(1));
    std::uint32_t key = 2;
    general.set(std::span(reinterpret_cast<const char *>(&key), sizeof key), "short");
    EXPECT_THROW(pages.get(2), ch::mismatch);
    EXPECT_THROW(pages.update(2, [](std::optional<Page> old) { return old; }), ch::mismatch);
    auto walk = [&] {
        for (auto [number, page] : pages.entries()) EXPECT_EQ(number, 1u);
    };
    EXPECT_THROW(walk(), ch::mismatch);
    EXPECT_TRUE(pages.erase(2));
    walk();
    general.set("a key of another length", std::string(sizeof(Page), 'x'));
    EXPECT_THROW(walk(), ch::mismatch);
    EXPECT_EQ(general.get(std::span(reinterpret_cast<const char *>(&key), sizeof key)), std::nullopt);
}

TEST_F(Ground, TypedCachesHaveTimesToLive) {
    ch::typed_map<std::uint32_t, Point> cache(hold.maps().open_or_create("cache", ch::map_options::cache()));
    cache.with_ttl(1h).set(1, {1, 2});
    auto brief = cache.with_ttl(1ms);
    brief.set(2, {3, 4});
    EXPECT_TRUE(brief.add(3, {5, 6}));
    while (cache.contains(2) || cache.contains(3)) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(cache.get(1), (Point{1, 2}));
    auto general = hold.maps().open_or_create("general");
    EXPECT_THROW(general.with_ttl(1ms), ch::mismatch);
    EXPECT_THROW(general.touch("a", 1ms), ch::mismatch);
    general.set("a", "b");
    EXPECT_EQ(general.remaining_ttl("a"), std::chrono::milliseconds::max());
    cache.set(1, {1, 2});
    EXPECT_TRUE(cache.touch(1, 2h));
    EXPECT_GT(cache.remaining_ttl(1), 1h);
}
