// The hold: the file and its handle.
#ifndef COMMONHOLD_HOLD_HPP
#define COMMONHOLD_HOLD_HPP

#include <commonhold/by_name.hpp>

#include <array>
#include <functional>
#include <optional>

namespace commonhold {

// Options for opening or creating a hold.
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
    ch_check_report counts;
    std::string problems; // one line per problem
};

// A memory-mapped file that many processes share. See ch_hold_open() and what follows it.
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
    static void remove(std::string_view name, bool force = false) {
        detail::call(ch_hold_remove, detail::name(name), std::uint32_t(force));
    }
    // Creates a hold from a backup; returns the number of pairs.
    static std::uint64_t restore(std::string_view backup, std::string_view name) {
        std::uint64_t pairs;
        detail::call(ch_hold_restore, detail::name(backup), detail::name(name), nullptr, &pairs);
        return pairs;
    }
    // Saves the intact pairs after a system crash; see ch_hold_salvage().
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

    // Its structures by name. Valid as long as this object.
    commonhold::maps maps() const noexcept { return commonhold::maps(get()); }
    commonhold::queues queues() const noexcept { return commonhold::queues(get()); }
    commonhold::channels channels() const noexcept { return commonhold::channels(get()); }
    commonhold::logs logs() const noexcept { return commonhold::logs(get()); }

    // Valid as long as this object.
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
        std::size_t recovered;
        detail::call(ch_hold_sweep, get(), &recovered);
        return recovered;
    }
    check_report check() const {
        check_report report{};
        bytes problems;
        report.ok = detail::call(ch_hold_check, get(), &report.counts, problems.raw());
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
    // Calls back while no other thread or process changes any map. Exceptions propagate.
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
