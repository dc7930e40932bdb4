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
    uint64_t sequence;       /* consumers: of the message received last; producers: the reservation */
    int encoding;            /* index of the encoding that bytes come back in */
    unsigned users;          /* calls under way, elements in flight */
    bool closed;             /* takes no new users */
    bool orphaned;           /* its object is gone; the last user frees the box */
};

extern const rb_data_type_t hold_type, map_type, pair_type, queue_type, channel_type, producer_type, consumer_type, log_type,
    collector_type, follower_type, origin_type, replica_type, hold_origin_type, hold_replica_type, journal_type;
extern VALUE mCommonhold, cHold, cMap, cProducer, cConsumer;

/* The sequence of a producer's box while there is no reservation. */
#define NO_RESERVATION UINT64_MAX

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

struct call;

/* boxes.c */
void box_mark(void *box);
void box_free(void *box);
size_t box_size(const void *box);
NORETURN(void raise_closed(void));
VALUE box_new(VALUE class, const rb_data_type_t *type, VALUE parent, void (*release)(void *));
void box_done(struct box *box);
VALUE box_close(VALUE object, const rb_data_type_t *type);
/* closes it by a call that frees the handle, and may wait */
VALUE box_end(VALUE object, const rb_data_type_t *type, struct call *call);
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

/* What rb_check_typeddata() returns, which raises TypeError; without a call for the right type. */
static inline void *data_of(VALUE object, const rb_data_type_t *type) {
    if (RB_LIKELY(RB_TYPE_P(object, T_DATA) && RTYPEDDATA_P(object) && RTYPEDDATA_TYPE(object) == type))
        return RTYPEDDATA_DATA(object);
    return rb_check_typeddata(object, type);
}

/* The box of an object; raises ClosedError. */
static inline struct box *box_of(VALUE object, const rb_data_type_t *type) {
    struct box *box = data_of(object, type);
    if (RB_UNLIKELY(box->closed || !box->handle)) raise_closed();
    return box;
}

/* Arguments from Ruby. */
static inline VALUE bytes_arg(VALUE string) {  /* a String, or TypeError */
    if (RB_UNLIKELY(!RB_TYPE_P(string, T_STRING))) StringValue(string);
    return string;
}
const char *name_arg(VALUE *string);           /* a String without NUL, or ArgumentError */
/* a private copy that ends with a NUL */
VALUE name_copy(VALUE string);
/* the Strings of an Array, without NUL, in memory that does not move; rb_free_tmp_buffer(kept) or the
 * collector frees it */
const char *const *texts_arg(VALUE array, size_t *count, volatile VALUE *kept);
uint64_t seconds_arg(VALUE seconds, const char *name); /* in nanoseconds */
uint64_t timeout_arg(VALUE seconds);           /* nil: CH_FOREVER */
uint64_t unsigned_arg(VALUE number, const char *name);
VALUE option(VALUE options, const char *name); /* Qnil if it is not there */
uint64_t number_option(VALUE options, const char *name);
/* a String in the box's encoding */
VALUE given(const struct box *box, const void *data, size_t len);
/* the same; frees the bytes, whatever happens */
VALUE given_freed(const struct box *box, ch_bytes *bytes);
/* Strings that a callback of the library has copied: one behind the other, and where each ends. No
 * Ruby there: it may raise. */
struct strings {
    ch_bytes texts, ends;
};
#define STRINGS_INIT {CH_BYTES_INIT, CH_BYTES_INIT}
bool strings_add(struct strings *strings, ch_slice text); /* false: out of memory */
VALUE strings_array(const struct box *box, const struct strings *strings);
void strings_free(struct strings *strings);
/* a UTF-8 String; frees the bytes, too */
VALUE given_text(ch_bytes *bytes);

/* net.c: options of origins and replicas, without secrets and names. `kept` holds memory that they
 * refer to; rb_free_tmp_buffer(kept) or the collector frees it */
VALUE secret_arg(VALUE secret);
ch_origin_options origin_options(VALUE uids, VALUE options, volatile VALUE *kept);
ch_replica_options replica_options(VALUE options, volatile VALUE *kept);
void call_with_socket(struct box *box, struct call *call, VALUE io);

void init_hold(void);
void init_map(void);
void init_age(void);
void init_pair(void);
void init_walk(void);
void init_wait(void);
void init_queue(void);
void init_channel(void);
void init_messages(void);
void init_log(void);
void init_stream(void);
void init_net(void);
void init_holds(void);
void init_journal(void);
void init_pool(void);

#endif
