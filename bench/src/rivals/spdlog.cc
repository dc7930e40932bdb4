// The workload `log` over spdlog's asynchronous logger; started by spdlog.rs, which says what it is
// asked and what it answers.
//
// Arguments: the file; how many writers. Then, for each phase, one line on standard input:
//     LINES BURST PAUSE_US FIRST LAST
// and the first line of each writer. LINES is for each of them; they come in bursts of BURST with
// pauses between (BURST 0: without); FIRST and LAST say where in a line its number has its digits.
// The answer is one line: the nanoseconds of each burst, in no order. It ends when its input ends.

#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

namespace {

using Clock = std::chrono::steady_clock;

// Its default is 8192; more room is kinder.
constexpr std::size_t queue_lines = 32768;

// Tells what has passed all sinks before it and was flushed.
class Arrivals : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
public:
    std::atomic<unsigned long> flushed{0};

protected:
    void sink_it_(const spdlog::details::log_msg &) override { ++lines; }
    void flush_() override { flushed.store(lines); }

private:
    unsigned long lines = 0;
};

struct Phase {
    unsigned long lines = 0;
    unsigned long burst = 0;
    unsigned long pause_us = 0;
    std::size_t first_digit = 0;
    std::size_t last_digit = 0;
};

void count_up(std::string &line, const Phase &phase) {
    for (std::size_t at = phase.last_digit; at >= phase.first_digit; --at) {
        if (line[at] < '9') {
            ++line[at];
            return;
        }
        line[at] = '0';
    }
}

void write(spdlog::logger &logger, std::string &line, const Phase &phase, unsigned long count) {
    for (unsigned long at = 0; at < count; ++at) {
        logger.info(spdlog::string_view_t(line.data(), line.size()));
        count_up(line, phase);
    }
}

void play(spdlog::logger &logger, std::string line, const Phase &phase, std::vector<long> &times) {
    if (phase.burst == 0) {
        write(logger, line, phase, phase.lines);
        return;
    }
    for (unsigned long left = phase.lines; left > 0;) {
        const unsigned long burst = left < phase.burst ? left : phase.burst;
        const auto start = Clock::now();
        write(logger, line, phase, burst);
        const std::chrono::nanoseconds took = Clock::now() - start;
        times.push_back(took.count() * static_cast<long>(phase.burst) / static_cast<long>(burst));
        std::this_thread::sleep_for(std::chrono::microseconds(phase.pause_us));
        left -= burst;
    }
}

} // namespace

int main(int count, char **arguments) {
    if (count != 3) {
        std::cerr << "it is started by the benchmark\n";
        return 2;
    }
    const std::size_t writers = std::stoul(arguments[2]);
    spdlog::init_thread_pool(queue_lines, 1);
    // Only the pool's one thread uses the sinks, so they need no lock.
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_st>(arguments[1], true);
    auto arrivals = std::make_shared<Arrivals>();
    const spdlog::sinks_init_list sinks = {file, arrivals};
    auto logger = std::make_shared<spdlog::async_logger>(
        "bench", sinks, spdlog::thread_pool(), spdlog::async_overflow_policy::block);

    unsigned long expected = 0;
    Phase phase;
    while (std::cin >> phase.lines >> phase.burst >> phase.pause_us >> phase.first_digit
           >> phase.last_digit) {
        std::vector<std::string> first(writers);
        std::cin.ignore(1, '\n');
        for (auto &line : first) {
            std::getline(std::cin, line);
        }
        std::vector<std::vector<long>> times(writers);
        std::vector<std::thread> threads;
        for (std::size_t at = 0; at < writers; ++at) {
            threads.emplace_back(play, std::ref(*logger), first[at], std::cref(phase),
                                 std::ref(times[at]));
        }
        for (auto &thread : threads) {
            thread.join();
        }
        expected += phase.lines * writers;
        logger->flush();
        while (arrivals->flushed.load() < expected) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        for (const auto &of_one : times) {
            for (const long time : of_one) {
                std::cout << time << ' ';
            }
        }
        std::cout << std::endl;
    }
    logger.reset();
    spdlog::shutdown();
}
