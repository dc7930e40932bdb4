// Maps over the network: origins, replicas, journals.
#ifndef COMMONHOLD_REPLICATE_HPP
#define COMMONHOLD_REPLICATE_HPP

#include <commonhold/hold.hpp>

#include <functional>

namespace commonhold {

// Options of an origin; see ch_origin_options.
struct origin_options {
    std::uint64_t stream_bytes = 0;
    std::uint64_t watermark = 0;
    std::chrono::nanoseconds delay{0};
    std::string secret = "";
    // called from any thread; must not throw
    std::function<void(std::string_view)> notice = nullptr;
    std::vector<std::uint32_t> allowed_uids = {};
    std::size_t most_replicas = 0;
    std::uint32_t io_threads = 0;
    ch_loop loop = CH_LOOP_EPOLL;
    bool explicit_transmission = false;
};

// Serves a map to replicas.
class origin {
public:
    origin(const hold &hold, std::string_view map, origin_options options = {})
        : options_(std::make_unique<origin_options>(std::move(options))) {
        ch_origin_options raw = CH_ORIGIN_OPTIONS_INIT;
        raw.stream_bytes = options_->stream_bytes;
        raw.watermark = options_->watermark;
        raw.delay_ns = detail::nanoseconds(options_->delay);
        raw.secret = options_->secret.data();
        raw.secret_len = options_->secret.size();
        if (options_->notice) raw.notice = [](void *user, const char *text) noexcept {
            static_cast<origin_options *>(user)->notice(text);
        };
        raw.user = options_.get();
        raw.allowed_uids = options_->allowed_uids.data();
        raw.allowed_uid_count = options_->allowed_uids.size();
        raw.most_replicas = options_->most_replicas;
        raw.io_threads = options_->io_threads;
        raw.kind = std::uint32_t(options_->loop);
        raw.explicit_transmission = options_->explicit_transmission;
        ch_origin *found;
        detail::call(ch_origin_start, hold.get(), detail::name(map), &raw, &found);
        raw_.reset(found);
    }
    origin(origin &&) = default;
    // Ends the threads that call back before the callbacks are destroyed.
    origin &operator=(origin &&other) noexcept {
        raw_ = std::move(other.raw_);
        options_ = std::move(other.options_);
        return *this;
    }
    // Returns the address with the port that the system chose.
    std::string listen(std::string_view at) { return detail::text_of(ch_origin_listen, get(), detail::name(at)); }
    // Take the descriptor over, unless they throw.
    std::string listen_on(int socket) { return detail::text_of(ch_origin_listen_on, get(), socket); }
    std::uint64_t attach(int socket) {
        std::uint64_t id;
        detail::call(ch_origin_attach, get(), socket, &id);
        return id;
    }
    bool detach(std::uint64_t id) { return detail::call(ch_origin_detach, get(), id); }
    void transmit() { detail::call(ch_origin_transmit, get()); }
    std::size_t replicas() const {
        std::size_t count;
        detail::call(ch_origin_replicas, get(), &count, nullptr);
        return count;
    }
    std::string describe() const { return detail::text_of(ch_origin_replicas, get(), nullptr); }
    std::optional<std::uint64_t> sent_to_all() const {
        std::uint64_t offset;
        if (!detail::call(ch_origin_sent_to_all, get(), &offset)) return std::nullopt;
        return offset;
    }
    // Sends every replica the waiting changes, within this time, and ends.
    template <class Rep, class Period>
    void finish(std::chrono::duration<Rep, Period> timeout) {
        detail::call(ch_origin_finish, raw_.release(), detail::nanoseconds(timeout));
    }

    ch_origin *get() const noexcept { return raw_.get(); }

private:
    // Outlives the threads that call back.
    std::unique_ptr<origin_options> options_;
    detail::owned<ch_origin, ch_origin_free> raw_;
};

// Options of a replica. Its thread makes the callbacks, which must not throw.
struct replica_options {
    std::string secret = "";
    std::chrono::nanoseconds first_pause{0};
    std::chrono::nanoseconds longest_pause{0};
    std::function<void(const change &)> changed = nullptr;
    std::function<void(ch_position)> ready = nullptr;
    std::function<void(std::string_view)> lost = nullptr;
};

// Keeps a map equal to an origin's map.
class replica {
public:
    static replica connect(const hold &hold, std::string_view map, std::string_view origin,
                           replica_options options = {}) {
        replica made(std::move(options));
        ch_replica_options raw = made.raw_options();
        ch_replica *found;
        detail::call(ch_replica_connect, hold.get(), detail::name(map), detail::name(origin), &raw, &found);
        made.raw_.reset(found);
        return made;
    }
    // Takes the descriptor over, unless it throws.
    static replica attach(const hold &hold, std::string_view map, int socket, replica_options options = {}) {
        replica made(std::move(options));
        ch_replica_options raw = made.raw_options();
        ch_replica *found;
        detail::call(ch_replica_attach, hold.get(), detail::name(map), socket, &raw, &found);
        made.raw_.reset(found);
        return made;
    }
    replica(replica &&) = default;
    // Ends the thread that calls back before the callbacks are destroyed.
    replica &operator=(replica &&other) noexcept {
        raw_ = std::move(other.raw_);
        options_ = std::move(other.options_);
        return *this;
    }
    // True if they are equal; `report` gets the differences, as JSON.
    template <class Rep, class Period>
    static bool verify(const hold &hold, std::string_view map, std::string_view origin,
                       std::chrono::duration<Rep, Period> timeout, std::string *report = nullptr) {
        bytes text;
        bool equal = detail::call(ch_replica_verify, hold.get(), detail::name(map), detail::name(origin), nullptr,
                                  detail::nanoseconds(timeout), text.raw());
        if (report) *report = text.string();
        return equal;
    }

    template <class Rep, class Period>
    bool wait_ready(std::chrono::duration<Rep, Period> timeout) const {
        return detail::call(ch_replica_wait_ready, get(), detail::nanoseconds(timeout));
    }
    template <class Rep, class Period>
    bool wait_for(ch_position position, std::chrono::duration<Rep, Period> timeout) const {
        return detail::call(ch_replica_wait_for, get(), &position, detail::nanoseconds(timeout));
    }
    ch_replica_status_t status() const {
        ch_replica_status_t status;
        detail::call(ch_replica_status, get(), &status);
        return status;
    }
    std::string describe() const { return detail::text_of(ch_replica_describe, get()); }

    ch_replica *get() const noexcept { return raw_.get(); }

private:
    explicit replica(replica_options options) : options_(std::make_unique<replica_options>(std::move(options))) {}

    ch_replica_options raw_options() const {
        ch_replica_options raw = CH_REPLICA_OPTIONS_INIT;
        raw.secret = options_->secret.data();
        raw.secret_len = options_->secret.size();
        raw.first_pause_ns = detail::nanoseconds(options_->first_pause);
        raw.longest_pause_ns = detail::nanoseconds(options_->longest_pause);
        if (options_->changed) raw.changed = [](void *user, const ch_change *found) noexcept {
            static_cast<replica_options *>(user)->changed(change::of(*found));
        };
        if (options_->ready) raw.ready = [](void *user, ch_position position) noexcept {
            static_cast<replica_options *>(user)->ready(position);
        };
        if (options_->lost) raw.lost = [](void *user, const char *why) noexcept {
            static_cast<replica_options *>(user)->lost(why);
        };
        raw.user = options_.get();
        return raw;
    }

    // Outlives the thread that calls back.
    std::unique_ptr<replica_options> options_;
    detail::owned<ch_replica, ch_replica_free> raw_;
};

// Records a map's changes in a file.
class journal {
public:
    journal(const hold &hold, std::string_view map, std::string_view file, ch_journal_options options = CH_JOURNAL_OPTIONS_INIT) {
        ch_journal *found;
        detail::call(ch_journal_start, hold.get(), detail::name(map), detail::name(file), &options, &found);
        raw_.reset(found);
    }
    // Rebuilds a map that does not exist from its journal; returns a report as JSON.
    static std::string rebuild(const hold &hold, std::string_view map, std::string_view file) {
        return detail::text_of(ch_journal_rebuild, hold.get(), detail::name(map), detail::name(file));
    }
    std::string describe() const { return detail::text_of(ch_journal_describe, raw_.get()); }
    bool is_over() const { return detail::call(ch_journal_is_over, raw_.get()); }

private:
    detail::owned<ch_journal, ch_journal_free> raw_;
};

} // namespace commonhold

#endif
