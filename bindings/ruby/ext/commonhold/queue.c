/* Commonhold::Queue and Commonhold::Element. An element in flight is a user of its queue's box; one
 * without references goes to the orphan queue. */
#include "ext.h"

BOX_TYPE(queue_type, "Commonhold::Queue");
RELEASE(release_queue, queue)
static VALUE cQueue, cElement;

#define MOST_QUEUES 64

struct in_flight {
    VALUE queue;
    struct box *box; /* NULL: not in flight any more */
    ch_element element;
};

static void element_mark(void *data) { rb_gc_mark(((struct in_flight *)data)->queue); }

/* The garbage collector runs and must not wait: a release that would block is done later. */
static void element_free(void *data) {
    struct in_flight *flying = data;
    if (flying->box) {
        uint64_t before = ch_thread_patience(0);
        ch_queue_abandon(flying->box->handle, &flying->element);
        ch_thread_patience(before);
        box_done(flying->box);
    }
    xfree(flying);
}

static const rb_data_type_t element_type = {
    "Commonhold::Element", {element_mark, element_free, NULL, 0, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY};

static int run_queue(struct call *call) {
    switch ((enum how)call->number) {
    case OPEN:
        return ch_queue_open(call->handle, call->key.data, call->out, &call->error);
    case CREATE:
        return ch_queue_create(call->handle, call->key.data, call->more, call->out, &call->error);
    default:
        return ch_queue_open_or_create(call->handle, call->key.data, call->more, call->out, &call->error);
    }
}

/* A copy of a name, for the collector may move a short String, and its bytes with it. One that is
 * too long for the library stays so. */
struct name {
    char text[65];
};

static const char *kept_name(struct name *name, VALUE text) {
    text = rb_obj_as_string(text);
    strncpy(name->text, name_arg(&text), sizeof name->text - 1);
    RB_GC_GUARD(text);
    return name->text;
}

/* Hold#_queue(how, name, options). */
static VALUE hold_queue(VALUE self, VALUE how, VALUE name, VALUE options) {
    ch_queue_options wanted = CH_QUEUE_OPTIONS_INIT;
    ch_queue *queue = NULL;
    const char *names[MOST_QUEUES];
    struct name kept[MOST_QUEUES + 1] = {0};
    VALUE list = option(options, "queues"), orphans = option(options, "orphans");
    struct call call = {.run = run_queue, .number = how_arg(how), .out = &queue, .more = &wanted};
    wanted.elements = (uint32_t)number_option(options, "elements");
    wanted.element_bytes = (uint32_t)number_option(options, "element_bytes");
    if (!NIL_P(list)) {
        Check_Type(list, T_ARRAY);
        long count = RARRAY_LEN(list);
        if (count > MOST_QUEUES) rb_raise(rb_eArgError, "a queue has at most %d named queues", MOST_QUEUES);
        for (long i = 0; i < count; i++) names[i] = kept_name(&kept[i], rb_ary_entry(list, i));
        wanted.queues = names;
        wanted.queue_count = (size_t)count;
    }
    if (!NIL_P(orphans)) wanted.orphans = kept_name(&kept[MOST_QUEUES], orphans);
    VALUE object = box_new(cQueue, &queue_type, self, release_queue);
    name = name_copy(name);
    call_strings(&call, name, Qnil);
    checked(call_now(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = queue;
    return object;
}

static VALUE queue_close(VALUE self) { return box_close(self, &queue_type); }

static VALUE queue_name(VALUE self) {
    ch_error error;
    ch_slice name;
    checked(ch_queue_name(box_of(self, &queue_type)->handle, &name, &error), &error);
    return rb_utf8_str_new(name.data, (long)name.len);
}

/* A named queue is given by name or number. */
static uint32_t number_of(VALUE queue, VALUE which) {
    ch_error error;
    uint32_t number;
    if (NIL_P(which)) return 0;
    if (RB_INTEGER_TYPE_P(which)) return NUM2UINT(which);
    VALUE name = SYMBOL_P(which) ? rb_sym2str(which) : which;
    const char *text = name_arg(&name);
    checked(ch_queue_named(box_of(queue, &queue_type)->handle, text, &number, &error), &error);
    RB_GC_GUARD(name);
    return number;
}

/* Makes the Ruby object first, already a user of the box: a pulled element is never lost to an
 * exception, nor to a queue that is closed meanwhile. Releasing an object that stays empty does
 * nothing. */
static struct in_flight *new_element(VALUE queue, struct box *box, VALUE *object) {
    struct in_flight *flying;
    *object = TypedData_Make_Struct(cElement, struct in_flight, &element_type, flying);
    flying->queue = queue;
    flying->box = box;
    box->users++;
    return flying;
}

static struct in_flight *element_of(VALUE element) {
    struct in_flight *flying = rb_check_typeddata(element, &element_type);
    if (!flying->box) raise_code(CH_INVALID, "the element is not in flight: it was pushed or released before");
    if (flying->box->closed) raise_code(CH_CLOSED, "the element's queue is closed");
    struct box *hold = RTYPEDDATA_DATA(flying->box->parent);
    if (hold->closed) raise_code(CH_CLOSED, "the element's hold is closed");
    return flying;
}

static void no_longer_in_flight(struct in_flight *flying) {
    struct box *box = flying->box;
    flying->box = NULL;
    box_done(box);
}

static int run_pull(struct call *c) {
    return ch_queue_pull_timeout(c->handle, c->uid, c->number, c->out, &c->error);
}

static int run_push(struct call *c) { return ch_queue_push(c->handle, c->uid, c->more, &c->error); }

static int run_release(struct call *c) { return ch_queue_release(c->handle, c->more, &c->error); }

struct pulling {
    ch_element some[64];
    size_t room, count;
};

static int run_pull_many(struct call *c) {
    struct pulling *pulling = c->more;
    return ch_queue_pull_many_timeout(c->handle, c->uid, c->number, pulling->some, pulling->room, &pulling->count, &c->error);
}

static int run_pull_many_briefly(struct call *c) {
    c->number = 0;
    return run_pull_many(c);
}

/* Offsets and lengths; negative ones are an IndexError, as beyond an Array. */
static size_t size_arg(VALUE number) {
    long long size = NUM2LL(number);
    if (size < 0) rb_raise(rb_eIndexError, "%lld is negative", size);
    return (size_t)size;
}

/* Queue#_pull(which, seconds): nil waits without limit. */
static VALUE queue_pull(VALUE self, VALUE which, VALUE seconds) {
    ch_error error;
    VALUE object;
    uint64_t timeout = timeout_arg(seconds);
    uint32_t number = number_of(self, which);
    struct box *box = box_of(self, &queue_type);
    struct in_flight *flying = new_element(self, box, &object);
    int result;
    BRIEFLY(result, ch_queue_pull(box->handle, number, &flying->element, &error));
    if (result == CH_TIMED_OUT || (result == CH_NONE && timeout > 0)) {
        struct call call = {.run = run_pull, .uid = number, .out = &flying->element};
        call_strings(&call, Qnil, Qnil);
        result = timeout > 0 ? call_wait(box, &call, timeout) : call_away(box, &call);
        error = call.error;
    }
    if (result != CH_OK) no_longer_in_flight(flying);
    RB_GC_GUARD(object);
    return checked(result, &error) == CH_OK ? object : Qnil;
}

struct moving {
    struct in_flight *flying;
    struct box *from, *to;
    struct call call;
};

static VALUE move(VALUE data) {
    struct moving *moving = (struct moving *)data;
    call_away(moving->to, &moving->call);
    return Qnil;
}

static VALUE move_end(VALUE data) {
    struct moving *moving = (struct moving *)data;
    moving->flying->box = moving->from;
    if (moving->call.result == CH_OK) no_longer_in_flight(moving->flying);
    return Qnil;
}

/* Moves an element without the GVL. It is not in flight meanwhile, so no other thread moves it,
 * too. */
static int move_away(int (*run)(struct call *), struct box *to, uint32_t number, struct in_flight *flying, ch_error *error) {
    struct moving moving = {flying, flying->box, to, {.run = run, .uid = number, .more = &flying->element}};
    moving.call.result = CH_TIMED_OUT; /* until it has run */
    call_strings(&moving.call, Qnil, Qnil);
    flying->box = NULL;
    rb_ensure(move, (VALUE)&moving, move_end, (VALUE)&moving);
    *error = moving.call.error;
    return moving.call.result;
}

/* call-seq: push(queue, element) -> self
 *
 * Puts an element in flight at the end of a named queue, and wakes a waiting process. The element
 * is no longer in flight then; after an error it is in flight as before. InvalidError if it is
 * another queue's. */
static VALUE queue_push(VALUE self, VALUE which, VALUE element) {
    ch_error error;
    uint32_t number = number_of(self, which);
    struct box *box = box_of(self, &queue_type);
    struct in_flight *flying = element_of(element);
    int result;
    BRIEFLY(result, ch_queue_push(box->handle, number, &flying->element, &error));
    if (result == CH_TIMED_OUT) result = move_away(run_push, box, number, flying, &error);
    else if (result == CH_OK) no_longer_in_flight(flying);
    RB_GC_GUARD(element);
    checked(result, &error);
    return self;
}

/* call-seq: push_many(queue, elements) -> self
 *
 * Puts elements in flight at the end of a named queue, in order, for little more than the cost of
 * one. After an error all are in flight as before; if a wait for a lock is interrupted, the first ones
 * may have been pushed (Element#in_flight?). */
static VALUE queue_push_many(VALUE self, VALUE which, VALUE elements) {
    ch_error error;
    VALUE kept = 0, flights = 0;
    elements = rb_ary_dup(rb_convert_type(elements, T_ARRAY, "Array", "to_ary"));
    uint32_t number = number_of(self, which);
    long count = RARRAY_LEN(elements);
    struct box *box = box_of(self, &queue_type);
    ch_element *all = ALLOCV_N(ch_element, kept, count + 1);
    struct in_flight **flying = ALLOCV_N(struct in_flight *, flights, count + 1);
    for (long i = 0; i < count; i++) {
        flying[i] = element_of(rb_ary_entry(elements, i));
        all[i] = flying[i]->element;
    }
    int result;
    BRIEFLY(result, count ? ch_queue_push_many(box->handle, number, all, (size_t)count, &error) : CH_OK);
    for (long i = 0; result == CH_OK && i < count; i++) no_longer_in_flight(flying[i]);
    ALLOCV_END(kept);
    ALLOCV_END(flights);
    if (result == CH_TIMED_OUT)
        for (long i = 0; i < count; i++) queue_push(self, which, rb_ary_entry(elements, i));
    else checked(result, &error);
    RB_GC_GUARD(elements);
    return self;
}

/* call-seq: push_pull(to, element, from) -> element or nil
 *
 * Pushes an element to one named queue, then pulls from another (or the same), without waiting, for
 * little more than the cost of one. */
static VALUE queue_push_pull(VALUE self, VALUE to, VALUE element, VALUE from) {
    ch_error error;
    VALUE object;
    uint32_t target = number_of(self, to), source = number_of(self, from);
    struct box *box = box_of(self, &queue_type);
    struct in_flight *pushed = element_of(element), *pulled = new_element(self, box, &object);
    int result;
    BRIEFLY(result, ch_queue_push_pull(box->handle, target, &pushed->element, source, &pulled->element, &error));
    if (result != CH_OK) no_longer_in_flight(pulled);
    if (result <= 0) no_longer_in_flight(pushed);
    RB_GC_GUARD(object);
    RB_GC_GUARD(element);
    if (result == CH_TIMED_OUT) {
        queue_push(self, to, element);
        return queue_pull(self, from, INT2FIX(0));
    }
    return checked(result, &error) == CH_OK ? object : Qnil;
}

/* Queue#_pull_many(which, most, seconds): an Array, empty if there was none in time. */
static VALUE queue_pull_many(VALUE self, VALUE which, VALUE most, VALUE seconds) {
    VALUE object, all = rb_ary_new();
    struct pulling pulling = {.room = size_arg(most)};
    uint64_t timeout = timeout_arg(seconds);
    uint32_t number = number_of(self, which);
    struct box *box = box_of(self, &queue_type);
    if (pulling.room > 64) pulling.room = 64;
    struct in_flight *flying = new_element(self, box, &object);
    struct call call = {.run = run_pull_many_briefly, .uid = number, .more = &pulling};
    call_strings(&call, Qnil, Qnil);
    int result = call_now(box, &call);
    if (result == CH_NONE && timeout > 0) {
        call.run = run_pull_many;
        result = call_wait(box, &call, timeout);
    }
    if (result != CH_OK) no_longer_in_flight(flying);
    for (size_t i = 0; result == CH_OK && i < pulling.count; i++) {
        if (i > 0) flying = new_element(self, box, &object);
        flying->element = pulling.some[i];
        rb_ary_push(all, object);
    }
    RB_GC_GUARD(object);
    checked(result, &call.error);
    return all;
}

/* How many elements are in a named queue, a moment ago. */
static VALUE queue_len(int count, VALUE *arguments, VALUE self) {
    ch_error error;
    uint64_t len;
    VALUE which;
    rb_scan_args(count, arguments, "01", &which);
    uint32_t number = number_of(self, which);
    checked(ch_queue_len(box_of(self, &queue_type)->handle, number, &len, &error), &error);
    return ULL2NUM(len);
}

static VALUE queue_describe(VALUE self) {
    ch_error error;
    ch_bytes json = CH_BYTES_INIT;
    checked(ch_queue_describe(box_of(self, &queue_type)->handle, &json, &error), &error);
    return given_text(&json);
}

/* call-seq: read(offset = 0, length = all) -> string
 *
 * A copy of the element's bytes, or of some of them. */
static VALUE element_read(int count, VALUE *arguments, VALUE self) {
    VALUE from, len;
    rb_scan_args(count, arguments, "02", &from, &len);
    struct in_flight *flying = element_of(self);
    size_t at = NIL_P(from) ? 0 : size_arg(from);
    if (at > flying->element.len) rb_raise(rb_eIndexError, "offset %zu is beyond the %zu bytes", at, flying->element.len);
    size_t wanted = NIL_P(len) ? flying->element.len - at : size_arg(len);
    if (wanted > flying->element.len - at) wanted = flying->element.len - at;
    return rb_str_new((char *)flying->element.data + at, (long)wanted);
}

/* call-seq: write(bytes, offset = 0) -> self
 *
 * Writes into the element; an IndexError if the bytes do not fit. */
static VALUE element_write(int count, VALUE *arguments, VALUE self) {
    VALUE bytes, to;
    rb_scan_args(count, arguments, "11", &bytes, &to);
    bytes = bytes_arg(bytes);
    size_t at = NIL_P(to) ? 0 : size_arg(to), len = (size_t)RSTRING_LEN(bytes);
    struct in_flight *flying = element_of(self);
    if (at > flying->element.len || len > flying->element.len - at)
        rb_raise(rb_eIndexError, "%zu bytes at %zu exceed the element's %zu", len, at, flying->element.len);
    memcpy((char *)flying->element.data + at, RSTRING_PTR(bytes), len);
    RB_GC_GUARD(bytes);
    return self;
}

/* How many bytes it has. */
static VALUE element_len(VALUE self) { return SIZET2NUM(element_of(self)->element.len); }
/* Its number, the same in every process. */
static VALUE element_id(VALUE self) { return UINT2NUM(element_of(self)->element.id); }

/* Whether this object still has it in flight. */
static VALUE element_is_in_flight(VALUE self) {
    struct in_flight *flying = rb_check_typeddata(self, &element_type);
    return flying->box ? Qtrue : Qfalse;
}

/* Releases it to the orphan queue; after an error it is still in flight. */
static VALUE element_release(VALUE self) {
    ch_error error;
    struct in_flight *flying = element_of(self);
    int result;
    BRIEFLY(result, ch_queue_release(flying->box->handle, &flying->element, &error));
    if (result == CH_TIMED_OUT) result = move_away(run_release, flying->box, 0, flying, &error);
    else if (result == CH_OK) no_longer_in_flight(flying);
    RB_GC_GUARD(self);
    checked(result, &error);
    return Qnil;
}

/* ---- Notifiers. */

BOX_TYPE(notifier_type, "Commonhold::Notifier");
RELEASE(release_notifier, notifier)
static VALUE cNotifier;

static int run_notifier(struct call *c) { return ch_queue_notifier(c->handle, c->uid, c->out, &c->error); }

/* call-seq: notifier(queue = 0) -> Commonhold::Notifier
 *
 * A file descriptor, for event loops of any kind and IO.select, that becomes readable when elements
 * are pushed. */
static VALUE queue_notifier(int count, VALUE *arguments, VALUE self) {
    VALUE which;
    ch_notifier *notifier = NULL;
    rb_scan_args(count, arguments, "01", &which);
    struct call call = {.run = run_notifier, .uid = number_of(self, which), .out = &notifier};
    VALUE object = box_new(cNotifier, &notifier_type, self, release_notifier);
    call_strings(&call, Qnil, Qnil);
    checked(call_away(box_of(self, &queue_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = notifier;
    return object;
}

/* The descriptor, which is the notifier's: do not close it. */
static VALUE notifier_fileno(VALUE self) { return INT2NUM(ch_notifier_fd(box_of(self, &notifier_type)->handle)); }

/* Makes it unreadable until the next push. */
static VALUE notifier_clear(VALUE self) {
    ch_error error;
    checked(ch_notifier_clear(box_of(self, &notifier_type)->handle, &error), &error);
    return self;
}

/* Closes the descriptor. */
static VALUE notifier_close(VALUE self) { return box_close(self, &notifier_type); }

void init_queue(void) {
    cNotifier = rb_define_class_under(mCommonhold, "Notifier", rb_cObject);
    rb_undef_alloc_func(cNotifier);
    rb_define_method(cNotifier, "fileno", notifier_fileno, 0);
    rb_define_method(cNotifier, "clear", notifier_clear, 0);
    rb_define_method(cNotifier, "close", notifier_close, 0);
    cQueue = rb_define_class_under(mCommonhold, "Queue", rb_cObject);
    rb_undef_alloc_func(cQueue);
    rb_define_private_method(cHold, "_queue", hold_queue, 3);
    rb_define_method(cQueue, "close", queue_close, 0);
    rb_define_method(cQueue, "name", queue_name, 0);
    rb_define_private_method(cQueue, "_pull", queue_pull, 2);
    rb_define_method(cQueue, "push", queue_push, 2);
    rb_define_method(cQueue, "notifier", queue_notifier, -1);
    rb_define_method(cQueue, "push_many", queue_push_many, 2);
    rb_define_method(cQueue, "push_pull", queue_push_pull, 3);
    rb_define_private_method(cQueue, "_pull_many", queue_pull_many, 3);
    rb_define_method(cQueue, "size", queue_len, -1);
    rb_define_private_method(cQueue, "_describe", queue_describe, 0);
    cElement = rb_define_class_under(mCommonhold, "Element", rb_cObject);
    rb_undef_alloc_func(cElement);
    rb_define_method(cElement, "read", element_read, -1);
    rb_define_method(cElement, "write", element_write, -1);
    rb_define_method(cElement, "size", element_len, 0);
    rb_define_method(cElement, "id", element_id, 0);
    rb_define_method(cElement, "in_flight?", element_is_in_flight, 0);
    rb_define_method(cElement, "release", element_release, 0);
}
