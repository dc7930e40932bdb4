/* Commonhold::Log and Commonhold::Collector. */
#include "ext.h"

BOX_TYPE(log_type, "Commonhold::Log");
BOX_TYPE(collector_type, "Commonhold::Collector");
RELEASE(release_log, log)
RELEASE(release_collector, collector)
BOX_TYPE(reader_type, "Commonhold::LogReader");
RELEASE(release_reader, reader)
static VALUE cLog, cCollector, cReader, cLine;

static int run_log(struct call *call) {
    switch ((enum how)call->number) {
    case OPEN:
        return ch_log_open(call->handle, call->key.data, call->out, &call->error);
    case CREATE:
        return ch_log_create(call->handle, call->key.data, call->more, call->out, &call->error);
    default:
        return ch_log_open_or_create(call->handle, call->key.data, call->more, call->out, &call->error);
    }
}

/* Hold#_log(how, name, options). */
static VALUE hold_log(VALUE self, VALUE how, VALUE name, VALUE options) {
    ch_log_options wanted = CH_LOG_OPTIONS_INIT;
    ch_log *log = NULL;
    struct call call = {.run = run_log, .number = how_arg(how), .out = &log, .more = &wanted};
    wanted.ring_bytes = number_option(options, "ring_bytes");
    wanted.rings = (uint32_t)number_option(options, "rings");
    wanted.overflow = RTEST(option(options, "overwrite"));
    wanted.level = (uint32_t)number_option(options, "level");
    wanted.direct = RTEST(option(options, "direct"));
    VALUE object = box_new(cLog, &log_type, self, release_log);
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_now(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = log;
    return object;
}

static VALUE log_close(VALUE self) { return box_close(self, &log_type); }

static VALUE log_name(VALUE self) {
    ch_error error;
    ch_slice name;
    checked(ch_log_name(box_of(self, &log_type)->handle, &name, &error), &error);
    return rb_utf8_str_new(name.data, (long)name.len);
}

static VALUE log_write(VALUE self, VALUE level, VALUE text) {
    ch_error error;
    uint32_t number = NUM2UINT(level);
    text = bytes_arg(text);
    int result = ch_log_write(box_of(self, &log_type)->handle, number, RSTRING_PTR(text), (size_t)RSTRING_LEN(text), NULL, &error);
    RB_GC_GUARD(text);
    return checked(result, &error) == CH_OK ? Qtrue : Qfalse;
}

static VALUE log_level(VALUE self) {
    ch_error error;
    uint32_t level;
    checked(ch_log_level(box_of(self, &log_type)->handle, &level, &error), &error);
    return UINT2NUM(level);
}

static int run_set_level(struct call *call) { return ch_log_set_level(call->handle, call->uid, &call->error); }

static VALUE log_set_level(VALUE self, VALUE level) {
    struct call call = {.run = run_set_level, .uid = NUM2UINT(level)};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &log_type), &call), &call.error);
    return level;
}

static VALUE log_is_enabled(VALUE self, VALUE level) {
    return ch_log_enabled(box_of(self, &log_type)->handle, NUM2UINT(level)) ? Qtrue : Qfalse;
}

static VALUE log_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_log_describe(box_of(self, &log_type)->handle, &json, &error), &error);
    return given_text(&json);
}

/* A line that was copied: its texts lie one behind the other. */
struct copied {
    uint64_t time_ns;
    uint32_t level, thread, lost, collected;
    size_t text, shown; /* where they end */
};

/* No Ruby in the library's callback: it may raise. */
struct gathered {
    int (*run)(struct call *);
    struct box *box;
    ch_bytes texts, lines;
};

static int gather(void *user, const ch_log_line *line) {
    struct gathered *gathered = user;
    struct copied copied = {line->time_ns, line->level, line->thread, line->lost, line->collected, 0, 0};
    if (line->announces) return 0;
    if (ch_bytes_append(&gathered->texts, line->text.data, line->text.len, NULL) > 0) return 1;
    copied.text = gathered->texts.len;
    if (ch_bytes_append(&gathered->texts, line->shown.data, line->shown.len, NULL) > 0) return 1;
    copied.shown = gathered->texts.len;
    return ch_bytes_append(&gathered->lines, &copied, sizeof copied, NULL) > 0;
}

static VALUE gathered_lines(VALUE data) {
    struct gathered *gathered = (struct gathered *)data;
    struct call call = {.run = gathered->run, .out = gathered};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(gathered->box, &call), &call.error);
    const char *texts = gathered->texts.data;
    size_t count = gathered->lines.len / sizeof(struct copied), begin = 0;
    VALUE all = rb_ary_new();
    for (size_t i = 0; i < count; i++) {
        struct copied *line = (struct copied *)gathered->lines.data + i;
        VALUE text = rb_utf8_str_new(texts + begin, (long)(line->text - begin));
        VALUE shown = rb_utf8_str_new(texts + line->text, (long)(line->shown - line->text));
        VALUE values[] = {text, UINT2NUM(line->level), ULL2NUM(line->time_ns), UINT2NUM(line->thread),
                          UINT2NUM(line->lost), line->collected ? Qtrue : Qfalse, shown};
        rb_ary_push(all, rb_class_new_instance(7, values, cLine));
        begin = line->shown;
    }
    return all;
}

static VALUE gathered_end(VALUE data) {
    struct gathered *gathered = (struct gathered *)data;
    ch_bytes_free(&gathered->texts);
    ch_bytes_free(&gathered->lines);
    return Qnil;
}

/* What a call shows, as an Array of Line. */
static VALUE lines_of(struct box *box, int (*run)(struct call *)) {
    struct gathered gathered = {run, box, CH_BYTES_INIT, CH_BYTES_INIT};
    return rb_ensure(gathered_lines, (VALUE)&gathered, gathered_end, (VALUE)&gathered);
}

static int run_dump(struct call *c) { return ch_log_dump(c->handle, gather, c->out, NULL, &c->error); }
static int run_read(struct call *c) { return ch_reader_poll(c->handle, gather, c->out, NULL, &c->error); }
static int run_read_all(struct call *c) { return ch_reader_finish(c->handle, gather, c->out, NULL, &c->error); }

/* All lines that are in the hold, collected or not, merged by time: an Array of Line. Changes
 * nothing. */
static VALUE log_dump(VALUE self) { return lines_of(box_of(self, &log_type), run_dump); }

/* call-seq: reader -> Commonhold::LogReader
 *
 * Reads the log as it grows, independently of its collector, without leaving a trace; from the oldest
 * line in the hold on. */
static VALUE log_reader(VALUE self) {
    ch_error error;
    ch_reader *reader = NULL;
    VALUE object = box_new(cReader, &reader_type, self, release_reader);
    checked(ch_log_reader(box_of(self, &log_type)->handle, &reader, &error), &error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = reader;
    return object;
}

/* The lines that have come since the last call, as an Array of Line. The youngest ones come with a
 * later call, because older lines of other threads can still precede them. */
static VALUE reader_poll(VALUE self) { return lines_of(box_of(self, &reader_type), run_read); }
/* As poll, with the youngest lines, too. */
static VALUE reader_finish(VALUE self) { return lines_of(box_of(self, &reader_type), run_read_all); }
static VALUE reader_close(VALUE self) { return box_close(self, &reader_type); }

static int run_collect(struct call *c) {
    return ch_log_collect_to_file(c->handle, NULL, c->key.data, c->number, c->uid, c->out, &c->error);
}

/* Log#_collect(path, max_bytes, keep): becomes the log's collector, into a file. */
static VALUE log_collect(VALUE self, VALUE path, VALUE max_bytes, VALUE keep) {
    ch_collector *collector = NULL;
    struct call call = {.run = run_collect, .number = NUM2ULL(max_bytes), .uid = NUM2UINT(keep), .out = &collector};
    VALUE object = box_new(cCollector, &collector_type, self, release_collector);
    path = name_copy(path);
    call_strings(&call, path, Qnil);
    checked(call_now(box_of(self, &log_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = collector;
    return object;
}

static int run_collect_to(struct call *c) {
    return ch_log_collect_to_fd(c->handle, NULL, (int)c->number, c->out, &c->error);
}

/* Log#_collect_to(descriptor): becomes the log's collector, into a copy of the descriptor. */
static VALUE log_collect_to(VALUE self, VALUE descriptor) {
    ch_collector *collector = NULL;
    struct call call = {.run = run_collect_to, .number = (uint64_t)NUM2INT(descriptor), .out = &collector};
    VALUE object = box_new(cCollector, &collector_type, self, release_collector);
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &log_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = collector;
    return object;
}

static int run_poll(struct call *c) { return ch_collector_poll(c->handle, c->out, &c->error); }
static int run_finish(struct call *c) { return ch_collector_finish(c->handle, c->out, &c->error); }

static VALUE collect(VALUE self, int (*run)(struct call *)) {
    ch_round round = {0};
    struct call call = {.run = run, .out = &round};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &collector_type), &call), &call.error);
    return ULL2NUM(round.lines);
}

/* Writes out the lines that are old enough, one round; returns their number. */
static VALUE collector_poll(VALUE self) { return collect(self, run_poll); }
/* Writes out all lines; returns their number. */
static VALUE collector_finish(VALUE self) { return collect(self, run_finish); }
static VALUE collector_close(VALUE self) { return box_close(self, &collector_type); }

void init_log(void) {
    cLog = rb_define_class_under(mCommonhold, "Log", rb_cObject);
    cCollector = rb_define_class_under(mCommonhold, "Collector", rb_cObject);
    /* A line of a log as it is read. +time_ns+ counts from 1970; +lost+ lines are missing before
     * it. */
    cLine = rb_struct_define_under(mCommonhold, "Line", "text", "level", "time_ns", "thread", "lost", "collected",
                                   "shown", NULL);
    rb_undef_alloc_func(cLog);
    rb_undef_alloc_func(cCollector);
    cReader = rb_define_class_under(mCommonhold, "LogReader", rb_cObject);
    rb_undef_alloc_func(cReader);
    rb_define_private_method(cHold, "_log", hold_log, 3);
    rb_define_method(cLog, "close", log_close, 0);
    rb_define_method(cLog, "name", log_name, 0);
    rb_define_method(cLog, "_write", log_write, 2);
    rb_define_private_method(cLog, "_level", log_level, 0);
    rb_define_private_method(cLog, "_set_level", log_set_level, 1);
    rb_define_private_method(cLog, "_enabled", log_is_enabled, 1);
    rb_define_private_method(cLog, "_describe", log_describe, 0);
    rb_define_method(cLog, "dump", log_dump, 0);
    rb_define_method(cLog, "reader", log_reader, 0);
    rb_define_method(cReader, "poll", reader_poll, 0);
    rb_define_method(cReader, "finish", reader_finish, 0);
    rb_define_method(cReader, "close", reader_close, 0);
    rb_define_private_method(cLog, "_collect", log_collect, 3);
    rb_define_private_method(cLog, "_collect_to", log_collect_to, 1);
    rb_define_method(cCollector, "poll", collector_poll, 0);
    rb_define_method(cCollector, "finish", collector_finish, 0);
    rb_define_method(cCollector, "close", collector_close, 0);
}
