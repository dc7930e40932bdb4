// Queues, channels and logs in C++.
#include "ground.hpp"

#include <cstring>

namespace ch = commonhold;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<ch::element> && !std::is_copy_constructible_v<ch::consumer>);

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
