/* Logs: writing, filtering, dumps, readers, collectors. */
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

static int evaluated;
static int value(void) { return ++evaluated; }

static int count_lines(void *user, const ch_log_line *line) {
    int *count = user;
    if (line->announces) {
        CHECK(line->pid == (uint32_t)getpid() && line->thread > 0);
    } else {
        char wanted[40];
        snprintf(wanted, sizeof wanted, "line %d", *count);
        CHECK(slice_is(line->text, wanted) && line->level == CH_INFO && line->time_ns > 0);
        CHECK(line->shown.len > line->text.len && ((const char *)line->shown.data)[line->shown.len - 1] == '\n');
        *count += 1;
    }
    return 0;
}

TEST(log_lines_are_written_and_dumped) {
    ch_hold *hold = new_hold();
    ch_log_options options = {.size = sizeof options, .rings = 4, .ring_bytes = 1 << 16};
    ch_log_stat_t stat;
    ch_log *log;
    int lines = 0;
    uint32_t level, became = 9;
    size_t count;
    DONE(ch_log_open_or_create(hold, "it", &options, &log, &E));
    DONE(ch_log_prepare(log, &E));
    for (int i = 0; i < 100; i++) CHECK(CH_LOG_INFO(log, "line %d", i) == CH_OK);
    CHECK(CH_LOG_DEBUG(log, "not wanted %d", value()) == CH_NONE && evaluated == 0);
    ANSWERS(CH_NONE, ch_log_write(log, CH_TRACE, CH_LIT("x"), &became, &E));
    CHECK(became == 1 && !ch_log_enabled(log, CH_DEBUG) && ch_log_enabled(log, CH_WARN) && !ch_log_enabled(NULL, 1));
    DONE(ch_log_dump(log, count_lines, &lines, &count, &E));
    CHECK(lines == 100 && count >= 100);
    DONE(ch_log_set_level(log, CH_TRACE, &E));
    DONE(ch_log_level(log, &level, &E));
    CHECK(level == CH_TRACE && CH_LOG_TRACE(log, "%d", value()) == CH_OK && evaluated == 1);
    FAILS(CH_INVALID, "level", ch_log_set_level(log, 6, &E));
    DONE(ch_log_stat(log, &stat, &E));
    CHECK(stat.rings == 4 && stat.threads == 1 && !stat.has_collector && stat.waiting_bytes > 0);
    ch_log_free(log);
    ch_hold_free(hold);
}

TEST(log_long_lines_are_whole) {
    ch_hold *hold = new_hold();
    ch_log *log;
    char long_text[5000];
    ch_bytes all = CH_BYTES_INIT;
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    DONE(ch_log_open_or_create(hold, "it", NULL, &log, &E));
    CHECK(CH_LOG_ERROR(log, "[%s]", long_text) == CH_OK);
    CHECK(ch_log_printf(log, CH_WARN, "%s", "") == CH_OK);
    FAILS(CH_TOO_LARGE, "", ch_log_write(log, CH_WARN, long_text, 1 << 20, NULL, &E));
    ch_bytes_free(&all);
    ch_log_free(log);
    ch_hold_free(hold);
}

static int keep(void *user, ch_slice text) { return ch_bytes_append(user, text.data, text.len, NULL); }
static int refuse(void *user, ch_slice text) { return user == NULL && text.len > 0; }

static void brief(void *user, const ch_log_line *line, ch_bytes *out) {
    CHECK(user == NULL);
    if (!line->announces) {
        DONE(ch_bytes_append(out, line->text.data, line->text.len, &E));
        DONE(ch_bytes_append(out, ";", 1, &E));
    }
}

static int enough(void *user) {
    int *rounds = user;
    return ++*rounds > 3;
}

TEST(log_is_collected) {
    ch_hold *hold = new_hold();
    ch_collector_options options = {.size = sizeof options, .format = brief};
    ch_collector *collector, *second;
    ch_bytes all = CH_BYTES_INIT;
    ch_round round;
    ch_reader *reader;
    ch_log *log;
    int lines = 0, rounds = 0;
    char text[4000];
    DONE(ch_log_open_or_create(hold, "it", NULL, &log, &E));
    DONE(ch_log_reader(log, &reader, &E));
    for (int i = 0; i < 3; i++) CHECK(CH_LOG_INFO(log, "line %d", i) == CH_OK);
    DONE(ch_log_collect_to(log, NULL, refuse, NULL, &collector, &E));
    FAILS(CH_IO, "callback returned", ch_collector_finish(collector, &round, &E));
    FAILS(CH_BUSY, "", ch_log_collect_to(log, &options, keep, &all, &second, &E));
    CHECK(second == NULL);
    ch_collector_free(collector);
    DONE(ch_log_collect_to(log, &options, keep, &all, &collector, &E));
    DONE(ch_collector_finish(collector, &round, &E));
    CHECK(round.lines >= 3 && round.lost == 0 && bytes_are(&all, "line 0;line 1;line 2;"));
    ANSWERS(CH_NONE, ch_collector_poll(collector, &round, &E));
    ch_collector_free(collector);

    DONE(ch_log_collect_to_file(log, NULL, place("it.log"), 1 << 20, 2, &collector, &E));
    CHECK(CH_LOG_INFO(log, "line %d", 3) == CH_OK);
    DONE(ch_collector_run(collector, enough, &rounds, &round, &E));
    ch_collector_free(collector);
    int fd = open(place("it.log"), O_RDWR | O_APPEND);
    CHECK(CH_LOG_INFO(log, "line %d", 4) == CH_OK);
    DONE(ch_log_collect_to_fd(log, NULL, fd, &collector, &E));
    DONE(ch_collector_finish(collector, NULL, &E));
    ch_collector_free(collector);
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    CHECK(len > 0);
    text[len] = '\0';
    CHECK(strstr(text, "line 3\n") && strstr(text, "line 4\n") && !strstr(text, "line 2"));
    close(fd);
    FAILS(CH_INVALID, "descriptor", ch_log_collect_to_fd(log, NULL, fd, &collector, &E));
    DONE(ch_reader_finish(reader, count_lines, &lines, NULL, &E));
    CHECK(lines == 5);
    ANSWERS(CH_NONE, ch_reader_poll(reader, count_lines, &lines, NULL, &E));
    ch_reader_free(reader);
    ch_bytes_free(&all);
    ch_log_free(log);
    ch_hold_free(hold);
}
