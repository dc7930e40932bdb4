/* Commonhold::Producer and Consumer: many messages in one call, messages that are written in parts,
 * and messages that are read before they are received. */
#include "ext.h"

static VALUE cReservation;

/* ---- Sending many. */

struct sending {
    ch_slice *messages;
    size_t count, sent;
};

/* A slice of the wait; the next one continues behind the messages that are sent. */
static int run_send_many(struct call *c) {
    struct sending *sending = c->more;
    size_t sent = 0;
    int result = ch_producer_send_many_timeout(c->handle, sending->messages + sending->sent,
                                               sending->count - sending->sent, c->number, &sent, &c->error);
    sending->sent += sent;
    return result;
}

static int run_send_briefly(struct call *c) {
    c->number = 0;
    return run_send_many(c);
}

/* Producer#_send_many(texts, lengths, seconds): the messages, one behind the other; returns how many
 * were sent in time. */
static VALUE producer_send_many(VALUE self, VALUE texts, VALUE lengths, VALUE seconds) {
    VALUE kept = 0;
    uint64_t timeout = timeout_arg(seconds);
    Check_Type(lengths, T_ARRAY);
    texts = rb_str_new_frozen(bytes_arg(texts));
    long count = RARRAY_LEN(lengths);
    struct sending sending = {ALLOCV_N(ch_slice, kept, count + 1), (size_t)count, 0};
    const char *at = RSTRING_PTR(texts);
    size_t left = (size_t)RSTRING_LEN(texts);
    for (long i = 0; i < count; i++) {
        size_t len = NUM2SIZET(rb_ary_entry(lengths, i));
        if (len > left) rb_raise(rb_eArgError, "the messages are shorter than their lengths");
        sending.messages[i] = (ch_slice){at, len};
        at += len, left -= len;
    }
    struct box *box = box_of(self, &producer_type);
    struct call call = {.run = run_send_briefly, .more = &sending};
    call_strings(&call, Qnil, Qnil);
    box->sequence = NO_RESERVATION;
    int result = checked(call_now(box, &call), &call.error);
    if (result != CH_OK && timeout > 0) {
        call.run = run_send_many;
        checked(call_wait(box, &call, timeout), &call.error);
    }
    ALLOCV_END(kept);
    RB_GC_GUARD(texts);
    RB_GC_GUARD(self);
    return SIZET2NUM(sending.sent);
}

/* ---- Receiving many. */

struct receiving {
    struct box *box;
    struct strings messages;
    size_t most;
    uint64_t timeout, last;
    bool failed;
};

static void gather(void *user, ch_slice message, ch_received received) {
    struct receiving *receiving = user;
    receiving->last = received.sequence;
    if (!strings_add(&receiving->messages, message)) receiving->failed = true;
}

static int run_receive_many(struct call *c) {
    struct receiving *receiving = c->more;
    return ch_consumer_recv_many_timeout(c->handle, receiving->most, c->number, gather, receiving, NULL, &c->error);
}

static int run_receive_briefly(struct call *c) {
    c->number = 0;
    return run_receive_many(c);
}

static VALUE receive_many(VALUE data) {
    struct receiving *receiving = (struct receiving *)data;
    struct box *box = receiving->box;
    struct call call = {.run = run_receive_briefly, .more = receiving};
    call_strings(&call, Qnil, Qnil);
    int result = checked(call_now(box, &call), &call.error);
    if (result != CH_OK && receiving->timeout > 0) {
        call.run = run_receive_many;
        result = checked(call_wait(box, &call, receiving->timeout), &call.error);
    }
    if (receiving->failed) rb_memerror();
    if (result == CH_OK) box->sequence = receiving->last;
    return strings_array(box, &receiving->messages);
}

static VALUE receive_many_end(VALUE data) {
    strings_free(&((struct receiving *)data)->messages);
    return Qnil;
}

/* Consumer#_recv_many(most, seconds): an Array, empty if there was none in time. */
static VALUE consumer_recv_many(VALUE self, VALUE most, VALUE seconds) {
    struct receiving receiving = {box_of(self, &consumer_type), STRINGS_INIT, unsigned_arg(most, "a number of messages"),
                                  timeout_arg(seconds), 0, false};
    VALUE all = rb_ensure(receive_many, (VALUE)&receiving, receive_many_end, (VALUE)&receiving);
    RB_GC_GUARD(self);
    return all;
}

/* ---- Reading a message that stays the next one. */

static int run_peek(struct call *c) {
    return ch_consumer_peek_timeout(c->handle, c->number, c->out, NULL, &c->error);
}

/* Consumer#_peek(seconds): a copy of the next message, or nil if there was none in time. */
static VALUE consumer_peek(VALUE self, VALUE seconds) {
    ch_error error;
    ch_slice message;
    uint64_t timeout = timeout_arg(seconds);
    struct box *box = box_of(self, &consumer_type);
    int result = checked(ch_consumer_try_peek(box->handle, &message, NULL, &error), &error);
    if (result != CH_OK && timeout > 0) {
        struct call call = {.run = run_peek, .out = &message};
        call_strings(&call, Qnil, Qnil);
        result = checked(call_wait(box, &call, timeout), &call.error);
    }
    if (result != CH_OK) return Qnil;
    if (!box->handle) raise_code(CH_CLOSED, "it was closed meanwhile");
    VALUE text = given(box, message.data, message.len);
    RB_GC_GUARD(self);
    return text;
}

/* Receives the message that peek has returned; false if there was none. */
static VALUE consumer_advance(VALUE self) {
    ch_error error;
    return checked(ch_consumer_advance(box_of(self, &consumer_type)->handle, &error), &error) == CH_OK ? Qtrue : Qfalse;
}

/* ---- Messages that are written in parts. A reservation is over when its producer sends, reserves or
 * is closed: then nothing may write there any more, which the number in the producer's box shows. */

struct reserved {
    VALUE producer;
    ch_reservation reservation;
};

static void reserved_mark(void *data) { rb_gc_mark(((struct reserved *)data)->producer); }
static const rb_data_type_t reservation_type = {
    "Commonhold::Reservation", {reserved_mark, RUBY_DEFAULT_FREE, NULL, 0, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY};

static int run_reserve(struct call *c) {
    return ch_producer_reserve_timeout(c->handle, *(size_t *)c->more, c->number, c->out, &c->error);
}

/* Producer#_reserve(length, seconds): nil if there was no room in time. */
static VALUE producer_reserve(VALUE self, VALUE length, VALUE seconds) {
    ch_error error;
    struct reserved *reserved;
    size_t len = unsigned_arg(length, "a length");
    uint64_t timeout = timeout_arg(seconds);
    struct box *box = box_of(self, &producer_type);
    VALUE object = TypedData_Make_Struct(cReservation, struct reserved, &reservation_type, reserved);
    reserved->producer = self;
    box->sequence = NO_RESERVATION;
    int result = checked(ch_producer_try_reserve(box->handle, len, &reserved->reservation, &error), &error);
    if (result != CH_OK && timeout > 0) {
        struct call call = {.run = run_reserve, .out = &reserved->reservation, .more = &len};
        call_strings(&call, Qnil, Qnil);
        result = checked(call_wait(box, &call, timeout), &call.error);
    }
    if (result != CH_OK) return Qnil;
    box->sequence = reserved->reservation.number;
    RB_GC_GUARD(self);
    return object;
}

static struct reserved *reserved_of(VALUE self, struct box **producer) {
    struct reserved *reserved = rb_check_typeddata(self, &reservation_type);
    struct box *box = box_of(reserved->producer, &producer_type);
    struct box *channel = RTYPEDDATA_DATA(box->parent), *hold = RTYPEDDATA_DATA(channel->parent);
    if (hold->closed) raise_code(CH_CLOSED, "the reservation's hold is closed");
    if (box->sequence != reserved->reservation.number)
        raise_code(CH_INVALID, "the reservation is over: it was sent or cancelled, or its producer has sent another message");
    *producer = box;
    return reserved;
}

/* call-seq: write(bytes, offset = 0) -> self
 *
 * Writes a part of the message; an IndexError if it does not fit. */
static VALUE reservation_write(int count, VALUE *arguments, VALUE self) {
    VALUE bytes, to;
    struct box *box;
    rb_scan_args(count, arguments, "11", &bytes, &to);
    bytes = bytes_arg(bytes);
    long long from = NIL_P(to) ? 0 : NUM2LL(to);
    ch_reservation *is = &reserved_of(self, &box)->reservation;
    size_t len = (size_t)RSTRING_LEN(bytes);
    if (from < 0 || (size_t)from > is->len || len > is->len - (size_t)from)
        rb_raise(rb_eIndexError, "%zu bytes at %lld exceed the %zu reserved ones", len, from, is->len);
    memcpy((char *)is->room + from, RSTRING_PTR(bytes), len);
    RB_GC_GUARD(bytes);
    return self;
}

/* The number of bytes that are reserved. */
static VALUE reservation_size(VALUE self) {
    struct box *box;
    return SIZET2NUM(reserved_of(self, &box)->reservation.len);
}

/* call-seq: commit(length = size) -> integer
 *
 * Sends the first bytes as a message, and returns its number. Bytes that were not written are
 * undefined. */
static VALUE reservation_commit(int count, VALUE *arguments, VALUE self) {
    ch_error error;
    uint64_t sequence;
    VALUE length;
    struct box *box;
    rb_scan_args(count, arguments, "01", &length);
    size_t wanted = NIL_P(length) ? 0 : unsigned_arg(length, "a length");
    ch_reservation *is = &reserved_of(self, &box)->reservation;
    int result = ch_producer_commit(box->handle, is, NIL_P(length) ? is->len : wanted, &sequence, &error);
    if (result == CH_OK) box->sequence = NO_RESERVATION;
    checked(result, &error);
    return ULL2NUM(sequence);
}

/* Gives the room back; nothing is sent. */
static VALUE reservation_cancel(VALUE self) {
    ch_error error;
    struct box *box;
    ch_reservation *is = &reserved_of(self, &box)->reservation;
    int result = ch_producer_cancel(box->handle, is, &error);
    box->sequence = NO_RESERVATION;
    checked(result, &error);
    return Qnil;
}

void init_messages(void) {
    cReservation = rb_define_class_under(mCommonhold, "Reservation", rb_cObject);
    rb_undef_alloc_func(cReservation);
    rb_define_private_method(cProducer, "_send_many", producer_send_many, 3);
    rb_define_private_method(cProducer, "_reserve", producer_reserve, 2);
    rb_define_private_method(cConsumer, "_recv_many", consumer_recv_many, 2);
    rb_define_private_method(cConsumer, "_peek", consumer_peek, 1);
    rb_define_method(cConsumer, "advance", consumer_advance, 0);
    rb_define_method(cReservation, "write", reservation_write, -1);
    rb_define_method(cReservation, "size", reservation_size, 0);
    rb_define_method(cReservation, "commit", reservation_commit, -1);
    rb_define_method(cReservation, "cancel", reservation_cancel, 0);
}
