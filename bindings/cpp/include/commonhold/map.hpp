// Maps: hash tables, bytes to bytes.
#ifndef COMMONHOLD_MAP_HPP
#define COMMONHOLD_MAP_HPP

#include <commonhold/many.hpp>
#include <commonhold/walk.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace commonhold {

// Options for creating a map.
struct map_options {
    ch_map_mode mode = CH_GENERAL;
    std::uint32_t key_bytes = 0;
    std::uint32_t value_bytes = 0;
    std::uint32_t value_room = 0;
    std::uint64_t max_bytes = 0;
    std::uint64_t max_entries = 0;
    std::chrono::milliseconds ttl{0};

    static map_options general() { return {}; }
    static map_options fixed(std::size_t key_bytes, std::size_t value_bytes) {
        map_options options;
        options.mode = CH_FIXED;
        options.key_bytes = static_cast<std::uint32_t>(key_bytes);
        options.value_bytes = static_cast<std::uint32_t>(value_bytes);
        return options;
    }
    // A cache; 0 is no limit.
    static map_options cache(std::uint64_t max_bytes = 0, std::uint64_t max_entries = 0,
                             std::chrono::milliseconds ttl = std::chrono::milliseconds(0)) {
        map_options options;
        options.mode = CH_CACHE;
        options.max_bytes = max_bytes;
        options.max_entries = max_entries;
        options.ttl = ttl;
        return options;
    }
    ch_map_options raw() const noexcept {
        ch_map_options raw = CH_MAP_OPTIONS_INIT;
        raw.mode = std::uint32_t(mode);
        raw.key_bytes = key_bytes;
        raw.value_bytes = value_bytes;
        raw.value_room = value_room;
        raw.max_bytes = max_bytes;
        raw.max_entries = max_entries;
        raw.ttl_ms = detail::milliseconds(ttl);
        return raw;
    }
};

// A stable id of a key.
enum class uid : std::uint32_t {};

struct pair {
    std::string key;
    std::string value;
};

// The values that a batch finds; reusable.
class values {
public:
    values() {
        ch_values *raw;
        detail::call(ch_values_new, &raw);
        raw_.reset(raw);
    }
    std::size_t size() const noexcept { return found_.size(); }
    // The value of the key at `index`; valid until the next batch.
    std::optional<std::string_view> operator[](std::size_t index) const noexcept {
        if (found_[index].data == nullptr) return std::nullopt;
        return as_text(found_[index]);
    }

private:
    friend class map;
    detail::owned<ch_values, ch_values_free> raw_;
    std::vector<ch_slice> keys_, found_;
};

// A handle on one pair (map::pair()), for a key that a thread reads or writes often: it remembers
// where the pair is, and finds it again after any change. One thread at a time.
class pair_handle {
public:
    explicit pair_handle(ch_pair *raw) noexcept : raw_(raw) {}

    // As map::get(), map::get_into(), map::set() and map::increment().
    std::optional<std::string> get() const {
        char room[256];
        std::size_t len;
        if (!detail::call(ch_pair_get_into, raw_.get(), room, sizeof room, &len)) return std::nullopt;
        if (len <= sizeof room) return std::string(room, len);
        bytes value;
        if (!get(value)) return std::nullopt;
        return value.string();
    }
    bool get(bytes &value) const { return detail::call(ch_pair_get, raw_.get(), value.raw()); }
    std::optional<std::size_t> get_into(std::span<std::byte> room) const {
        std::size_t len;
        if (!detail::call(ch_pair_get_into, raw_.get(), room.data(), room.size(), &len)) return std::nullopt;
        return len;
    }
    commonhold::uid set(bytes_in value) const {
        std::uint32_t raw;
        detail::call(ch_pair_set, raw_.get(), value.data(), value.size(), &raw);
        return commonhold::uid(raw);
    }
    std::int64_t increment(std::int64_t by = 1) const {
        std::int64_t sum;
        detail::call(ch_pair_increment, raw_.get(), by, &sum);
        return sum;
    }

private:
    detail::owned<ch_pair, ch_pair_free> raw_;
};

// A map in a hold. Usable from any number of threads.
class map {
public:
    explicit map(ch_map *raw) noexcept : raw_(raw) {}

    std::string_view name() const {
        ch_slice name;
        detail::call(ch_map_name, get(), &name);
        return as_text(name);
    }
    ch_map_options options() const {
        ch_map_options options = CH_MAP_OPTIONS_INIT;
        detail::call(ch_map_get_options, get(), &options);
        return options;
    }
    bool is_replica() const { return detail::call(ch_map_is_replica, get()); }

    // A copy of the value of a key.
    std::optional<std::string> get(bytes_in key) const {
        char room[256];
        std::size_t len;
        if (!detail::call(ch_map_get_into, get(), key.data(), key.size(), room, sizeof room, &len)) return std::nullopt;
        if (len <= sizeof room) return std::string(room, len);
        bytes value;
        if (!get(key, value)) return std::nullopt;
        return value.string();
    }
    // The same into a buffer; false if the key is absent.
    bool get(bytes_in key, bytes &value) const {
        return detail::call(ch_map_get, get(), key.data(), key.size(), value.raw());
    }
    // The same into the caller's memory, as much as fits; returns the length of the
    // whole value.
    std::optional<std::size_t> get_into(bytes_in key, std::span<std::byte> room) const {
        std::size_t len;
        if (!detail::call(ch_map_get_into, get(), key.data(), key.size(), room.data(), room.size(), &len))
            return std::nullopt;
        return len;
    }
    // Many at once: any range of elements that convert to bytes. Returns the number of present
    // keys.
    template <std::ranges::input_range Keys>
    std::size_t get_many(Keys &&keys, values &out) const {
        detail::slicer<Keys> slicer;
        out.keys_.clear();
        for (auto &&key : keys) out.keys_.push_back(slicer.template slice<decltype(key)>(key));
        // After an error `values` is empty: its earlier contents are no longer valid.
        out.found_.assign(out.keys_.size(), ch_slice{nullptr, 0});
        std::size_t present;
        detail::call(ch_map_get_many, get(), out.keys_.data(), out.keys_.size(), out.raw_.get(), out.found_.data(),
                     &present);
        return present;
    }
    bool contains(bytes_in key) const { return detail::call(ch_map_contains, get(), key.data(), key.size()); }
    std::optional<commonhold::uid> uid(bytes_in key) const {
        return identified(ch_map_uid, key.data(), key.size());
    }

    commonhold::uid set(bytes_in key, bytes_in value) const {
        return *identified(ch_map_set, key.data(), key.size(), value.data(), value.size());
    }
    // In caches: the pair expires after this time.
    template <class Rep, class Period>
    commonhold::uid set_with_ttl(bytes_in key, bytes_in value, std::chrono::duration<Rep, Period> ttl) const {
        return *identified(ch_map_set_with_ttl, key.data(), key.size(), value.data(), value.size(),
                           detail::milliseconds(ttl));
    }
    // In caches: another handle on the same map; everything that it writes expires after this time.
    template <class Rep, class Period>
    map with_ttl(std::chrono::duration<Rep, Period> ttl) const {
        ch_map *found;
        detail::call(ch_map_with_ttl, get(), detail::milliseconds(ttl), &found);
        return map(found);
    }
    // Any range of pairs that convert to bytes, in order.
    template <std::ranges::input_range Pairs>
    void set_many(Pairs &&pairs) const {
        using Pair = std::ranges::range_reference_t<Pairs>;
        detail::slicer<Pairs> slicer;
        std::vector<ch_slice> keys, values;
        for (auto &&[key, value] : pairs) {
            keys.push_back(slicer.template slice<detail::member<Pair, decltype(key)>>(key));
            values.push_back(slicer.template slice<detail::member<Pair, decltype(value)>>(value));
        }
        detail::call(ch_map_set_many, get(), keys.data(), values.data(), keys.size());
    }
    // Only if the key is absent; only if it is present. std::nullopt: the condition was false.
    std::optional<commonhold::uid> add(bytes_in key, bytes_in value) const {
        return identified(ch_map_add, key.data(), key.size(), value.data(), value.size());
    }
    std::optional<commonhold::uid> replace(bytes_in key, bytes_in value) const {
        return identified(ch_map_replace, key.data(), key.size(), value.data(), value.size());
    }
    // From one state to another; std::nullopt means absent. False: it was in another state.
    bool compare_exchange(bytes_in key, std::optional<bytes_in> expected, std::optional<bytes_in> replacement) const {
        state from(expected), to(replacement);
        return detail::call(ch_map_compare_exchange, get(), key.data(), key.size(), from.get(), to.get());
    }
    // The same in a cache, for a new value that expires after `ttl`.
    template <class Rep, class Period>
    bool compare_exchange_with_ttl(bytes_in key, std::optional<bytes_in> expected, std::optional<bytes_in> replacement,
                                   std::chrono::duration<Rep, Period> ttl) const {
        state from(expected), to(replacement);
        return detail::call(ch_map_compare_exchange_with_ttl, get(), key.data(), key.size(), from.get(), to.get(),
                            detail::milliseconds(ttl));
    }
    // The time after which a pair expires: milliseconds::max() if it never does, as in maps that are
    // not caches; std::nullopt if the key is absent.
    std::optional<std::chrono::milliseconds> remaining_ttl(bytes_in key) const {
        std::uint64_t left;
        if (!detail::call(ch_map_remaining_ttl, get(), key.data(), key.size(), &left)) return std::nullopt;
        using time = std::chrono::milliseconds;
        constexpr auto most = static_cast<std::uint64_t>(time::max().count());
        return left < most ? time(static_cast<time::rep>(left)) : time::max();
    }
    // In caches: makes the pair expire `ttl` from now, and keeps its value. False if the key is
    // absent.
    template <class Rep, class Period>
    bool touch(bytes_in key, std::chrono::duration<Rep, Period> ttl) const {
        return detail::call(ch_map_touch, get(), key.data(), key.size(), detail::milliseconds(ttl));
    }
    // False if the key is absent.
    bool erase(bytes_in key) const { return detail::call(ch_map_delete, get(), key.data(), key.size()); }
    std::optional<std::string> take(bytes_in key) const {
        bytes value;
        if (!detail::call(ch_map_take, get(), key.data(), key.size(), value.raw())) return std::nullopt;
        return value.string();
    }
    std::int64_t increment(bytes_in key, std::int64_t by = 1) const {
        std::int64_t sum;
        detail::call(ch_map_increment, get(), key.data(), key.size(), by, &sum);
        return sum;
    }
    // A handle on the pair with this key, which may be absent.
    pair_handle pair(bytes_in key) const {
        ch_pair *raw;
        detail::call(ch_map_pair, get(), key.data(), key.size(), &raw);
        return pair_handle(raw);
    }
    // Calls `decide(std::optional<std::string_view> old)` for the new value (std::nullopt deletes),
    // and again if another process changed the key meanwhile. Its exceptions leave the call,
    // and nothing is changed.
    template <class Decide>
    std::optional<commonhold::uid> update(bytes_in key, Decide &&decide) const {
        decision<Decide> asked{decide, {}};
        std::uint32_t raw;
        bool done = asked.caught.call(ch_map_update, get(), key.data(), key.size(), asked.ask, &asked, &raw);
        return done ? std::optional(commonhold::uid(raw)) : std::nullopt;
    }

    // By uid: reading returns the key; writing requires it, and returns false if the uid does not
    // name it (any more).
    std::optional<commonhold::pair> get_uid(commonhold::uid id) const {
        bytes key, value;
        if (!detail::call(ch_map_get_uid, get(), std::uint32_t(id), key.raw(), value.raw())) return std::nullopt;
        return commonhold::pair{key.string(), value.string()};
    }
    bool set_uid(commonhold::uid id, bytes_in key, bytes_in value) const {
        return detail::call(ch_map_set_uid, get(), std::uint32_t(id), key.data(), key.size(), value.data(),
                            value.size());
    }
    bool erase_uid(commonhold::uid id, bytes_in key) const {
        return detail::call(ch_map_delete_uid, get(), std::uint32_t(id), key.data(), key.size());
    }
    std::optional<std::string> take_uid(commonhold::uid id, bytes_in key) const {
        bytes value;
        if (!detail::call(ch_map_take_uid, get(), std::uint32_t(id), key.data(), key.size(), value.raw()))
            return std::nullopt;
        return value.string();
    }
    std::optional<std::int64_t> increment_uid(commonhold::uid id, bytes_in key, std::int64_t by) const {
        std::int64_t sum;
        if (!detail::call(ch_map_increment_uid, get(), std::uint32_t(id), key.data(), key.size(), by, &sum))
            return std::nullopt;
        return sum;
    }
    bool compare_exchange_uid(commonhold::uid id, bytes_in key, bytes_in expected,
                          std::optional<bytes_in> replacement) const {
        state from(expected), to(replacement);
        return detail::call(ch_map_compare_exchange_uid, get(), std::uint32_t(id), key.data(), key.size(), from.get(),
                            to.get());
    }
    template <class Decide>
    bool update_uid(commonhold::uid id, bytes_in key, Decide &&decide) const {
        decision<Decide> asked{decide, {}};
        return asked.caught.call(ch_map_update_uid, get(), std::uint32_t(id), key.data(), key.size(), asked.ask,
                                 &asked);
    }

    std::uint64_t size() const {
        std::uint64_t len;
        detail::call(ch_map_len, get(), &len);
        return len;
    }
    bool empty() const { return size() == 0; }
    std::uint64_t clear() const {
        std::uint64_t deleted;
        detail::call(ch_map_clear, get(), &deleted);
        return deleted;
    }
    std::optional<commonhold::pair> random_pair() const {
        bytes key, value;
        if (!detail::call(ch_map_random_pair, get(), key.raw(), value.raw())) return std::nullopt;
        return commonhold::pair{key.string(), value.string()};
    }

    // All pairs, as input ranges: for (auto [key, value] : map). Each pair is valid until the next.
    // See ch_map_iter().
    pair_iterator begin() const { return pairs().begin(); }
    std::default_sentinel_t end() const noexcept { return {}; }
    pair_range pairs(std::uint64_t cursor = 0) const { return pair_range(get(), cursor); }
    key_range keys() const { return key_range(get()); }

    // Lists as values.
    std::uint32_t push(bytes_in key, bytes_in element) const { return listed(ch_list_push, key, element); }
    std::uint32_t unshift(bytes_in key, bytes_in element) const { return listed(ch_list_unshift, key, element); }
    std::optional<std::string> pop(bytes_in key) const { return unlisted(ch_list_pop, key); }
    std::optional<std::string> shift(bytes_in key) const { return unlisted(ch_list_shift, key); }
    std::vector<std::string> list(bytes_in key) const {
        struct context {
            std::vector<std::string> all;
            detail::caught caught;
        } context;
        ch_each_fn each = [](void *user, ch_slice element) {
            auto *it = static_cast<struct context *>(user);
            return it->caught.keep(1, [&] { return it->all.emplace_back(as_text(element)), 0; });
        };
        context.caught.call(ch_list_each, get(), key.data(), key.size(), each, &context);
        return std::move(context.all);
    }

    // Follows changes from now on, or from a position on.
    commonhold::follower follow() const { return commonhold::follower(get(), nullptr); }
    commonhold::follower follow(ch_position from) const { return commonhold::follower(get(), &from); }

    // Waits until all earlier changes are durable in the journal.
    template <class Rep, class Period>
    ch_position sync(std::chrono::duration<Rep, Period> timeout) const {
        ch_position position;
        detail::call(ch_map_sync, get(), detail::nanoseconds(timeout), &position);
        return position;
    }
    // The same for the changes before a position, which follower::end() returns.
    template <class Rep, class Period>
    void sync_to(ch_position end, std::chrono::duration<Rep, Period> timeout) const {
        detail::call(ch_map_sync_to, get(), &end, detail::nanoseconds(timeout));
    }

    // Waits until at least `count` replicas have applied all earlier changes; returns their number.
    template <class Rep, class Period>
    std::uint64_t wait_for_replicas(std::uint64_t count, std::chrono::duration<Rep, Period> timeout) const {
        return count_applied(nullptr, count, detail::nanoseconds(timeout));
    }
    // The same for the changes before a position, which follower::end() returns.
    template <class Rep, class Period>
    std::uint64_t wait_for_replicas_to(ch_position end, std::uint64_t count,
                                       std::chrono::duration<Rep, Period> timeout) const {
        return count_applied(&end, count, detail::nanoseconds(timeout));
    }
    // The same for the replica of this name.
    template <class Rep, class Period>
    void wait_for_replica(std::string_view name, std::chrono::duration<Rep, Period> timeout) const {
        detail::call(ch_map_wait_for_replica, get(), nullptr, detail::name(name), detail::nanoseconds(timeout));
    }
    template <class Rep, class Period>
    void wait_for_replica_to(ch_position end, std::string_view name, std::chrono::duration<Rep, Period> timeout) const {
        detail::call(ch_map_wait_for_replica, get(), &end, detail::name(name), detail::nanoseconds(timeout));
    }
    // The age of a replica's contents, if it is known; see ch_map_lag().
    std::optional<std::chrono::nanoseconds> lag() const {
        std::uint64_t ns;
        if (!detail::call(ch_map_lag, get(), &ns)) return std::nullopt;
        return std::chrono::nanoseconds(std::int64_t(std::min(ns, std::uint64_t(INT64_MAX))));
    }
    // Throws stale if a replica's contents are older, or their age is not known. Reads that follow see
    // these contents or later ones.
    template <class Rep, class Period>
    void ensure_fresh(std::chrono::duration<Rep, Period> max_age) const {
        detail::call(ch_map_ensure_fresh, get(), detail::nanoseconds(max_age));
    }
    // As get(); throws stale if the value comes from older contents.
    template <class Rep, class Period>
    std::optional<std::string> get_fresh(bytes_in key, std::chrono::duration<Rep, Period> max_age) const {
        bytes value;
        auto age = detail::nanoseconds(max_age);
        if (!detail::call(ch_map_get_fresh, get(), key.data(), key.size(), age, value.raw())) return std::nullopt;
        return value.string();
    }
    std::string digest() const { return detail::text_of(ch_map_digest, get()); }
    ch_map_stat_t stat() const {
        ch_map_stat_t stat;
        detail::call(ch_map_stat, get(), &stat);
        return stat;
    }
    std::string describe() const { return detail::text_of(ch_map_describe, get()); }

#if defined(__cpp_lib_expected)
    // The same without exceptions.
    expected<std::optional<std::string>> expected_get(bytes_in key) const {
        bytes value;
        auto found = detail::expected_call(ch_map_get, get(), key.data(), key.size(), value.raw());
        if (!found) return std::unexpected(std::move(found.error()));
        return *found ? std::optional(value.string()) : std::nullopt;
    }
    expected<commonhold::uid> expected_set(bytes_in key, bytes_in value) const {
        std::uint32_t raw = 0;
        auto done = detail::expected_call(ch_map_set, get(), key.data(), key.size(), value.data(), value.size(), &raw);
        if (!done) return std::unexpected(std::move(done.error()));
        return commonhold::uid(raw);
    }
    expected<bool> expected_erase(bytes_in key) const {
        return detail::expected_call(ch_map_delete, get(), key.data(), key.size());
    }
    expected<std::int64_t> expected_increment(bytes_in key, std::int64_t by = 1) const {
        std::int64_t sum = 0;
        auto done = detail::expected_call(ch_map_increment, get(), key.data(), key.size(), by, &sum);
        if (!done) return std::unexpected(std::move(done.error()));
        return sum;
    }
#endif

    // For the functions of commonhold.h.
    ch_map *get() const noexcept { return raw_.get(); }

private:
    // A state of a key: bytes, or absent.
    class state {
    public:
        state(std::optional<bytes_in> bytes) : slice_(bytes ? bytes->slice() : ch_slice{}), is_(bytes.has_value()) {}
        const ch_slice *get() const noexcept { return is_ ? &slice_ : nullptr; }

    private:
        ch_slice slice_;
        bool is_;
    };

    std::uint64_t count_applied(const ch_position *end, std::uint64_t count, std::uint64_t timeout_ns) const {
        std::uint64_t applied;
        detail::call(ch_map_wait_for_replicas, get(), end, count, timeout_ns, &applied);
        return applied;
    }

    template <class Decide>
    struct decision {
        Decide &decide;
        detail::caught caught;

        static int ask(void *user, ch_slice old, ch_bytes *replacement) {
            auto *it = static_cast<decision *>(user);
            return it->caught.keep(int(CH_INVALID), [&]() -> int {
                auto was = old.data ? std::optional(as_text(old)) : std::nullopt;
                auto next = it->decide(was);
                if (!next) return CH_NONE;
                bytes_in found(*next);
                return ch_bytes_set(replacement, found.data(), found.size(), nullptr);
            });
        }
    };

    template <class Function, class... Arguments>
    std::optional<commonhold::uid> identified(Function function, Arguments... arguments) const {
        std::uint32_t raw;
        if (!detail::call(function, get(), arguments..., &raw)) return std::nullopt;
        return commonhold::uid(raw);
    }
    template <class Function>
    std::uint32_t listed(Function function, bytes_in key, bytes_in element) const {
        std::uint32_t len;
        detail::call(function, get(), key.data(), key.size(), element.data(), element.size(), &len);
        return len;
    }
    template <class Function>
    std::optional<std::string> unlisted(Function function, bytes_in key) const {
        bytes element;
        if (!detail::call(function, get(), key.data(), key.size(), element.raw())) return std::nullopt;
        return element.string();
    }

    detail::owned<ch_map, ch_map_free> raw_;
};

} // namespace commonhold

#endif
