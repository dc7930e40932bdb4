// Quick start in C++: maps, a queue, a channel, in a hold in memory that goes with the program.
//
//     c++ -std=c++20 quickstart.cpp $(pkg-config --cflags --libs commonhold) && ./a.out
#include <commonhold.hpp>

#include <iostream>
#include <random>

struct Tick {
    int article;
    double price;
};

int main() try {
    std::string name = "quickstart-cpp-" + std::to_string(std::random_device()());
    // Another process opens the same name and sees all of this.
    auto hold = commonhold::hold::open_or_create(name, {.delete_on_last_exit = true});

    // A map: bytes to bytes, and a range of pairs.
    auto stock = hold.maps().open_or_create("stock");
    stock.set("apple", "12 crates");
    stock.set("pear", "3 crates");
    std::cout << "apple: " << stock.get("apple").value_or("none") << '\n';
    for (auto [fruit, crates] : stock) std::cout << fruit << ": " << crates << '\n';
    std::cout << "visit " << stock.increment("visits") << '\n';

    // A map of trivially copyable types.
    auto prices = hold.maps().open_or_create<int, double>("prices");
    prices.set(7, 12.5);
    prices.update(7, [](std::optional<double> old) { return old ? std::optional(*old * 2) : std::nullopt; });
    std::cout << "price: " << prices.get(7).value() << '\n';

    // A channel of values.
    auto channel = hold.channels().open_or_create("ticks", 1 << 16);
    commonhold::typed_consumer<Tick> consumer(channel);
    commonhold::typed_producer<Tick> producer(channel);
    producer.send({7, 12.5});
    std::cout << "tick: " << consumer.recv().price << '\n';

    // A queue: elements move, nothing is copied.
    auto frames = hold.queues().open_or_create("frames", {.elements = 8, .element_bytes = 4096, .queues = {"free", "full"}});
    auto frame = frames["free"].pull();
    frame->as<int>() = 42;
    frames["full"].push(std::move(*frame));
    std::cout << "frame: " << frames["full"].pull()->as<int>() << '\n';

    // Errors are exceptions of one tree.
    try {
        hold.maps().open("none");
    } catch (const commonhold::not_found &error) {
        std::cout << "as expected: " << error.what() << '\n';
    }
} catch (const commonhold::error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
