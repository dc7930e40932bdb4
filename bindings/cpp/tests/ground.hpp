// The base of the contract in C++: a folder in memory for each test, a hold in it, child processes,
// a value of plain bytes. The contract does not repeat the proofs of the C suite. It shows that every
// operation is reached, and that handles, ranges, concepts, optionals and exceptions behave as
// documented.
#ifndef GROUND_HPP
#define GROUND_HPP

#include <commonhold.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

class Ground : public testing::Test {
public:
    Ground() : folder(made()), hold(commonhold::hold::create(place("it.hold"))) {}
    ~Ground() override { std::filesystem::remove_all(folder); }

    std::string place(const std::string &name) const { return folder + "/" + name; }

    static void ended_well(pid_t child) {
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    static void killed(pid_t child) {
        ASSERT_EQ(kill(child, SIGKILL), 0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
    }

private:
    static std::string made() {
        std::string path = "/dev/shm/commonhold-cpp-XXXXXX";
        return mkdtemp(path.data());
    }

    std::string folder;

protected:
    commonhold::hold hold;
};

// A value of plain bytes.
struct Point {
    int x, y;
    bool operator==(const Point &) const = default;
};

#endif
