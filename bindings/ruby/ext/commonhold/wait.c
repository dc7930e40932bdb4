/* Commonhold::Map: waiting for the journal and for replicas. */
#include "ext.h"

struct waiting {
    ch_position end; /* the changes before it are waited for */
    uint64_t count;  /* in: replicas to wait for; out: those that have the changes */
};

static int run_end(struct call *c) {
    ch_follower *follower;
    int result = ch_map_follow(c->handle, NULL, &follower, &c->error);
    if (result != CH_OK) return result;
    result = ch_follower_end(follower, c->out, &c->error);
    ch_follower_free(follower);
    return result;
}

/* A slice of the wait is over. */
static int not_yet(int result) { return result == CH_TIMED_OUT ? CH_NONE : result; }

static int run_sync(struct call *c) {
    struct waiting *waiting = c->more;
    return not_yet(ch_map_sync_to(c->handle, &waiting->end, c->number, &c->error));
}

static int run_replicas(struct call *c) {
    struct waiting *waiting = c->more;
    return not_yet(
        ch_map_wait_for_replicas(c->handle, &waiting->end, waiting->count, c->number, c->out, &c->error));
}

static int run_replica(struct call *c) {
    struct waiting *waiting = c->more;
    return not_yet(ch_map_wait_for_replica(c->handle, &waiting->end, c->key.data, c->number, &c->error));
}

/* Waits for the changes made before; changes during the wait do not count. */
static void wait_for(VALUE self, struct call *call, VALUE name, VALUE seconds, struct waiting *waiting) {
    uint64_t timeout = timeout_arg(seconds);
    struct box *box = box_of(self, &map_type);
    struct call end = {.run = run_end, .out = &waiting->end};
    call_strings(&end, Qnil, Qnil);
    checked(call_now(box, &end), &end.error);
    call->more = waiting;
    call_strings(call, name, Qnil);
    if (checked(call_wait(box_of(self, &map_type), call, timeout), &call->error) != CH_OK) raise_error(&call->error);
    RB_GC_GUARD(name);
}

/* Map#_sync(seconds): the position up to which changes are durable. */
static VALUE map_sync(VALUE self, VALUE seconds) {
    ch_error error;
    ch_bytes text = CH_BYTES_INIT;
    struct waiting waiting = {.count = 0};
    struct call call = {.run = run_sync};
    wait_for(self, &call, Qnil, seconds, &waiting);
    checked(ch_position_text(&waiting.end, &text, &error), &error);
    return given_text(&text);
}

/* Map#_wait_for_replicas(count, seconds): how many have the changes. */
static VALUE map_wait_for_replicas(VALUE self, VALUE count, VALUE seconds) {
    uint64_t applied = 0;
    struct waiting waiting = {.count = unsigned_arg(count, "a count")};
    struct call call = {.run = run_replicas, .out = &applied};
    wait_for(self, &call, Qnil, seconds, &waiting);
    return ULL2NUM(applied);
}

/* Map#_wait_for_replica(name, seconds). */
static VALUE map_wait_for_replica(VALUE self, VALUE name, VALUE seconds) {
    struct waiting waiting = {.count = 0};
    struct call call = {.run = run_replica};
    wait_for(self, &call, name_copy(name), seconds, &waiting);
    return Qnil;
}

void init_wait(void) {
    rb_define_private_method(cMap, "_sync", map_sync, 1);
    rb_define_private_method(cMap, "_wait_for_replicas", map_wait_for_replicas, 2);
    rb_define_private_method(cMap, "_wait_for_replica", map_wait_for_replica, 2);
}
