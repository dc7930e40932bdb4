// The contract in C++: it does not repeat the proofs of the C suite, but shows that every
// operation is reached, and that handles, ranges, concepts, optionals and exceptions are what they
// say.
#include "ground.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <thread>

namespace ch = commonhold;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<ch::hold> && std::is_nothrow_move_constructible_v<ch::hold>);
static_assert(!std::is_copy_constructible_v<ch::map> && std::is_nothrow_move_assignable_v<ch::map>);
static_assert(!std::is_copy_constructible_v<ch::element> && !std::is_copy_constructible_v<ch::consumer>);
static_assert(std::ranges::input_range<ch::map> && std::ranges::input_range<ch::pair_range>);
static_assert(std::ranges::view<ch::key_range>);
static_assert(ch::plain_key<int> && ch::plain<double> && !ch::plain_key<double> && !ch::plain<int *>);
static_assert(!ch::plain<std::string> && ch::plain<std::array<int, 3>>);
static_assert(!std::is_constructible_v<ch::bytes_in, std::nullptr_t> && !std::is_constructible_v<ch::bytes_in, int>);
static_assert(std::is_base_of_v<ch::error, ch::full> && std::is_base_of_v<std::runtime_error, ch::error>);

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

struct Point {
    int x, y;
    bool operator==(const Point &) const = default;
};

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

TEST_F(Ground, QueuesMoveElements) {
    ch::queue queue = hold.queues().open_or_create("it", {.elements = 4, .element_bytes = 64, .queues = {"free", "full"}});
    ch::named_queue free = queue["free"], full = queue["full"];
    ch::notifier notifier = queue.notifier(full);
    auto element = free.pull();
    element->as<Point>() = {1, 2};
    full.push(std::move(*element));
    EXPECT_EQ(full.size(), 1u);
    notifier.clear();
    EXPECT_EQ(full.pull_timeout(1s)->as<Point>(), (Point{1, 2})); // And it goes to the orphans.
    EXPECT_EQ(free.size(), 4u);
    EXPECT_FALSE(full.pull());
    ch::batch batch;
    EXPECT_EQ(free.pull_many(batch, 3), 3u);
    EXPECT_EQ(free.pull_many_timeout(batch, 3, 1ms), 1u);
    full.push_many(batch);
    EXPECT_TRUE(batch.empty() && full.size() == 4);
    EXPECT_FALSE(free.push_pull(std::move(*full.pull()), free)->bytes().empty());
    ch::queue another = hold.queues().open_or_create("another", {.elements = 4, .element_bytes = 64});
    element = free.pull();
    std::vector<ch::element> theirs; // Elements with these numbers are in flight here, too.
    while (auto one = another["free"].pull()) theirs.push_back(std::move(*one));
    EXPECT_THROW(another["free"].push(std::move(*element)), ch::invalid);
    EXPECT_THROW(another["free"].push_pull(std::move(*element), free), ch::invalid);
    full.push(std::move(*element)); // Neither had taken it.
    EXPECT_THROW(full.push(std::move(*element)), ch::invalid);
    EXPECT_THROW(queue["none"], ch::not_found);
    EXPECT_THROW((full.pull()->as<std::array<char, 65>>()), ch::invalid);
}

TEST_F(Ground, ChannelsSendAndReceive) {
    ch::channel channel = hold.channels().open_or_create("it", 4096);
    ch::consumer consumer = channel.consumer();
    ch::consumer lossy = channel.consumer(ch::join::now, ch::policy::lossy());
    ch::producer producer = channel.producer();
    EXPECT_THROW(channel.producer(), ch::busy);
    EXPECT_EQ(producer.send("one"), 0u);
    EXPECT_EQ(consumer.recv(), "one");
    {
        ch::reservation cancelled = producer.reserve(100);
    }
    ch::reservation reservation = producer.reserve(100);
    std::memcpy(reservation.bytes().data(), "two", 3);
    EXPECT_EQ(reservation.commit(3), 1u);
    EXPECT_EQ(consumer.peek().size(), 3u);
    EXPECT_TRUE(consumer.advance() && !consumer.try_peek());
    EXPECT_EQ(producer.send_many(std::vector<std::string>{"a", "b", "c"}), 3u);
    std::string all;
    EXPECT_EQ(consumer.recv_many(2, [&](std::string_view text, ch_received) { all += text; }), 2u);
    EXPECT_EQ(all, "ab");
    EXPECT_THROW(consumer.recv_many(9, [](auto, auto) { throw 7; }), int);
    while (producer.try_send(std::string(100, 'x'))) {}
    EXPECT_EQ(producer.waits_for()->pid, std::uint32_t(getpid()));
    EXPECT_FALSE(producer.send_timeout(std::string(100, 'x'), 1ms));
    EXPECT_THROW(producer.send(std::string(5000, 'x')), ch::too_large);
    ch::bytes message;
    EXPECT_TRUE(consumer.recv_timeout(message, 1s));
    while (consumer.try_recv(message)) {}
    producer.send("last");
    EXPECT_TRUE(lossy.recv_timeout(message, 1s)->missed > 0 && message.text() == "last");
    EXPECT_TRUE(channel.stat().consumers == 2 && channel.name() == "it");
}

TEST_F(Ground, ReservationsEndThemselvesAlone) {
    ch::channel channel = hold.channels().open_or_create("it", 4096);
    ch::consumer consumer = channel.consumer();
    ch::producer producer = channel.producer();
    auto filled = [&](const char *text) {
        ch::reservation made = producer.reserve(std::strlen(text));
        std::memcpy(made.bytes().data(), text, made.bytes().size());
        return made;
    };
    auto first = std::make_unique<ch::reservation>(filled("first"));
    ch::reservation second = filled("second");
    EXPECT_THROW(first->commit(), ch::invalid); // Its room is the second one's.
    EXPECT_FALSE(consumer.try_peek());
    first.reset();
    second.commit();
    EXPECT_EQ(consumer.recv(), "second");
    EXPECT_THROW(second.commit(), ch::invalid);
    ch::reservation third = filled("third");
    EXPECT_THROW(third.commit(6), ch::too_large); // And it is as it was.
    third.commit(2);
    EXPECT_EQ(consumer.recv(), "th");
    ch::reservation stale = filled("stale");
    producer.send("sent");
    EXPECT_THROW(stale.commit(), ch::invalid);
    EXPECT_EQ(consumer.recv(), "sent");
    // Nor by the next producer, whose numbers may be the same.
    ch::channel other = hold.channels().open_or_create("other", 4096);
    ch::producer another = other.producer();
    ch::reservation mine = producer.reserve(4), theirs = another.reserve(4);
    std::memcpy(mine.bytes().data(), "mine", 4);
    { ch::reservation moved = std::move(theirs); }
    mine.commit();
    EXPECT_EQ(consumer.recv(), "mine");
}

TEST_F(Ground, LogsAreWrittenAndCollected) {
    ch::log log = hold.logs().open_or_create("it");
    bool made = false;
    EXPECT_TRUE(log.write(ch::level::info, "one"));
    EXPECT_FALSE(log.write(ch::level::debug, [&] { return made = true, std::string("no"); }));
    EXPECT_TRUE(log.write(ch::level::warn, [&] { return std::string("two"); }) && !made);
    EXPECT_EQ(CH_LOG_INFO(log.get(), "%d", 3), CH_OK);
    std::string lines;
    log.dump([&](const ch::log_line &line) { lines += line.text(); });
    EXPECT_NE(lines.find("onetwo3"), std::string::npos);
    EXPECT_THROW(log.dump([](const auto &) { throw std::logic_error("no"); }), std::logic_error);
    std::string text;
    ch::collector collector = log.collect_to([&](std::string_view more) { text += more; });
    EXPECT_THROW(log.collect_to_fd(2), ch::busy);
    EXPECT_GE(collector.finish().lines, 3u);
    EXPECT_NE(text.find("two\n"), std::string::npos);
    log.set_level(ch::level::trace);
    EXPECT_TRUE(log.name() == "it" && log.level() == ch::level::trace && log.enabled(ch::level::trace));
    EXPECT_EQ(collector.run([] { return true; }).lines, 0u);
}

TEST_F(Ground, ReplicasFollow) {
    ch::map map = hold.maps().open_or_create("it");
    map.set("a", "1");
    ch::origin origin(hold, "it", {.secret = "known to both of them"});
    std::string address = origin.listen("unix:" + place("socket"));
    ch::hold other = ch::hold::create(place("other.hold"));
    std::atomic<int> changes = 0, ready = 0;
    ch::replica_options options{.secret = "known to both of them"};
    options.changed = [&](const ch::change &change) { changes += change.key == "b"; };
    options.ready = [&](ch_position) { ready++; };
    ch::replica replica = ch::replica::connect(other, "copy", address, std::move(options));
    EXPECT_TRUE(replica.wait_ready(20s));
    map.set("b", "2");
    EXPECT_TRUE(replica.wait_for(map.follow().end(), 20s));
    ch::map copy = other.maps().open("copy");
    EXPECT_EQ(copy.get("b"), "2");
    EXPECT_THROW(copy.set("c", "3"), ch::read_only);
    EXPECT_EQ(copy.digest(), map.digest());
    EXPECT_TRUE(changes == 1 && ready == 1 && origin.replicas() == 1 && replica.status().connected);
    origin.finish(10s);
    ch::journal journal(hold, "it", place("it.journal"));
    map.set("c", "3");
    map.sync(20s);
    EXPECT_FALSE(journal.is_over());
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

TEST_F(Ground, ErrorsAreOneTree) {
    EXPECT_THROW(ch::hold::open(place("none.hold")), ch::not_found);
    EXPECT_THROW(ch::hold::create(place("it.hold")), ch::exists);
    EXPECT_THROW(hold.maps().open_or_create(std::string_view("a\0b", 3)), ch::invalid);
    EXPECT_THROW(hold.maps().open_or_create("caf\xe9"), ch::invalid);
    EXPECT_THROW(hold.maps().open_or_create(""), ch::invalid);
    ch::map map = hold.maps().open_or_create("it");
    EXPECT_THROW(hold.queues().open("it"), ch::mismatch);
    EXPECT_THROW(map.set("a", std::string_view("b", std::size_t(1) << 32)), ch::too_large);
    try {
        hold.maps().open("none");
        FAIL();
    } catch (const ch::error &error) {
        EXPECT_EQ(error.code(), CH_NOT_FOUND);
        EXPECT_NE(std::string(error.what()).find("none"), std::string::npos);
    }
    ch::hold again = ch::hold::open(place("it.hold"));
    ch::map same = again.maps().open_or_create("it");
    again.close();
    EXPECT_THROW(same.get("a"), ch::closed);
    EXPECT_THROW(again.close(), ch::closed);
    ch::map moved = std::move(same);
    EXPECT_THROW(same.get("a"), ch::invalid); // A moved-from object is a NULL handle.
}

#if defined(__cpp_lib_expected)
TEST_F(Ground, ErrorsAreValuesWhereThatIsKnown) {
    ch::map map = hold.maps().open_or_create("it");
    EXPECT_TRUE(map.expected_set("a", "1"));
    EXPECT_EQ(map.expected_get("a").value(), "1");
    EXPECT_EQ(map.expected_get("b").value(), std::nullopt);
    EXPECT_EQ(map.expected_increment("a").error().code, CH_MISMATCH);
    EXPECT_TRUE(map.expected_erase("a").value());
    auto none = ch::as_expected([&] { return hold.maps().open("none"); });
    EXPECT_TRUE(!none && none.error().code == CH_NOT_FOUND);
    EXPECT_TRUE(ch::as_expected([&] { map.set("a", "2"); }));
}
#endif

TEST_F(Ground, StructuresAreOpenedByName) {
    EXPECT_THROW(hold.maps().open("map"), ch::not_found);
    hold.maps().create("map").set("a", "1");
    EXPECT_THROW(hold.maps().create("map"), ch::exists);
    EXPECT_EQ(hold.maps().open("map").get("a"), "1");
    EXPECT_TRUE((hold.maps().create<int, double>("typed").add(1, 2.5)));
    EXPECT_THROW((hold.maps().create<int, double>("typed")), ch::exists);
    hold.queues().create("queue", {.elements = 1, .element_bytes = 64});
    EXPECT_THROW(hold.queues().create("queue", {.elements = 1, .element_bytes = 64}), ch::exists);
    hold.channels().create("channel", 4096);
    EXPECT_THROW(hold.channels().create("channel", 4096), ch::exists);
    hold.logs().create("log");
    EXPECT_THROW(hold.logs().create("log"), ch::exists);
    EXPECT_THROW(hold.maps().create("log"), ch::mismatch);

    EXPECT_NE(hold.queues().list().find("\"queue\""), std::string::npos);
    EXPECT_NE(hold.channels().list().find("\"channel\""), std::string::npos);
    EXPECT_NE(hold.logs().list().find("\"log\""), std::string::npos);
    EXPECT_EQ(hold.logs().list().find("\"queue\""), std::string::npos);
    EXPECT_NE(hold.queues().describe("queue").find("64"), std::string::npos);
    EXPECT_FALSE(hold.maps().promote("map"));
    EXPECT_TRUE(hold.queues().drop("queue") && !hold.queues().drop("queue"));
    EXPECT_TRUE(hold.channels().drop("channel") && !hold.channels().drop("channel"));
    EXPECT_TRUE(hold.logs().drop("log") && !hold.logs().drop("log"));
}

TEST_F(Ground, HoldsTellAndCopy) {
    hold.maps().open_or_create("it").set("a", "1");
    EXPECT_EQ(hold.stat().maps, 1u);
    EXPECT_EQ(hold.path(), place("it.hold"));
    EXPECT_NE(hold.maps().list().find("\"it\""), std::string::npos);
    EXPECT_NE(hold.uuid(), (std::array<std::uint8_t, 16>{}));
    EXPECT_EQ(hold.backup(place("copy")).pairs, 1u);
    EXPECT_EQ(ch::hold::restore(place("copy"), place("again.hold")), 1u);
    ch::check_report report = ch::hold::open(place("again.hold")).check();
    EXPECT_TRUE(report.ok && report.problems.empty() && report.counts.records == 1);
    hold.trim();
    EXPECT_TRUE(hold.maps().drop("it") && !hold.maps().drop("it"));
    ch::hold::remove(place("again.hold"));
}

TEST_F(Ground, AReaderGoesOnWhileWritersAreKilled) {
    ch::map map = hold.maps().open_or_create("it");
    for (int kills = 0; kills < 3; kills++) {
        ch::uid before = map.set("round", "0");
        (void)before;
        pid_t child = fork();
        if (child == 0) {
            ch::map own = ch::hold::open(place("it.hold")).maps().open_or_create("it");
            for (int round = 1;; round++)
                for (int key = 0; key < 20; key++) {
                    own.set("key " + std::to_string(key), std::string(round % 50 + 1, char('a' + round % 26)));
                    own.set("round", std::to_string(round));
                }
        }
        while (map.get("round") < "3") {
            for (auto [key, value] : map.pairs()) {
                EXPECT_TRUE(key == "round" || value == std::string(value.size(), value[0])) << key << value;
            }
        }
        killed(child);
    }
    hold.sweep();
    EXPECT_TRUE(hold.check().ok);
}

// Handles that a child destroys remain the parent's; and the child takes no part in the
// hold by that.
TEST_F(Ground, ForkedChildrenEndNothingThatTheyInherited) {
    ch::queue queue = hold.queues().open_or_create("queue", {.elements = 8, .element_bytes = 64});
    ch::channel channel = hold.channels().open_or_create("channel", 4096);
    ch::log log = hold.logs().open_or_create("log");
    log.write(ch::level::info, "line");
    struct everything {
        ch::queue own;
        std::optional<ch::element> element;
        ch::batch batch;
        ch::producer producer;
        ch::consumer consumer;
        std::optional<ch::reservation> reservation;
        ch::collector collector;
        ch::notifier notifier;
    };
    auto made = std::make_unique<everything>(everything{hold.queues().open("queue"), queue["free"].pull(), {}, channel.producer(),
                                                        channel.consumer(), std::nullopt, log.collect_to_fd(2),
                                                        queue.notifier(queue["free"])});
    EXPECT_EQ(made->own["free"].pull_many(made->batch, 3), 3u);
    made->reservation.emplace(made->producer.reserve(4));
    std::memcpy(made->reservation->bytes().data(), "kept", 4);
    std::uint32_t before = hold.stat().participants;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        made->reservation.reset();
        made.reset();
        _exit(hold.stat().participants == before ? 0 : 3);
    }
    ended_well(child);
    EXPECT_EQ(hold.stat().participants, before);
    EXPECT_EQ(queue["free"].size(), 4u);
    made->reservation->commit();
    EXPECT_EQ(made->consumer.recv(), "kept");
    EXPECT_THROW(channel.producer(), ch::busy);
    EXPECT_THROW(log.collect_to_fd(2), ch::busy);
    made.reset();
    EXPECT_EQ(queue["free"].size(), 8u);
    channel.producer();
}

TEST_F(Ground, ForkedChildrenAndThreadsShareHandles) {
    ch::map map = hold.maps().open_or_create("it");
    ch::producer producer = hold.channels().open_or_create("channel", 4096).producer();
    pid_t child = fork();
    if (child == 0) {
        int result = 0;
        try {
            map.set("child", "1");
            producer.send("no");
            result = 1;
        } catch (const ch::closed &) {
        } catch (...) {
            result = 2;
        }
        _exit(result);
    }
    ended_well(child);
    EXPECT_EQ(map.get("child"), "1");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; n++) map.increment("n");
        });
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(map.increment("n", 0), 4000);
}
