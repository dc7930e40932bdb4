/* Calls of the library, with the GVL and without; and their arguments from Ruby. */
#include "ext.h"
#include <math.h>
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static ch_slice slice_of(VALUE text) {
    ch_slice slice = {NULL, 0};
    if (RB_TYPE_P(text, T_STRING)) slice.data = RSTRING_PTR(text), slice.len = (size_t)RSTRING_LEN(text);
    return slice;
}

static void point(struct call *call) {
    call->key = slice_of(call->key_text);
    call->value = slice_of(call->value_text);
    call->expected = slice_of(call->expected_text);
    call->replacement = slice_of(call->replacement_text);
}

void call_strings(struct call *call, VALUE key, VALUE value) {
    call->key_text = key;
    call->value_text = value;
    call->expected_text = call->replacement_text = Qnil;
    point(call);
}

/* Other threads may change a String while the GVL is released; nothing changes these copies (mostly
 * of pointers). */
static void freeze(struct call *call) {
    VALUE *texts[] = {&call->key_text, &call->value_text, &call->expected_text, &call->replacement_text};
    for (int i = 0; i < 4; i++)
        if (RB_TYPE_P(*texts[i], T_STRING)) *texts[i] = rb_str_new_frozen(*texts[i]);
    point(call);
}

static void *run(void *data) {
    struct call *call = data;
    uint64_t before = ch_thread_patience(LOCK_SLICE_NS);
    call->result = call->run(call);
    ch_thread_patience(before);
    call->ran = true;
    return NULL;
}

/* Does not look for interrupts after the call, whose result would be lost then. No signal wakes it:
 * the library continues after each, and so many come at the end of the process that its sleeps would
 * not end. */
static void run_away(struct call *call) {
    call->ran = false;
    while (!call->ran) {
        rb_thread_call_without_gvl2(run, call, NULL, NULL);
        if (!call->ran) rb_thread_check_ints();
    }
}

struct guarded {
    struct box *box;
    struct call *call;
    uint64_t limit_ns;
};

static VALUE for_locks(VALUE data) {
    struct guarded *guarded = (struct guarded *)data;
    uint64_t begin = now_ns();
    for (;;) {
        run_away(guarded->call);
        if (guarded->call->result != CH_TIMED_OUT || now_ns() - begin >= guarded->limit_ns) return Qnil;
        rb_thread_check_ints();
    }
}

static VALUE for_data(VALUE data) {
    struct guarded *guarded = (struct guarded *)data;
    struct call *call = guarded->call;
    uint64_t begin = now_ns(), gone = 0, looked = begin; /* looked: when no lock was in the way */
    do {
        uint64_t left = guarded->limit_ns - gone;
        call->number = left < WAIT_SLICE_NS ? left : WAIT_SLICE_NS;
        run_away(call);
        uint64_t now = now_ns();
        if (call->result == CH_NONE) looked = now;
        else if (call->result != CH_TIMED_OUT || now - looked >= guarded->box->patience_ns) return Qnil;
        rb_thread_check_ints();
        gone = now - begin;
    } while (gone < guarded->limit_ns && !guarded->box->closed);
    call->result = CH_NONE; /* in time */
    if (guarded->box->closed) raise_code(CH_CLOSED, "it was closed meanwhile");
    return Qnil;
}

static VALUE leave(VALUE box) {
    box_done((struct box *)box);
    return Qnil;
}

static int guard(VALUE (*body)(VALUE), struct box *box, struct call *call, uint64_t limit_ns) {
    struct guarded guarded = {box, call, limit_ns};
    freeze(call);
    call->handle = box->handle;
    box->users++;
    rb_ensure(body, (VALUE)&guarded, leave, (VALUE)box);
    RB_GC_GUARD(call->key_text);
    RB_GC_GUARD(call->value_text);
    RB_GC_GUARD(call->expected_text);
    RB_GC_GUARD(call->replacement_text);
    return call->result;
}

int call_away(struct box *box, struct call *call) { return guard(for_locks, box, call, box->patience_ns); }

int call_wait(struct box *box, struct call *call, uint64_t timeout_ns) {
    return guard(for_data, box, call, timeout_ns);
}

int call_alone(struct call *call) {
    struct guarded guarded = {NULL, call, CH_FOREVER};
    freeze(call);
    for_locks((VALUE)&guarded);
    RB_GC_GUARD(call->key_text);
    RB_GC_GUARD(call->value_text);
    return call->result;
}

int call_now(struct box *box, struct call *call) {
    call->handle = box->handle;
    BRIEFLY(call->result, call->run(call));
    RB_GC_GUARD(call->key_text);
    RB_GC_GUARD(call->value_text);
    if (call->result == CH_TIMED_OUT) return call_away(box, call);
    return call->result;
}

const char *name_arg(VALUE *string) { return StringValueCStr(*string); }

VALUE name_copy(VALUE string) { return rb_str_new_cstr(name_arg(&string)); }

const char *const *texts_arg(VALUE array, size_t *count, volatile VALUE *kept) {
    Check_Type(array, T_ARRAY);
    VALUE copies = rb_ary_new();
    size_t bytes = 0;
    for (long i = 0; i < RARRAY_LEN(array); i++) {
        VALUE copy = name_copy(rb_ary_entry(array, i));
        bytes += sizeof(char *) + (size_t)RSTRING_LEN(copy) + 1;
        rb_ary_push(copies, copy);
    }
    *count = (size_t)RARRAY_LEN(copies);
    const char **texts = rb_alloc_tmp_buffer(kept, (long)bytes);
    char *to = (char *)(texts + *count);
    for (size_t i = 0; i < *count; i++) {
        VALUE copy = rb_ary_entry(copies, (long)i);
        size_t len = (size_t)RSTRING_LEN(copy) + 1; /* with the NUL */
        texts[i] = memcpy(to, RSTRING_PTR(copy), len);
        to += len;
    }
    return texts;
}

uint64_t seconds_arg(VALUE seconds, const char *name) {
    double number = NUM2DBL(seconds);
    if (isnan(number) || number < 0) rb_raise(rb_eArgError, "expected %s from 0 on, got %f", name, number);
    return number > 9e9 ? CH_FOREVER : (uint64_t)(number * 1e9);
}

uint64_t timeout_arg(VALUE seconds) { return NIL_P(seconds) ? CH_FOREVER : seconds_arg(seconds, "a timeout"); }

VALUE option(VALUE options, const char *name) {
    return NIL_P(options) ? Qnil : rb_hash_lookup2(options, ID2SYM(rb_intern(name)), Qnil);
}

uint64_t unsigned_arg(VALUE number, const char *name) {
    number = rb_to_int(number);
    if (RTEST(rb_funcall(number, '<', 1, INT2FIX(0)))) rb_raise(rb_eArgError, "expected %s from 0 on", name);
    return NUM2ULL(number);
}

uint64_t number_option(VALUE options, const char *name) {
    VALUE value = option(options, name);
    return NIL_P(value) ? 0 : unsigned_arg(value, name);
}

VALUE given(const struct box *box, const void *data, size_t len) {
    VALUE text = rb_str_new(data, (long)len);
    if (box->encoding != rb_ascii8bit_encindex()) rb_enc_set_index(text, box->encoding);
    return text;
}

struct giving {
    const struct box *box; /* NULL: UTF-8 */
    ch_bytes *bytes;
};

static VALUE give(VALUE data) {
    struct giving *giving = (struct giving *)data;
    ch_bytes *bytes = giving->bytes;
    if (giving->box) return given(giving->box, bytes->data, bytes->len);
    return rb_utf8_str_new(bytes->data, (long)bytes->len);
}

static VALUE give_end(VALUE bytes) {
    ch_bytes_free((ch_bytes *)bytes);
    return Qnil;
}

VALUE given_freed(const struct box *box, ch_bytes *bytes) {
    struct giving giving = {box, bytes};
    return rb_ensure(give, (VALUE)&giving, give_end, (VALUE)bytes);
}

VALUE given_text(ch_bytes *bytes) { return given_freed(NULL, bytes); }

bool strings_add(struct strings *strings, ch_slice text) {
    if (ch_bytes_append(&strings->texts, text.data, text.len, NULL) > 0) return false;
    return ch_bytes_append(&strings->ends, &strings->texts.len, sizeof strings->texts.len, NULL) <= 0;
}

VALUE strings_array(const struct box *box, const struct strings *strings) {
    size_t count = strings->ends.len / sizeof(size_t), begin = 0;
    VALUE all = rb_ary_new_capa((long)count);
    for (size_t i = 0; i < count; i++) {
        size_t end = ((size_t *)strings->ends.data)[i];
        rb_ary_push(all, given(box, (char *)strings->texts.data + begin, end - begin));
        begin = end;
    }
    return all;
}

void strings_free(struct strings *strings) {
    ch_bytes_free(&strings->texts);
    ch_bytes_free(&strings->ends);
}
