// Whole holds over the network: all maps of a hold, from one origin.
#ifndef COMMONHOLD_REPLICATE_HOLD_HPP
#define COMMONHOLD_REPLICATE_HOLD_HPP

#include <commonhold/replicate.hpp>

namespace commonhold {

// Options of an origin of a whole hold; see ch_hold_origin_options.
struct hold_origin_options {
    // Of each map's origin.
    origin_options origin = {};
    // Patterns of the names of the maps to serve; none: all maps.
    std::vector<std::string> maps = {};
};

// Options of a replica of a whole hold; see ch_hold_replica_options. Its threads make the callbacks,
// several at a time; they must not throw.
struct hold_replica_options {
    // Of each map's replica, without callbacks, origin_map and prefix.
    replica_options replica = {};
    // Patterns of the names of the maps to follow; none: all maps.
    std::vector<std::string> maps = {};
    std::function<void(std::string_view map, ch_position)> ready = nullptr;
    // Without a map: the connection that names the maps.
    std::function<void(std::optional<std::string_view> map, std::string_view why)> lost = nullptr;
    std::function<void(std::string_view map, std::string_view why)> skipped = nullptr;
    std::function<void(std::string_view map)> dropped = nullptr;
};

// Serves all maps of a hold to replicas, at the same addresses: those that exist, and those that are
// created while it runs.
class hold_origin {
public:
    explicit hold_origin(const hold &hold, hold_origin_options options = {})
        : options_(std::make_unique<hold_origin_options>(std::move(options))) {
        ch_origin_options each = detail::raw_options(options_->origin);
        std::vector<const char *> maps = detail::names_of(options_->maps);
        ch_hold_origin_options raw = CH_HOLD_ORIGIN_OPTIONS_INIT;
        raw.origin = &each;
        raw.maps = maps.data();
        raw.map_count = maps.size();
        ch_hold_origin *found;
        detail::call(ch_hold_origin_start, hold.get(), &raw, &found);
        raw_.reset(found);
    }
    hold_origin(hold_origin &&) = default;
    // Ends the threads that call back before the callbacks are destroyed.
    hold_origin &operator=(hold_origin &&other) noexcept {
        raw_ = std::move(other.raw_);
        options_ = std::move(other.options_);
        return *this;
    }
    // Returns the address with the port that the system chose.
    std::string listen(std::string_view at) { return detail::text_of(ch_hold_origin_listen, get(), detail::name(at)); }
    // Takes the descriptor over, unless it throws.
    std::string listen_on(int socket) { return detail::text_of(ch_hold_origin_listen_on, get(), socket); }
    // The number of maps that it serves; and each with its replicas, as JSON.
    std::size_t maps() const {
        std::size_t count;
        detail::call(ch_hold_origin_maps, get(), &count, nullptr);
        return count;
    }
    std::string describe() const { return detail::text_of(ch_hold_origin_maps, get(), nullptr); }
    // Sends the pending changes to every replica, within this time, and ends.
    template <class Rep, class Period>
    void finish(std::chrono::duration<Rep, Period> timeout) {
        detail::call(ch_hold_origin_finish, raw_.release(), detail::nanoseconds(timeout));
    }

    ch_hold_origin *get() const noexcept { return raw_.get(); }

private:
    // Outlives the threads that call back.
    std::unique_ptr<hold_origin_options> options_;
    detail::owned<ch_hold_origin, ch_hold_origin_free> raw_;
};

// Keeps the maps of a hold equal to those of an origin's hold: those that exist, and those that are
// created later.
class hold_replica {
public:
    static hold_replica connect(const hold &hold, std::string_view origin, hold_replica_options options = {}) {
        hold_replica made(std::move(options));
        hold_replica_options &kept = *made.options_;
        std::vector<const char *> also, maps = detail::names_of(kept.maps);
        ch_replica_options each = detail::raw_options(kept.replica, also);
        ch_hold_replica_options raw = CH_HOLD_REPLICA_OPTIONS_INIT;
        raw.replica = &each;
        raw.maps = maps.data();
        raw.map_count = maps.size();
        set_callbacks(raw, kept);
        ch_hold_replica *found;
        detail::call(ch_hold_replica_connect, hold.get(), detail::name(origin), &raw, &found);
        made.raw_.reset(found);
        return made;
    }
    hold_replica(hold_replica &&) = default;
    // Ends the threads that call back before the callbacks are destroyed.
    hold_replica &operator=(hold_replica &&other) noexcept {
        raw_ = std::move(other.raw_);
        options_ = std::move(other.options_);
        return *this;
    }
    // Waits until every map that can be followed equals the origin's; false: not in time.
    template <class Rep, class Period>
    bool wait_ready(std::chrono::duration<Rep, Period> timeout) const {
        return detail::call(ch_hold_replica_wait_ready, get(), detail::nanoseconds(timeout));
    }
    // Its status, as JSON.
    std::string describe() const { return detail::text_of(ch_hold_replica_describe, get()); }

    ch_hold_replica *get() const noexcept { return raw_.get(); }

private:
    explicit hold_replica(hold_replica_options options)
        : options_(std::make_unique<hold_replica_options>(std::move(options))) {}

    static void set_callbacks(ch_hold_replica_options &raw, hold_replica_options &options) {
        if (options.ready) raw.ready = [](void *user, const char *map, ch_position position) noexcept {
            static_cast<hold_replica_options *>(user)->ready(map, position);
        };
        if (options.lost) raw.lost = [](void *user, const char *map, const char *why) noexcept {
            auto name = map ? std::optional<std::string_view>(map) : std::nullopt;
            static_cast<hold_replica_options *>(user)->lost(name, why);
        };
        if (options.skipped) raw.skipped = [](void *user, const char *map, const char *why) noexcept {
            static_cast<hold_replica_options *>(user)->skipped(map, why);
        };
        if (options.dropped) raw.dropped = [](void *user, const char *map) noexcept {
            static_cast<hold_replica_options *>(user)->dropped(map);
        };
        raw.user = &options;
    }

    // Outlives the threads that call back.
    std::unique_ptr<hold_replica_options> options_;
    detail::owned<ch_hold_replica, ch_hold_replica_free> raw_;
};

} // namespace commonhold

#endif
