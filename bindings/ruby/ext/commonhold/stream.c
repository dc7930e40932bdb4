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

static int run_promote(struct call *c) { return ch_map_promote(c->handle, c->key.data, c->out, &c->error); }

/* Hold#_promote(map): the position as text, or nil, and the epoch; nil if no replica wrote the map. */
static VALUE hold_promote(VALUE self, VALUE map) {
    ch_error error;
    ch_promotion done;
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_promote, .out = &done};
    map = name_copy(map);
    call_strings(&call, map, Qnil);
    if (checked(call_away(box_of(self, &hold_type), &call), &call.error) != CH_OK) return Qnil;
    if (!done.has_position) return rb_assoc_new(Qnil, ULL2NUM(done.epoch));
    checked(ch_position_text(&done.position, &text, &error), &error);
    return rb_assoc_new(given_text(&text), ULL2NUM(done.epoch));
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

static int run_end(struct call *c) { return ch_follower_end(c->handle, c->out, &c->error); }

/* The end of the stream, as text: every change that was visible in the map before precedes it. */
static VALUE follower_end(VALUE self) {
    ch_error error;
    ch_position position;
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_end, .out = &position};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &follower_type), &call), &call.error);
    checked(ch_position_text(&position, &text, &error), &error);
    return given_text(&text);
}

/* How many bytes of changes wait. */
static VALUE follower_lag_bytes(VALUE self) {
    ch_error error;
    uint64_t waiting;
    checked(ch_follower_lag(box_of(self, &follower_type)->handle, &waiting, NULL, &error), &error);
    return ULL2NUM(waiting);
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
    rb_define_method(cFollower, "end", follower_end, 0);
    rb_define_method(cFollower, "lag_bytes", follower_lag_bytes, 0);
    rb_define_method(cFollower, "close", follower_close, 0);
}
