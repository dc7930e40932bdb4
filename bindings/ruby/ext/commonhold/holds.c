/* Commonhold::HoldOrigin and Commonhold::HoldReplica: all maps of a hold over the network. As in net.c,
 * their threads belong to the library, and never call Ruby. */
#include "ext.h"

BOX_TYPE(hold_origin_type, "Commonhold::HoldOrigin");
BOX_TYPE(hold_replica_type, "Commonhold::HoldReplica");
RELEASE(release_hold_origin, hold_origin)
RELEASE(release_hold_replica, hold_replica)
static VALUE cHoldOrigin, cHoldReplica;

/* ---- Origins. */

struct serving {
    ch_origin_options each;
    ch_hold_origin_options all;
};

static int run_start(struct call *c) {
    struct serving *serving = c->more;
    serving->each.secret = c->expected.data;
    serving->each.secret_len = c->expected.len;
    serving->all.origin = &serving->each;
    return ch_hold_origin_start(c->handle, &serving->all, c->out, &c->error);
}

/* Hold#_hold_origin(maps, secret, uids, options). */
static VALUE start_hold_origin(VALUE self, VALUE maps, VALUE secret, VALUE uids, VALUE options) {
    volatile VALUE kept = 0, patterns = 0;
    ch_hold_origin *origin = NULL;
    struct serving serving = {origin_options(uids, options, &kept), CH_HOLD_ORIGIN_OPTIONS_INIT};
    struct call call = {.run = run_start, .out = &origin, .more = &serving};
    serving.all.maps = texts_arg(maps, &serving.all.map_count, &patterns);
    VALUE object = box_new(cHoldOrigin, &hold_origin_type, self, release_hold_origin);
    call_strings(&call, Qnil, Qnil);
    call.expected_text = secret_arg(secret);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = origin;
    rb_free_tmp_buffer(&kept);
    rb_free_tmp_buffer(&patterns);
    return object;
}

static int run_listen(struct call *c) { return ch_hold_origin_listen(c->handle, c->key.data, c->out, &c->error); }
static int run_listen_on(struct call *c) {
    return ch_hold_origin_listen_on(c->handle, (int)c->uid, c->out, &c->error);
}

/* call-seq: listen(address) -> string
 *
 * As Origin#listen. */
static VALUE hold_origin_listen(VALUE self, VALUE address) {
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_listen, .out = &text};
    call_strings(&call, name_copy(address), Qnil);
    checked(call_away(box_of(self, &hold_origin_type), &call), &call.error);
    return given_text(&text);
}

/* call-seq: listen_on(socket) -> string
 *
 * As Origin#listen_on. */
static VALUE hold_origin_listen_on(VALUE self, VALUE socket) {
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_listen_on, .out = &text};
    call_strings(&call, Qnil, Qnil);
    call_with_socket(box_of(self, &hold_origin_type), &call, socket);
    checked(call.result, &call.error);
    return given_text(&text);
}

static VALUE hold_origin_maps(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_hold_origin_maps(box_of(self, &hold_origin_type)->handle, NULL, &json, &error), &error);
    return given_text(&json);
}

static int run_finish(struct call *c) { return ch_hold_origin_finish(c->handle, c->number, &c->error); }

/* HoldOrigin#_end(seconds). */
static VALUE hold_origin_end(VALUE self, VALUE seconds) {
    struct call call = {.run = run_finish, .number = timeout_arg(seconds)};
    call_strings(&call, Qnil, Qnil);
    return box_end(self, &hold_origin_type, &call);
}

/* ---- Replicas. */

struct following {
    ch_replica_options each;
    ch_hold_replica_options all;
};

static int run_replicate(struct call *c) {
    struct following *following = c->more;
    following->each.secret = c->expected.data;
    following->each.secret_len = c->expected.len;
    following->each.name = c->replacement.data;
    following->all.replica = &following->each;
    return ch_hold_replica_connect(c->handle, c->key.data, &following->all, c->out, &c->error);
}

/* Hold#_hold_replica(origin, maps, secret, name, options). */
static VALUE start_hold_replica(VALUE self, VALUE origin, VALUE maps, VALUE secret, VALUE name, VALUE options) {
    volatile VALUE kept = 0, patterns = 0;
    ch_hold_replica *replica = NULL;
    struct following following = {replica_options(options, &kept), CH_HOLD_REPLICA_OPTIONS_INIT};
    struct call call = {.run = run_replicate, .out = &replica, .more = &following};
    following.all.maps = texts_arg(maps, &following.all.map_count, &patterns);
    VALUE object = box_new(cHoldReplica, &hold_replica_type, self, release_hold_replica);
    call_strings(&call, name_copy(origin), Qnil);
    call.expected_text = secret_arg(secret);
    call.replacement_text = NIL_P(name) ? Qnil : name_copy(name);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = replica;
    rb_free_tmp_buffer(&kept);
    rb_free_tmp_buffer(&patterns);
    return object;
}

static VALUE hold_replica_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_hold_replica_describe(box_of(self, &hold_replica_type)->handle, &json, &error), &error);
    return given_text(&json);
}

static int run_wait_ready(struct call *c) { return ch_hold_replica_wait_ready(c->handle, c->number, &c->error); }

/* HoldReplica#_wait_ready(seconds): whether all maps became ready in time. */
static VALUE hold_replica_wait_ready(VALUE self, VALUE seconds) {
    uint64_t timeout = timeout_arg(seconds);
    struct call call = {.run = run_wait_ready};
    struct box *box = box_of(self, &hold_replica_type);
    call_strings(&call, Qnil, Qnil);
    int result = checked(call_wait(box, &call, timeout), &call.error);
    RB_GC_GUARD(self);
    return result == CH_OK ? Qtrue : Qfalse;
}

static int run_free(struct call *c) {
    ch_hold_replica_free(c->handle);
    return CH_OK;
}

/* HoldReplica#_end. */
static VALUE hold_replica_end(VALUE self) {
    struct call call = {.run = run_free};
    call_strings(&call, Qnil, Qnil);
    return box_end(self, &hold_replica_type, &call);
}

void init_holds(void) {
    cHoldOrigin = rb_define_class_under(mCommonhold, "HoldOrigin", rb_cObject);
    cHoldReplica = rb_define_class_under(mCommonhold, "HoldReplica", rb_cObject);
    rb_undef_alloc_func(cHoldOrigin);
    rb_undef_alloc_func(cHoldReplica);
    rb_define_private_method(cHold, "_hold_origin", start_hold_origin, 4);
    rb_define_method(cHoldOrigin, "listen", hold_origin_listen, 1);
    rb_define_method(cHoldOrigin, "listen_on", hold_origin_listen_on, 1);
    rb_define_private_method(cHoldOrigin, "_maps", hold_origin_maps, 0);
    rb_define_private_method(cHoldOrigin, "_end", hold_origin_end, 1);
    rb_define_private_method(cHold, "_hold_replica", start_hold_replica, 5);
    rb_define_private_method(cHoldReplica, "_status", hold_replica_describe, 0);
    rb_define_private_method(cHoldReplica, "_wait_ready", hold_replica_wait_ready, 1);
    rb_define_private_method(cHoldReplica, "_end", hold_replica_end, 0);
}
