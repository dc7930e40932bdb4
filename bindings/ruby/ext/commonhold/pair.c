/* Commonhold::Pair: a handle on one pair of a map. */
#include "ext.h"

BOX_TYPE(pair_type, "Commonhold::Pair");
RELEASE(release_pair, pair)
static VALUE cPair;

/* A buffer for short values. */
#define ROOM 512

/* call-seq: pair(key) -> Commonhold::Pair
 *
 * A handle on the pair with this key, which may be absent. It remembers where the pair is, and finds
 * it again after any change: for a key that is read or written often. */
static VALUE map_pair(VALUE self, VALUE key) {
    ch_error error;
    ch_pair *pair = NULL;
    struct box *map = box_of(self, &map_type);
    key = bytes_arg(key);
    VALUE object = box_new(cPair, &pair_type, self, release_pair);
    checked(ch_map_pair(map->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &pair, &error), &error);
    RB_GC_GUARD(key);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = pair;
    return object;
}

/* call-seq: get -> string or nil
 *
 * A copy of the value. */
static VALUE pair_get(VALUE self) {
    ch_error error;
    char room[ROOM];
    size_t len;
    struct box *box = box_of(self, &pair_type);
    if (checked(ch_pair_get_into(box->handle, room, sizeof room, &len, &error), &error) != CH_OK) return Qnil;
    if (len <= sizeof room) return given(box, room, len);
    ch_bytes value = CH_BYTES_INIT;
    int result = ch_pair_get(box->handle, &value, &error);
    VALUE text = given_freed(box, &value);
    return checked(result, &error) == CH_OK ? text : Qnil;
}

static int run_set(struct call *c) {
    return ch_pair_set(c->handle, c->value.data, c->value.len, NULL, &c->error);
}
static int run_increment(struct call *c) { return ch_pair_increment(c->handle, c->signed_number, c->out, &c->error); }

/* call-seq: set(value) -> self */
static VALUE pair_set(VALUE self, VALUE value) {
    struct call call = {.run = run_set};
    value = bytes_arg(value);
    call_strings(&call, Qnil, value);
    checked(call_now(box_of(self, &pair_type), &call), &call.error);
    return self;
}

/* call-seq: increment(by = 1) -> integer
 *
 * As Map#increment. */
static VALUE pair_increment(int count, VALUE *given_args, VALUE self) {
    VALUE by;
    int64_t sum;
    rb_scan_args(count, given_args, "01", &by);
    struct call call = {.run = run_increment, .signed_number = NIL_P(by) ? 1 : NUM2LL(by), .out = &sum};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &pair_type), &call), &call.error);
    return LL2NUM(sum);
}

/* Frees the handle now. */
static VALUE pair_close(VALUE self) { return box_close(self, &pair_type); }

void init_pair(void) {
    cPair = rb_define_class_under(mCommonhold, "Pair", rb_cObject);
    rb_undef_alloc_func(cPair);
    rb_define_method(cMap, "pair", map_pair, 1);
    rb_define_method(cPair, "get", pair_get, 0);
    rb_define_method(cPair, "set", pair_set, 1);
    rb_define_method(cPair, "increment", pair_increment, -1);
    rb_define_method(cPair, "close", pair_close, 0);
}
