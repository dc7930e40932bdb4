/* Commonhold::Queue and Commonhold::Element. An element in hand is a user of its queue's box; one that nobody refers to any
 * more goes to the orphans. */
#include "ext.h"

BOX_TYPE(queue_type, "Commonhold::Queue");
RELEASE(release_queue, queue)
static VALUE cQueue, cElement;

struct in_hand {
    VALUE queue;
    struct box *box; /* NULL: not in hand any more */
    ch_element element;
};

static void element_mark(void *data) { rb_gc_mark(((struct in_hand *)data)->queue); }

static void element_free(void *data) {
    struct in_hand *hand = data;
    if (hand->box) {
        ch_queue_let_go(hand->box->handle, &hand->element, NULL);
        box_done(hand->box);
    }
    xfree(hand);
}

static const rb_data_type_t element_type = {
    "Commonhold::Element", {element_mark, element_free, NULL, 0, {0}}, 0, 0, RUBY_TYPED_FREE_IMMEDIATELY};

static int run_queue(struct call *call) {
    return call->more ? ch_hold_queue(call->handle, call->key.data, call->more, call->out, &call->error)
                      : ch_hold_open_queue(call->handle, call->key.data, call->out, &call->error);
}

/* Hold#_queue(name, options); options nil opens an existing one. */
static VALUE hold_queue(VALUE self, VALUE name, VALUE options) {
    ch_queue_options wanted = {0};
    ch_queue *queue = NULL;
    const char *names[64];
    VALUE list = option(options, "queues"), orphans = option(options, "orphans"), kept = rb_ary_new();
    struct call call = {.run = run_queue, .out = &queue};
    if (!NIL_P(options)) {
        wanted.elements = (uint32_t)number_option(options, "elements");
        wanted.element_bytes = (uint32_t)number_option(options, "element_bytes");
        if (!NIL_P(list)) {
            Check_Type(list, T_ARRAY);
            if (RARRAY_LEN(list) > 64) rb_raise(rb_eArgError, "a queue has at most 64 named queues");
            for (long i = 0; i < RARRAY_LEN(list); i++) {
                VALUE one = rb_str_new_frozen(rb_obj_as_string(rb_ary_entry(list, i)));
                rb_ary_push(kept, one);
                names[i] = name_arg(&one);
            }
            wanted.queues = names;
            wanted.queue_count = (size_t)RARRAY_LEN(kept);
        }
        if (!NIL_P(orphans)) orphans = rb_obj_as_string(orphans), wanted.orphans = name_arg(&orphans);
        call.more = &wanted;
    }
    VALUE object = box_new(cQueue, &queue_type, self, release_queue);
    name = rb_str_new_cstr(name_arg(&name));
    call_strings(&call, name, Qnil);
    checked(call_now(box_of(self, &hold_type), &call), &call.error);
    ((struct box *)RTYPEDDATA_DATA(object))->handle = queue;
    RB_GC_GUARD(kept);
    RB_GC_GUARD(orphans);
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
static uint32_t number_of(struct box *box, VALUE which) {
    ch_error error;
    uint32_t number;
    if (NIL_P(which)) return 0;
    if (RB_INTEGER_TYPE_P(which)) return NUM2UINT(which);
    VALUE name = SYMBOL_P(which) ? rb_sym2str(which) : which;
    checked(ch_queue_named(box->handle, name_arg(&name), &number, &error), &error);
    RB_GC_GUARD(name);
    return number;
}

static VALUE hand_over(VALUE queue, struct box *box, const ch_element *element) {
    struct in_hand *hand;
    VALUE object = TypedData_Make_Struct(cElement, struct in_hand, &element_type, hand);
    hand->queue = queue;
    hand->element = *element;
    hand->box = box;
    box->users++;
    return object;
}

/* Makes the Ruby object first: an element that was pulled is never lost to an exception. */
static VALUE empty_hand(VALUE queue) {
    struct in_hand *hand;
    VALUE object = TypedData_Make_Struct(cElement, struct in_hand, &element_type, hand);
    hand->queue = queue;
    return object;
}

static struct in_hand *hand_of(VALUE element) {
    struct in_hand *hand = rb_check_typeddata(element, &element_type);
    if (!hand->box) raise_code(CH_INVALID, "the element is not in hand: it was pushed or let go before");
    if (hand->box->closed) raise_code(CH_CLOSED, "the element's queue is closed");
    struct box *hold = RTYPEDDATA_DATA(hand->box->parent);
    if (hold->closed) raise_code(CH_CLOSED, "the element's hold is closed");
    return hand;
}

static void out_of_hand(struct in_hand *hand) {
    struct box *box = hand->box;
    hand->box = NULL;
    box_done(box);
}

static int run_pull(struct call *c) {
    return ch_queue_pull_timeout(c->handle, c->uid, c->number, c->out, &c->error);
}

/* Offsets and lengths; negative ones are an IndexError, as beyond an Array. */
static size_t size_arg(VALUE number) {
    long long size = NUM2LL(number);
    if (size < 0) rb_raise(rb_eIndexError, "%lld is negative", size);
    return (size_t)size;
}

/* Queue#_pull(which, seconds): nil waits as long as it takes. */
static VALUE queue_pull(VALUE self, VALUE which, VALUE seconds) {
    ch_error error;
    struct box *box = box_of(self, &queue_type);
    uint32_t number = number_of(box, which);
    uint64_t timeout = timeout_arg(seconds);
    VALUE object = empty_hand(self);
    struct in_hand *hand = RTYPEDDATA_DATA(object);
    int result = checked(ch_queue_pull(box->handle, number, &hand->element, &error), &error);
    if (result != CH_OK && timeout > 0) {
        struct call call = {.run = run_pull, .uid = number, .out = &hand->element};
        call_strings(&call, Qnil, Qnil);
        result = checked(call_wait(box, &call, timeout), &call.error);
    }
    if (result != CH_OK) return Qnil;
    hand->box = box;
    box->users++;
    return object;
}

/* call-seq: push(queue, element) -> self
 *
 * Puts an element in hand at the end of a named queue, and wakes who waits for it. The element is out of hand then. */
static VALUE queue_push(VALUE self, VALUE which, VALUE element) {
    ch_error error;
    struct box *box = box_of(self, &queue_type);
    uint32_t number = number_of(box, which);
    struct in_hand *hand = hand_of(element);
    int result = ch_queue_push(box->handle, number, &hand->element, &error);
    if (result != CH_INVALID) out_of_hand(hand);
    checked(result, &error);
    return self;
}

/* Takes at most so many elements that are there; an Array. */
static VALUE queue_pull_many(VALUE self, VALUE which, VALUE most) {
    ch_error error;
    struct box *box = box_of(self, &queue_type);
    uint32_t number = number_of(box, which);
    size_t count = 0, room = size_arg(most);
    ch_element some[64];
    if (room > 64) room = 64;
    int result = checked(ch_queue_pull_many(box->handle, number, some, room, &count, &error), &error);
    VALUE all = rb_ary_new();
    for (size_t i = 0; result == CH_OK && i < count; i++) rb_ary_push(all, hand_over(self, box, &some[i]));
    return all;
}

/* How many elements are in a named queue, a moment ago. */
static VALUE queue_len(int count, VALUE *arguments, VALUE self) {
    ch_error error;
    uint64_t len;
    VALUE which;
    struct box *box = box_of(self, &queue_type);
    rb_scan_args(count, arguments, "01", &which);
    checked(ch_queue_len(box->handle, number_of(box, which), &len, &error), &error);
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
    struct in_hand *hand = hand_of(self);
    size_t at = NIL_P(from) ? 0 : size_arg(from);
    if (at > hand->element.len) rb_raise(rb_eIndexError, "offset %zu is beyond the %zu bytes", at, hand->element.len);
    size_t wanted = NIL_P(len) ? hand->element.len - at : size_arg(len);
    if (wanted > hand->element.len - at) wanted = hand->element.len - at;
    return rb_str_new((char *)hand->element.data + at, (long)wanted);
}

/* call-seq: write(bytes, offset = 0) -> self
 *
 * Writes into the element; what does not fit is an IndexError. */
static VALUE element_write(int count, VALUE *arguments, VALUE self) {
    VALUE bytes, to;
    rb_scan_args(count, arguments, "11", &bytes, &to);
    bytes = bytes_arg(bytes);
    size_t at = NIL_P(to) ? 0 : size_arg(to), len = (size_t)RSTRING_LEN(bytes);
    struct in_hand *hand = hand_of(self);
    if (at > hand->element.len || len > hand->element.len - at)
        rb_raise(rb_eIndexError, "%zu bytes at %zu do not fit into %zu", len, at, hand->element.len);
    memcpy((char *)hand->element.data + at, RSTRING_PTR(bytes), len);
    RB_GC_GUARD(bytes);
    return self;
}

/* How many bytes it has. */
static VALUE element_len(VALUE self) { return SIZET2NUM(hand_of(self)->element.len); }
/* Its number, the same in every process. */
static VALUE element_id(VALUE self) { return UINT2NUM(hand_of(self)->element.id); }

/* Whether it is in this object's hand still. */
static VALUE element_is_in_hand(VALUE self) {
    struct in_hand *hand = rb_check_typeddata(self, &element_type);
    return hand->box ? Qtrue : Qfalse;
}

/* Lets it go to the orphans. */
static VALUE element_let_go(VALUE self) {
    ch_error error;
    struct in_hand *hand = hand_of(self);
    int result = ch_queue_let_go(hand->box->handle, &hand->element, &error);
    out_of_hand(hand);
    checked(result, &error);
    return Qnil;
}

void init_queue(void) {
    cQueue = rb_define_class_under(mCommonhold, "Queue", rb_cObject);
    rb_undef_alloc_func(cQueue);
    rb_define_private_method(cHold, "_queue", hold_queue, 2);
    rb_define_method(cQueue, "close", queue_close, 0);
    rb_define_method(cQueue, "name", queue_name, 0);
    rb_define_private_method(cQueue, "_pull", queue_pull, 2);
    rb_define_method(cQueue, "push", queue_push, 2);
    rb_define_method(cQueue, "pull_many", queue_pull_many, 2);
    rb_define_method(cQueue, "size", queue_len, -1);
    rb_define_private_method(cQueue, "_describe", queue_describe, 0);
    cElement = rb_define_class_under(mCommonhold, "Element", rb_cObject);
    rb_undef_alloc_func(cElement);
    rb_define_method(cElement, "read", element_read, -1);
    rb_define_method(cElement, "write", element_write, -1);
    rb_define_method(cElement, "size", element_len, 0);
    rb_define_method(cElement, "id", element_id, 0);
    rb_define_method(cElement, "in_hand?", element_is_in_hand, 0);
    rb_define_method(cElement, "let_go", element_let_go, 0);
}
