/* The frame of the tests: cases that register themselves, checks that say where they failed,
 * places, processes. */
#ifndef CHECK_H
#define CHECK_H

#include <commonhold.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef void (*test_fn)(void);
void test_register(const char *name, test_fn run);

/* A case: `TEST(name) { ... }`. CMakeLists.txt finds it by this line. */
#define TEST(name) \
    static void name(void); \
    __attribute__((constructor)) static void register_##name(void) { test_register(#name, name); } \
    static void name(void)

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

/* Calls with `&E` as the error; it must answer so. */
#define ANSWERS(code, call) \
    do { \
        ch_error E = {0, ""}; \
        int answer_ = (call); \
        (void)E; \
        if (answer_ != (code)) { \
            fprintf(stderr, "%s:%d: %s answered %s (%s), not %s\n", __FILE__, __LINE__, #call, ch_code_name(answer_), \
                    E.message, ch_code_name(code)); \
            exit(1); \
        } \
    } while (0)

#define DONE(call) ANSWERS(CH_OK, call)

/* It must fail so, and say this. */
#define FAILS(expected, says, call) \
    do { \
        ch_error E = {0, ""}; \
        int answer_ = (call); \
        if (answer_ != (expected) || E.code != (expected) || strstr(E.message, says) == NULL) { \
            fprintf(stderr, "%s:%d: %s answered %s (%s), not %s with '%s'\n", __FILE__, __LINE__, #call, \
                    ch_code_name(answer_), E.message, ch_code_name(expected), says); \
            exit(1); \
        } \
    } while (0)

/* A path in this case's own folder, which goes with the process. The last eight stay valid. */
const char *place(const char *name);

/* A hold there, and a map in it. */
ch_hold *new_hold(void);
ch_map *new_map(ch_hold *hold, const char *name, const ch_map_options *options);

/* True if these bytes are this text. */
int is_text(const void *data, size_t len, const char *text);
int bytes_are(const ch_bytes *bytes, const char *text);
int slice_is(ch_slice slice, const char *text);
ch_slice text_slice(const char *text);

/* The hold proves whole, with nothing leaked. */
void whole(ch_hold *hold);

/* Waits until a child ends; it must have ended well. Kills one and waits. */
void ended_well(pid_t child);
void killed(pid_t child);

#endif
