/*
 * The extension's own header: boxes, which hold the C library's handles, and the ways to call it.
 *
 * A box belongs to one Ruby object. Every thread inside a call, and every queue element in flight,
 * is a user of it: closing takes the handle away at once, and the last user frees it. So neither
 * the collector nor another thread's close() frees what is in use.
 *
 * Short calls keep the GVL, because releasing it costs more than they do. With the GVL no call
 * waits, nor recovers after a dead process: the thread's patience is 0 then (BRIEFLY), and a call
 * that would have to is repeated without the GVL, in slices of LOCK_SLICE_NS, until the patience of
 * the hold's opener is over. Calls that wait for messages do so without it, in slices, too. Between
 * slices Ruby looks for signals and Thread#kill.
 *
 * Ruby raises by longjmp, even when it runs out of memory: never through a frame of the library. So
 * callbacks of the library do not call Ruby, and library memory that becomes a String is freed
 * whatever happens (given_freed()).
 */
#ifndef COMMONHOLD_RUBY_EXT_H
#define COMMONHOLD_RUBY_EXT_H

#include <commonhold.h>
#include <ruby.h>
#include <ruby/encoding.h>
#include <ruby/thread.h>

#define LOCK_SLICE_NS 50000000ull
#define WAIT_SLICE_NS 50000000ull

struct box {
    VALUE parent;            /* what it came from, kept alive */
    void *handle;            /* NULL once it is released */
    void (*release)(void *); /* the library's function for that */
    uint64_t patience_ns;    /* how long to wait for a lock; CH_FOREVER */
    uint64_t sequence;       /* consumers: of the message received last */
    int encoding;            /* index of the encoding that bytes come back in */
    unsigned users;          /* calls under way, elements in flight */
    bool closed;             /* takes no new users */
    bool orphaned;           /* its object is gone; the last user frees the box */
};

extern const rb_data_type_t hold_type, map_type, queue_type, channel_type, producer_type, consumer_type, log_type,
    collector_type, follower_type;
extern VALUE mCommonhold, cHold, cMap;

/* A call that never waits. */
#define BRIEFLY(result, call) \
    do { \
        uint64_t before_ = ch_thread_patience(0); \
        result = (call); \
        ch_thread_patience(before_); \
    } while (0)

/* How a hold or a structure in it is opened by its name. */
enum how { OPEN, CREATE, OPEN_OR_CREATE };
enum how how_arg(VALUE how);

/* boxes.c */
void box_mark(void *box);
void box_free(void *box);
size_t box_size(const void *box);
struct box *box_of(VALUE object, const rb_data_type_t *type); /* raises ClosedError */
VALUE box_new(VALUE class, const rb_data_type_t *type, VALUE parent, void (*release)(void *));
void box_done(struct box *box);
VALUE box_close(VALUE object, const rb_data_type_t *type);
#define BOX_TYPE(name, label) \
    const rb_data_type_t name = {label, {box_mark, box_free, box_size, 0, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY}
#define RELEASE(name, kind) \
    static void name(void *handle) { ch_##kind##_free(handle); }

/* errors.c */
NORETURN(void raise_error(const ch_error *error));
NORETURN(void raise_code(int code, const char *message));
int checked(int result, const ch_error *error); /* raises, or gives CH_OK or CH_NONE */
void init_errors(void);

/* calls.c: a call of the library as data, so that it can be made with the GVL and without. */
struct call {
    int (*run)(struct call *);
    void *handle;
    VALUE key_text, value_text; /* Strings, or Qnil */
    ch_slice key, value;        /* their bytes */
    ch_slice expected, replacement;
    VALUE expected_text, replacement_text;
    uint64_t number; /* in: milliseconds, a timeout, a limit */
    int64_t signed_number;
    uint32_t uid;
    void *out, *more; /* wherever results go */
    ch_error error;
    int result;
    bool ran;
};
int call_now(struct box *box, struct call *call);  /* briefly; raises nothing */
/* without the GVL; retries for locks; raises for signals */
int call_away(struct box *box, struct call *call);
/* the same in slices: `number` is one */
int call_wait(struct box *box, struct call *call, uint64_t timeout_ns);
/* without the GVL and without a box: for calls without a handle */
int call_alone(struct call *call);
void call_strings(struct call *call, VALUE key, VALUE value);

/* Arguments from Ruby. */
VALUE bytes_arg(VALUE string);                 /* a String, or TypeError */
const char *name_arg(VALUE *string);           /* a String without NUL, or ArgumentError */
/* a private copy that ends with a NUL */
VALUE name_copy(VALUE string);
uint64_t timeout_arg(VALUE seconds);           /* nil: CH_FOREVER */
VALUE option(VALUE options, const char *name); /* Qnil if it is not there */
uint64_t number_option(VALUE options, const char *name);
/* a String in the box's encoding */
VALUE given(const struct box *box, const void *data, size_t len);
/* the same; frees the bytes, whatever happens */
VALUE given_freed(const struct box *box, ch_bytes *bytes);
/* a UTF-8 String; frees the bytes, too */
VALUE given_text(ch_bytes *bytes);

void init_hold(void);
void init_map(void);
void init_walk(void);
void init_queue(void);
void init_channel(void);
void init_log(void);
void init_stream(void);
void init_pool(void);

#endif
