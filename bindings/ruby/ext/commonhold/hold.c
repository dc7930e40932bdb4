/* Commonhold::Hold, the file. */
#include "ext.h"

BOX_TYPE(hold_type, "Commonhold::Hold");
RELEASE(release_hold, hold)
VALUE mCommonhold, cHold;

typedef int (*opener)(const char *, const ch_hold_options *, ch_hold **, ch_error *);
struct opening {
    opener open;
    const char *name;
    ch_hold_options options;
    ch_hold *hold;
};

static int run_open(struct call *call) {
    struct opening *opening = call->out;
    opening->name = call->key.data;
    opening->options.directory = call->value.data;
    return opening->open(opening->name, &opening->options, &opening->hold, &call->error);
}

/* Commonhold::Hold._open(how, name, options): how is 0 to open, 1 to create, 2 for whichever is needed. */
static VALUE hold_open(VALUE class, VALUE how, VALUE name, VALUE options) {
    static const opener openers[] = {ch_hold_open, ch_hold_create, ch_hold_open_or_create};
    VALUE directory = option(options, "directory"), patience = option(options, "lock_timeout");
    struct opening opening = {openers[NUM2UINT(how) % 3], NULL, CH_HOLD_OPTIONS_INIT, NULL};
    uint64_t patience_ns = timeout_arg(patience);
    opening.options.max_bytes = number_option(options, "max_bytes");
    if (patience_ns != CH_FOREVER) opening.options.lock_timeout_ns = patience_ns ? patience_ns : 1;
    opening.options.mode = (uint32_t)number_option(options, "mode");
    opening.options.read_only = RTEST(option(options, "read_only"));
    opening.options.delete_on_last_exit = RTEST(option(options, "delete_on_last_exit"));
    VALUE object = box_new(class, &hold_type, Qnil, release_hold);
    struct box *box = RTYPEDDATA_DATA(object);
    box->patience_ns = patience_ns;
    struct call call = {.run = run_open, .out = &opening};
    /* Other threads may change what they gave us, while the GVL is away. */
    name = name_copy(name);
    if (!NIL_P(directory)) directory = name_copy(directory);
    call_strings(&call, name, directory);
    checked(call_away(box, &call), &call.error);
    box->handle = opening.hold;
    RB_GC_GUARD(name);
    RB_GC_GUARD(directory);
    return object;
}

static int run_close(struct call *call) { return ch_hold_close(call->handle, &call->error); }

/* call-seq: close -> nil
 *
 * Closes the hold and everything that came from this object; whatever is used later raises ClosedError. A second
 * closing does nothing. */
static VALUE hold_close(VALUE self) {
    struct box *box = rb_check_typeddata(self, &hold_type);
    if (box->closed) return Qnil;
    struct call call = {.run = run_close};
    call_strings(&call, Qnil, Qnil);
    int result = call_away(box, &call);
    box_close(self, &hold_type);
    if (result > 0 && result != CH_CLOSED) raise_error(&call.error);
    return Qnil;
}

/* Whether it was closed. */
static VALUE hold_is_closed(VALUE self) {
    struct box *box = rb_check_typeddata(self, &hold_type);
    return box->closed ? Qtrue : Qfalse;
}

/* Where the file is. */
static VALUE hold_path(VALUE self) {
    ch_error error;
    ch_slice path;
    checked(ch_hold_path(box_of(self, &hold_type)->handle, &path, &error), &error);
    return rb_enc_str_new(path.data, (long)path.len, rb_filesystem_encoding());
}

static int run_describe(struct call *call) {
    return ch_hold_describe(call->handle, (uint32_t)call->number, call->out, &call->error);
}

/* What the hold says of itself, as JSON; the number is a ch_about. */
static VALUE hold_describe(VALUE self, VALUE about) {
    ch_bytes json = CH_BYTES_INIT;
    struct call call = {.run = run_describe, .number = NUM2UINT(about), .out = &json};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return given_text(&json);
}

static int run_sweep(struct call *call) { return ch_hold_sweep(call->handle, call->out, &call->error); }
static int run_check(struct call *call) { return ch_hold_check(call->handle, NULL, call->out, &call->error); }
static int run_trim(struct call *call) { return ch_hold_trim(call->handle, call->out, &call->error); }

/* Settles what dead participants left; gives how many there were. */
static VALUE hold_sweep(VALUE self) {
    size_t settled = 0;
    struct call call = {.run = run_sweep, .out = &settled};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return SIZET2NUM(settled);
}

/* Proves the hold whole: an Array of what is wrong, a line each. */
static VALUE hold_check(VALUE self) {
    ch_bytes problems = CH_BYTES_INIT;
    struct call call = {.run = run_check, .out = &problems};
    call_strings(&call, Qnil, Qnil);
    int result = call_away(box_of(self, &hold_type), &call);
    VALUE text = given_text(&problems);
    if (checked(result, &call.error) == CH_OK) return rb_ary_new();
    return rb_funcall(text, rb_intern("split"), 1, rb_str_new_cstr("\n"));
}

/* Gives memory back to the system that has been free for a while; gives how many bytes. */
static VALUE hold_trim(VALUE self) {
    uint64_t bytes = 0;
    struct call call = {.run = run_trim, .out = &bytes};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return ULL2NUM(bytes);
}

static int run_backup(struct call *call) {
    return ch_hold_backup(call->handle, call->key.data, call->out, &call->error);
}

/* Writes a copy of all maps, as they are at one moment, to a new file, while others go on writing; gives how many pairs. */
static VALUE hold_backup(VALUE self, VALUE to) {
    ch_backup_report report;
    struct call call = {.run = run_backup, .out = &report};
    to = name_copy(to);
    call_strings(&call, to, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return ULL2NUM(report.pairs);
}

/* drop_NAME(name) -> true, or false if there was none. */
#define DROP(kind) \
    static int run_drop_##kind(struct call *call) { \
        return ch_hold_drop_##kind(call->handle, call->key.data, &call->error); \
    } \
    static VALUE hold_drop_##kind(VALUE self, VALUE name) { \
        struct call call = {.run = run_drop_##kind}; \
        name = name_copy(name); \
        call_strings(&call, name, Qnil); \
        return checked(call_away(box_of(self, &hold_type), &call), &call.error) == CH_OK ? Qtrue : Qfalse; \
    }
DROP(map)
DROP(queue)
DROP(channel)
DROP(log)

static int run_drop(struct call *call) {
    return ch_hold_drop(call->key.data, (uint32_t)call->number, &call->error);
}
static int run_restore(struct call *call) {
    return ch_hold_restore(call->key.data, call->value.data, NULL, call->out, &call->error);
}
static int run_salvage(struct call *call) { return ch_hold_salvage(call->key.data, NULL, call->out, &call->error); }
static int run_list(struct call *call) { return ch_hold_list(call->key.data, call->out, &call->error); }

/* Deletes the file of a hold. With force also while processes have it open, which go on with the memory they have. */
static VALUE module_drop(VALUE module, VALUE name, VALUE force) {
    struct call call = {.run = run_drop, .number = RTEST(force)};
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_alone(&call), &call.error);
    return Qnil;
}

/* Makes a new hold from a backup; gives how many pairs it has. */
static VALUE module_restore(VALUE module, VALUE backup, VALUE name) {
    uint64_t pairs = 0;
    struct call call = {.run = run_restore, .out = &pairs};
    backup = name_copy(backup);
    name = name_copy(name);
    call_strings(&call, backup, name);
    checked(call_alone(&call), &call.error);
    return ULL2NUM(pairs);
}

/* Saves what is intact in a file hold that was open when the system stopped; deleted keys may return. Gives notes. */
static VALUE module_salvage(VALUE module, VALUE name) {
    ch_bytes notes = CH_BYTES_INIT;
    struct call call = {.run = run_salvage, .out = &notes};
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    int result = call_alone(&call);
    VALUE text = given_text(&notes);
    checked(result, &call.error);
    return text;
}

static VALUE module_list(VALUE module, VALUE directory) {
    ch_bytes json = CH_BYTES_INIT;
    struct call call = {.run = run_list, .out = &json};
    if (!NIL_P(directory)) directory = name_copy(directory);
    call_strings(&call, directory, Qnil);
    checked(call_alone(&call), &call.error);
    return given_text(&json);
}

static VALUE module_library_version(VALUE module) { return rb_utf8_str_new_cstr(ch_version()); }

void init_hold(void) {
    cHold = rb_define_class_under(mCommonhold, "Hold", rb_cObject);
    rb_undef_alloc_func(cHold);
    rb_define_singleton_method(cHold, "_open", hold_open, 3);
    rb_define_method(cHold, "close", hold_close, 0);
    rb_define_method(cHold, "closed?", hold_is_closed, 0);
    rb_define_method(cHold, "path", hold_path, 0);
    rb_define_private_method(cHold, "_describe", hold_describe, 1);
    rb_define_method(cHold, "sweep", hold_sweep, 0);
    rb_define_method(cHold, "check", hold_check, 0);
    rb_define_method(cHold, "trim", hold_trim, 0);
    rb_define_method(cHold, "backup", hold_backup, 1);
    rb_define_method(cHold, "drop_map", hold_drop_map, 1);
    rb_define_method(cHold, "drop_queue", hold_drop_queue, 1);
    rb_define_method(cHold, "drop_channel", hold_drop_channel, 1);
    rb_define_method(cHold, "drop_log", hold_drop_log, 1);
    rb_define_module_function(mCommonhold, "_drop", module_drop, 2);
    rb_define_module_function(mCommonhold, "restore", module_restore, 2);
    rb_define_module_function(mCommonhold, "salvage", module_salvage, 1);
    rb_define_module_function(mCommonhold, "_list", module_list, 1);
    rb_define_module_function(mCommonhold, "library_version", module_library_version, 0);
}

/* The extension's beginning. */
__attribute__((visibility("default"))) void Init_commonhold_ext(void) {
    mCommonhold = rb_define_module("Commonhold");
    init_errors();
    init_hold();
    init_map();
    init_walk();
    init_queue();
    init_channel();
    init_log();
    init_stream();
    init_pool();
}
