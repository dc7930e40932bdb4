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

struct box *box_of(VALUE object, const rb_data_type_t *type) {
    struct box *box = rb_check_typeddata(object, type);
    if (box->closed || !box->handle) raise_code(CH_CLOSED, "it is closed; open it again");
    return box;
}

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
