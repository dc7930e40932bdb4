// Channels: one producer sends messages, every consumer receives all of them.
#ifndef COMMONHOLD_CHANNEL_HPP
#define COMMONHOLD_CHANNEL_HPP

#include <commonhold/many.hpp>

#include <optional>
#include <vector>

namespace commonhold {

// The first message of a new consumer.
enum class join { now = CH_JOIN_NOW, oldest = CH_JOIN_OLDEST };

// Whether the producer waits for a slow consumer; see ch_policy.
struct policy {
    ch_policy kind;
    std::chrono::nanoseconds patience{0};

    static policy lossless() { return {CH_LOSSLESS}; }
    static policy lossy() { return {CH_LOSSY}; }
    static policy patient(std::chrono::nanoseconds time) { return {CH_PATIENT, time}; }
};

// A message that is written in place. commit() sends it; destroying it without that sends nothing.
// Another reservation or message ends it: then commit() throws invalid, and its destructor does not
// affect the other one. Must not outlive its producer.
class reservation {
public:
    reservation(ch_producer *producer, ch_reservation raw) noexcept : producer_(producer), raw_(raw) {}
    reservation(reservation &&other) noexcept : producer_(std::exchange(other.producer_, nullptr)), raw_(other.raw_) {}
    reservation &operator=(reservation &&) = delete;
    ~reservation() {
        if (producer_) ch_producer_cancel(producer_, &raw_, nullptr);
    }
    std::span<std::byte> bytes() const noexcept { return {static_cast<std::byte *>(raw_.room), raw_.len}; }
    // Sends it, or only its first `len` bytes; returns its number. After an error the reservation
    // is unchanged.
    std::uint64_t commit() { return commit(raw_.len); }
    std::uint64_t commit(std::size_t len) {
        std::uint64_t sequence;
        if (!producer_) detail::fail(CH_INVALID, "the reservation is over: it was committed or moved away before");
        detail::call(ch_producer_commit, producer_, &raw_, len, &sequence);
        producer_ = nullptr;
        return sequence;
    }

private:
    ch_producer *producer_;
    ch_reservation raw_;
};

// Sends the messages of a channel. For one thread at a time.
class producer {
public:
    explicit producer(ch_producer *raw) noexcept : raw_(raw) {}

    // Returns the message's number. Waits for room without limit.
    std::uint64_t send(bytes_in message) {
        std::uint64_t sequence;
        detail::call(ch_producer_send, get(), message.data(), message.size(), &sequence);
        return sequence;
    }
    // std::nullopt: no room; waits_for() names the consumer that prevents it.
    std::optional<std::uint64_t> try_send(bytes_in message) {
        std::uint64_t sequence;
        if (!detail::call(ch_producer_try_send, get(), message.data(), message.size(), &sequence)) return std::nullopt;
        return sequence;
    }
    template <class Rep, class Period>
    std::optional<std::uint64_t> send_timeout(bytes_in message, std::chrono::duration<Rep, Period> timeout) {
        std::uint64_t sequence;
        if (!detail::call(ch_producer_send_timeout, get(), message.data(), message.size(),
                          detail::nanoseconds(timeout), &sequence))
            return std::nullopt;
        return sequence;
    }
    // Any range of elements that convert to bytes.
    template <std::ranges::input_range Messages>
    std::size_t send_many(Messages &&messages) {
        detail::slicer<Messages> slicer;
        std::vector<ch_slice> slices;
        for (auto &&message : messages) slices.push_back(slicer.template slice<decltype(message)>(message));
        std::size_t sent;
        detail::call(ch_producer_send_many, get(), slices.data(), slices.size(), &sent);
        return sent;
    }
    // The same with a time limit; returns fewer than all if it timed out.
    template <std::ranges::input_range Messages, class Rep, class Period>
    std::size_t send_many_timeout(Messages &&messages, std::chrono::duration<Rep, Period> timeout) {
        detail::slicer<Messages> slicer;
        std::vector<ch_slice> slices;
        for (auto &&message : messages) slices.push_back(slicer.template slice<decltype(message)>(message));
        std::size_t sent;
        detail::call(ch_producer_send_many_timeout, get(), slices.data(), slices.size(), detail::nanoseconds(timeout),
                     &sent);
        return sent;
    }
    reservation reserve(std::size_t len) {
        ch_reservation made;
        detail::call(ch_producer_reserve, get(), len, &made);
        return reservation(get(), made);
    }
    std::optional<reservation> try_reserve(std::size_t len) {
        ch_reservation made;
        if (!detail::call(ch_producer_try_reserve, get(), len, &made)) return std::nullopt;
        return reservation(get(), made);
    }
    template <class Rep, class Period>
    std::optional<reservation> reserve_timeout(std::size_t len, std::chrono::duration<Rep, Period> timeout) {
        ch_reservation made;
        if (!detail::call(ch_producer_reserve_timeout, get(), len, detail::nanoseconds(timeout), &made))
            return std::nullopt;
        return reservation(get(), made);
    }
    std::uint64_t sequence() const {
        std::uint64_t sequence;
        detail::call(ch_producer_sequence, get(), &sequence);
        return sequence;
    }
    std::size_t max_message() const {
        std::size_t bytes;
        detail::call(ch_producer_max_message, get(), &bytes);
        return bytes;
    }
    std::optional<ch_peer> waits_for() const {
        ch_peer peer;
        if (!detail::call(ch_producer_waits_for, get(), &peer)) return std::nullopt;
        return peer;
    }
    // Whether to wait by spinning instead of sleeping.
    void set_spin(bool spin) { detail::call(ch_producer_set_spin, get(), std::uint32_t(spin)); }

#if defined(__cpp_lib_expected)
    expected<std::uint64_t> expected_send(bytes_in message) {
        std::uint64_t sequence = 0;
        auto sent = detail::expected_call(ch_producer_send, get(), message.data(), message.size(), &sequence);
        if (!sent) return std::unexpected(std::move(sent.error()));
        return sequence;
    }
#endif

    ch_producer *get() const noexcept { return raw_.get(); }

private:
    detail::owned<ch_producer, ch_producer_free> raw_;
};

// Receives the messages of a channel. For one thread at a time.
class consumer {
public:
    explicit consumer(ch_consumer *raw) noexcept : raw_(raw) {}

    // Receives the next message into a buffer; returns its number and gap. Waits without limit.
    ch_received recv(bytes &message) {
        ch_received received;
        detail::call(ch_consumer_recv, get(), message.raw(), &received);
        return received;
    }
    std::optional<ch_received> try_recv(bytes &message) {
        ch_received received;
        if (!detail::call(ch_consumer_try_recv, get(), message.raw(), &received)) return std::nullopt;
        return received;
    }
    template <class Rep, class Period>
    std::optional<ch_received> recv_timeout(bytes &message, std::chrono::duration<Rep, Period> timeout) {
        ch_received received;
        if (!detail::call(ch_consumer_recv_timeout, get(), message.raw(), detail::nanoseconds(timeout), &received))
            return std::nullopt;
        return received;
    }
    // A copy of the next message.
    std::string recv() {
        bytes message;
        recv(message);
        return message.string();
    }
    // Calls back with (std::string_view message, ch_received) for at most `most` messages; waits
    // only for the first. Its exceptions leave the call after the remaining messages were skipped.
    template <class Callback>
    std::size_t recv_many(std::size_t most, Callback &&callback) {
        return recv_many_timeout(most, std::chrono::nanoseconds::max(), std::forward<Callback>(callback));
    }
    // 0: no message in time.
    template <class Rep, class Period, class Callback>
    std::size_t recv_many_timeout(std::size_t most, std::chrono::duration<Rep, Period> timeout, Callback &&callback) {
        struct context {
            Callback &callback;
            detail::caught caught;
            bool over;
        } context{callback, {}, false};
        ch_message_fn each = [](void *user, ch_slice message, ch_received received) {
            auto *it = static_cast<struct context *>(user);
            if (!it->over) it->over = it->caught.keep(true, [&] { return it->callback(as_text(message), received), false; });
        };
        std::size_t count;
        context.caught.call(ch_consumer_recv_many_timeout, get(), most, detail::nanoseconds(timeout), each, &context,
                            &count);
        return count;
    }
    // Shows the next message in place, until advance(). Lossless consumers only.
    std::span<const std::byte> peek() {
        ch_slice message;
        detail::call(ch_consumer_peek, get(), &message, nullptr);
        return as_bytes(as_text(message));
    }
    std::optional<std::span<const std::byte>> try_peek() {
        ch_slice message;
        if (!detail::call(ch_consumer_try_peek, get(), &message, nullptr)) return std::nullopt;
        return as_bytes(as_text(message));
    }
    template <class Rep, class Period>
    std::optional<std::span<const std::byte>> peek_timeout(std::chrono::duration<Rep, Period> timeout) {
        ch_slice message;
        if (!detail::call(ch_consumer_peek_timeout, get(), detail::nanoseconds(timeout), &message, nullptr))
            return std::nullopt;
        return as_bytes(as_text(message));
    }
    bool advance() { return detail::call(ch_consumer_advance, get()); }
    void rejoin(join from) { detail::call(ch_consumer_rejoin, get(), std::uint32_t(from)); }
    std::uint64_t sequence() const {
        std::uint64_t sequence;
        detail::call(ch_consumer_sequence, get(), &sequence);
        return sequence;
    }
    std::uint64_t missed() const {
        std::uint64_t missed;
        detail::call(ch_consumer_missed, get(), &missed);
        return missed;
    }
    void set_spin(bool spin) { detail::call(ch_consumer_set_spin, get(), std::uint32_t(spin)); }

#if defined(__cpp_lib_expected)
    expected<ch_received> expected_recv(bytes &message) {
        ch_received received{};
        auto found = detail::expected_call(ch_consumer_recv, get(), message.raw(), &received);
        if (!found) return std::unexpected(std::move(found.error()));
        return received;
    }
#endif

    ch_consumer *get() const noexcept { return raw_.get(); }

private:
    detail::owned<ch_consumer, ch_consumer_free> raw_;
};

// A channel in a hold.
class channel {
public:
    explicit channel(ch_channel *raw) noexcept : raw_(raw) {}

    commonhold::producer producer() const {
        ch_producer *found;
        detail::call(ch_channel_producer, get(), &found);
        return commonhold::producer(found);
    }
    commonhold::consumer consumer(join from = join::now, policy how = policy::lossless()) const {
        ch_consumer *found;
        detail::call(ch_channel_consumer, get(), std::uint32_t(from), std::uint32_t(how.kind),
                     detail::nanoseconds(how.patience), &found);
        return commonhold::consumer(found);
    }
    std::string_view name() const {
        ch_slice name;
        detail::call(ch_channel_name, get(), &name);
        return as_text(name);
    }
    ch_channel_stat_t stat() const {
        ch_channel_stat_t stat;
        detail::call(ch_channel_stat, get(), &stat);
        return stat;
    }
    std::string describe() const { return detail::text_of(ch_channel_describe, get()); }

    ch_channel *get() const noexcept { return raw_.get(); }

private:
    detail::owned<ch_channel, ch_channel_free> raw_;
};

} // namespace commonhold

#endif
