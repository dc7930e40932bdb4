/* Commonhold::Channel, Producer and Consumer. */
#include "ext.h"

BOX_TYPE(channel_type, "Commonhold::Channel");
BOX_TYPE(producer_type, "Commonhold::Producer");
BOX_TYPE(consumer_type, "Commonhold::Consumer");
RELEASE(release_channel, channel)
RELEASE(release_producer, producer)
RELEASE(release_consumer, consumer)
static VALUE cChannel;
VALUE cProducer, cConsumer;

static int run_channel(struct call *call) {
    switch ((enum how)call->number) {
    case OPEN:
        return ch_channel_open(call->handle, call->key.data, call->out, &call->error);
    case CREATE:
        return ch_channel_create(call->handle, call->key.data, *(uint64_t *)call->more, call->out, &call->error);
    default:
        return ch_channel_open_or_create(call->handle, call->key.data, *(uint64_t *)call->more, call->out, &call->error);
    }
}

/* Hold#_channel(how, name, ring_bytes). */
static VALUE hold_channel(VALUE self, VALUE how, VALUE name, VALUE ring_bytes) {
    uint64_t wanted = NUM2ULL(ring_bytes);
    ch_channel *channel = NULL;
    struct call call = {.run = run_channel, .number = how_arg(how), .out = &channel, .more = &wanted};
    VALUE object = box_new(cChannel, &channel_type, self, release_channel);
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_now(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = channel;
    return object;
}

static VALUE channel_close(VALUE self) { return box_close(self, &channel_type); }

static VALUE channel_name(VALUE self) {
    ch_error error;
    ch_slice name;
    checked(ch_channel_name(box_of(self, &channel_type)->handle, &name, &error), &error);
    return rb_utf8_str_new(name.data, (long)name.len);
}

static VALUE channel_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_channel_describe(box_of(self, &channel_type)->handle, &json, &error), &error);
    return given_text(&json);
}

static int run_producer(struct call *call) { return ch_channel_producer(call->handle, call->out, &call->error); }

static VALUE channel_producer(VALUE self) {
    ch_producer *producer = NULL;
    struct call call = {.run = run_producer, .out = &producer};
    VALUE object = box_new(cProducer, &producer_type, self, release_producer);
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &channel_type), &call), &call.error);
    struct box *box = RTYPEDDATA_DATA(object);
    box->handle = producer;
    box->sequence = NO_RESERVATION;
    return object;
}

struct joining {
    uint32_t from, policy;
    uint64_t patience_ns;
};

static int run_consumer(struct call *call) {
    struct joining *joining = call->more;
    return ch_channel_consumer(call->handle, joining->from, joining->policy, joining->patience_ns, call->out,
                               &call->error);
}

/* Channel#_consumer(from, policy, patience): a ch_join, a ch_policy, seconds. */
static VALUE channel_consumer(VALUE self, VALUE from, VALUE policy, VALUE patience) {
    ch_consumer *consumer = NULL;
    struct joining joining = {NUM2UINT(from), NUM2UINT(policy), NIL_P(patience) ? 0 : timeout_arg(patience)};
    struct call call = {.run = run_consumer, .more = &joining, .out = &consumer};
    VALUE object = box_new(cConsumer, &consumer_type, self, release_consumer);
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &channel_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = consumer;
    return object;
}

/* ---- Sending. */

static VALUE producer_close(VALUE self) { return box_close(self, &producer_type); }

static int run_send(struct call *c) {
    return ch_producer_send_timeout(c->handle, c->value.data, c->value.len, c->number, c->out, &c->error);
}

/* Producer#_send(message, seconds): the message's number, or nil if there was no room in time. */
static VALUE producer_send(VALUE self, VALUE message, VALUE seconds) {
    ch_error error;
    uint64_t sequence, timeout = timeout_arg(seconds);
    message = bytes_arg(message);
    struct box *box = box_of(self, &producer_type);
    box->sequence = NO_RESERVATION;
    int result = ch_producer_try_send(box->handle, RSTRING_PTR(message), (size_t)RSTRING_LEN(message), &sequence, &error);
    if (checked(result, &error) != CH_OK && timeout > 0) {
        struct call call = {.run = run_send, .out = &sequence};
        call_strings(&call, Qnil, message);
        result = checked(call_wait(box, &call, timeout), &call.error);
    }
    RB_GC_GUARD(message);
    return result == CH_OK ? ULL2NUM(sequence) : Qnil;
}

/* The number of the next message. */
static VALUE producer_sequence(VALUE self) {
    ch_error error;
    uint64_t sequence;
    checked(ch_producer_sequence(box_of(self, &producer_type)->handle, &sequence, &error), &error);
    return ULL2NUM(sequence);
}

/* The longest message in bytes. */
static VALUE producer_max_message(VALUE self) {
    ch_error error;
    size_t bytes;
    checked(ch_producer_max_message(box_of(self, &producer_type)->handle, &bytes, &error), &error);
    return SIZET2NUM(bytes);
}

/* The process id of the consumer in the way when there was no room, or nil. */
static VALUE producer_waits_for(VALUE self) {
    ch_error error;
    ch_peer peer;
    int result = ch_producer_waits_for(box_of(self, &producer_type)->handle, &peer, &error);
    return checked(result, &error) == CH_OK ? UINT2NUM(peer.pid) : Qnil;
}

/* ---- Receiving. */

static VALUE consumer_close(VALUE self) { return box_close(self, &consumer_type); }

static int run_receive(struct call *c) {
    return ch_consumer_recv_timeout(c->handle, c->out, c->number, c->more, &c->error);
}

struct receiving {
    struct box *box;
    ch_bytes message;
    uint64_t timeout;
    VALUE result;
};

static VALUE receive(VALUE data) {
    struct receiving *receiving = (struct receiving *)data;
    struct box *box = receiving->box;
    ch_error error;
    ch_received received;
    int result = checked(ch_consumer_try_recv(box->handle, &receiving->message, &received, &error), &error);
    if (result != CH_OK && receiving->timeout > 0) {
        struct call call = {.run = run_receive, .out = &receiving->message, .more = &received};
        call_strings(&call, Qnil, Qnil);
        result = checked(call_wait(box, &call, receiving->timeout), &call.error);
    }
    if (result != CH_OK) return Qnil;
    box->sequence = received.sequence;
    return given(box, receiving->message.data, receiving->message.len);
}

static VALUE receive_end(VALUE data) {
    ch_bytes_free(&((struct receiving *)data)->message);
    return Qnil;
}

/* Consumer#_recv(seconds): the next message, or nil if there was none in time. */
static VALUE consumer_recv(VALUE self, VALUE seconds) {
    struct receiving receiving = {box_of(self, &consumer_type), CH_BYTES_INIT, timeout_arg(seconds), Qnil};
    VALUE message = rb_ensure(receive, (VALUE)&receiving, receive_end, (VALUE)&receiving);
    RB_GC_GUARD(self);
    return message;
}

/* The number of the message received last: from 0 on, one more for each message of the channel. */
static VALUE consumer_last_sequence(VALUE self) { return ULL2NUM(box_of(self, &consumer_type)->sequence); }

/* The number of the next message. */
static VALUE consumer_sequence(VALUE self) {
    ch_error error;
    uint64_t sequence;
    checked(ch_consumer_sequence(box_of(self, &consumer_type)->handle, &sequence, &error), &error);
    return ULL2NUM(sequence);
}

/* Messages missed since it joined; 0 unless it is lossy. */
static VALUE consumer_missed(VALUE self) {
    ch_error error;
    uint64_t missed;
    checked(ch_consumer_missed(box_of(self, &consumer_type)->handle, &missed, &error), &error);
    return ULL2NUM(missed);
}

static int run_rejoin(struct call *call) { return ch_consumer_rejoin(call->handle, call->uid, &call->error); }

static VALUE consumer_rejoin(VALUE self, VALUE from) {
    struct call call = {.run = run_rejoin, .uid = NUM2UINT(from)};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &consumer_type), &call), &call.error);
    return self;
}

void init_channel(void) {
    cChannel = rb_define_class_under(mCommonhold, "Channel", rb_cObject);
    cProducer = rb_define_class_under(mCommonhold, "Producer", rb_cObject);
    cConsumer = rb_define_class_under(mCommonhold, "Consumer", rb_cObject);
    rb_undef_alloc_func(cChannel);
    rb_undef_alloc_func(cProducer);
    rb_undef_alloc_func(cConsumer);
    rb_define_private_method(cHold, "_channel", hold_channel, 3);
    rb_define_method(cChannel, "close", channel_close, 0);
    rb_define_method(cChannel, "name", channel_name, 0);
    rb_define_private_method(cChannel, "_describe", channel_describe, 0);
    rb_define_private_method(cChannel, "_producer", channel_producer, 0);
    rb_define_private_method(cChannel, "_consumer", channel_consumer, 3);
    rb_define_method(cProducer, "close", producer_close, 0);
    rb_define_private_method(cProducer, "_send", producer_send, 2);
    rb_define_method(cProducer, "sequence", producer_sequence, 0);
    rb_define_method(cProducer, "max_message", producer_max_message, 0);
    rb_define_method(cProducer, "waits_for", producer_waits_for, 0);
    rb_define_method(cConsumer, "close", consumer_close, 0);
    rb_define_private_method(cConsumer, "_recv", consumer_recv, 1);
    rb_define_method(cConsumer, "last_sequence", consumer_last_sequence, 0);
    rb_define_method(cConsumer, "sequence", consumer_sequence, 0);
    rb_define_method(cConsumer, "missed", consumer_missed, 0);
    rb_define_private_method(cConsumer, "_rejoin", consumer_rejoin, 1);
}
