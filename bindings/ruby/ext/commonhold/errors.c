/* One tree of errors: each class includes the module Commonhold::Error, and descends from what Ruby
 * would raise. */
#include "ext.h"

static struct kind {
    int code;
    const char *name;
    const char *parent;
    VALUE class;
} kinds[] = {
    {CH_NOT_FOUND, "NotFoundError", "KeyError", 0},
    {CH_EXISTS, "ExistsError", "StandardError", 0},
    {CH_FULL, "FullError", "StandardError", 0},
    {CH_TOO_LARGE, "TooLargeError", "ArgumentError", 0},
    {CH_CLOSED, "ClosedError", "IOError", 0},
    {CH_READ_ONLY, "ReadOnlyError", "IOError", 0},
    {CH_PERMISSION, "PermissionError", "IOError", 0},
    {CH_NOT_A_HOLD, "NotAHoldError", "StandardError", 0},
    {CH_VERSION, "VersionError", "StandardError", 0},
    {CH_TRUNCATED, "TruncatedError", "StandardError", 0},
    {CH_DAMAGED, "DamagedError", "StandardError", 0},
    {CH_UNCLEAN, "UncleanError", "StandardError", 0},
    {CH_BUSY, "BusyError", "StandardError", 0},
    {CH_UNSUPPORTED, "UnsupportedError", "StandardError", 0},
    {CH_INVALID, "InvalidError", "ArgumentError", 0},
    {CH_MISMATCH, "MismatchError", "ArgumentError", 0},
    {CH_REENTRANT, "ReentrantError", "ThreadError", 0},
    {CH_TIMED_OUT, "TimedOutError", "StandardError", 0},
    {CH_TOO_MANY_PARTICIPANTS, "TooManyParticipantsError", "StandardError", 0},
    {CH_IO, "SystemError", "IOError", 0},
    {CH_LAPPED, "LappedError", "StandardError", 0},
    {CH_STALE, "StaleError", "StandardError", 0},
    {CH_PANIC, "PanicError", "RuntimeError", 0},
};
#define KINDS (sizeof kinds / sizeof *kinds)

void raise_code(int code, const char *message) {
    VALUE class = rb_eStandardError;
    for (size_t i = 0; i < KINDS; i++)
        if (kinds[i].code == code) class = kinds[i].class;
    VALUE text = rb_utf8_str_new_cstr(message);
    rb_exc_raise(rb_class_new_instance(1, &text, class));
}

void raise_error(const ch_error *error) { raise_code(error->code, error->message); }

int checked(int result, const ch_error *error) {
    if (result > 0) raise_error(error);
    return result;
}

void init_errors(void) {
    /* Every error includes this module: <tt>rescue Commonhold::Error</tt> catches them all. */
    VALUE module = rb_define_module_under(mCommonhold, "Error");
    for (size_t i = 0; i < KINDS; i++) {
        VALUE parent = rb_const_get(rb_cObject, rb_intern(kinds[i].parent));
        kinds[i].class = rb_define_class_under(mCommonhold, kinds[i].name, parent);
        rb_gc_register_mark_object(kinds[i].class);
        rb_include_module(kinds[i].class, module);
        rb_define_const(kinds[i].class, "CODE", INT2FIX(kinds[i].code));
    }
}
