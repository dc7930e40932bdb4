/* Commonhold::Log and Commonhold::Collector. */
#include "ext.h"

BOX_TYPE(log_type, "Commonhold::Log");
BOX_TYPE(collector_type, "Commonhold::Collector");
RELEASE(release_log, log)
RELEASE(release_collector, collector)
static VALUE cLog, cCollector, cLine;

static int run_log(struct call *call) {
    return call->more ? ch_hold_log(call->handle, call->key.data, call->more, call->out, &call->error)
                      : ch_hold_open_log(call->handle, call->key.data, call->out, &call->error);
}

/* Hold#_log(name, options); options nil opens an existing one. */
static VALUE hold_log(VALUE self, VALUE name, VALUE options) {
    ch_log_options wanted = {0};
    ch_log *log = NULL;
    struct call call = {.run = run_log, .out = &log};
    if (!NIL_P(options)) {
        wanted.ring_bytes = number_option(options, "ring_bytes");
        wanted.rings = (uint32_t)number_option(options, "rings");
        wanted.overflow = RTEST(option(options, "overwrite"));
        wanted.level = (uint32_t)number_option(options, "level");
        wanted.direct = RTEST(option(options, "direct"));
        call.more = &wanted;
    }
    VALUE object = box_new(cLog, &log_type, self, release_log);
    name = rb_str_new_cstr(name_arg(&name));
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
    struct box *box = box_of(self, &log_type);
    text = bytes_arg(text);
    int result = ch_log_write(box->handle, NUM2UINT(level), RSTRING_PTR(text), (size_t)RSTRING_LEN(text), NULL, &error);
    RB_GC_GUARD(text);
    return checked(result, &error) == CH_OK ? Qtrue : Qfalse;
}

static VALUE log_level(VALUE self) {
    ch_error error;
    uint32_t level;
    checked(ch_log_level(box_of(self, &log_type)->handle, &level, &error), &error);
    return UINT2NUM(level);
}

static VALUE log_set_level(VALUE self, VALUE level) {
    ch_error error;
    checked(ch_log_set_level(box_of(self, &log_type)->handle, NUM2UINT(level), &error), &error);
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

static VALUE text_of(ch_slice text) { return rb_utf8_str_new(text.data, (long)text.len); }

/* Only builds an Array: no Ruby code runs inside the library's call. */
static int gather(void *user, const ch_log_line *line) {
    if (line->announces) return 0;
    VALUE values[] = {text_of(line->text), UINT2NUM(line->level), ULL2NUM(line->time_ns), UINT2NUM(line->thread),
                      UINT2NUM(line->lost), line->collected ? Qtrue : Qfalse, text_of(line->shown)};
    rb_ary_push((VALUE)user, rb_class_new_instance(7, values, cLine));
    return 0;
}

/* All lines that are in the hold, collected or not, merged by time: an Array of Line. Changes nothing. */
static VALUE log_dump(VALUE self) {
    ch_error error;
    VALUE lines = rb_ary_new();
    checked(ch_log_dump(box_of(self, &log_type)->handle, gather, (void *)lines, NULL, &error), &error);
    RB_GC_GUARD(lines);
    return lines;
}

/* Log#_collect(path, max_bytes, keep): becomes the log's collector, into a file. */
static VALUE log_collect(VALUE self, VALUE path, VALUE max_bytes, VALUE keep) {
    ch_error error;
    ch_collector *collector;
    VALUE object = box_new(cCollector, &collector_type, self, release_collector);
    checked(ch_log_collect_to_file(box_of(self, &log_type)->handle, NULL, name_arg(&path), NUM2ULL(max_bytes),
                                   NUM2UINT(keep), &collector, &error), &error);
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

/* Writes out what is old enough, one round; gives how many lines. */
static VALUE collector_poll(VALUE self) { return collect(self, run_poll); }
/* Writes out all that is there; gives how many lines. */
static VALUE collector_finish(VALUE self) { return collect(self, run_finish); }
static VALUE collector_close(VALUE self) { return box_close(self, &collector_type); }

void init_log(void) {
    cLog = rb_define_class_under(mCommonhold, "Log", rb_cObject);
    cCollector = rb_define_class_under(mCommonhold, "Collector", rb_cObject);
    /* A line of a log as it is read. +time_ns+ counts from 1970; +lost+ lines are missing before it. */
    cLine = rb_struct_define_under(mCommonhold, "Line", "text", "level", "time_ns", "thread", "lost", "collected",
                                   "shown", NULL);
    rb_undef_alloc_func(cLog);
    rb_undef_alloc_func(cCollector);
    rb_define_private_method(cHold, "_log", hold_log, 2);
    rb_define_method(cLog, "close", log_close, 0);
    rb_define_method(cLog, "name", log_name, 0);
    rb_define_method(cLog, "_write", log_write, 2);
    rb_define_private_method(cLog, "_level", log_level, 0);
    rb_define_private_method(cLog, "_set_level", log_set_level, 1);
    rb_define_private_method(cLog, "_enabled", log_is_enabled, 1);
    rb_define_private_method(cLog, "_describe", log_describe, 0);
    rb_define_method(cLog, "dump", log_dump, 0);
    rb_define_private_method(cLog, "_collect", log_collect, 3);
    rb_define_method(cCollector, "poll", collector_poll, 0);
    rb_define_method(cCollector, "finish", collector_finish, 0);
    rb_define_method(cCollector, "close", collector_close, 0);
}
