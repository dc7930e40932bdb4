// Logs: lines of many writers, merged by time.
#ifndef COMMONHOLD_LOG_HPP
#define COMMONHOLD_LOG_HPP

#include <commonhold/bytes.hpp>

#include <functional>
#include <version>
#if defined(__cpp_lib_format)
#include <format>
#endif

namespace commonhold {

enum class level : std::uint32_t { error = CH_ERROR, warn = CH_WARN, info = CH_INFO, debug = CH_DEBUG, trace = CH_TRACE };

// 0 stands for the default.
struct log_options {
    std::uint64_t ring_bytes = 0;
    std::uint32_t rings = 0;
    bool overwrite = false;
    commonhold::level level = commonhold::level::info;
    bool direct = false;
};

// A line as it is read; valid in the callback.
struct log_line {
    const ch_log_line &raw;
    std::string_view text() const noexcept { return as_text(raw.text); }
    std::string_view shown() const noexcept { return as_text(raw.shown); }
};

namespace detail {
// Calls a C function that passes lines to a callback.
template <class Callback, class Function, class Handle>
std::size_t each_line(Callback &callback, Function function, Handle *handle) {
    struct context {
        Callback &callback;
        caught thrown;
    } context{callback, {}};
    ch_line_fn each = [](void *user, const ch_log_line *line) {
        auto *it = static_cast<struct context *>(user);
        return it->thrown.keep(1, [&] { return it->callback(log_line{*line}), 0; });
    };
    std::size_t count;
    context.thrown.call(function, handle, each, &context, &count);
    return count;
}
} // namespace detail

// Reads a log as it grows, independently of its collector. For one thread at a time.
class log_reader {
public:
    explicit log_reader(ch_reader *raw) noexcept : raw_(raw) {}
    template <class Callback>
    std::size_t poll(Callback &&callback) {
        return detail::each_line(callback, ch_reader_poll, raw_.get());
    }
    template <class Callback>
    std::size_t finish(Callback &&callback) {
        return detail::each_line(callback, ch_reader_finish, raw_.get());
    }

private:
    detail::owned<ch_reader, ch_reader_free> raw_;
};

// Collects a log. For one thread at a time.
class collector {
public:
    explicit collector(ch_collector *raw, std::unique_ptr<std::function<void(std::string_view)>> target = nullptr) noexcept
        : target_(std::move(target)), raw_(raw) {}
    ch_round poll() {
        ch_round round;
        detail::call(ch_collector_poll, raw_.get(), &round);
        return round;
    }
    ch_round finish() {
        ch_round round;
        detail::call(ch_collector_finish, raw_.get(), &round);
        return round;
    }
    // Collects until `stop()` returns true, then finishes.
    template <std::predicate Stop>
    ch_round run(Stop &&stop) {
        struct context {
            Stop &stop;
            detail::caught caught;
        } context{stop, {}};
        ch_stop_fn ask = [](void *user) {
            auto *it = static_cast<struct context *>(user);
            return it->caught.keep(1, [&] { return int(it->stop()); });
        };
        ch_round round;
        context.caught.call(ch_collector_run, raw_.get(), ask, &context, &round);
        return round;
    }

private:
    std::unique_ptr<std::function<void(std::string_view)>> target_;
    detail::owned<ch_collector, ch_collector_free> raw_;
};

// A log in a hold. Usable from any number of threads.
class log {
public:
    explicit log(ch_log *raw) noexcept : raw_(raw) {}

    bool enabled(commonhold::level wanted) const noexcept { return ch_log_enabled(get(), std::uint32_t(wanted)); }
    // False if it was not accepted: its level is not enabled, or there is no room.
    bool write(commonhold::level at, std::string_view text) const {
        return detail::call(ch_log_write, get(), std::uint32_t(at), text.data(), text.size(), nullptr);
    }
    // The text is only created if the level is enabled: log.write(level::debug, [&] { return
    // describe(it); }).
    template <std::invocable Make>
    bool write(commonhold::level at, Make &&make) const {
        return enabled(at) && write(at, std::string_view(make()));
    }
#if defined(__cpp_lib_format)
    template <class... Arguments>
    bool print(commonhold::level at, std::format_string<Arguments...> format, Arguments &&...arguments) const {
        return enabled(at) && write(at, std::format(format, std::forward<Arguments>(arguments)...));
    }
#endif
    commonhold::level level() const {
        std::uint32_t raw;
        detail::call(ch_log_level, get(), &raw);
        return commonhold::level(raw);
    }
    void set_level(commonhold::level least) const { detail::call(ch_log_set_level, get(), std::uint32_t(least)); }
    bool prepare() const { return detail::call(ch_log_prepare, get()); }

    // Calls back for all lines in the hold.
    template <class Callback>
    std::size_t dump(Callback &&callback) const {
        return detail::each_line(callback, ch_log_dump, get());
    }
    log_reader reader() const {
        ch_reader *found;
        detail::call(ch_log_reader, get(), &found);
        return log_reader(found);
    }
    collector collect_to_file(std::string_view path, std::uint64_t max_bytes, std::uint32_t keep) const {
        ch_collector *found;
        detail::call(ch_log_collect_to_file, get(), nullptr, detail::name(path), max_bytes, keep, &found);
        return collector(found);
    }
    collector collect_to_fd(int fd) const {
        ch_collector *found;
        detail::call(ch_log_collect_to_fd, get(), nullptr, fd, &found);
        return collector(found);
    }
    // To a callback; if it throws, it receives the text again.
    collector collect_to(std::function<void(std::string_view)> target) const {
        auto kept = std::make_unique<std::function<void(std::string_view)>>(std::move(target));
        ch_write_fn receive = [](void *user, ch_slice text) {
            try {
                (*static_cast<std::function<void(std::string_view)> *>(user))(as_text(text));
                return 0;
            } catch (...) {
                return 1;
            }
        };
        ch_collector *found;
        detail::call(ch_log_collect_to, get(), nullptr, receive, kept.get(), &found);
        return collector(found, std::move(kept));
    }
    std::string_view name() const {
        ch_slice name;
        detail::call(ch_log_name, get(), &name);
        return as_text(name);
    }
    ch_log_stat_t stat() const {
        ch_log_stat_t stat;
        detail::call(ch_log_stat, get(), &stat);
        return stat;
    }
    std::string describe() const { return detail::text_of(ch_log_describe, get()); }

    // For the macros of commonhold.h: CH_LOG_INFO(log.get(), "%d", 1).
    ch_log *get() const noexcept { return raw_.get(); }

private:
    detail::owned<ch_log, ch_log_free> raw_;
};

} // namespace commonhold

#endif
