// The structures of a hold by name: hold::maps(), hold::queues(), hold::channels(), hold::logs().
#ifndef COMMONHOLD_BY_NAME_HPP
#define COMMONHOLD_BY_NAME_HPP

#include <commonhold/channel.hpp>
#include <commonhold/log.hpp>
#include <commonhold/map.hpp>
#include <commonhold/queue.hpp>
#include <commonhold/typed.hpp>

#include <vector>

namespace commonhold {

namespace detail {
// A handle that a C function returns in its last parameter.
template <class Handle, class Raw, class Function, class... Arguments>
Handle opened(Function function, const ch_hold *hold, std::string_view text, Arguments... arguments) {
    Raw *found;
    call(function, hold, name(text), arguments..., &found);
    return Handle(found);
}
} // namespace detail

// The maps of a hold; see ch_map_open() and the functions that follow it. Maps, queues, channels
// and logs share one space of names. Cheap to copy; must not outlive the hold.
class maps {
public:
    explicit maps(const ch_hold *hold) noexcept : hold_(hold) {}

    // Opens a map, whatever its options. Throws not_found.
    map open(std::string_view name) const { return detail::opened<map, ch_map>(ch_map_open, hold_, name); }
    map open_or_create(std::string_view name, const map_options &options = {}) const {
        return made(ch_map_open_or_create, name, options);
    }
    // Throws exists if the map exists.
    map create(std::string_view name, const map_options &options = {}) const {
        return made(ch_map_create, name, options);
    }
    // The same for a fixed-length map of these types; see typed_map for others.
    template <plain_key Key, plain Value>
    typed_map<Key, Value> open_or_create(std::string_view name) const {
        return typed_map<Key, Value>(open_or_create(name, map_options::fixed(sizeof(Key), sizeof(Value))));
    }
    template <plain_key Key, plain Value>
    typed_map<Key, Value> create(std::string_view name) const {
        return typed_map<Key, Value>(create(name, map_options::fixed(sizeof(Key), sizeof(Value))));
    }
    // False if there is none.
    bool drop(std::string_view name) const { return detail::call(ch_map_drop, hold_, detail::name(name)); }
    // As JSON, sorted by name.
    std::string list() const { return detail::text_of(ch_map_list, hold_); }

    // Gives a map a stream, which map::follow() needs. A stream of another size begins again. False
    // if the map has one of this size, or of any size and `bytes` is 0.
    bool begin_stream(std::string_view name, std::uint64_t bytes) const {
        return detail::call(ch_map_begin_stream, hold_, detail::name(name), bytes);
    }
    // Makes a replica's map writable for every process. False if it is writable already.
    std::optional<ch_promotion> promote(std::string_view name) const {
        ch_promotion done;
        if (!detail::call(ch_map_promote, hold_, detail::name(name), &done)) return std::nullopt;
        return done;
    }

private:
    template <class Function>
    map made(Function function, std::string_view name, const map_options &options) const {
        ch_map_options raw = options.raw();
        return detail::opened<map, ch_map>(function, hold_, name, &raw);
    }

    const ch_hold *hold_;
};

// The queues of a hold; the functions are those of maps.
class queues {
public:
    explicit queues(const ch_hold *hold) noexcept : hold_(hold) {}

    queue open(std::string_view name) const { return detail::opened<queue, ch_queue>(ch_queue_open, hold_, name); }
    queue open_or_create(std::string_view name, const queue_options &options) const {
        return made(ch_queue_open_or_create, name, options);
    }
    queue create(std::string_view name, const queue_options &options) const {
        return made(ch_queue_create, name, options);
    }
    // False if there is none. Throws busy while another process has it open.
    bool drop(std::string_view name) const { return detail::call(ch_queue_drop, hold_, detail::name(name)); }
    std::string list() const { return detail::text_of(ch_queue_list, hold_); }
    // A queue's statistics as JSON; works even in a read-only hold, where no queue can be opened.
    std::string describe(std::string_view name) const {
        return detail::text_of(ch_queue_describe_by_name, hold_, detail::name(name));
    }

private:
    template <class Function>
    queue made(Function function, std::string_view name, const queue_options &options) const {
        detail::name orphans(options.orphans);
        std::vector<detail::name> names(options.queues.begin(), options.queues.end());
        std::vector<const char *> texts(names.begin(), names.end());
        ch_queue_options raw = CH_QUEUE_OPTIONS_INIT;
        raw.elements = options.elements;
        raw.element_bytes = options.element_bytes;
        raw.queues = texts.data();
        raw.queue_count = texts.size();
        raw.orphans = options.orphans.empty() ? nullptr : static_cast<const char *>(orphans);
        return detail::opened<queue, ch_queue>(function, hold_, name, &raw);
    }

    const ch_hold *hold_;
};

// The channels of a hold; the functions are those of maps. A new channel has a ring of
// `ring_bytes`, a power of two.
class channels {
public:
    explicit channels(const ch_hold *hold) noexcept : hold_(hold) {}

    channel open(std::string_view name) const {
        return detail::opened<channel, ch_channel>(ch_channel_open, hold_, name);
    }
    channel open_or_create(std::string_view name, std::uint64_t ring_bytes) const {
        return detail::opened<channel, ch_channel>(ch_channel_open_or_create, hold_, name, ring_bytes);
    }
    channel create(std::string_view name, std::uint64_t ring_bytes) const {
        return detail::opened<channel, ch_channel>(ch_channel_create, hold_, name, ring_bytes);
    }
    // False if there is none. Throws busy while another handle has it open.
    bool drop(std::string_view name) const { return detail::call(ch_channel_drop, hold_, detail::name(name)); }
    std::string list() const { return detail::text_of(ch_channel_list, hold_); }

private:
    const ch_hold *hold_;
};

// The logs of a hold; the functions are those of maps.
class logs {
public:
    explicit logs(const ch_hold *hold) noexcept : hold_(hold) {}

    log open(std::string_view name) const { return detail::opened<log, ch_log>(ch_log_open, hold_, name); }
    log open_or_create(std::string_view name, const log_options &options = {}) const {
        return made(ch_log_open_or_create, name, options);
    }
    log create(std::string_view name, const log_options &options = {}) const {
        return made(ch_log_create, name, options);
    }
    // False if there is none. Throws busy while another process has it open.
    bool drop(std::string_view name) const { return detail::call(ch_log_drop, hold_, detail::name(name)); }
    std::string list() const { return detail::text_of(ch_log_list, hold_); }

private:
    template <class Function>
    log made(Function function, std::string_view name, const log_options &options) const {
        ch_log_options raw = CH_LOG_OPTIONS_INIT;
        raw.ring_bytes = options.ring_bytes;
        raw.rings = options.rings;
        raw.overflow = options.overwrite;
        raw.level = std::uint32_t(options.level);
        raw.direct = options.direct;
        return detail::opened<log, ch_log>(function, hold_, name, &raw);
    }

    const ch_hold *hold_;
};

} // namespace commonhold

#endif
