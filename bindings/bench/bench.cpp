// The bindings' benchmark in C++, and the same with std::unordered_map; see README.md in this
// folder.
#include <commonhold.hpp>

#include <array>
#include <cstdio>
#include <unistd.h>
#include <unordered_map>

namespace ch = commonhold;

constexpr std::uint32_t KEYS = 100'000, OPERATIONS = 2'000'000, BATCH = 32;
// Different keys of Localmemcache's loop.
constexpr std::uint32_t NUMBERS = 10'000;

static std::uint32_t state = 1;
static std::uint32_t next() {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

template <class Run>
static void timed(const char *name, std::uint32_t count, Run run) {
    auto start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < count; i++) run();
    std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    std::printf("%s %.1f\n", name, time.count() / count);
}

// The reads must not be optimised away.
static volatile std::size_t seen;

int main(int argc, char **) {
    std::vector<std::string> keys;
    char text[16];
    for (std::uint32_t i = 0; i < KEYS; i++) {
        std::snprintf(text, sizeof text, "key %08u", i);
        keys.emplace_back(text);
    }
    auto key = [&]() -> const std::string & { return keys[next() % KEYS]; };
    const std::string value(100, 7);
    std::vector<std::string> texts;
    for (std::uint32_t i = 0; i < NUMBERS; i++) texts.push_back(std::to_string(i));
    if (argc > 1) { // The language's own.
        std::unordered_map<std::string, std::string> map, loops;
        std::string out;
        for (const std::string &key : keys) map[key] = value;
        timed("set", OPERATIONS, [&] { map[key()] = value; });
        timed("get", OPERATIONS, [&] { seen = (out = map.find(key())->second).size(); });
        timed("get_many", OPERATIONS / BATCH, [&] {
            for (std::uint32_t i = 0; i < BATCH; i++) seen = (out = map.find(key())->second).size();
        });
        state = 1;
        timed("localmemcache", OPERATIONS, [&] {
            const std::string &text = texts[next() % NUMBERS];
            loops[text] = text;
            seen = (out = loops.find(text)->second).size();
        });
        return 0;
    }
    auto hold = ch::hold::create("/dev/shm/bindings-bench-cpp-" + std::to_string(getpid()) + ".hold",
                                 {.delete_on_last_exit = true});
    ch::map map = hold.maps().open_or_create("it"), loops = hold.maps().open_or_create("loop");
    ch::bytes out;
    for (const std::string &key : keys) map.set(key, value);
    timed("set", OPERATIONS, [&] { map.set(key(), value); });
    timed("get", OPERATIONS, [&] { seen = map.get(key(), out); });
    ch::values values;
    std::array<std::string_view, BATCH> batch;
    timed("get_many", OPERATIONS / BATCH, [&] {
        for (auto &one : batch) one = key();
        seen = map.get_many(batch, values);
    });
    ch::channel channel = hold.channels().open_or_create("channel", 1 << 20);
    ch::consumer consumer = channel.consumer();
    ch::producer producer = channel.producer();
    timed("send_recv", OPERATIONS, [&] {
        producer.send(value);
        consumer.recv(out);
    });
    state = 1;
    timed("localmemcache", OPERATIONS, [&] {
        const std::string &text = texts[next() % NUMBERS];
        loops.set(text, text);
        seen = loops.get(text, out);
    });
}
