// Queues: elements of one size that move by reference between named queues.
#ifndef COMMONHOLD_QUEUE_HPP
#define COMMONHOLD_QUEUE_HPP

#include <commonhold/bytes.hpp>

#include <optional>
#include <vector>

namespace commonhold {

// Options for creating a queue; all elements start in the first of its queues.
struct queue_options {
    std::uint32_t elements = 0;
    std::uint32_t element_bytes = 0;
    std::vector<std::string> queues = {"free"};
    std::string orphans = ""; // empty: the first
};

class queue;

// An element in flight. A successful push takes it. Destroyed without a push, it goes to the orphan
// queue, like the elements of a killed process. Must not outlive its queue.
class element {
public:
    element(element &&other) noexcept : queue_(std::exchange(other.queue_, nullptr)), raw_(other.raw_) {}
    element &operator=(element &&other) noexcept {
        std::swap(queue_, other.queue_);
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~element() {
        if (queue_) ch_queue_abandon(queue_, &raw_);
    }
    // Its bytes, in place.
    std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte *>(raw_.data), raw_.len}; }
    // The same as a value of a trivially copyable type.
    template <class T>
        requires std::is_trivially_copyable_v<T>
    T &as() const {
        if (sizeof(T) > raw_.len || reinterpret_cast<std::uintptr_t>(raw_.data) % alignof(T) != 0)
            detail::fail(CH_INVALID, "an element of " + std::to_string(raw_.len) + " bytes has no room for such a value");
        return *static_cast<T *>(raw_.data);
    }
    std::uint32_t id() const noexcept { return raw_.id; }

private:
    friend class queue;
    friend class batch;
    friend class named_queue;
    element(const ch_queue *queue, ch_element raw) noexcept : queue_(queue), raw_(raw) {}
    const ch_element *in_flight() const {
        if (!queue_) detail::fail(CH_INVALID, "the element is not in flight: it was pushed or moved away before");
        return &raw_;
    }

    const ch_queue *queue_;
    ch_element raw_;
};

// Elements in flight, to be moved at once; used again and again. Its destructor moves the rest to
// the orphan queue.
class batch {
public:
    batch() = default;
    batch(batch &&other) noexcept : queue_(other.queue_), raw_(std::move(other.raw_)) { other.raw_.clear(); }
    batch &operator=(batch &&other) noexcept {
        std::swap(queue_, other.queue_);
        std::swap(raw_, other.raw_);
        return *this;
    }
    ~batch() {
        for (const ch_element &one : raw_) ch_queue_abandon(queue_, &one);
    }
    std::size_t size() const noexcept { return raw_.size(); }
    bool empty() const noexcept { return raw_.empty(); }
    std::span<std::byte> operator[](std::size_t index) const noexcept {
        return {static_cast<std::byte *>(raw_[index].data), raw_[index].len};
    }

private:
    friend class named_queue;
    const ch_queue *queue_ = nullptr;
    std::vector<ch_element> raw_;
};

// One of the named queues of a queue; cheap to copy, and usable from any thread. Must not outlive
// the queue.
class named_queue {
public:
    named_queue(const ch_queue *queue, std::uint32_t number) noexcept : queue_(queue), number_(number) {}

    std::string_view name() const {
        ch_slice name;
        detail::call(ch_queue_name_of, queue_, number_, &name);
        return as_text(name);
    }
    std::uint32_t number() const noexcept { return number_; }
    std::uint64_t size() const {
        std::uint64_t len;
        detail::call(ch_queue_len, queue_, number_, &len);
        return len;
    }
    // After an error the element is still in flight.
    void push(element &&pushed) const {
        detail::call(ch_queue_push, queue_, number_, pushed.in_flight());
        pushed.queue_ = nullptr;
    }
    std::optional<element> pull() const {
        ch_element raw;
        if (!detail::call(ch_queue_pull, queue_, number_, &raw)) return std::nullopt;
        return element(queue_, raw);
    }
    template <class Rep, class Period>
    std::optional<element> pull_timeout(std::chrono::duration<Rep, Period> timeout) const {
        ch_element raw;
        if (!detail::call(ch_queue_pull_timeout, queue_, number_, detail::nanoseconds(timeout), &raw))
            return std::nullopt;
        return element(queue_, raw);
    }
    // The same applies here; std::nullopt if only the pull failed.
    std::optional<element> push_pull(element &&pushed, named_queue from) const {
        if (from.queue_ != queue_) detail::fail(CH_INVALID, "the two are not named queues of one queue");
        ch_element pulled;
        bool found = detail::call(ch_queue_push_pull, queue_, number_, pushed.in_flight(), from.number_, &pulled);
        pushed.queue_ = nullptr;
        if (!found) return std::nullopt;
        return element(queue_, pulled);
    }
    // The whole batch, in its order; it is empty afterwards. After an error it is unchanged.
    void push_many(batch &all) const {
        detail::call(ch_queue_push_many, queue_, number_, all.raw_.data(), all.raw_.size());
        all.raw_.clear();
    }
    // At most `most` more; returns their number.
    std::size_t pull_many(batch &into, std::size_t most) const {
        return pulled(into, most, [&](ch_element *room, std::size_t *count) {
            detail::call(ch_queue_pull_many, queue_, number_, room, most, count);
        });
    }
    template <class Rep, class Period>
    std::size_t pull_many_timeout(batch &into, std::size_t most, std::chrono::duration<Rep, Period> timeout) const {
        return pulled(into, most, [&](ch_element *room, std::size_t *count) {
            detail::call(ch_queue_pull_many_timeout, queue_, number_, detail::nanoseconds(timeout), room, most, count);
        });
    }

private:
    template <class Pull>
    std::size_t pulled(batch &into, std::size_t most, Pull pull) const {
        if (!into.empty() && into.queue_ != queue_) detail::fail(CH_INVALID, "the batch has elements of another queue");
        into.queue_ = queue_;
        std::size_t had = into.size(), count = 0;
        into.raw_.resize(had + most);
        try {
            pull(into.raw_.data() + had, &count);
        } catch (...) {
            into.raw_.resize(had);
            throw;
        }
        into.raw_.resize(had + count);
        return count;
    }

    const ch_queue *queue_;
    std::uint32_t number_;
};

// A descriptor that becomes readable when elements are pushed.
class notifier {
public:
    explicit notifier(ch_notifier *raw) noexcept : raw_(raw) {}
    int fd() const noexcept { return ch_notifier_fd(raw_.get()); }
    void clear() { detail::call(ch_notifier_clear, raw_.get()); }

private:
    detail::owned<ch_notifier, ch_notifier_free> raw_;
};

// A queue in a hold. Usable from any number of threads.
class queue {
public:
    explicit queue(ch_queue *raw) noexcept : raw_(raw) {}

    named_queue operator[](std::string_view name) const {
        std::uint32_t number;
        detail::call(ch_queue_named, get(), detail::name(name), &number);
        return named_queue(get(), number);
    }
    commonhold::notifier notifier(named_queue which) const {
        ch_notifier *raw;
        detail::call(ch_queue_notifier, get(), which.number(), &raw);
        return commonhold::notifier(raw);
    }
    std::string_view name() const {
        ch_slice name;
        detail::call(ch_queue_name, get(), &name);
        return as_text(name);
    }
    ch_queue_stat_t stat() const {
        ch_queue_stat_t stat;
        detail::call(ch_queue_stat, get(), &stat);
        return stat;
    }
    std::string describe() const { return detail::text_of(ch_queue_describe, get()); }

    // For the functions of commonhold.h.
    ch_queue *get() const noexcept { return raw_.get(); }

private:
    detail::owned<ch_queue, ch_queue_free> raw_;
};

} // namespace commonhold

#endif
