/* Commonhold::Journal: a map's changes in a file. Its thread is the library's. */
#include "ext.h"

BOX_TYPE(journal_type, "Commonhold::Journal");
RELEASE(release_journal, journal)
static VALUE cJournal;

static int run_start(struct call *c) {
    ch_journal_options *options = c->more;
    options->archive = c->replacement.data;
    return ch_journal_start(c->handle, c->key.data, c->value.data, c->more, c->out, &c->error);
}

/* Hold#_journal(map, file, options): `sync` is a ch_sync_policy. */
static VALUE hold_journal(VALUE self, VALUE map, VALUE file, VALUE options) {
    ch_journal *journal = NULL;
    ch_journal_options wanted = CH_JOURNAL_OPTIONS_INIT;
    struct call call = {.run = run_start, .out = &journal, .more = &wanted};
    wanted.stream_bytes = number_option(options, "stream_bytes");
    wanted.compact_bytes = number_option(options, "compact_bytes");
    wanted.sync = (uint32_t)number_option(options, "sync");
    wanted.every_ms = number_option(options, "every_ms");
    wanted.replace = RTEST(option(options, "replace"));
    wanted.keep_ms = number_option(options, "keep_ms");
    wanted.segment_ms = number_option(options, "segment_ms");
    VALUE object = box_new(cJournal, &journal_type, self, release_journal);
    call_strings(&call, name_copy(map), name_copy(file));
    VALUE archive = option(options, "archive");
    call.replacement_text = NIL_P(archive) ? Qnil : name_copy(archive);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = journal;
    return object;
}

static VALUE journal_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_journal_describe(box_of(self, &journal_type)->handle, &json, &error), &error);
    return given_text(&json);
}

/* Whether it has ended by itself, because its map is gone. */
static VALUE journal_is_over(VALUE self) {
    ch_error error;
    return checked(ch_journal_is_over(box_of(self, &journal_type)->handle, &error), &error) == CH_OK ? Qtrue : Qfalse;
}

static int run_finish(struct call *c) { return ch_journal_finish(c->handle, &c->error); }

/* Journal#_end. */
static VALUE journal_end(VALUE self) {
    struct call call = {.run = run_finish};
    call_strings(&call, Qnil, Qnil);
    return box_end(self, &journal_type, &call);
}

/* The options of earlier states, with the archive as `replacement`. */
static void past(struct call *call, ch_journal_options *wanted, VALUE archive, VALUE skip_damaged) {
    wanted->skip_damaged = RTEST(skip_damaged);
    call->replacement_text = NIL_P(archive) ? Qnil : name_copy(archive);
    call->more = wanted;
}

static ch_journal_options *past_options(struct call *c) {
    ch_journal_options *options = c->more;
    options->archive = c->replacement.data;
    return options;
}

static int run_rebuild(struct call *c) {
    return ch_journal_rebuild(c->handle, c->key.data, c->value.data, past_options(c), c->out, &c->error);
}

static int run_rebuild_state(struct call *c) {
    return ch_journal_rebuild_state(c->handle, c->key.data, c->value.data, c->number, past_options(c), c->out,
                                    &c->error);
}

static int run_find_state(struct call *c) {
    return ch_journal_find_state(c->key.data, c->number, past_options(c), c->out, &c->error);
}

/* Hold#_rebuild(map, file, at, archive, skip_damaged): a report as JSON. The time is in milliseconds;
 * nil: the latest state. */
static VALUE hold_rebuild(VALUE self, VALUE map, VALUE file, VALUE at, VALUE archive, VALUE skip_damaged) {
    ch_bytes report = CH_BYTES_INIT;
    ch_journal_options wanted = CH_JOURNAL_OPTIONS_INIT;
    struct call call = {.run = NIL_P(at) ? run_rebuild : run_rebuild_state, .out = &report};
    if (!NIL_P(at)) call.number = NUM2ULL(at);
    call_strings(&call, name_copy(map), name_copy(file));
    past(&call, &wanted, archive, skip_damaged);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return given_text(&report);
}

/* Journal._find_state(file, at, archive, skip_damaged): the state as JSON. */
static VALUE journal_find_state(VALUE class, VALUE file, VALUE at, VALUE archive, VALUE skip_damaged) {
    ch_bytes state = CH_BYTES_INIT;
    ch_journal_options wanted = CH_JOURNAL_OPTIONS_INIT;
    struct call call = {.run = run_find_state, .out = &state, .number = NUM2ULL(at)};
    call_strings(&call, name_copy(file), Qnil);
    past(&call, &wanted, archive, skip_damaged);
    checked(call_alone(&call), &call.error);
    return given_text(&state);
}

/* Journal._time(text): milliseconds since 1970. */
static VALUE journal_time(VALUE class, VALUE text) {
    ch_error error;
    uint64_t at_ms = 0;
    checked(ch_journal_time(name_arg(&text), &at_ms, &error), &error);
    RB_GC_GUARD(text);
    return ULL2NUM(at_ms);
}

void init_journal(void) {
    cJournal = rb_define_class_under(mCommonhold, "Journal", rb_cObject);
    rb_undef_alloc_func(cJournal);
    rb_define_private_method(cHold, "_journal", hold_journal, 3);
    rb_define_private_method(cHold, "_rebuild", hold_rebuild, 5);
    rb_define_private_method(rb_singleton_class(cJournal), "_find_state", journal_find_state, 4);
    rb_define_private_method(rb_singleton_class(cJournal), "_time", journal_time, 1);
    rb_define_private_method(cJournal, "_status", journal_describe, 0);
    rb_define_method(cJournal, "over?", journal_is_over, 0);
    rb_define_private_method(cJournal, "_end", journal_end, 0);
}
