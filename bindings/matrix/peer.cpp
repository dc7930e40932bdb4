// The matrix's peer in C++; see README.md in this folder.
#include <commonhold.hpp>

#include <cstdio>
#include <iostream>
#include <thread>

namespace ch = commonhold;

static std::string hash(std::string_view bytes) {
    std::uint32_t hash = 0x811c9dc5;
    for (char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x01000193;
    char text[9];
    std::snprintf(text, sizeof text, "%08x", hash);
    return text;
}

static std::string data(std::uint32_t i, std::size_t len) {
    std::string bytes(len, '\0');
    for (std::size_t j = 0; j < len; j++) bytes[j] = static_cast<char>(7 * i + j);
    return bytes;
}

static void pairs(const ch::hold &hold, const std::string &what, bool write) {
    bool fixed = what == "word" || what == "fixed";
    std::size_t bytes = what == "word" ? 4 : 24;
    ch::map map = hold.maps().open_or_create(what, fixed             ? ch::map_options::fixed(4, bytes)
                                 : what == "cache" ? ch::map_options::cache(0, 1000, std::chrono::hours(1))
                                                   : ch::map_options::general());
    auto key = [&](std::uint32_t i) {
        return fixed ? std::string(reinterpret_cast<const char *>(&i), 4) : "key " + std::to_string(i);
    };
    for (std::uint32_t i = 0; write && i < 200; i++) {
        map.set(key(i), data(i, fixed ? bytes : i));
        if (i % 10 == 0) map.erase(key(i));
    }
    for (std::uint32_t i = 0; i < 200; i++) {
        auto uid = map.uid(key(i));
        auto value = map.get(key(i));
        if (uid && value) std::cout << i << ' ' << std::uint32_t(*uid) << ' ' << hash(*value) << '\n';
        else std::cout << i << " none\n";
    }
}

static void queue(const ch::hold &hold, bool write) {
    ch::queue queue = hold.queues().open_or_create("queue", {.elements = 4, .element_bytes = 16, .queues = {"free", "full"}});
    ch::named_queue from = queue[write ? "free" : "full"], to = queue[write ? "full" : "free"];
    for (int n = 0; n < 3; n++) {
        auto element = from.pull();
        if (!element) break;
        char &first = element->as<char>();
        if (write) first = static_cast<char>(65 + n);
        std::cout << first << '\n';
        to.push(std::move(*element));
    }
}

static void channel(const ch::hold &hold, bool write) {
    ch::channel channel = hold.channels().open_or_create("channel", 1 << 16);
    if (write) {
        ch::producer producer = channel.producer();
        for (std::uint32_t i = 0; i < 50; i++)
            std::cout << producer.send(data(i, i)) << ' ' << hash(data(i, i)) << '\n';
    } else {
        ch::consumer consumer = channel.consumer(ch::join::oldest);
        ch::bytes message;
        while (auto received = consumer.try_recv(message))
            std::cout << received->sequence << ' ' << hash(message.text()) << '\n';
    }
}

static void stream(const ch::hold &hold, bool write) {
    ch::map map = hold.maps().open_or_create("stream"), at = hold.maps().open_or_create("at");
    if (write) {
        hold.maps().begin_stream("stream", 1 << 16);
        ch_position from = map.follow().position();
        ch::bytes text;
        ch_position_text(&from, text.raw(), nullptr);
        at.set("from", text);
        map.set("a", "1");
        map.set("b", "2");
        map.erase("a");
    }
    ch_position from;
    ch_position_parse(at.get("from").value().c_str(), &from, nullptr);
    ch::follower follower = map.follow(from);
    while (auto change = follower.try_recv())
        std::cout << change->kind << ' ' << change->key << (change->value.empty() ? "" : " ") << change->value << '\n';
}

static void errors(const ch::hold &hold) {
    ch::map map = hold.maps().open_or_create("errors");
    map.set("short", "ab");
    map.set("n", "1");
    auto code = [](auto &&attempt) {
        try {
            attempt();
            std::cout << "0\n";
        } catch (const ch::error &error) {
            std::cout << error.code() << '\n';
        }
    };
    code([&] { hold.maps().open("none"); });
    code([&] { hold.maps().open_or_create<int, int>("errors"); });
    code([&] { map.increment("n"); });
    code([&] { hold.maps().open_or_create(""); });
    code([&] { hold.queues().open("errors"); });
    code([&] { hold.channels().open_or_create("ring", 5); });
    code([&] { map.push("short", "x"); });
    code([&] { ch::hold::create(hold.path()); });
}

static void facts(const ch::hold &hold, const std::string &what, bool write) {
    if (what == "queue") return queue(hold, write);
    if (what == "channel") return channel(hold, write);
    if (what == "stream") return stream(hold, write);
    if (what == "errors") return errors(hold);
    if (what == "log") {
        ch::log log = hold.logs().open_or_create("log");
        for (int i = 0; write && i < 5; i++) log.write(ch::level::info, "line " + std::to_string(i));
        log.dump([](const ch::log_line &line) {
            if (!line.raw.announces) std::cout << line.text() << '\n';
        });
    } else if (what == "list") {
        ch::map map = hold.maps().open_or_create("list");
        if (write) map.push("l", "a"), map.push("l", "b"), map.unshift("l", "c");
        const char *between = "";
        for (const std::string &element : map.list("l")) std::cout << std::exchange(between, ",") << element;
        std::cout << '\n';
    } else if (what == "counter") {
        ch::map map = hold.maps().open_or_create("counter");
        for (int by : {-5, 7, 40}) map.increment("n", write ? by : 0);
        std::cout << map.increment("n", 0) << '\n';
    } else {
        pairs(hold, what, write);
    }
}

static void storm(const ch::hold &hold) {
    ch::map map = hold.maps().open_or_create("storm");
    for (std::uint32_t round = 0;; round++) {
        map.set("key " + std::to_string(round % 100), data(round, round % 100));
        map.increment("n");
    }
}

static void sound(const ch::hold &hold) {
    ch::map map = hold.maps().open_or_create("storm");
    for (int i = 0; i < 5000 && map.increment("mine", 0) == 0 && map.increment("n", 0) < 1000; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    map.increment("mine");
    hold.sweep();
    ch::check_report report = hold.check();
    std::cout << (report.ok ? "sound" : report.problems) << '\n';
}

int main(int argc, char **argv) try {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 2) return 1;
    const std::string &command = words[0], &path = words.back();
    if (command == "storm") storm(ch::hold::open_or_create(path));
    else if (command == "sound") sound(ch::hold::open(path));
    else if (command == "write") facts(ch::hold::open_or_create(path), words[1], true);
    else facts(ch::hold::open(path), words[1], false);
} catch (const ch::error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
