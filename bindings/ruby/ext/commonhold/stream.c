/* Commonhold::Follower: a map's changes as they happen. */
#include "ext.h"

BOX_TYPE(follower_type, "Commonhold::Follower");
RELEASE(release_follower, follower)
static VALUE cFollower, cChange;

static int run_begin_stream(struct call *c) {
    return ch_map_begin_stream(c->handle, c->key.data, c->number, &c->error);
}

/* Hold#_begin_stream(map, bytes): whether it had none. */
static VALUE hold_begin_stream(VALUE self, VALUE map, VALUE bytes) {
    struct call call = {.run = run_begin_stream, .number = NUM2ULL(bytes)};
    map = name_copy(map);
    call_strings(&call, map, Qnil);
    return checked(call_now(box_of(self, &hold_type), &call), &call.error) == CH_OK ? Qtrue : Qfalse;
}

static int run_promote(struct call *c) { return ch_map_promote(c->handle, c->key.data, &c->error); }

/* Hold#_promote(map): whether only a replica wrote it before. */
static VALUE hold_promote(VALUE self, VALUE map) {
    struct call call = {.run = run_promote};
    map = name_copy(map);
    call_strings(&call, map, Qnil);
    return checked(call_away(box_of(self, &hold_type), &call), &call.error) == CH_OK ? Qtrue : Qfalse;
}

static int run_begin(struct call *call) { return ch_map_follow(call->handle, call->more, call->out, &call->error); }

/* Map#_follow(from): a position as text, or nil for now. */
static VALUE map_follow(VALUE self, VALUE from) {
    ch_error error;
    ch_position position;
    ch_follower *follower = NULL;
    VALUE object = box_new(cFollower, &follower_type, self, release_follower);
    if (!NIL_P(from)) checked(ch_position_parse(name_arg(&from), &position, &error), &error);
    struct call call = {.run = run_begin, .more = NIL_P(from) ? NULL : &position, .out = &follower};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &map_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = follower;
    return object;
}

static int run_follow(struct call *c) {
    return ch_follower_recv_timeout(c->handle, c->number, c->out, &c->error);
}

/* Follower#_recv(seconds): the next change, or nil if there was none in time. */
static VALUE follower_recv(VALUE self, VALUE seconds) {
    ch_error error;
    ch_change change;
    uint64_t timeout = timeout_arg(seconds);
    struct box *box = box_of(self, &follower_type);
    int result = checked(ch_follower_try_recv(box->handle, &change, &error), &error);
    if (result != CH_OK && timeout > 0) {
        struct call call = {.run = run_follow, .out = &change};
        call_strings(&call, Qnil, Qnil);
        result = checked(call_wait(box, &call, timeout), &call.error);
    }
    if (result != CH_OK) return Qnil;
    /* and the change's bytes went with it */
    if (!box->handle) raise_code(CH_CLOSED, "it was closed meanwhile");
    VALUE values[] = {UINT2NUM(change.kind), given(box, change.key.data, change.key.len),
                      given(box, change.value.data, change.value.len),
                      change.expires_ms ? ULL2NUM(change.expires_ms) : Qnil};
    return rb_class_new_instance(4, values, cChange);
}

/* The position of the next change, as text, at which to resume later. */
static VALUE follower_position(VALUE self) {
    ch_error error;
    ch_position position;
    ch_bytes text = CH_BYTES_INIT;
    checked(ch_follower_position(box_of(self, &follower_type)->handle, &position, &error), &error);
    checked(ch_position_text(&position, &text, &error), &error);
    return given_text(&text);
}

static VALUE follower_close(VALUE self) { return box_close(self, &follower_type); }

void init_stream(void) {
    cFollower = rb_define_class_under(mCommonhold, "Follower", rb_cObject);
    rb_undef_alloc_func(cFollower);
    cChange = rb_struct_define_under(mCommonhold, "Change", "code", "key", "value", "expires_ms", NULL);
    rb_define_private_method(cHold, "_begin_stream", hold_begin_stream, 2);
    rb_define_private_method(cHold, "_promote", hold_promote, 1);
    rb_define_private_method(cMap, "_follow", map_follow, 1);
    rb_define_private_method(cFollower, "_recv", follower_recv, 1);
    rb_define_method(cFollower, "position", follower_position, 0);
    rb_define_method(cFollower, "close", follower_close, 0);
}
