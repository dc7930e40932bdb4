/* Commonhold::Origin and Commonhold::Replica: maps over the network.
 *
 * Their threads belong to the library. They never call Ruby: they do not have the GVL, and a Ruby
 * exception must not pass through the library. So the options here have no callbacks, and programs
 * ask for the status, wait, or follow the replica's map. */
#include "ext.h"
#include <unistd.h>

BOX_TYPE(origin_type, "Commonhold::Origin");
BOX_TYPE(replica_type, "Commonhold::Replica");
RELEASE(release_origin, origin)
RELEASE(release_replica, replica)
static VALUE cOrigin, cReplica;

/* nil is no secret. The library would take an empty one for none. */
VALUE secret_arg(VALUE secret) {
    if (NIL_P(secret)) return Qnil;
    secret = bytes_arg(secret);
    if (RSTRING_LEN(secret) == 0) rb_raise(rb_eArgError, "expected a secret that is not empty, or nil for none");
    return secret;
}

/* ---- Sockets. The library takes a descriptor over if a call succeeds, so it gets a copy: the IO
 * keeps its own. */

struct handing {
    struct box *box;
    struct call *call;
    int socket;
};

static VALUE hand_over(VALUE data) {
    struct handing *handing = (struct handing *)data;
    call_away(handing->box, handing->call);
    return Qnil;
}

static VALUE hand_over_end(VALUE data) {
    struct handing *handing = (struct handing *)data;
    if (!handing->call->ran || handing->call->result != CH_OK) close(handing->socket);
    return Qnil;
}

/* Calls with a copy of an IO's descriptor as `uid`. */
void call_with_socket(struct box *box, struct call *call, VALUE io) {
    int descriptor = NUM2INT(RB_INTEGER_TYPE_P(io) ? io : rb_funcall(io, rb_intern("fileno"), 0));
    int copy = rb_cloexec_dup(descriptor);
    if (copy < 0) rb_sys_fail("the socket");
    rb_update_max_fd(copy);
    struct handing handing = {box, call, copy};
    call->uid = (uint32_t)copy;
    rb_ensure(hand_over, (VALUE)&handing, hand_over_end, (VALUE)&handing);
    RB_GC_GUARD(io);
}

/* ---- Origins. */

static int run_start(struct call *c) {
    ch_origin_options *options = c->more;
    options->secret = c->expected.data;
    options->secret_len = c->expected.len;
    return ch_origin_start(c->handle, c->key.data, options, c->out, &c->error);
}

ch_origin_options origin_options(VALUE uids, VALUE options, volatile VALUE *kept) {
    ch_origin_options wanted = CH_ORIGIN_OPTIONS_INIT;
    wanted.stream_bytes = number_option(options, "stream_bytes");
    wanted.io_threads = (uint32_t)number_option(options, "threads");
    wanted.most_replicas = number_option(options, "most_replicas");
    wanted.explicit_transmission = RTEST(option(options, "explicit"));
    wanted.allow_unauthenticated = RTEST(option(options, "allow_unauthenticated"));
    wanted.compression = (uint32_t)number_option(options, "compression");
    if (!NIL_P(uids)) {
        Check_Type(uids, T_ARRAY);
        long count = RARRAY_LEN(uids);
        if (count == 0) rb_raise(rb_eArgError, "expected at least one user in uids, or nil for all");
        uint32_t *numbers = rb_alloc_tmp_buffer(kept, count * (long)sizeof *numbers);
        for (long i = 0; i < count; i++) numbers[i] = NUM2UINT(rb_ary_entry(uids, i));
        wanted.allowed_uids = numbers;
        wanted.allowed_uid_count = (size_t)count;
    }
    return wanted;
}

/* Hold#_origin(map, secret, uids, options). */
static VALUE hold_origin(VALUE self, VALUE map, VALUE secret, VALUE uids, VALUE options) {
    volatile VALUE kept = 0;
    ch_origin *origin = NULL;
    ch_origin_options wanted = origin_options(uids, options, &kept);
    struct call call = {.run = run_start, .out = &origin, .more = &wanted};
    VALUE object = box_new(cOrigin, &origin_type, self, release_origin);
    call_strings(&call, name_copy(map), Qnil);
    call.expected_text = secret_arg(secret);
    checked(call_away(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = origin;
    rb_free_tmp_buffer(&kept);
    return object;
}

static int run_listen(struct call *c) { return ch_origin_listen(c->handle, c->key.data, c->out, &c->error); }
static int run_listen_on(struct call *c) { return ch_origin_listen_on(c->handle, (int)c->uid, c->out, &c->error); }
static int run_attach(struct call *c) { return ch_origin_attach(c->handle, (int)c->uid, c->out, &c->error); }
static int run_transmit(struct call *c) { return ch_origin_transmit(c->handle, &c->error); }

/* call-seq: listen(address) -> string
 *
 * Listens at <tt>unix:PATH</tt>, <tt>tcp:PORT</tt> (loopback) or <tt>tcp:HOST:PORT</tt>. Returns
 * the address, for port 0 with the port that the system chose. InvalidError if other machines can
 * connect there, and there is neither a secret nor +allow_unauthenticated+; BusyError if the address
 * is in use. */
static VALUE origin_listen(VALUE self, VALUE address) {
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_listen, .out = &text};
    call_strings(&call, name_copy(address), Qnil);
    checked(call_away(box_of(self, &origin_type), &call), &call.error);
    return given_text(&text);
}

/* call-seq: listen_on(socket) -> string
 *
 * Accepts connections from a socket that listens already (socket activation), of which it uses a
 * copy. Returns the address. */
static VALUE origin_listen_on(VALUE self, VALUE socket) {
    ch_bytes text = CH_BYTES_INIT;
    struct call call = {.run = run_listen_on, .out = &text};
    call_strings(&call, Qnil, Qnil);
    call_with_socket(box_of(self, &origin_type), &call, socket);
    checked(call.result, &call.error);
    return given_text(&text);
}

/* call-seq: attach(socket) -> integer
 *
 * Serves the replica at the other end of a connected stream socket, of which it uses a copy.
 * Returns a number for detach. FullError at +most_replicas+. */
static VALUE origin_attach(VALUE self, VALUE socket) {
    uint64_t id = 0;
    struct call call = {.run = run_attach, .out = &id};
    call_strings(&call, Qnil, Qnil);
    call_with_socket(box_of(self, &origin_type), &call, socket);
    checked(call.result, &call.error);
    return ULL2NUM(id);
}

/* Closes the connection to a replica; false if there is none of this number. */
static VALUE origin_detach(VALUE self, VALUE id) {
    ch_error error;
    uint64_t number = NUM2ULL(id);
    return checked(ch_origin_detach(box_of(self, &origin_type)->handle, number, &error), &error) == CH_OK ? Qtrue : Qfalse;
}

/* With <tt>explicit: true</tt>: sends every change that was made before, without waiting. */
static VALUE origin_transmit(VALUE self) {
    struct call call = {.run = run_transmit};
    call_strings(&call, Qnil, Qnil);
    checked(call_now(box_of(self, &origin_type), &call), &call.error);
    return Qnil;
}

static VALUE origin_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_origin_replicas(box_of(self, &origin_type)->handle, NULL, &json, &error), &error);
    return given_text(&json);
}

static int run_finish(struct call *c) { return ch_origin_finish(c->handle, c->number, &c->error); }

/* Origin#_end(seconds). */
static VALUE origin_end(VALUE self, VALUE seconds) {
    struct call call = {.run = run_finish, .number = timeout_arg(seconds)};
    call_strings(&call, Qnil, Qnil);
    return box_end(self, &origin_type, &call);
}

/* ---- Replicas. */

static int run_replicate(struct call *c) {
    ch_replica_options *options = c->more;
    options->secret = c->expected.data;
    options->secret_len = c->expected.len;
    options->name = c->replacement.data;
    if (c->value.data) return ch_replica_connect(c->handle, c->key.data, c->value.data, options, c->out, &c->error);
    return ch_replica_attach(c->handle, c->key.data, (int)c->uid, options, c->out, &c->error);
}

/* The options that are not Strings. `kept` holds memory that they refer to. */
ch_replica_options replica_options(VALUE options, volatile VALUE *kept) {
    ch_replica_options wanted = CH_REPLICA_OPTIONS_INIT;
    wanted.first_pause_ns = timeout_arg(option(options, "first_pause"));
    wanted.longest_pause_ns = timeout_arg(option(options, "longest_pause"));
    wanted.stream_bytes = number_option(options, "stream_bytes");
    wanted.adopt = RTEST(option(options, "adopt"));
    wanted.compression = (uint32_t)number_option(options, "compression");
    /* The name of the origin's map, if there is one, and then the addresses. */
    VALUE origin_map = option(options, "origin_map"), also = option(options, "also");
    VALUE texts = rb_ary_plus(rb_ary_new_from_args(1, NIL_P(origin_map) ? rb_str_new_cstr("") : origin_map),
                              NIL_P(also) ? rb_ary_new() : rb_convert_type(also, T_ARRAY, "Array", "to_ary"));
    const char *const *found = texts_arg(texts, &wanted.also_count, kept);
    wanted.origin_map = NIL_P(origin_map) ? NULL : found[0];
    wanted.also = found + 1;
    wanted.also_count -= 1;
    return wanted;
}

/* Hold#_replica(map, origin, secret, name, options): the origin is an address or a socket. */
static VALUE hold_replica(VALUE self, VALUE map, VALUE origin, VALUE secret, VALUE name, VALUE options) {
    volatile VALUE kept = 0;
    ch_replica *replica = NULL;
    ch_replica_options wanted = replica_options(options, &kept);
    struct call call = {.run = run_replicate, .out = &replica, .more = &wanted};
    VALUE address = rb_check_string_type(origin);
    VALUE object = box_new(cReplica, &replica_type, self, release_replica);
    call_strings(&call, name_copy(map), NIL_P(address) ? Qnil : name_copy(address));
    call.expected_text = secret_arg(secret);
    call.replacement_text = NIL_P(name) ? Qnil : name_copy(name);
    VALUE prefix = option(options, "prefix"), bytes = NIL_P(prefix) ? Qnil : rb_str_new_frozen(StringValue(prefix));
    if (!NIL_P(bytes)) {
        wanted.prefix = RSTRING_PTR(bytes);
        wanted.prefix_len = (size_t)RSTRING_LEN(bytes);
    }
    struct box *hold = box_of(self, &hold_type);
    if (NIL_P(address)) call_with_socket(hold, &call, origin);
    else call_away(hold, &call);
    RB_GC_GUARD(bytes);
    checked(call.result, &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = replica;
    rb_free_tmp_buffer(&kept);
    return object;
}

static VALUE replica_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_replica_describe(box_of(self, &replica_type)->handle, &json, &error), &error);
    return given_text(&json);
}

static int wait_ready(struct call *c, uint64_t timeout_ns) {
    return ch_replica_wait_ready(c->handle, timeout_ns, &c->error);
}

static int wait_for(struct call *c, uint64_t timeout_ns) {
    return ch_replica_wait_for(c->handle, c->more, timeout_ns, &c->error);
}

/* A slice of a wait. The whole wait is over, in vain, once the replica has ended by itself. */
static int wait_on(struct call *c, int (*wait)(struct call *, uint64_t)) {
    ch_replica_status_t status;
    bool *reached = c->out;
    int result = wait(c, c->number);
    *reached = result == CH_OK;
    if (result != CH_NONE) return result;
    result = ch_replica_status(c->handle, &status, &c->error);
    if (result != CH_OK) return result;
    if (!status.ended) return CH_NONE;
    result = wait(c, 0); /* it may have been reached before the end */
    *reached = result == CH_OK;
    return result == CH_NONE ? CH_OK : result;
}

static int run_wait_ready(struct call *c) { return wait_on(c, wait_ready); }
static int run_wait_for(struct call *c) { return wait_on(c, wait_for); }

static VALUE reached(VALUE self, int (*run)(struct call *), ch_position *position, VALUE seconds) {
    bool reached = false;
    uint64_t timeout = timeout_arg(seconds);
    struct call call = {.run = run, .out = &reached, .more = position};
    struct box *box = box_of(self, &replica_type);
    call_strings(&call, Qnil, Qnil);
    checked(call_wait(box, &call, timeout), &call.error);
    RB_GC_GUARD(self);
    return reached ? Qtrue : Qfalse;
}

/* Replica#_wait_ready(seconds): whether it became ready in time. */
static VALUE replica_wait_ready(VALUE self, VALUE seconds) { return reached(self, run_wait_ready, NULL, seconds); }

/* Replica#_wait_for(position, seconds): the position as text. */
static VALUE replica_wait_for(VALUE self, VALUE text, VALUE seconds) {
    ch_error error;
    ch_position position;
    checked(ch_position_parse(name_arg(&text), &position, &error), &error);
    RB_GC_GUARD(text);
    return reached(self, run_wait_for, &position, seconds);
}

static int run_free(struct call *c) {
    ch_replica_free(c->handle);
    return CH_OK;
}

/* Replica#_end. */
static VALUE replica_end(VALUE self) {
    struct call call = {.run = run_free};
    call_strings(&call, Qnil, Qnil);
    return box_end(self, &replica_type, &call);
}

/* Time that has run out must not be taken for a lock that is waited for. */
static int run_verify(struct call *c) {
    ch_replica_options options = CH_REPLICA_OPTIONS_INIT;
    options.secret = c->expected.data;
    options.secret_len = c->expected.len;
    int result = ch_replica_verify(c->handle, c->key.data, c->value.data, &options, c->number, c->out, &c->error);
    c->uid = result == CH_TIMED_OUT;
    return c->uid ? CH_NONE : result;
}

/* Hold#_verify(map, origin, secret, seconds): whether they are equal, and a report as JSON. */
static VALUE hold_verify(VALUE self, VALUE map, VALUE origin, VALUE secret, VALUE seconds) {
    ch_bytes report = CH_BYTES_INIT;
    struct call call = {.run = run_verify, .number = timeout_arg(seconds), .out = &report};
    call_strings(&call, name_copy(map), name_copy(origin));
    call.expected_text = secret_arg(secret);
    int result = checked(call_away(box_of(self, &hold_type), &call), &call.error);
    if (call.uid) raise_error(&call.error);
    return rb_assoc_new(result == CH_OK ? Qtrue : Qfalse, given_text(&report));
}

void init_net(void) {
    cOrigin = rb_define_class_under(mCommonhold, "Origin", rb_cObject);
    cReplica = rb_define_class_under(mCommonhold, "Replica", rb_cObject);
    rb_undef_alloc_func(cOrigin);
    rb_undef_alloc_func(cReplica);
    rb_define_private_method(cHold, "_origin", hold_origin, 4);
    rb_define_method(cOrigin, "listen", origin_listen, 1);
    rb_define_method(cOrigin, "listen_on", origin_listen_on, 1);
    rb_define_method(cOrigin, "attach", origin_attach, 1);
    rb_define_method(cOrigin, "detach", origin_detach, 1);
    rb_define_method(cOrigin, "transmit", origin_transmit, 0);
    rb_define_private_method(cOrigin, "_replicas", origin_describe, 0);
    rb_define_private_method(cOrigin, "_end", origin_end, 1);
    rb_define_private_method(cHold, "_replica", hold_replica, 5);
    rb_define_private_method(cHold, "_verify", hold_verify, 4);
    rb_define_private_method(cReplica, "_status", replica_describe, 0);
    rb_define_private_method(cReplica, "_wait_ready", replica_wait_ready, 1);
    rb_define_private_method(cReplica, "_wait_for", replica_wait_for, 2);
    rb_define_private_method(cReplica, "_end", replica_end, 0);
}
