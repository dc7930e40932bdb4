// Holds in C++: errors, structures by name, backups, and processes that die or fork.
#include "ground.hpp"

#include <cstring>
#include <thread>

namespace ch = commonhold;

static_assert(!std::is_copy_constructible_v<ch::hold> && std::is_nothrow_move_constructible_v<ch::hold>);
static_assert(std::is_base_of_v<ch::error, ch::full> && std::is_base_of_v<std::runtime_error, ch::error>);

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
