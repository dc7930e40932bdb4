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
    bool allow_unauthenticated = false;
    ch_compression compression = CH_COMPRESS_AUTO;
};

namespace detail {
// Refers to `options`, which outlive the origin.
inline ch_origin_options raw_options(origin_options &options) {
    ch_origin_options raw = CH_ORIGIN_OPTIONS_INIT;
    raw.stream_bytes = options.stream_bytes;
    raw.watermark = options.watermark;
    raw.delay_ns = detail::nanoseconds(options.delay);
    raw.secret = options.secret.data();
    raw.secret_len = options.secret.size();
    if (options.notice) raw.notice = [](void *user, const char *text) noexcept {
        static_cast<origin_options *>(user)->notice(text);
    };
    raw.user = &options;
    raw.allowed_uids = options.allowed_uids.data();
    raw.allowed_uid_count = options.allowed_uids.size();
    raw.most_replicas = options.most_replicas;
    raw.io_threads = options.io_threads;
    raw.kind = std::uint32_t(options.loop);
    raw.explicit_transmission = options.explicit_transmission;
    raw.allow_unauthenticated = options.allow_unauthenticated;
    raw.compression = std::uint32_t(options.compression);
    return raw;
}
} // namespace detail

// Serves a map to replicas.
class origin {
public:
    origin(const hold &hold, std::string_view map, origin_options options = {})
        : options_(std::make_unique<origin_options>(std::move(options))) {
        ch_origin_options raw = detail::raw_options(*options_);
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
    // Sends the pending changes to every replica, within this time, and ends.
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
    // For map::wait_for_replica() at the origin; different from those of the origin's other replicas.
    std::string name = "";
    // Further addresses of the map; if the connection is lost, the replica tries all of them in turn.
    std::vector<std::string> also = {};
    // The map's name at the origin, if it is another.
    std::string origin_map = "";
    // For a relay: the map gets a stream of this size with the origin's positions.
    std::uint64_t stream_bytes = 0;
    // Accepts, for one connection, an origin of another map or of an earlier epoch.
    bool adopt = false;
    ch_compression compression = CH_COMPRESS_AUTO;
    // Only the pairs whose keys begin with this, 1 to 255 bytes; empty: all. See ch_replica_options.
    std::string prefix = "";
};

namespace detail {
// Pointers to texts, each without a NUL in it.
inline std::vector<const char *> names_of(const std::vector<std::string> &texts) {
    std::vector<const char *> names;
    for (const std::string &text : texts) {
        detail::name{text}; // throws for a NUL
        names.push_back(text.c_str());
    }
    return names;
}

// Refers to `options`, which outlive the replica, and to `also`, which gets the addresses.
inline ch_replica_options raw_options(replica_options &options, std::vector<const char *> &also) {
    ch_replica_options raw = CH_REPLICA_OPTIONS_INIT;
    raw.secret = options.secret.data();
    raw.secret_len = options.secret.size();
    raw.first_pause_ns = detail::nanoseconds(options.first_pause);
    raw.longest_pause_ns = detail::nanoseconds(options.longest_pause);
    if (options.changed) raw.changed = [](void *user, const ch_change *found) noexcept {
        static_cast<replica_options *>(user)->changed(change::of(*found));
    };
    if (options.ready) raw.ready = [](void *user, ch_position position) noexcept {
        static_cast<replica_options *>(user)->ready(position);
    };
    if (options.lost) raw.lost = [](void *user, const char *why) noexcept {
        static_cast<replica_options *>(user)->lost(why);
    };
    raw.user = &options;
    detail::name{options.name}; // throws for a NUL
    raw.name = options.name.c_str();
    also = names_of(options.also);
    raw.also = also.data();
    raw.also_count = also.size();
    detail::name{options.origin_map};
    if (!options.origin_map.empty()) raw.origin_map = options.origin_map.c_str();
    raw.stream_bytes = options.stream_bytes;
    raw.adopt = options.adopt;
    raw.compression = std::uint32_t(options.compression);
    if (!options.prefix.empty()) raw.prefix = options.prefix.data();
    raw.prefix_len = options.prefix.size();
    return raw;
}
} // namespace detail

// Keeps a map equal to an origin's map.
class replica {
public:
    static replica connect(const hold &hold, std::string_view map, std::string_view origin,
                           replica_options options = {}) {
        replica made(std::move(options));
        std::vector<const char *> also;
        ch_replica_options raw = detail::raw_options(*made.options_, also);
        ch_replica *found;
        detail::call(ch_replica_connect, hold.get(), detail::name(map), detail::name(origin), &raw, &found);
        made.raw_.reset(found);
        return made;
    }
    // Takes the descriptor over, unless it throws.
    static replica attach(const hold &hold, std::string_view map, int socket, replica_options options = {}) {
        replica made(std::move(options));
        std::vector<const char *> also;
        ch_replica_options raw = detail::raw_options(*made.options_, also);
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

    // Outlives the thread that calls back.
    std::unique_ptr<replica_options> options_;
    detail::owned<ch_replica, ch_replica_free> raw_;
};

// Options of a journal; see ch_journal_options.
struct journal_options {
    ch_sync_policy sync = CH_SYNC_ALWAYS;
    // For CH_SYNC_EVERY.
    std::chrono::milliseconds every{0};
    std::uint64_t stream_bytes = 0;
    std::uint64_t compact_bytes = 0;
    bool replace = false;
    // How long earlier states of the map can be restored; 0: the journal keeps no segments.
    std::chrono::milliseconds keep{0};
    std::chrono::milliseconds segment_time{0};
    // The directory of the segments, if it is not the file's path and .d.
    std::string archive = "";
    // For rebuild(): leaves damaged parts of the file out, instead of refusing it.
    bool skip_damaged = false;

    // Valid as long as this.
    ch_journal_options raw() const {
        ch_journal_options raw = CH_JOURNAL_OPTIONS_INIT;
        raw.stream_bytes = stream_bytes;
        raw.compact_bytes = compact_bytes;
        raw.every_ms = detail::milliseconds(every);
        raw.sync = std::uint32_t(sync);
        raw.replace = replace;
        raw.keep_ms = detail::milliseconds(keep);
        raw.segment_ms = detail::milliseconds(segment_time);
        detail::name{archive}; // throws for a NUL
        if (!archive.empty()) raw.archive = archive.c_str();
        raw.skip_damaged = skip_damaged;
        return raw;
    }
};

// Records a map's changes in a file.
class journal {
public:
    journal(const hold &hold, std::string_view map, std::string_view file, const journal_options &options = {}) {
        ch_journal_options raw = options.raw();
        ch_journal *found;
        detail::call(ch_journal_start, hold.get(), detail::name(map), detail::name(file), &raw, &found);
        raw_.reset(found);
    }
    // Rebuilds a map that does not exist from its journal; returns a report as JSON.
    static std::string rebuild(const hold &hold, std::string_view map, std::string_view file,
                               const journal_options &options = {}) {
        ch_journal_options raw = options.raw();
        return detail::text_of(ch_journal_rebuild, hold.get(), detail::name(map), detail::name(file), &raw);
    }
    // Finds the last state of a map whose time is not later, in the journal's file and its segments; as
    // JSON. Options: archive, skip_damaged.
    static std::string find_state(std::string_view file, std::chrono::system_clock::time_point at,
                                  const journal_options &options = {}) {
        ch_journal_options raw = options.raw();
        return detail::text_of(ch_journal_find_state, detail::name(file), milliseconds_of(at), &raw);
    }
    // Rebuilds a map that does not exist as it was in that state; returns a report as JSON.
    static std::string rebuild_state(const hold &hold, std::string_view map, std::string_view file,
                                     std::chrono::system_clock::time_point at, const journal_options &options = {}) {
        ch_journal_options raw = options.raw();
        return detail::text_of(ch_journal_rebuild_state, hold.get(), detail::name(map), detail::name(file),
                               milliseconds_of(at), &raw);
    }
    // Reads a time such as "2026-11-23 10:15" (UTC); see ch_journal_time().
    static std::chrono::system_clock::time_point time(std::string_view text) {
        std::uint64_t at_ms;
        detail::call(ch_journal_time, detail::name(text), &at_ms);
        return std::chrono::system_clock::time_point(std::chrono::milliseconds(at_ms));
    }
    std::string describe() const { return detail::text_of(ch_journal_describe, raw_.get()); }
    bool is_over() const { return detail::call(ch_journal_is_over, raw_.get()); }
    // Writes all changes, makes them durable, and ends; throws if not everything is durable. The
    // destructor does the same, but reports nothing.
    void finish() { detail::call(ch_journal_finish, raw_.release()); }

private:
    static std::uint64_t milliseconds_of(std::chrono::system_clock::time_point at) {
        auto count = std::chrono::floor<std::chrono::milliseconds>(at).time_since_epoch().count();
        return count < 0 ? 0 : std::uint64_t(count);
    }

    detail::owned<ch_journal, ch_journal_free> raw_;
};

} // namespace commonhold

#endif
