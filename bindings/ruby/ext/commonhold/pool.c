/* The quick part of LocalMemCache (compat/localmemcache.rb): strings of anything, in and out of a
 * map. */
#include "ext.h"

VALUE map_lookup(struct box *box, const void *key, size_t len, ch_error *error, int *result);
int map_store(struct box *box, VALUE key, VALUE value, ch_error *error);
int map_remove(struct box *box, VALUE key, ch_error *error);

struct pool {
    VALUE map; /* Qnil when it is closed */
    struct box *box;
};

static void pool_mark(void *pool) { rb_gc_mark(((struct pool *)pool)->map); }
static const rb_data_type_t pool_type = {
    "LocalMemCache", {pool_mark, RUBY_DEFAULT_FREE, NULL, 0, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY};

static VALUE pool_alloc(VALUE class) {
    struct pool *pool;
    VALUE object = TypedData_Make_Struct(class, struct pool, &pool_type, pool);
    pool->map = Qnil;
    return object;
}

/* Takes the map to work on, or nil to work no more. */
static VALUE pool_adopt(VALUE self, VALUE map) {
    struct pool *pool = rb_check_typeddata(self, &pool_type);
    pool->box = NIL_P(map) ? NULL : box_of(map, &map_type);
    pool->map = map;
    return self;
}

/* Raises what LocalMemCache calls it; Ruby knows how. */
NORETURN(static void pool_raise(VALUE self, int code, const char *message));
static void pool_raise(VALUE self, int code, const char *message) {
    rb_funcall(self, rb_intern("_raise"), 2, INT2FIX(code), rb_utf8_str_new_cstr(message));
    rb_raise(rb_eRuntimeError, "%s", message);
}

static struct box *pool_of(VALUE self) {
    struct pool *pool = data_of(self, &pool_type);
    if (RB_UNLIKELY(!pool->box || pool->box->closed)) pool_raise(self, CH_CLOSED, "the pool is closed; open it again with new");
    return pool->box;
}

static VALUE text_of(VALUE anything) {
    if (RB_TYPE_P(anything, T_STRING)) return anything;
    if (NIL_P(anything)) return rb_str_new(NULL, 0);
    return rb_obj_as_string(anything);
}

/* call-seq: get(key) -> string or nil
 *
 * The value of a key, which may be anything that has a to_s; nil is the empty string. */
static VALUE pool_get(VALUE self, VALUE key) {
    ch_error error;
    int result;
    struct box *box = pool_of(self);
    key = text_of(key);
    VALUE value = map_lookup(box, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &error, &result);
    RB_GC_GUARD(key);
    if (result > 0) pool_raise(self, result, error.message);
    return value;
}

/* call-seq: set(key, value) -> nil
 *
 * Sets the value of a key; both become strings, as with get. */
static VALUE pool_set(VALUE self, VALUE key, VALUE value) {
    ch_error error;
    key = text_of(key);
    value = text_of(value);
    int result = map_store(pool_of(self), key, value, &error);
    if (result > 0) pool_raise(self, result, error.message);
    return Qnil;
}

/* call-seq: delete(key) -> true or false
 *
 * Deletes a key; gives whether it was there. */
static VALUE pool_delete(VALUE self, VALUE key) {
    ch_error error;
    key = text_of(key);
    int result = map_remove(pool_of(self), key, &error);
    if (result > 0) pool_raise(self, result, error.message);
    return result == CH_OK ? Qtrue : Qfalse;
}

/* Whether the key is present. */
static VALUE pool_has_key(VALUE self, VALUE key) {
    ch_error error;
    key = text_of(key);
    struct box *box = pool_of(self);
    int result = ch_map_contains(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &error);
    RB_GC_GUARD(key);
    if (result > 0) pool_raise(self, result, error.message);
    return result == CH_OK ? Qtrue : Qfalse;
}

void init_pool(void) {
    /* The base of LocalMemCache, for which it is. */
    VALUE class = rb_define_class_under(mCommonhold, "Pool", rb_cObject);
    rb_define_alloc_func(class, pool_alloc);
    rb_define_private_method(class, "adopt", pool_adopt, 1);
    rb_define_method(class, "get", pool_get, 1);
    rb_define_method(class, "[]", pool_get, 1);
    rb_define_method(class, "set", pool_set, 2);
    rb_define_method(class, "[]=", pool_set, 2);
    rb_define_method(class, "delete", pool_delete, 1);
    rb_define_method(class, "has_key?", pool_has_key, 1);
}
