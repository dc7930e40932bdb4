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

enum how how_arg(VALUE how) {
    unsigned number = NUM2UINT(how);
    if (number > OPEN_OR_CREATE) rb_raise(rb_eArgError, "expected 0 to 2, got %u", number);
    return (enum how)number;
}

/* Commonhold::Hold._open(how, name, options): how is an enum how. */
static VALUE hold_open(VALUE class, VALUE how, VALUE name, VALUE options) {
    static const opener openers[] = {ch_hold_open, ch_hold_create, ch_hold_open_or_create};
    VALUE directory = option(options, "directory"), patience = option(options, "lock_timeout");
    struct opening opening = {openers[how_arg(how)], NULL, CH_HOLD_OPTIONS_INIT, NULL};
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
    /* Other threads may change their arguments while the GVL is released. */
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
 * Closes the hold and everything that came from this object; later uses raise ClosedError. A second
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

/* The path of the file. */
static VALUE hold_path(VALUE self) {
    ch_error error;
    ch_slice path;
    checked(ch_hold_path(box_of(self, &hold_type)->handle, &path, &error), &error);
    return rb_enc_str_new(path.data, (long)path.len, rb_filesystem_encoding());
}

/* The hold's identity, as 32 hexadecimal digits. */
static VALUE hold_uuid(VALUE self) {
    ch_error error;
    uint8_t uuid[16];
    char text[33];
    checked(ch_hold_uuid(box_of(self, &hold_type)->handle, &uuid, &error), &error);
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    return rb_utf8_str_new_cstr(text);
}

static int run_describe(struct call *call) {
    return ch_hold_describe(call->handle, (uint32_t)call->number, call->out, &call->error);
}

/* A report of the hold, as JSON; the number is a ch_about. */
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

/* Recovers dead participants; returns their number. */
static VALUE hold_sweep(VALUE self) {
    size_t recovered = 0;
    struct call call = {.run = run_sweep, .out = &recovered};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return SIZET2NUM(recovered);
}

/* Checks the whole hold: returns an Array of problems, one line each. */
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

struct frozen {
    VALUE result;
    int state; /* what the block has raised */
};

static VALUE yield_nothing(VALUE nothing) { return rb_yield_values(0); }

/* Nothing that the block raises passes through the library: it is raised again afterwards. */
static void *frozen_block(void *data) {
    struct frozen *frozen = data;
    frozen->result = rb_protect(yield_nothing, Qnil, &frozen->state);
    return NULL;
}

static int run_block(void *user) {
    rb_thread_call_with_gvl(frozen_block, user);
    return 0;
}

static int run_frozen(struct call *c) { return ch_hold_with_frozen(c->handle, run_block, c->out, NULL, &c->error); }

/* call-seq: with_frozen { ... } -> object
 *
 * Calls the block while no other thread or process changes any map of the hold; returns the block's
 * result. For a consistent view of several keys. Readers, queues, channels and logs continue.
 * Writing to the hold in the block raises BusyError. If the process is killed meanwhile, writers
 * continue. */
static VALUE hold_with_frozen(VALUE self) {
    rb_need_block();
    struct frozen frozen = {Qnil, 0};
    struct call call = {.run = run_frozen, .out = &frozen};
    call_strings(&call, Qnil, Qnil);
    call_away(box_of(self, &hold_type), &call);
    if (frozen.state) rb_jump_tag(frozen.state);
    checked(call.result, &call.error);
    return frozen.result;
}

static int run_backup(struct call *call) {
    return ch_hold_backup(call->handle, call->key.data, call->out, &call->error);
}

/* Writes a copy of all maps, as they are at one moment, to a new file, while other processes write;
 * gives how many pairs. */
static VALUE hold_backup(VALUE self, VALUE to) {
    ch_backup_report report;
    struct call call = {.run = run_backup, .out = &report};
    to = name_copy(to);
    call_strings(&call, to, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return ULL2NUM(report.pairs);
}

/* Hold#_drop_KIND(name): true, or false if there was none. Hold#_list_KIND: all of them, as
 * JSON. */
#define BY_NAME(kind) \
    static int run_drop_##kind(struct call *call) { \
        return ch_##kind##_drop(call->handle, call->key.data, &call->error); \
    } \
    static VALUE hold_drop_##kind(VALUE self, VALUE name) { \
        struct call call = {.run = run_drop_##kind}; \
        name = name_copy(name); \
        call_strings(&call, name, Qnil); \
        return checked(call_away(box_of(self, &hold_type), &call), &call.error) == CH_OK ? Qtrue : Qfalse; \
    } \
    static int run_list_##kind(struct call *call) { \
        return ch_##kind##_list(call->handle, call->out, &call->error); \
    } \
    static VALUE hold_list_##kind(VALUE self) { \
        ch_bytes json = CH_BYTES_INIT; \
        struct call call = {.run = run_list_##kind, .out = &json}; \
        call_strings(&call, Qnil, Qnil); \
        checked(call_away(box_of(self, &hold_type), &call), &call.error); \
        return given_text(&json); \
    }
BY_NAME(map)
BY_NAME(queue)
BY_NAME(channel)
BY_NAME(log)

static int run_describe_queue(struct call *call) {
    return ch_queue_describe_by_name(call->handle, call->key.data, call->out, &call->error);
}

/* Hold#_describe_queue(name): a queue's statistics as JSON, also through a read-only hold. */
static VALUE hold_describe_queue(VALUE self, VALUE name) {
    ch_bytes json = CH_BYTES_INIT;
    struct call call = {.run = run_describe_queue, .out = &json};
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    return given_text(&json);
}

static int run_remove(struct call *call) {
    return ch_hold_remove(call->key.data, (uint32_t)call->number, &call->error);
}
static int run_restore(struct call *call) {
    return ch_hold_restore(call->key.data, call->value.data, NULL, call->out, &call->error);
}
static int run_salvage(struct call *call) { return ch_hold_salvage(call->key.data, NULL, call->out, &call->error); }
static int run_list(struct call *call) { return ch_hold_list(call->key.data, call->out, &call->error); }

/* Deletes the file of a hold. With force even while processes have it open, which continue with the
 * memory they have. */
static VALUE module_remove(VALUE module, VALUE name, VALUE force) {
    struct call call = {.run = run_remove, .number = RTEST(force)};
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

/* Saves the intact pairs of a file hold that was open when the system stopped; deleted keys may
 * return. Gives notes. */
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

static int run_resolve(struct call *call) {
    return ch_hold_resolve(call->key.data, call->value.data, call->out, &call->error);
}

static VALUE module_resolve(VALUE module, VALUE name, VALUE directory) {
    ch_bytes path = CH_BYTES_INIT;
    struct call call = {.run = run_resolve, .out = &path};
    name = name_copy(name);
    if (!NIL_P(directory)) directory = name_copy(directory);
    call_strings(&call, name, directory);
    checked(call_alone(&call), &call.error);
    return given_text(&path);
}

static VALUE module_library_version(VALUE module) { return rb_utf8_str_new_cstr(ch_version()); }

void init_hold(void) {
    cHold = rb_define_class_under(mCommonhold, "Hold", rb_cObject);
    rb_undef_alloc_func(cHold);
    rb_define_singleton_method(cHold, "_open", hold_open, 3);
    rb_define_method(cHold, "close", hold_close, 0);
    rb_define_method(cHold, "closed?", hold_is_closed, 0);
    rb_define_method(cHold, "path", hold_path, 0);
    rb_define_method(cHold, "uuid", hold_uuid, 0);
    rb_define_private_method(cHold, "_describe", hold_describe, 1);
    rb_define_method(cHold, "sweep", hold_sweep, 0);
    rb_define_method(cHold, "check", hold_check, 0);
    rb_define_method(cHold, "trim", hold_trim, 0);
    rb_define_method(cHold, "with_frozen", hold_with_frozen, 0);
    rb_define_method(cHold, "backup", hold_backup, 1);
    rb_define_private_method(cHold, "_drop_map", hold_drop_map, 1);
    rb_define_private_method(cHold, "_list_map", hold_list_map, 0);
    rb_define_private_method(cHold, "_drop_queue", hold_drop_queue, 1);
    rb_define_private_method(cHold, "_list_queue", hold_list_queue, 0);
    rb_define_private_method(cHold, "_drop_channel", hold_drop_channel, 1);
    rb_define_private_method(cHold, "_list_channel", hold_list_channel, 0);
    rb_define_private_method(cHold, "_drop_log", hold_drop_log, 1);
    rb_define_private_method(cHold, "_list_log", hold_list_log, 0);
    rb_define_private_method(cHold, "_describe_queue", hold_describe_queue, 1);
    rb_define_module_function(mCommonhold, "_remove", module_remove, 2);
    rb_define_module_function(mCommonhold, "restore", module_restore, 2);
    rb_define_module_function(mCommonhold, "salvage", module_salvage, 1);
    rb_define_module_function(mCommonhold, "_list", module_list, 1);
    rb_define_module_function(mCommonhold, "_resolve", module_resolve, 2);
    rb_define_module_function(mCommonhold, "library_version", module_library_version, 0);
}

/* The extension's beginning. */
__attribute__((visibility("default"))) void Init_commonhold_ext(void) {
    mCommonhold = rb_define_module("Commonhold");
    init_errors();
    init_hold();
    init_map();
    init_age();
    init_pair();
    init_walk();
    init_wait();
    init_queue();
    init_channel();
    init_messages();
    init_log();
    init_stream();
    init_net();
    init_holds();
    init_journal();
    init_pool();
}
