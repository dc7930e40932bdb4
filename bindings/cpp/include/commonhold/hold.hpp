// The hold: the file, and what is made in it.
#ifndef COMMONHOLD_HOLD_HPP
#define COMMONHOLD_HOLD_HPP

#include <commonhold/channel.hpp>
#include <commonhold/log.hpp>
#include <commonhold/map.hpp>
#include <commonhold/queue.hpp>
#include <commonhold/typed.hpp>

#include <array>
#include <functional>
#include <optional>
#include <vector>

namespace commonhold {

// How a hold is opened or created; what is not said is the default.
struct hold_options {
    std::uint64_t max_bytes = 0;
    std::optional<std::chrono::nanoseconds> lock_timeout = std::nullopt;
    std::optional<std::string> directory = std::nullopt;
    std::uint32_t mode = 0;
    bool read_only = false;
    bool delete_on_last_exit = false;
};

struct check_report {
    bool ok;
    ch_check_report figures;
    std::string problems; // a line for each
};

// One file of memory that many processes share. See ch_hold_open() and what follows it.
class hold {
public:
    static hold open(std::string_view name, const hold_options &options = {}) {
        return begin(ch_hold_open, name, options);
    }
    static hold create(std::string_view name, const hold_options &options = {}) {
        return begin(ch_hold_create, name, options);
    }
    static hold open_or_create(std::string_view name, const hold_options &options = {}) {
        return begin(ch_hold_open_or_create, name, options);
    }

    // Deletes a hold's file.
    static void drop(std::string_view name, bool force = false) {
        detail::call(ch_hold_drop, detail::name(name), std::uint32_t(force));
    }
    // Makes a hold from a backup; gives how many pairs.
    static std::uint64_t restore(std::string_view backup, std::string_view name) {
        std::uint64_t pairs;
        detail::call(ch_hold_restore, detail::name(backup), detail::name(name), nullptr, &pairs);
        return pairs;
    }
    // Saves what is intact after a crash of the system; see ch_hold_salvage().
    static ch_salvage_report salvage(std::string_view name) {
        ch_salvage_report report;
        detail::call(ch_hold_salvage, detail::name(name), &report, nullptr);
        return report;
    }
    static std::string resolve(std::string_view name) {
        return detail::text_of(ch_hold_resolve, detail::name(name), nullptr);
    }
    // The holds with bare names, as JSON.
    static std::string list() { return detail::text_of(ch_hold_list, nullptr); }

    // Closes it for everything that came from it: later uses throw closed.
    void close() { detail::call(ch_hold_close, get()); }

    // The map of this name, opened or made.
    commonhold::map map(std::string_view name, const map_options &options = {}) const {
        ch_map *found;
        ch_map_options raw = options.raw();
        detail::call(ch_hold_map, get(), detail::name(name), &raw, &found);
        return commonhold::map(found);
    }
    commonhold::map open_map(std::string_view name) const {
        ch_map *found;
        detail::call(ch_hold_open_map, get(), detail::name(name), &found);
        return commonhold::map(found);
    }
    // A fixed-length map of these types; see typed_map for others.
    template <plain_key Key, plain Value>
    typed_map<Key, Value> map_of(std::string_view name) const {
        return typed_map<Key, Value>(map(name, map_options::fixed(sizeof(Key), sizeof(Value))));
    }

    commonhold::queue queue(std::string_view name, const queue_options &options) const {
        detail::name orphans(options.orphans);
        std::vector<detail::name> names(options.queues.begin(), options.queues.end());
        std::vector<const char *> texts(names.begin(), names.end());
        ch_queue_options raw = CH_QUEUE_OPTIONS_INIT;
        raw.elements = options.elements;
        raw.element_bytes = options.element_bytes;
        raw.queues = texts.data();
        raw.queue_count = texts.size();
        raw.orphans = options.orphans.empty() ? nullptr : static_cast<const char *>(orphans);
        ch_queue *found;
        detail::call(ch_hold_queue, get(), detail::name(name), &raw, &found);
        return commonhold::queue(found);
    }
    commonhold::queue open_queue(std::string_view name) const {
        ch_queue *found;
        detail::call(ch_hold_open_queue, get(), detail::name(name), &found);
        return commonhold::queue(found);
    }

    commonhold::channel channel(std::string_view name, std::uint64_t ring_bytes) const {
        ch_channel *found;
        detail::call(ch_hold_channel, get(), detail::name(name), ring_bytes, &found);
        return commonhold::channel(found);
    }
    commonhold::channel open_channel(std::string_view name) const {
        ch_channel *found;
        detail::call(ch_hold_open_channel, get(), detail::name(name), &found);
        return commonhold::channel(found);
    }

    commonhold::log log(std::string_view name, const log_options &options = {}) const {
        ch_log_options raw = CH_LOG_OPTIONS_INIT;
        raw.ring_bytes = options.ring_bytes;
        raw.rings = options.rings;
        raw.overflow = options.overwrite;
        raw.level = std::uint32_t(options.least);
        raw.direct = options.direct;
        ch_log *found;
        detail::call(ch_hold_log, get(), detail::name(name), &raw, &found);
        return commonhold::log(found);
    }
    commonhold::log open_log(std::string_view name) const {
        ch_log *found;
        detail::call(ch_hold_open_log, get(), detail::name(name), &found);
        return commonhold::log(found);
    }

    // False if there is none.
    bool drop_map(std::string_view name) const { return detail::call(ch_hold_drop_map, get(), detail::name(name)); }
    bool drop_queue(std::string_view name) const { return detail::call(ch_hold_drop_queue, get(), detail::name(name)); }
    bool drop_channel(std::string_view name) const {
        return detail::call(ch_hold_drop_channel, get(), detail::name(name));
    }
    bool drop_log(std::string_view name) const { return detail::call(ch_hold_drop_log, get(), detail::name(name)); }
    // False if the map has a stream already.
    bool begin_stream(std::string_view map, std::uint64_t bytes) const {
        return detail::call(ch_hold_begin_stream, get(), detail::name(map), bytes);
    }
    bool promote_map(std::string_view map) const { return detail::call(ch_hold_promote_map, get(), detail::name(map)); }

    // Valid as long as this.
    std::string_view path() const {
        ch_slice path;
        detail::call(ch_hold_path, get(), &path);
        return as_text(path);
    }
    std::array<std::uint8_t, 16> uuid() const {
        std::uint8_t raw[16];
        detail::call(ch_hold_uuid, get(), &raw);
        std::array<std::uint8_t, 16> uuid;
        std::memcpy(uuid.data(), raw, sizeof raw);
        return uuid;
    }
    ch_hold_stat_t stat() const {
        ch_hold_stat_t stat;
        detail::call(ch_hold_stat, get(), &stat);
        return stat;
    }
    // As JSON.
    std::string describe(ch_about what = CH_ABOUT_HOLD) const {
        return detail::text_of(ch_hold_describe, get(), std::uint32_t(what));
    }
    std::size_t sweep() const {
        std::size_t settled;
        detail::call(ch_hold_sweep, get(), &settled);
        return settled;
    }
    check_report check() const {
        check_report report{};
        bytes problems;
        report.ok = detail::call(ch_hold_check, get(), &report.figures, problems.raw());
        report.problems = problems.string();
        return report;
    }
    std::uint64_t trim() const {
        std::uint64_t bytes;
        detail::call(ch_hold_trim, get(), &bytes);
        return bytes;
    }
    ch_backup_report backup(std::string_view to) const {
        ch_backup_report report;
        detail::call(ch_hold_backup, get(), detail::name(to), &report);
        return report;
    }
    // Calls back while nobody changes any map. What it throws comes out.
    template <std::invocable Callback>
    void with_frozen(Callback &&callback) const {
        struct context {
            Callback &callback;
            detail::caught caught;
        } context{callback, {}};
        ch_frozen_fn frozen = [](void *user) {
            auto *it = static_cast<struct context *>(user);
            return it->caught.keep(0, [&] { return it->callback(), 0; });
        };
        context.caught.call(ch_hold_with_frozen, get(), frozen, &context, nullptr);
    }

    // For the functions of commonhold.h.
    ch_hold *get() const noexcept { return raw_.get(); }

private:
    explicit hold(ch_hold *raw) noexcept : raw_(raw) {}

    template <class Function>
    static hold begin(Function function, std::string_view name, const hold_options &options) {
        detail::name directory(options.directory.value_or(""));
        ch_hold_options raw = CH_HOLD_OPTIONS_INIT;
        raw.max_bytes = options.max_bytes;
        if (options.lock_timeout) raw.lock_timeout_ns = detail::nanoseconds(*options.lock_timeout);
        if (options.directory) raw.directory = directory;
        raw.mode = options.mode;
        raw.read_only = options.read_only;
        raw.delete_on_last_exit = options.delete_on_last_exit;
        ch_hold *found;
        detail::call(function, detail::name(name), &raw, &found);
        return hold(found);
    }

    detail::owned<ch_hold, ch_hold_free> raw_;
};

} // namespace commonhold

#endif
