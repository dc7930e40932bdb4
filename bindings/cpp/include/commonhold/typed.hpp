// Maps and channels of trivially copyable types: values are copied to and from shared memory
// unchanged.
#ifndef COMMONHOLD_TYPED_HPP
#define COMMONHOLD_TYPED_HPP

#include <commonhold/channel.hpp>
#include <commonhold/map.hpp>

namespace commonhold {

// Types that mean the same in every process: trivially copyable, and not pointers.
template <class T>
concept plain = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T> &&
                !std::is_reference_v<T> && !std::is_member_pointer_v<T>;

// Types of keys: equal values have equal bytes (no padding, no floating point).
template <class T>
concept plain_key = plain<T> && std::has_unique_object_representations_v<T>;

namespace detail {
template <plain T>
bytes_in bytes_of(const T &value) noexcept {
    return std::span<const std::byte>(reinterpret_cast<const std::byte *>(&value), sizeof value);
}

// Throws mismatch if a value of this type has another length.
template <plain T>
void expect_length(std::size_t len, const char *what) {
    if (len != sizeof(T)) [[unlikely]]
        fail(CH_MISMATCH, "a " + std::string(what) + " of " + std::to_string(len) + " bytes is not of this type, which has " +
                              std::to_string(sizeof(T)));
}

// The value of these bytes.
template <plain T>
T value_of(std::string_view bytes, const char *what) {
    expect_length<T>(bytes.size(), what);
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}
} // namespace detail

// A map whose keys and values are of these types: a fixed-length one, from
// maps::open_or_create<Key, Value>(); or any other, in which a value of another length throws
// mismatch.
template <plain_key Key, plain Value>
class typed_map {
public:
    // Throws mismatch if it is a fixed-length map of other lengths.
    explicit typed_map(commonhold::map map) : map_(std::move(map)) {
        ch_map_options is = map_.options();
        if (is.mode == CH_FIXED && (is.key_bytes != sizeof(Key) || is.value_bytes != sizeof(Value)))
            detail::fail(CH_MISMATCH, "map '" + std::string(map_.name()) + "' has keys of " + std::to_string(is.key_bytes) +
                                          " bytes and values of " + std::to_string(is.value_bytes) + ", these types " +
                                          std::to_string(sizeof(Key)) + " and " + std::to_string(sizeof(Value)));
    }

    std::optional<Value> get(const Key &key) const {
        Value value;
        std::size_t len;
        if (!detail::call(ch_map_get_into, map_.get(), &key, sizeof key, &value, sizeof value, &len))
            return std::nullopt;
        // Of a longer value only the beginning was copied.
        detail::expect_length<Value>(len, "value");
        return value;
    }
    // Throws stale if the value comes from a replica's contents that are older.
    template <class Rep, class Period>
    std::optional<Value> get_fresh(const Key &key, std::chrono::duration<Rep, Period> max_age) const {
        std::optional<std::string> found = map_.get_fresh(detail::bytes_of(key), max_age);
        if (!found) return std::nullopt;
        return detail::value_of<Value>(*found, "value");
    }
    bool contains(const Key &key) const { return map_.contains(detail::bytes_of(key)); }
    commonhold::uid set(const Key &key, const Value &value) const {
        return map_.set(detail::bytes_of(key), detail::bytes_of(value));
    }
    bool add(const Key &key, const Value &value) const {
        return map_.add(detail::bytes_of(key), detail::bytes_of(value)).has_value();
    }
    bool replace(const Key &key, const Value &value) const {
        return map_.replace(detail::bytes_of(key), detail::bytes_of(value)).has_value();
    }
    // In caches: the same map; everything that this handle writes expires after this time.
    template <class Rep, class Period>
    typed_map with_ttl(std::chrono::duration<Rep, Period> ttl) const {
        return typed_map(map_.with_ttl(ttl));
    }
    std::optional<std::chrono::milliseconds> remaining_ttl(const Key &key) const {
        return map_.remaining_ttl(detail::bytes_of(key));
    }
    template <class Rep, class Period>
    bool touch(const Key &key, std::chrono::duration<Rep, Period> ttl) const {
        return map_.touch(detail::bytes_of(key), ttl);
    }
    bool erase(const Key &key) const { return map_.erase(detail::bytes_of(key)); }
    // Compares bytes: two equal values of a type with padding may count as different.
    bool compare_exchange(const Key &key, const Value &expected, const Value &replacement) const {
        return map_.compare_exchange(detail::bytes_of(key), detail::bytes_of(expected),
                                     detail::bytes_of(replacement));
    }
    // Calls `decide(std::optional<Value>)` for the new value; std::nullopt deletes.
    template <class Decide>
    void update(const Key &key, Decide &&decide) const {
        map_.update(detail::bytes_of(key), [&](std::optional<std::string_view> old) -> std::optional<std::string> {
            std::optional<Value> was;
            if (old) was = detail::value_of<Value>(*old, "value");
            std::optional<Value> next = decide(was);
            if (!next) return std::nullopt;
            return std::string(reinterpret_cast<const char *>(&*next), sizeof(Value));
        });
    }
    std::uint64_t size() const { return map_.size(); }
    std::uint64_t clear() const { return map_.clear(); }

    // for (auto [key, value] : map), with copies of the values.
    struct entry {
        Key key;
        Value value;
    };
    auto entries() const {
        return map_.pairs() | std::views::transform([](pair_view found) {
                   return entry{detail::value_of<Key>(found.key, "key"), detail::value_of<Value>(found.value, "value")};
               });
    }

    const commonhold::map &bytes() const noexcept { return map_; }

private:
    commonhold::map map_;
};

// Sends values of one type.
template <plain T>
class typed_producer {
public:
    explicit typed_producer(const channel &channel) : producer_(channel.producer()) {}
    std::uint64_t send(const T &value) { return producer_.send(detail::bytes_of(value)); }
    bool try_send(const T &value) { return producer_.try_send(detail::bytes_of(value)).has_value(); }
    commonhold::producer &bytes() noexcept { return producer_; }

private:
    commonhold::producer producer_;
};

// Receives values of one type; a message of another length throws mismatch.
template <plain T>
class typed_consumer {
public:
    explicit typed_consumer(const channel &channel, join from = join::now, policy how = policy::lossless())
        : consumer_(channel.consumer(from, how)) {}
    T recv() {
        consumer_.recv(buffer_);
        return value();
    }
    std::optional<T> try_recv() {
        if (!consumer_.try_recv(buffer_)) return std::nullopt;
        return value();
    }
    commonhold::consumer &bytes() noexcept { return consumer_; }

private:
    T value() const {
        return detail::value_of<T>(buffer_.text(), "message");
    }
    commonhold::consumer consumer_;
    commonhold::bytes buffer_;
};

} // namespace commonhold

#endif
