/* Boxes around the library's handles; what they promise is in ext.h. All of this runs under the
 * GVL. */
#include "ext.h"

void box_mark(void *box) { rb_gc_mark(((struct box *)box)->parent); }

size_t box_size(const void *box) { return box ? sizeof(struct box) : 0; }

/* May be the end of a whole hold: the next process recovers the work of dead ones. */
static void release(struct box *box) {
    void *handle = box->handle;
    box->handle = NULL;
    uint64_t before = ch_thread_patience(0);
    if (handle) box->release(handle);
    ch_thread_patience(before);
}

/* The collector has found the object unreachable. */
void box_free(void *data) {
    struct box *box = data;
    box->closed = true;
    if (box->users) {
        box->orphaned = true;
        return;
    }
    release(box);
    xfree(box);
}

void box_done(struct box *box) {
    if (--box->users || !box->closed) return;
    release(box);
    if (box->orphaned) xfree(box);
}

void raise_closed(void) { raise_code(CH_CLOSED, "it is closed; open it again"); }

VALUE box_new(VALUE class, const rb_data_type_t *type, VALUE parent, void (*release)(void *)) {
    struct box *box;
    VALUE object = TypedData_Make_Struct(class, struct box, type, box);
    box->parent = parent;
    box->release = release;
    box->patience_ns = CH_FOREVER;
    box->encoding = rb_ascii8bit_encindex();
    if (RB_TYPE_P(parent, T_DATA)) {
        struct box *from = RTYPEDDATA_DATA(parent);
        box->patience_ns = from->patience_ns;
        box->encoding = from->encoding;
    }
    return object;
}

VALUE box_close(VALUE object, const rb_data_type_t *type) {
    struct box *box = rb_check_typeddata(object, type);
    if (!box->closed) {
        box->closed = true;
        if (!box->users) release(box);
    }
    return Qnil;
}

struct ending {
    struct box *box;
    struct call *call;
};

/* Calls of other threads notice within a slice that the box is closed. */
static VALUE end_alone(VALUE data) {
    struct ending *ending = (struct ending *)data;
    while (ending->box->users > 1) rb_thread_wait_for((struct timeval){.tv_usec = 1000});
    ending->call->handle = ending->box->handle;
    call_alone(ending->call);
    return Qnil;
}

static VALUE end_done(VALUE data) {
    struct ending *ending = (struct ending *)data;
    if (ending->call->ran) ending->box->handle = NULL;
    box_done(ending->box);
    return Qnil;
}

VALUE box_end(VALUE object, const rb_data_type_t *type, struct call *call) {
    struct box *box = rb_check_typeddata(object, type);
    if (box->closed || !box->handle) return Qnil;
    struct ending ending = {box, call};
    box->closed = true;
    box->users++;
    rb_ensure(end_alone, (VALUE)&ending, end_done, (VALUE)&ending);
    RB_GC_GUARD(object);
    checked(call->result, &call->error);
    return Qnil;
}
