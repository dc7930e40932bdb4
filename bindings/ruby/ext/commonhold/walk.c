/* Iterations over a map, its statistics, and lists as values. */
#include "ext.h"

struct walk {
    struct box *box;
    ch_iter *iter;
    bool keys;
};

static VALUE walk_on(VALUE data) {
    struct walk *walk = (struct walk *)data;
    ch_slice key, value;
    ch_error error;
    for (;;) {
        if (walk->box->closed) raise_code(CH_CLOSED, "the map was closed meanwhile");
        if (checked(ch_iter_next(walk->iter, &key, &value, &error), &error) != CH_OK) return Qnil;
        VALUE name = given(walk->box, key.data, key.len);
        if (walk->keys) rb_yield(name);
        else rb_yield(rb_assoc_new(name, given(walk->box, value.data, value.len)));
    }
}

static VALUE walk_end(VALUE data) {
    struct walk *walk = (struct walk *)data;
    ch_iter_free(walk->iter);
    box_done(walk->box);
    return Qnil;
}

static void walk_map(VALUE self, bool keys) {
    ch_error error;
    struct walk walk = {box_of(self, &map_type), NULL, keys};
    checked(keys ? ch_map_keys(walk.box->handle, &walk.iter, &error)
                 : ch_map_iter(walk.box->handle, 0, &walk.iter, &error), &error);
    walk.box->users++;
    rb_ensure(walk_on, (VALUE)&walk, walk_end, (VALUE)&walk);
}

static VALUE sized(VALUE self, VALUE arguments, VALUE enumerator) { return rb_funcall(self, rb_intern("size"), 0); }

/* call-seq: each { |key, value| ... } -> self
 *
 * Walks over all pairs. Keys present throughout are seen exactly once, whatever others do
 * meanwhile; keys that come or go may or may not be. Holds no lock. */
static VALUE map_each(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, NULL, sized);
    walk_map(self, false);
    return self;
}

/* call-seq: each_key { |key| ... } -> self
 *
 * As each, without reading values. */
static VALUE map_each_key(VALUE self) {
    RETURN_SIZED_ENUMERATOR(self, 0, NULL, sized);
    walk_map(self, true);
    return self;
}

/* ---- Iterations that can be resumed. */

BOX_TYPE(pairs_type, "Commonhold::Pairs");
RELEASE(release_pairs, iter)
static VALUE cPairs;

/* Map#_pairs(cursor). */
static VALUE map_pairs(VALUE self, VALUE cursor) {
    ch_error error;
    ch_iter *iter = NULL;
    uint64_t from = unsigned_arg(cursor, "a cursor");
    VALUE object = box_new(cPairs, &pairs_type, self, release_pairs);
    checked(ch_map_iter(box_of(self, &map_type)->handle, from, &iter, &error), &error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = iter;
    return object;
}

/* The next pair, or nil at the end. */
static VALUE pairs_next(VALUE self) {
    ch_error error;
    ch_slice key, value;
    struct box *box = box_of(self, &pairs_type);
    if (checked(ch_iter_next(box->handle, &key, &value, &error), &error) != CH_OK) return Qnil;
    VALUE name = given(box, key.data, key.len);
    return rb_assoc_new(name, given(box, value.data, value.len));
}

static int cursor_of(VALUE self, uint64_t *cursor) {
    ch_error error;
    return checked(ch_iter_cursor(box_of(self, &pairs_type)->handle, cursor, &error), &error);
}

/* The cursor at which an iteration (Map#pairs) can resume, here or in another process, without
 * missing a pair. */
static VALUE pairs_cursor(VALUE self) {
    uint64_t cursor;
    cursor_of(self, &cursor);
    return ULL2NUM(cursor);
}

/* Whether resuming from the cursor repeats no pair. */
static VALUE pairs_is_at_cursor(VALUE self) {
    uint64_t cursor;
    return cursor_of(self, &cursor) == CH_OK ? Qtrue : Qfalse;
}

/* Frees the iterator now. */
static VALUE pairs_close(VALUE self) { return box_close(self, &pairs_type); }

static int run_describe(struct call *call) { return ch_map_describe(call->handle, call->out, &call->error); }
static int run_digest(struct call *call) { return ch_map_digest(call->handle, call->out, &call->error); }

static VALUE text_of(VALUE self, int (*run)(struct call *)) {
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run, .out = &text};
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &map_type), &call), &call.error);
    return given_text(&text);
}

static VALUE map_describe(VALUE self) { return text_of(self, run_describe); }

/* A digest of the whole map, as text: equal for maps with the same pairs. */
static VALUE map_digest(VALUE self) { return text_of(self, run_digest); }

/* The map's options: mode, key_bytes, value_bytes, max_bytes, max_entries, ttl_ms. */
static VALUE map_options(VALUE self) {
    static const char *const modes[] = {"general", "fixed", "cache"};
    ch_error error;
    ch_map_options is = CH_MAP_OPTIONS_INIT;
    checked(ch_map_get_options(box_of(self, &map_type)->handle, &is, &error), &error);
    VALUE all = rb_hash_new();
#define SHOW(name, value) rb_hash_aset(all, ID2SYM(rb_intern(name)), value)
    SHOW("mode", ID2SYM(rb_intern(modes[is.mode % 3])));
    SHOW("key_bytes", UINT2NUM(is.key_bytes));
    SHOW("value_bytes", UINT2NUM(is.value_bytes));
    SHOW("max_bytes", ULL2NUM(is.max_bytes));
    SHOW("max_entries", ULL2NUM(is.max_entries));
    SHOW("ttl_ms", ULL2NUM(is.ttl_ms));
    return all;
}

/* ---- Lists. */

static int run_push(struct call *c) {
    return ch_list_push(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, &c->uid, &c->error);
}
static int run_unshift(struct call *c) {
    return ch_list_unshift(c->handle, c->key.data, c->key.len, c->value.data, c->value.len, &c->uid, &c->error);
}
static int run_pop(struct call *c) { return ch_list_pop(c->handle, c->key.data, c->key.len, c->out, &c->error); }
static int run_shift(struct call *c) { return ch_list_shift(c->handle, c->key.data, c->key.len, c->out, &c->error); }

static VALUE list_add(VALUE self, VALUE key, VALUE element, int (*run)(struct call *)) {
    struct call call = {.run = run};
    key = bytes_arg(key);
    element = bytes_arg(element);
    call_strings(&call, key, element);
    checked(call_now(box_of(self, &map_type), &call), &call.error);
    return UINT2NUM(call.uid);
}

static VALUE list_remove(VALUE self, VALUE key, int (*run)(struct call *)) {
    ch_bytes element = CH_BYTES_INIT;
    struct box *box = box_of(self, &map_type);
    struct call call = {.run = run, .out = &element};
    call_strings(&call, bytes_arg(key), Qnil);
    int result = call_now(box, &call);
    VALUE text = given_freed(box, &element);
    return checked(result, &call.error) == CH_OK ? text : Qnil;
}

static VALUE list_push(VALUE self, VALUE key, VALUE element) { return list_add(self, key, element, run_push); }
static VALUE list_unshift(VALUE self, VALUE key, VALUE element) { return list_add(self, key, element, run_unshift); }
static VALUE list_pop(VALUE self, VALUE key) { return list_remove(self, key, run_pop); }
static VALUE list_shift(VALUE self, VALUE key) { return list_remove(self, key, run_shift); }

static VALUE list_len(VALUE self, VALUE key) {
    ch_error error;
    uint32_t len;
    key = bytes_arg(key);
    struct box *box = box_of(self, &map_type);
    checked(ch_list_len(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &len, &error), &error);
    RB_GC_GUARD(key);
    return UINT2NUM(len);
}

struct gathered {
    struct box *box;
    const void *key;
    size_t len;
    struct strings elements;
};

static int gather(void *user, ch_slice element) { return !strings_add(&((struct gathered *)user)->elements, element); }

static VALUE list_given(VALUE data) {
    struct gathered *gathered = (struct gathered *)data;
    ch_error error;
    if (checked(ch_list_each(gathered->box->handle, gathered->key, gathered->len, gather, gathered, &error), &error) != CH_OK)
        raise_code(CH_TOO_LARGE, "the list is too long to be given as a whole");
    return strings_array(gathered->box, &gathered->elements);
}

static VALUE list_end(VALUE data) {
    strings_free(&((struct gathered *)data)->elements);
    return Qnil;
}

static VALUE list_all(VALUE self, VALUE key) {
    key = bytes_arg(key);
    struct gathered gathered = {box_of(self, &map_type), RSTRING_PTR(key), (size_t)RSTRING_LEN(key), STRINGS_INIT};
    VALUE all = rb_ensure(list_given, (VALUE)&gathered, list_end, (VALUE)&gathered);
    RB_GC_GUARD(key);
    return all;
}

void init_walk(void) {
    cPairs = rb_define_class_under(mCommonhold, "Pairs", rb_cObject);
    rb_undef_alloc_func(cPairs);
    rb_define_private_method(cMap, "_pairs", map_pairs, 1);
    rb_define_method(cPairs, "next", pairs_next, 0);
    rb_define_method(cPairs, "cursor", pairs_cursor, 0);
    rb_define_method(cPairs, "at_cursor?", pairs_is_at_cursor, 0);
    rb_define_method(cPairs, "close", pairs_close, 0);
    rb_define_method(cMap, "each", map_each, 0);
    rb_define_method(cMap, "each_key", map_each_key, 0);
    rb_define_method(cMap, "digest", map_digest, 0);
    rb_define_method(cMap, "options", map_options, 0);
    rb_define_private_method(cMap, "_describe", map_describe, 0);
    rb_define_method(cMap, "_list_push", list_push, 2);
    rb_define_method(cMap, "_list_unshift", list_unshift, 2);
    rb_define_method(cMap, "_list_pop", list_pop, 1);
    rb_define_method(cMap, "_list_shift", list_shift, 1);
    rb_define_method(cMap, "_list_len", list_len, 1);
    rb_define_method(cMap, "_list_all", list_all, 1);
}
