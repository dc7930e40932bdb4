/* Commonhold::Map: how old a replica's contents may be, and how long pairs live. Reads never wait: always with the GVL. */
#include "ext.h"

/* The age of a replica's contents in seconds, by the clocks of this machine and of the first origin's
 * machine; nil if the map is not a replica, or if its replica does not know the age. It grows while
 * any link to the first origin is down. */
static VALUE map_lag(VALUE self) {
    ch_error error;
    uint64_t lag_ns;
    int result = checked(ch_map_lag(box_of(self, &map_type)->handle, &lag_ns, &error), &error);
    return result == CH_OK ? DBL2NUM((double)lag_ns / 1e9) : Qnil;
}

static uint64_t max_age_arg(VALUE seconds) { return seconds_arg(seconds, "a maximum age in seconds"); }

/* call-seq: ensure_fresh(max_age)
 *
 * StaleError if a replica's contents are older than +max_age+ seconds, or if their age is not known.
 * Reads that follow see these contents or later ones. A map that is not a replica is never too
 * old. */
static VALUE map_ensure_fresh(VALUE self, VALUE max_age) {
    ch_error error;
    uint64_t age = max_age_arg(max_age);
    checked(ch_map_ensure_fresh(box_of(self, &map_type)->handle, age, &error), &error);
    return Qnil;
}

/* call-seq: get_fresh(key, max_age) -> string or nil
 *
 * The value of a key. StaleError if it comes from a replica's contents that are older than +max_age+
 * seconds; see ensure_fresh. */
static VALUE map_get_fresh(VALUE self, VALUE key, VALUE max_age) {
    ch_error error;
    ch_bytes value = CH_BYTES_INIT;
    uint64_t age = max_age_arg(max_age);
    key = bytes_arg(key);
    struct box *box = box_of(self, &map_type);
    int result = ch_map_get_fresh(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), age, &value, &error);
    RB_GC_GUARD(key);
    VALUE text = given_freed(box, &value);
    return checked(result, &error) == CH_OK ? text : Qnil;
}

/* The seconds after which a pair expires: Float::INFINITY if it never does, as in maps that are not
 * caches; nil if the key is absent. Does not count as a use of the pair. */
static VALUE map_remaining_ttl(VALUE self, VALUE key) {
    ch_error error;
    uint64_t left_ms;
    key = bytes_arg(key);
    struct box *box = box_of(self, &map_type);
    int result = ch_map_remaining_ttl(box->handle, RSTRING_PTR(key), (size_t)RSTRING_LEN(key), &left_ms, &error);
    RB_GC_GUARD(key);
    if (checked(result, &error) != CH_OK) return Qnil;
    return DBL2NUM(left_ms == CH_FOREVER ? HUGE_VAL : (double)left_ms / 1e3);
}

void init_age(void) {
    rb_define_method(cMap, "remaining_ttl", map_remaining_ttl, 1);
    rb_define_method(cMap, "lag", map_lag, 0);
    rb_define_method(cMap, "ensure_fresh", map_ensure_fresh, 1);
    rb_define_method(cMap, "get_fresh", map_get_fresh, 2);
}
