/* Commonhold::Map: pairs, one at a time and many. */
#include "ext.h"

BOX_TYPE(map_type, "Commonhold::Map");
RELEASE(release_map, map)
VALUE cMap;

/* A buffer for short values. */
#define ROOM 512
/* The number of pairs of a batch that are done before other threads may run. */
#define CHUNK 256

static int run_map(struct call *call) {
    switch ((enum how)call->number) {
    case OPEN:
        return ch_map_open(call->handle, call->key.data, call->out, &call->error);
    case CREATE:
        return ch_map_create(call->handle, call->key.data, call->more, call->out, &call->error);
    default:
        return ch_map_open_or_create(call->handle, call->key.data, call->more, call->out, &call->error);
    }
}

static uint32_t mode_of(VALUE name) {
    if (NIL_P(name)) return CH_GENERAL;
    VALUE text = rb_sym2str(rb_to_symbol(name));
    const char *is = StringValueCStr(text);
    if (strcmp(is, "general") == 0) return CH_GENERAL;
    if (strcmp(is, "fixed") == 0) return CH_FIXED;
    if (strcmp(is, "cache") == 0) return CH_CACHE;
    rb_raise(rb_eArgError, "expected the mode :general, :fixed or :cache, got :%s", is);
}

/* Hold#_map(how, name, options). */
static VALUE hold_map(VALUE self, VALUE how, VALUE name, VALUE options) {
    ch_map_options wanted = CH_MAP_OPTIONS_INIT;
    ch_map *map = NULL;
    VALUE encoding = option(options, "encoding");
    struct box *hold = box_of(self, &hold_type);
    struct call call = {.run = run_map, .number = how_arg(how), .out = &map, .more = &wanted};
    wanted.mode = mode_of(option(options, "mode"));
    wanted.key_bytes = (uint32_t)number_option(options, "key_bytes");
    wanted.value_bytes = (uint32_t)number_option(options, "value_bytes");
    wanted.value_room = (uint32_t)number_option(options, "value_room");
    wanted.max_bytes = number_option(options, "max_bytes");
    wanted.max_entries = number_option(options, "max_entries");
    wanted.ttl_ms = number_option(options, "ttl_ms");
    VALUE object = box_new(cMap, &map_type, self, release_map);
    if (!NIL_P(encoding)) ((struct box *)RTYPEDDATA_DATA(object))->encoding = rb_to_encoding_index(encoding);
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_now(hold, &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = map;
    return object;
}

static VALUE map_close(VALUE self) { return box_close(self, &map_type); }

static VALUE map_name(VALUE self) {
    ch_error error;
    ch_slice name;
    checked(ch_map_name(box_of(self, &map_type)->handle, &name, &error), &error);
    return rb_utf8_str_new(name.data, (long)name.len);
}

static VALUE map_is_replica(VALUE self) {
    ch_error error;
    return checked(ch_map_is_replica(box_of(self, &map_type)->handle, &error), &error) == CH_OK ? Qtrue : Qfalse;
}

/* ---- Reading, which never waits: always with the GVL. */

VALUE map_lookup(struct box *box, const void *key, size_t len, ch_error *error, int *result) {
    char room[ROOM];
    size_t found;
    *result = ch_map_get_into(box->handle, key, len, room, sizeof room, &found, error);
    if (*result != CH_OK) return Qnil;
    if (found <= sizeof room) return given(box, room, found);
    ch_bytes value = CH_BYTES_INIT;
    *result = ch_map_get(box->handle, key, len, &value, error);
    VALUE text = given_freed(box, &value);
    return *result == CH_OK ? text : Qnil;
}

/* call-seq: map[key] -> string or nil
 *
 * A copy of the value of a key. */
static VALUE map_get(VALUE self, VALUE key) {
    ch_error error;
    int result;
    struct box *box = box_of(self, &map_type);
    key = bytes_arg(key);
    VALUE value = map_lookup(box, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &error, &result);
    RB_GC_GUARD(key);
    checked(result, &error);
    return value;
}

/* Whether the key is present. */
static VALUE map_has(VALUE self, VALUE key) {
    ch_error error;
    struct box *box = box_of(self, &map_type);
    key = bytes_arg(key);
    int result = ch_map_contains(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &error);
    return checked(result, &error) == CH_OK ? Qtrue : Qfalse;
}

/* The uid of a key: a 32-bit number, as long as the key is present; nil if it is absent. */
static VALUE map_uid(VALUE self, VALUE key) {
    ch_error error;
    uint32_t uid;
    struct box *box = box_of(self, &map_type);
    key = bytes_arg(key);
    int result = ch_map_uid(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &uid, &error);
    return checked(result, &error) == CH_OK ? UINT2NUM(uid) : Qnil;
}

struct two {
    const struct box *box;
    ch_bytes *key, *value;
};

static VALUE two(VALUE data) {
    struct two *two = (struct two *)data;
    VALUE key = given(two->box, two->key->data, two->key->len);
    return rb_assoc_new(key, given(two->box, two->value->data, two->value->len));
}

static VALUE two_end(VALUE data) {
    struct two *two = (struct two *)data;
    ch_bytes_free(two->key);
    ch_bytes_free(two->value);
    return Qnil;
}

/* The bytes that a call has found, if any; frees them. */
static VALUE pair_of(struct box *box, int result, ch_bytes *key, ch_bytes *value, const ch_error *error) {
    struct two found = {box, key, value};
    VALUE pair = rb_ensure(two, (VALUE)&found, two_end, (VALUE)&found);
    return checked(result, error) == CH_OK ? pair : Qnil;
}

/* The pair that a uid names, or nil. */
static VALUE map_by_uid(VALUE self, VALUE uid) {
    ch_error error;
    ch_bytes key = CH_BYTES_INIT, value = CH_BYTES_INIT;
    struct box *box = box_of(self, &map_type);
    return pair_of(box, ch_map_get_uid(box->handle, NUM2UINT(uid), &key, &value, &error), &key, &value, &error);
}

/* A random pair, each about equally likely; nil if there is none. */
static VALUE map_random_pair(VALUE self) {
    ch_error error;
    ch_bytes key = CH_BYTES_INIT, value = CH_BYTES_INIT;
    struct box *box = box_of(self, &map_type);
    return pair_of(box, ch_map_random_pair(box->handle, &key, &value, &error), &key, &value, &error);
}

/* The number of pairs. */
static VALUE map_len(VALUE self) {
    ch_error error;
    uint64_t len;
    checked(ch_map_len(box_of(self, &map_type)->handle, &len, &error), &error);
    return ULL2NUM(len);
}

/* ---- Writing. */

static int run_set(struct call *c) {
    return ch_map_set(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, NULL, &c->error);
}
static int run_set_ttl(struct call *c) {
    return ch_map_set_with_ttl(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, c->number, NULL, &c->error);
}
static int run_touch(struct call *c) {
    return ch_map_touch(c->handle, c->key.data, c->key.len, c->number, &c->error);
}
static int run_add(struct call *c) {
    return ch_map_add(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, NULL, &c->error);
}
static int run_replace(struct call *c) {
    return ch_map_replace(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, NULL, &c->error);
}
static int run_delete(struct call *c) { return ch_map_delete(c->handle, c->key.data, c->key.len, &c->error); }
static int run_take(struct call *c) { return ch_map_take(c->handle, c->key.data, c->key.len, c->out, &c->error); }
static int run_increment(struct call *c) {
    return ch_map_increment(c->handle, c->key.data, c->key.len, c->signed_number, c->out, &c->error);
}
static int run_exchange(struct call *c) {
    return ch_map_compare_exchange(c->handle, c->key.data, c->key.len, NIL_P(c->expected_text) ? NULL : &c->expected,
                                   NIL_P(c->replacement_text) ? NULL : &c->replacement, &c->error);
}
static int run_exchange_ttl(struct call *c) {
    return ch_map_compare_exchange_with_ttl(c->handle, c->key.data, c->key.len, NIL_P(c->expected_text) ? NULL : &c->expected,
                                       NIL_P(c->replacement_text) ? NULL : &c->replacement, c->number, &c->error);
}
static int run_set_uid(struct call *c) {
    return ch_map_set_uid(c->handle, c->uid, c->key.data, c->key.len, c->value.data, c->value.len, &c->error);
}
static int run_delete_uid(struct call *c) {
    return ch_map_delete_uid(c->handle, c->uid, c->key.data, c->key.len, &c->error);
}
static int run_increment_uid(struct call *c) {
    return ch_map_increment_uid(c->handle, c->uid, c->key.data, c->key.len, c->signed_number, c->out, &c->error);
}
static int run_take_uid(struct call *c) {
    return ch_map_take_uid(c->handle, c->uid, c->key.data, c->key.len, c->out, &c->error);
}
static int run_exchange_uid(struct call *c) {
    return ch_map_compare_exchange_uid(c->handle, c->uid, c->key.data, c->key.len,
                                       NIL_P(c->expected_text) ? NULL : &c->expected,
                                       NIL_P(c->replacement_text) ? NULL : &c->replacement, &c->error);
}
static int run_clear(struct call *c) { return ch_map_clear(c->handle, c->out, &c->error); }

/* The plain ones are called directly: a struct call is a message long, and clearing it costs as
 * much as they do. */
int map_store(struct box *box, VALUE key, VALUE value, ch_error *error) {
    int result;
    BRIEFLY(result, ch_map_set(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), RSTRING_PTR(value),
                               (size_t)RSTRING_LEN(value), NULL, error));
    RB_GC_GUARD(key);
    RB_GC_GUARD(value);
    if (result != CH_TIMED_OUT) return result;
    struct call call = {.run = run_set};
    call_strings(&call, key, value);
    result = call_away(box, &call);
    if (result > 0) *error = call.error;
    return result;
}

int map_remove(struct box *box, VALUE key, ch_error *error) {
    struct call call = {.run = run_delete};
    call_strings(&call, key, Qnil);
    int result = call_now(box, &call);
    if (result > 0) *error = call.error;
    return result;
}

static int written(VALUE self, struct call *call, VALUE key, VALUE value) {
    struct box *box = box_of(self, &map_type);
    key = bytes_arg(key);
    if (!NIL_P(value)) value = bytes_arg(value);
    call_strings(call, key, value);
    return checked(call_now(box, call), &call->error);
}

/* call-seq: map[key] = value
 *
 * Sets the value of a key, present or not. */
static VALUE map_set(VALUE self, VALUE key, VALUE value) {
    ch_error error;
    key = bytes_arg(key);
    value = bytes_arg(value);
    checked(map_store(box_of(self, &map_type), key, value, &error), &error);
    return value;
}

static VALUE map_set_ttl(VALUE self, VALUE key, VALUE value, VALUE milliseconds) {
    struct call call = {.run = run_set_ttl, .number = NUM2ULL(milliseconds)};
    written(self, &call, key, bytes_arg(value));
    return value;
}

/* Sets a value only if the key is absent; gives whether it did. */
static VALUE map_add(VALUE self, VALUE key, VALUE value) {
    struct call call = {.run = run_add};
    return written(self, &call, key, bytes_arg(value)) == CH_OK ? Qtrue : Qfalse;
}

/* Sets a value only if the key is present; gives whether it did. */
static VALUE map_replace(VALUE self, VALUE key, VALUE value) {
    struct call call = {.run = run_replace};
    return written(self, &call, key, bytes_arg(value)) == CH_OK ? Qtrue : Qfalse;
}

static VALUE map_touch(VALUE self, VALUE key, VALUE milliseconds) {
    struct call call = {.run = run_touch, .number = NUM2ULL(milliseconds)};
    return written(self, &call, key, Qnil) == CH_OK ? Qtrue : Qfalse;
}

/* Deletes a key; gives whether it was there. */
static VALUE map_delete(VALUE self, VALUE key) {
    struct call call = {.run = run_delete};
    return written(self, &call, key, Qnil) == CH_OK ? Qtrue : Qfalse;
}

static VALUE taken(VALUE self, struct call *call, VALUE key) {
    ch_bytes value = CH_BYTES_INIT;
    struct box *box = box_of(self, &map_type);
    call->out = &value;
    call_strings(call, bytes_arg(key), Qnil);
    int result = call_now(box, call);
    VALUE text = given_freed(box, &value);
    return checked(result, &call->error) == CH_OK ? text : Qnil;
}

/* Deletes a key and gives the value that it had, as one atomic step; nil if it was absent. */
static VALUE map_take(VALUE self, VALUE key) {
    struct call call = {.run = run_take};
    return taken(self, &call, key);
}

/* call-seq: increment(key, by = 1) -> integer
 *
 * Adds to a value of 8 bytes, a little-endian number (<tt>"q<"</tt> of pack); an absent key counts
 * as 0; wraps around. */
static VALUE map_increment(int count, VALUE *given_args, VALUE self) {
    VALUE key, by;
    int64_t sum;
    rb_scan_args(count, given_args, "11", &key, &by);
    struct call call = {.run = run_increment, .signed_number = NIL_P(by) ? 1 : NUM2LL(by), .out = &sum};
    written(self, &call, key, Qnil);
    return LL2NUM(sum);
}

/* nil stands for "absent". */
static VALUE exchanged(VALUE self, struct call *call, VALUE key, VALUE expected, VALUE replacement) {
    /* All conversions first: one may change the String that another gave. */
    key = bytes_arg(key);
    if (!NIL_P(expected)) expected = bytes_arg(expected);
    if (!NIL_P(replacement)) replacement = bytes_arg(replacement);
    call_strings(call, key, Qnil);
    call->expected_text = expected, call->replacement_text = replacement;
    if (!NIL_P(expected)) call->expected = (ch_slice){RSTRING_PTR(expected), (size_t)RSTRING_LEN(expected)};
    if (!NIL_P(replacement)) call->replacement = (ch_slice){RSTRING_PTR(replacement), (size_t)RSTRING_LEN(replacement)};
    int result = checked(call_now(box_of(self, &map_type), call), &call->error);
    RB_GC_GUARD(expected);
    RB_GC_GUARD(replacement);
    return result == CH_OK ? Qtrue : Qfalse;
}

/* Map#_exchange(key, expected, replacement, milliseconds): nil stands for the map's own time to
 * live, too. */
static VALUE map_exchange(VALUE self, VALUE key, VALUE expected, VALUE replacement, VALUE milliseconds) {
    struct call call = {.run = run_exchange};
    if (!NIL_P(milliseconds)) call.run = run_exchange_ttl, call.number = NUM2ULL(milliseconds);
    return exchanged(self, &call, key, expected, replacement);
}

/* By uid: happens if the uid still names the key; gives whether it did. */
static VALUE map_set_by_uid(VALUE self, VALUE uid, VALUE key, VALUE value) {
    struct call call = {.run = run_set_uid, .uid = NUM2UINT(uid)};
    return written(self, &call, key, bytes_arg(value)) == CH_OK ? Qtrue : Qfalse;
}

/* By uid: deletes the key if the uid still names it; gives whether it did. */
static VALUE map_delete_by_uid(VALUE self, VALUE uid, VALUE key) {
    struct call call = {.run = run_delete_uid, .uid = NUM2UINT(uid)};
    return written(self, &call, key, Qnil) == CH_OK ? Qtrue : Qfalse;
}

/* By uid: as increment; nil if the uid does not name the key any more. */
static VALUE map_increment_by_uid(VALUE self, VALUE uid, VALUE key, VALUE by) {
    int64_t sum;
    struct call call = {.run = run_increment_uid, .uid = NUM2UINT(uid), .signed_number = NUM2LL(by), .out = &sum};
    return written(self, &call, key, Qnil) == CH_OK ? LL2NUM(sum) : Qnil;
}

/* By uid: deletes the key if the uid still names it, and gives the value that it had; else nil. */
static VALUE map_take_by_uid(VALUE self, VALUE uid, VALUE key) {
    struct call call = {.run = run_take_uid, .uid = NUM2UINT(uid)};
    return taken(self, &call, key);
}

/* By uid: as compare_exchange, if the uid still names the key; gives whether it did. */
static VALUE map_exchange_by_uid(VALUE self, VALUE uid, VALUE key, VALUE expected, VALUE replacement) {
    struct call call = {.run = run_exchange_uid, .uid = NUM2UINT(uid)};
    return exchanged(self, &call, key, expected, replacement);
}

/* Deletes every key; gives how many. Not one atomic step. */
static VALUE map_clear(VALUE self) {
    uint64_t deleted = 0;
    struct call call = {.run = run_clear, .out = &deleted};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &map_type), &call), &call.error);
    return ULL2NUM(deleted);
}

/* ---- Batches. The arrays are ours and hold Strings only (Map#get_many and #set_many see to
 * it). */

struct batch {
    VALUE self, keys, all;
    ch_values *values;
};

static VALUE look_up(VALUE data) {
    struct batch *batch = (struct batch *)data;
    ch_error error;
    ch_slice wanted[CHUNK], found[CHUNK];
    long count = RARRAY_LEN(batch->keys);
    checked(ch_values_new(&batch->values, &error), &error);
    for (long at = 0; at < count; at += CHUNK) {
        struct box *box = box_of(batch->self, &map_type);
        size_t n = (size_t)(count - at < CHUNK ? count - at : CHUNK);
        for (size_t i = 0; i < n; i++) {
            VALUE key = RARRAY_AREF(batch->keys, at + (long)i);
            wanted[i] = (ch_slice){RSTRING_PTR(key), (size_t)RSTRING_LEN(key)};
        }
        checked(ch_map_get_many(box->handle, wanted, n, batch->values, found, NULL, &error), &error);
        for (size_t i = 0; i < n; i++)
            rb_ary_push(batch->all, found[i].data ? given(box, found[i].data, found[i].len) : Qnil);
        rb_thread_check_ints();
    }
    return batch->all;
}

static VALUE look_up_end(VALUE data) {
    ch_values_free(((struct batch *)data)->values);
    return Qnil;
}

static VALUE map_get_many(VALUE self, VALUE keys) {
    long count = RARRAY_LEN(keys);
    for (long i = 0; i < count; i++) bytes_arg(RARRAY_AREF(keys, i));
    struct batch batch = {self, keys, rb_ary_new_capa(count), NULL};
    VALUE all = rb_ensure(look_up, (VALUE)&batch, look_up_end, (VALUE)&batch);
    RB_GC_GUARD(keys);
    return all;
}

static VALUE map_set_many(VALUE self, VALUE keys, VALUE values) {
    ch_error error;
    ch_slice from[CHUNK], to[CHUNK];
    long count = RARRAY_LEN(keys), at = 0;
    for (long i = 0; i < count; i++) bytes_arg(RARRAY_AREF(keys, i)), bytes_arg(RARRAY_AREF(values, i));
    while (at < count) {
        struct box *box = box_of(self, &map_type);
        size_t n = (size_t)(count - at < CHUNK ? count - at : CHUNK), done = 0;
        int result;
        for (size_t i = 0; i < n; i++) {
            VALUE key = RARRAY_AREF(keys, at + (long)i), value = RARRAY_AREF(values, at + (long)i);
            from[i] = (ch_slice){RSTRING_PTR(key), (size_t)RSTRING_LEN(key)};
            to[i] = (ch_slice){RSTRING_PTR(value), (size_t)RSTRING_LEN(value)};
        }
        BRIEFLY(result, ch_map_set_many_from(box->handle, from, to, n, &done, &error));
        at += (long)done;
        if (result == CH_TIMED_OUT) {
            /* The one that has to wait does so without the GVL. */
            map_set(self, RARRAY_AREF(keys, at), RARRAY_AREF(values, at));
            at++;
        } else {
            checked(result, &error);
        }
        rb_thread_check_ints();
    }
    RB_GC_GUARD(keys);
    RB_GC_GUARD(values);
    return self;
}

void init_map(void) {
    cMap = rb_define_class_under(mCommonhold, "Map", rb_cObject);
    rb_undef_alloc_func(cMap);
    rb_define_private_method(cHold, "_map", hold_map, 3);
    rb_define_method(cMap, "close", map_close, 0);
    rb_define_method(cMap, "name", map_name, 0);
    rb_define_method(cMap, "replica?", map_is_replica, 0);
    rb_define_method(cMap, "[]", map_get, 1);
    rb_define_method(cMap, "[]=", map_set, 2);
    rb_define_method(cMap, "key?", map_has, 1);
    rb_define_method(cMap, "size", map_len, 0);
    rb_define_method(cMap, "uid", map_uid, 1);
    rb_define_method(cMap, "get_uid", map_by_uid, 1);
    rb_define_method(cMap, "random_pair", map_random_pair, 0);
    rb_define_private_method(cMap, "_set_ttl", map_set_ttl, 3);
    rb_define_private_method(cMap, "_touch", map_touch, 2);
    rb_define_method(cMap, "add", map_add, 2);
    rb_define_method(cMap, "replace", map_replace, 2);
    rb_define_method(cMap, "delete?", map_delete, 1);
    rb_define_method(cMap, "delete", map_take, 1);
    rb_define_method(cMap, "increment", map_increment, -1);
    rb_define_private_method(cMap, "_exchange", map_exchange, 4);
    rb_define_method(cMap, "set_uid", map_set_by_uid, 3);
    rb_define_method(cMap, "delete_uid", map_delete_by_uid, 2);
    rb_define_method(cMap, "take_uid", map_take_by_uid, 2);
    rb_define_method(cMap, "compare_exchange_uid", map_exchange_by_uid, 4);
    rb_define_method(cMap, "increment_uid", map_increment_by_uid, 3);
    rb_define_method(cMap, "clear", map_clear, 0);
    rb_define_private_method(cMap, "_get_many", map_get_many, 1);
    rb_define_private_method(cMap, "_set_many", map_set_many, 2);
}
