/*
 * A hold is a memory-mapped file that many processes share. Processes in any supported language use
 * its maps, queues, channels and logs at memory speed, without a server.
 *
 *     ch_error error;
 *     ch_hold *hold;
 *     ch_map *stock;
 *     if (ch_hold_open_or_create("shop", NULL, &hold, &error) ||
 *         ch_map_open_or_create(hold, "stock", NULL, &stock, &error)) {
 *         fprintf(stderr, "%s\n", error.message);
 *         return 1;
 *     }
 *     ch_map_set(stock, CH_LIT("apple"), CH_LIT("12 crates"), NULL, NULL);
 *     ch_bytes value = CH_BYTES_INIT;
 *     if (ch_map_get(stock, CH_LIT("apple"), &value, NULL) == CH_OK)
 *         printf("%.*s\n", (int)value.len, (char *)value.data);
 *     ch_bytes_free(&value);
 *     ch_map_free(stock);
 *     ch_hold_free(hold);
 *
 * Link with -lcommonhold, with pkg-config ("commonhold"), or with CMake: find_package(commonhold).
 *
 * ------------------------------------------------------------------------------------------
 * CONVENTIONS for everything below
 * ------------------------------------------------------------------------------------------
 *
 * RESULTS. A function that returns int returns
 *     CH_OK   (0)   done;
 *     CH_NONE (-1)  a negative answer: the key is absent, the queue is empty, the time limit has
 *                   passed, there was nothing to do. Each function states which of these are
 *                   possible;
 *     an error (> 0), one of ch_code. Nothing was changed, unless the function states otherwise.
 * So `if (result > 0)` means "it failed". The codes are the same in every version and language.
 *
 * ERRORS. The last parameter of such a function is a `ch_error *`, which may be NULL. An error
 * fills it in; otherwise it is not touched. Its message names the object, the problem and the
 * remedy. There is no "last error" anywhere: the library has no global state. Every function can
 * fail with CH_INVALID (a required pointer is NULL, a handle is of another kind, a name is not
 * UTF-8) and with CH_PANIC (a bug in the library; please report it). These two are not repeated
 * below.
 *
 * HANDLES (`ch_hold *`, `ch_map *` and so on) are returned in an out parameter and belong to the
 * caller, who frees each with the function for its type. Freeing NULL does nothing. A freed handle
 * must not be used; NULL, or a handle of another kind, is CH_INVALID. A handle keeps the handle
 * that it came from alive: the hold may be freed before its maps. The hold's slot in the table of
 * participants is released when the last handle that came from it is freed. ch_hold_close() closes
 * everything that came from a handle at once: later uses return CH_CLOSED. The handles must still
 * be freed. An out parameter for a handle is set to NULL first, so it is NULL after an error.
 *
 * BYTES that a function takes are a pointer and a length; NULL with the length 0 means no bytes.
 * They are copied before the function returns, and must not change in the meantime. Keys, values
 * and messages can be any bytes, including NULs. More than 2^32 - 1 bytes are CH_TOO_LARGE, which
 * is detected before any byte is read. Where bytes are optional, the parameter is a `const ch_slice
 * *`, and NULL means none.
 *
 * BYTES that a function returns are
 *   - copied to a `ch_bytes`: a buffer of the caller's that grows. Begin with `ch_bytes value =
 *     CH_BYTES_INIT;`, use it for any number of calls, and end with ch_bytes_free(). The memory is
 *     reused. After a result other than CH_OK the contents are undefined, unless the function
 *     states otherwise; or
 *   - copied to the caller's memory (ch_map_get_into()); or
 *   - shown in place, in a `ch_slice`, for as long as the function states. No NUL follows them.
 * Out parameters for numbers, and `ch_bytes *` for reports, may be NULL, unless they are the only
 * purpose of the function.
 *
 * NAMES and paths end with a NUL. The name of a map, queue, channel or log is UTF-8, 1 to 200
 * bytes. A bare name (`shop`) stands for a hold in memory, in $COMMONHOLD_DIR or else /dev/shm. A
 * name that contains a slash or ends in `.hold` is a path, which may be any bytes.
 *
 * OPTIONS are structures that begin with their own size, which a macro sets. A zero in any other
 * member stands for its default:
 *     ch_map_options options = CH_MAP_OPTIONS_INIT;
 *     ch_map_options options = {.size = sizeof(ch_map_options), .mode = CH_CACHE}; (the same, in C)
 * NULL stands for all defaults. The size lets a program work with another version of the library:
 * members that the program does not know have their defaults. Members that the library does not
 * know must be zero; otherwise, and for an impossible size such as 0, the call is CH_INVALID.
 *
 * TIME. `timeout_ns` and the like are nanoseconds; CH_FOREVER means no limit. Functions with `try_`
 * in their name never wait for data; those with `_timeout` take a time limit. lock_timeout_ns of
 * the hold, and ch_thread_patience() of a thread, limit the wait for a lock.
 *
 * THREADS. Any handle may be used from any thread. Holds, maps, queues, channels, logs, origins,
 * replicas and journals may be used by many threads at the same time. Producers, consumers,
 * iterators, followers, readers, collectors and ch_values are for one thread at a time: a
 * concurrent second call returns CH_BUSY and does nothing. Freeing a handle while another thread
 * uses it is a bug in the program, as with any memory.
 *
 * FORK. A forked child can continue to use holds, maps, queues, channels and logs. It becomes a
 * separate participant with its first writing operation. Exclusive roles stay with the parent: in
 * the child, producers and consumers return CH_CLOSED, a collector CH_BUSY, and elements in flight,
 * origins, replicas and journals CH_INVALID. The child should free these handles; this does not
 * affect the parent.
 *
 * DEATH. Any process may be killed at any instruction. Each of its operations has either happened
 * or not. Readers never wait for it, and the next writer recovers its unfinished work. A process
 * that is suspended (SIGSTOP) in the middle of a change delays only processes that need its lock
 * (see lock_timeout_ns). The sections on queues, channels and logs state the effect of a death on
 * messages.
 *
 * SIGNALS. A signal handler may call only ch_log_write(). Signals do not interrupt calls that wait.
 * A program that must react to them waits in slices, with a timeout for data and
 * ch_thread_patience() for locks, and checks in between.
 *
 * CALLBACKS receive the `user` pointer that was passed with them. They must return normally:
 * neither longjmp nor a C++ exception may pass through the library. They run under no lock and may
 * use the library, unless the function states otherwise.
 *
 * Errors that are not repeated below: every function on a structure in a hold can return CH_CLOSED
 * (the hold was closed) and CH_NOT_FOUND (the structure was dropped meanwhile). Reading can return
 * CH_DAMAGED (the contents of the file contradict each other). Writing can in addition return
 * CH_READ_ONLY (the hold was opened so, or the map is a replica's), CH_FULL (nothing was lost; the
 * old value stays), CH_TIMED_OUT (lock_timeout_ns has passed), CH_REENTRANT (from a signal handler
 * inside another operation), CH_BUSY (this thread has frozen the hold), and in the first operation
 * of a forked child CH_TOO_MANY_PARTICIPANTS. "As reading" and "as writing" below mean these.
 */
#ifndef COMMONHOLD_H
#define COMMONHOLD_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CH_VERSION_MAJOR 0
#define CH_VERSION_MINOR 1
#define CH_VERSION_PATCH 0

/* Waits without limit. */
#define CH_FOREVER UINT64_MAX

/* A string literal as pointer and length, without its NUL. */
#define CH_LIT(literal) ("" literal), (sizeof(literal) - 1)

#if defined(__GNUC__)
#define CH_PRINTF(text, rest) __attribute__((__format__(__printf__, text, rest)))
#else
#define CH_PRINTF(text, rest)
#endif

typedef enum ch_code {
    CH_NONE = -1, /* a negative answer; see above */
    CH_OK = 0,
    CH_NOT_FOUND = 1,              /* the hold, or the structure in it, does not exist */
    CH_EXISTS = 2,                 /* it already exists */
    /* no room: the size limit, the file system, a fixed number of places */
    CH_FULL = 3,
    CH_TOO_LARGE = 4,              /* longer than the structure allows */
    CH_CLOSED = 5,                 /* the handle is closed */
    CH_READ_ONLY = 6,              /* it must not be written to */
    CH_PERMISSION = 7,             /* the operating system refused access */
    CH_NOT_A_HOLD = 8,             /* the file is not a hold */
    CH_VERSION = 9,                /* the file has a format that this version cannot read */
    CH_TRUNCATED = 10,             /* the file is shorter than its header states */
    CH_DAMAGED = 11,               /* the contents contradict each other */
    /* the system stopped while the file hold was open: see ch_hold_salvage() */
    CH_UNCLEAN = 12,
    CH_BUSY = 13,                  /* another user has exclusive use of it */
    CH_UNSUPPORTED = 14,           /* the file system does not support holds */
    CH_INVALID = 15,               /* a name, option or argument is not valid */
    CH_MISMATCH = 16,              /* it has other options, or is of another kind */
    CH_REENTRANT = 17,             /* inside another operation of the same thread */
    /* the live holder of a lock keeps it; the message names it */
    CH_TIMED_OUT = 18,
    /* live processes take all slots for writing handles */
    CH_TOO_MANY_PARTICIPANTS = 19,
    CH_IO = 20,                    /* another error of the operating system */
    CH_LAPPED = 21,                /* a follower was too slow: its next change was overwritten */
    CH_STALE = 22,                 /* a replica's contents are older than the reader allows */
    CH_PANIC = 99                  /* a bug in the library itself */
} ch_code;

typedef struct ch_error {
    int code;          /* as the call returned it */
    char message[508]; /* UTF-8, ends with a NUL */
} ch_error;

/* Bytes in place. */
typedef struct ch_slice {
    const void *data;
    size_t len;
} ch_slice;

/* A buffer that the caller owns and that grows. The library allocates its memory: free it only with
 * ch_bytes_free(). */
typedef struct ch_bytes {
    void *data;
    size_t len;
    size_t capacity; /* for the library */
} ch_bytes;

#ifdef __cplusplus
#define CH_BYTES_INIT \
    ch_bytes { nullptr, 0, 0 }
#else
#define CH_BYTES_INIT ((ch_bytes){NULL, 0, 0})
#endif

typedef struct ch_hold ch_hold;
typedef struct ch_map ch_map;
typedef struct ch_pair ch_pair;
typedef struct ch_values ch_values;
typedef struct ch_iter ch_iter;
typedef struct ch_follower ch_follower;
typedef struct ch_queue ch_queue;
typedef struct ch_notifier ch_notifier;
typedef struct ch_channel ch_channel;
typedef struct ch_producer ch_producer;
typedef struct ch_consumer ch_consumer;
typedef struct ch_log ch_log;
typedef struct ch_reader ch_reader;
typedef struct ch_collector ch_collector;
typedef struct ch_origin ch_origin;
typedef struct ch_replica ch_replica;
typedef struct ch_journal ch_journal;
typedef struct ch_hold_origin ch_hold_origin;
typedef struct ch_hold_replica ch_hold_replica;

/* The version of the library at run time, such as "0.1.0". Valid forever. */
const char *ch_version(void);

/* Limits how long calls of this thread wait for a lock whose holder is alive, if lock_timeout_ns is
 * longer; CH_FOREVER, the initial value, means no limit. Returns the previous limit. With 0, calls
 * do not even recover the work of a dead participant. A call that would have to wait longer returns
 * CH_TIMED_OUT and has done nothing, so the program can repeat it with a higher limit. For example,
 * an interpreter first tries with 0 while it holds its global lock, and then waits without that
 * lock in slices, between which it checks for signals. */
uint64_t ch_thread_patience(uint64_t limit_ns);

/* The name of a code, such as "not found"; "unknown" for others. Valid forever. */
const char *ch_code_name(int code);

/* Replaces the contents of a buffer; appends to them; makes them longer (with zeros) or shorter.
 * For callbacks that fill a buffer. Errors: CH_TOO_LARGE. */
int ch_bytes_set(ch_bytes *bytes, const void *data, size_t len, ch_error *error);
int ch_bytes_append(ch_bytes *bytes, const void *data, size_t len, ch_error *error);
int ch_bytes_resize(ch_bytes *bytes, size_t len, ch_error *error);

/* Frees the memory of a buffer, which is then as after CH_BYTES_INIT. NULL and an empty buffer
 * are allowed. */
void ch_bytes_free(ch_bytes *bytes);

/* ---- The hold -------------------------------------------------------------------------------
 *
 * One file, in memory or on a disk. On a disk it survives a system restart if it was closed
 * cleanly. */

typedef struct ch_hold_options {
    size_t size;                  /* CH_HOLD_OPTIONS_INIT sets it */
    /* creation: the most bytes the file may have, 1 MiB to 256 GiB; 0: 64 GiB */
    uint64_t max_bytes;
    /* how long to wait for a lock whose holder lives; 0: without limit */
    uint64_t lock_timeout_ns;
    const char *directory;        /* where bare names live; NULL: $COMMONHOLD_DIR, else /dev/shm */
    uint32_t mode;                /* creation: permission bits, with 0600 among them; 0: 0600 */
    uint32_t read_only;           /* 1: takes no slot among the participants, writes nothing */
    /* creation: 1: delete the file when its last user ends, even by a crash; a forked child counts
     * as a user (docs/operations/environment.md lists exceptions) */
    uint32_t delete_on_last_exit;
    uint32_t reserved; /* zero */
} ch_hold_options;

#define CH_HOLD_OPTIONS_INIT \
    { sizeof(ch_hold_options), 0, 0, NULL, 0, 0, 0, 0 }

/* Opens a hold; creates one; opens a hold or creates it. Creation is atomic: no process ever
 * sees an incomplete hold. Errors of opening: CH_NOT_FOUND, CH_PERMISSION, CH_READ_ONLY,
 * CH_NOT_A_HOLD, CH_VERSION, CH_TRUNCATED, CH_DAMAGED, CH_UNCLEAN (a file hold after a system
 * crash), CH_BUSY, CH_UNSUPPORTED, CH_TOO_MANY_PARTICIPANTS. Errors of creating: CH_EXISTS,
 * CH_FULL, CH_PERMISSION, CH_UNSUPPORTED. */
int ch_hold_open(const char *name, const ch_hold_options *options, ch_hold **hold, ch_error *error);
int ch_hold_create(const char *name, const ch_hold_options *options, ch_hold **hold, ch_error *error);
int ch_hold_open_or_create(const char *name, const ch_hold_options *options, ch_hold **hold, ch_error *error);

/* Closes the hold for everything that came from this handle, in all threads; waits for running
 * operations. Later ones, and a second closing, are CH_CLOSED. The handles must still be freed. */
int ch_hold_close(ch_hold *hold, ch_error *error);

/* Frees the handle. Maps and other handles that came from it remain usable. */
void ch_hold_free(ch_hold *hold);

/* The path of the file. Valid as long as the handle. */
int ch_hold_path(const ch_hold *hold, ch_slice *path, ch_error *error);

/* The hold's identity, from its creation on. */
int ch_hold_uuid(const ch_hold *hold, uint8_t (*uuid)[16], ch_error *error);

typedef struct ch_hold_stat_t {
    uint64_t file_bytes;   /* length of the file */
    uint64_t memory_bytes; /* memory or disk space in use */
    uint64_t used_bytes;   /* bytes in use */
    uint64_t free_bytes;   /* bytes in the file that are free for reuse */
    uint64_t max_bytes;    /* the limit */
    uint32_t participants; /* live writable handles */
    uint32_t maps;
    uint32_t others; /* queues, channels, logs */
    uint32_t format; /* version of the file's format */
    uint32_t in_memory;
} ch_hold_stat_t;

/* Sizes and counts. Errors: CH_CLOSED; those of the file system. */
int ch_hold_stat(const ch_hold *hold, ch_hold_stat_t *stat, ch_error *error);

typedef enum ch_about {
    CH_ABOUT_HOLD = 0,         /* the results of ch_hold_stat(), and more */
    CH_ABOUT_STRUCTURES = 1,   /* queues, channels and logs, by name */
    CH_ABOUT_PARTICIPANTS = 2, /* all participants, live or dead */
    CH_ABOUT_REPORTS = 3       /* the reports of this hold's origins, replicas and journals */
} ch_about;

/* The same information as JSON, and the lists in the hold, as `hold stat --format json` and `hold
 * list` print them. `what` is a ch_about. */
int ch_hold_describe(const ch_hold *hold, uint32_t what, ch_bytes *json, ch_error *error);

/* Recovers dead participants, as opening and closing also do; `recovered` gets their number.
 * Errors: as writing. */
int ch_hold_sweep(const ch_hold *hold, size_t *recovered, ch_error *error);

typedef struct ch_check_report {
    uint64_t records;   /* pairs looked at */
    uint64_t allocated; /* records, segments and blocks that are allocated */
    uint64_t reachable; /* ... and that some structure reaches */
    uint64_t in_flight; /* ... and that a participant is currently writing or freeing */
    uint64_t segments;
    uint32_t maps;
    uint32_t others;
    uint32_t problems; /* number of faults, each a line of text */
} ch_check_report;

/* Checks everything in the hold. CH_OK: it is sound. CH_NONE: it is not, and `problems` (may be
 * NULL) has a line for each fault. Writers wait meanwhile, about a second per ten million keys;
 * readers do not. Errors: as writing. */
int ch_hold_check(const ch_hold *hold, ch_check_report *report, ch_bytes *problems, ch_error *error);

/* Returns memory that has been free for a while to the system; `bytes` gets the amount. Errors: as
 * writing. */
int ch_hold_trim(const ch_hold *hold, uint64_t *bytes, ch_error *error);

typedef int (*ch_frozen_fn)(void *user);

/* Calls back while no other thread or process changes any map of the hold; readers, queues,
 * channels and logs continue. For a consistent view of several keys. Writing to the hold in the
 * callback is CH_BUSY. `answer` gets its return value. If the process is killed meanwhile,
 * writers continue. Errors: as writing; CH_BUSY inside another such callback. */
int ch_hold_with_frozen(const ch_hold *hold, ch_frozen_fn call, void *user, int *answer, ch_error *error);

typedef struct ch_backup_report {
    uint64_t pairs;
    uint64_t bytes;
    double paused_ms; /* for how long writers were kept waiting */
    uint32_t maps;
    uint32_t left_out; /* queues, channels and logs, which carry messages and are not copied */
} ch_backup_report;

/* Writes a copy of all maps, as they are at one moment, to a new file; other processes continue
 * to write. Errors: CH_EXISTS if the file exists; as writing; those of files. */
int ch_hold_backup(const ch_hold *hold, const char *to, ch_backup_report *report, ch_error *error);

/* Creates a hold from a backup; no process sees it before it is complete. Errors: CH_EXISTS;
 * CH_DAMAGED or CH_TRUNCATED if the backup is incomplete; CH_FULL. */
int ch_hold_restore(const char *backup, const char *name, uint32_t *maps, uint64_t *pairs, ch_error *error);

typedef struct ch_salvage_report {
    uint64_t kept;        /* pairs saved */
    uint64_t superseded;  /* intact records that a newer one replaces */
    uint64_t dropped;     /* records that fail their checksum: lost */
    uint64_t missing;     /* pairs in the index whose records are missing */
    uint64_t cut_off;     /* bytes missing at the end of the file */
    uint64_t undecidable; /* pairs saved that have no checksum */
    uint32_t maps;
} ch_salvage_report;

/* Saves the intact pairs of a file hold that was open when the system stopped. DELETED KEYS MAY
 * RETURN. The old file is kept next to the new one; `notes` (may be NULL) gets its name, and
 * further remarks. Errors: CH_BUSY if any process has it open; CH_NOT_A_HOLD; those of files. */
int ch_hold_salvage(const char *name, ch_salvage_report *report, ch_bytes *notes, ch_error *error);

/* Deletes the file of a hold. Errors: CH_NOT_FOUND; CH_NOT_A_HOLD (other files are never
 * deleted); CH_BUSY if a process has it open, unless `force` is not 0. Processes that have it
 * open continue to use it; its memory is freed when the last of them closes it. */
int ch_hold_remove(const char *name, uint32_t force, ch_error *error);

/* The path that a name stands for. `directory` may be NULL. */
int ch_hold_resolve(const char *name, const char *directory, ch_bytes *path, ch_error *error);

/* The holds in a directory (NULL: where bare names live), as JSON; also those that cannot be
 * opened, with the reason. */
int ch_hold_list(const char *directory, ch_bytes *json, ch_error *error);

/* ---- Maps -----------------------------------------------------------------------------------
 *
 * Hash tables, bytes to bytes. Readers never wait, lock or write (except one bit per pair of a
 * cache). Every change of one key is atomic. A uid is a 32-bit id of a key: free, and valid as long
 * as the key is present. After that it may belong to another key, so reading by uid returns the
 * key, and writing by uid requires it. */

typedef enum ch_map_mode {
    CH_GENERAL = 0, /* keys and values of any length, together at most 2^32 - 1 bytes */
    /* every key has key_bytes, every value value_bytes; short pairs are kept in the index itself */
    CH_FIXED = 1,
    CH_CACHE = 2    /* pairs may be evicted, and expire */
} ch_map_mode;

typedef struct ch_map_options {
    size_t size;          /* CH_MAP_OPTIONS_INIT sets it */
    uint32_t mode;        /* a ch_map_mode */
    uint32_t key_bytes;   /* CH_FIXED: at least 1 */
    uint32_t value_bytes; /* CH_FIXED */
    /* this handle's own hint for values that grow: room for at least this many bytes */
    uint32_t value_room;
    uint64_t max_bytes;   /* CH_CACHE: maximum size of the records in bytes; 0: no limit */
    uint64_t max_entries; /* CH_CACHE: maximum number of pairs; 0: no limit */
    /* CH_CACHE: how long pairs live by default, in milliseconds; 0: without limit */
    uint64_t ttl_ms;
} ch_map_options;

#define CH_MAP_OPTIONS_INIT \
    { sizeof(ch_map_options), 0, 0, 0, 0, 0, 0, 0 }

/* The maps of a hold by name. Maps, queues, channels and logs share one space of names.
 *
 * Opens a map, whatever its options; opens a map or creates it; creates a map. Errors of opening:
 * CH_NOT_FOUND, and as reading. Errors of opening or creating: CH_MISMATCH if the map exists with
 * other options; CH_NOT_FOUND if it does not exist and the hold is read-only; as writing. Errors of
 * creating: CH_EXISTS; as writing. CH_MISMATCH also if the name is that of another kind of
 * structure. */
int ch_map_open(const ch_hold *hold, const char *name, ch_map **map, ch_error *error);
int ch_map_open_or_create(const ch_hold *hold, const char *name, const ch_map_options *options,
                          ch_map **map, ch_error *error);
int ch_map_create(const ch_hold *hold, const char *name, const ch_map_options *options,
                  ch_map **map, ch_error *error);

/* Drops a map and everything in it. CH_NONE: there is none. Other handles on it return
 * CH_NOT_FOUND from then on. Errors: CH_MISMATCH if it is another kind of structure; as writing. */
int ch_map_drop(const ch_hold *hold, const char *name, ch_error *error);

/* The maps in the hold as JSON, sorted by name, without Commonhold's own, whose names begin with a
 * dot. Errors: as reading. */
int ch_map_list(const ch_hold *hold, ch_bytes *json, ch_error *error);

/* Gives a map a stream. From then on its changes can be followed (ch_map_follow()), and the stream
 * keeps the last `bytes` of them (64 KiB to 4 GiB, rounded up to a power of two). A stream of another
 * size begins again, and its followers get CH_LAPPED. CH_NONE: the map has a stream of this size, or
 * of any size and `bytes` is 0; it stays as it is. Without a stream, 0 stands for 64 MiB.
 * Errors: CH_NOT_FOUND, CH_MISMATCH, CH_INVALID (too many bytes), as writing. */
int ch_map_begin_stream(const ch_hold *hold, const char *name, uint64_t bytes, ch_error *error);

void ch_map_free(ch_map *map);

/* The map's name; valid as long as the handle. Its options, into a structure that begins with
 * CH_MAP_OPTIONS_INIT. CH_OK if only a replica writes to the map, else CH_NONE. */
int ch_map_name(const ch_map *map, ch_slice *name, ch_error *error);
int ch_map_get_options(const ch_map *map, ch_map_options *options, ch_error *error);
int ch_map_is_replica(const ch_map *map, ch_error *error);

/* A copy of the value of a key. CH_NONE: absent, and `value` is empty. Errors: as reading;
 * CH_INVALID for a length that a fixed-length map does not have. */
int ch_map_get(const ch_map *map, const void *key, size_t key_len, ch_bytes *value, ch_error *error);

/* The same into the caller's memory, without an allocation: as much of the value as fits.
 * `value_len` gets the length of the whole value; if it is more than `room_len`, the rest is
 * missing. */
int ch_map_get_into(const ch_map *map, const void *key, size_t key_len, void *room, size_t room_len, size_t *value_len,
                    ch_error *error);

/* CH_OK if the key is present, else CH_NONE. */
int ch_map_contains(const ch_map *map, const void *key, size_t key_len, ch_error *error);

/* The uid of a key. CH_NONE: the key is absent. */
int ch_map_uid(const ch_map *map, const void *key, size_t key_len, uint32_t *uid, ch_error *error);

/* Memory for the values that ch_map_get_many() finds; reusable. */
int ch_values_new(ch_values **values, ch_error *error);
void ch_values_free(ch_values *values);

/* Looks up `count` keys at once, several times faster than one by one. found[i] is the value of
 * keys[i], with data NULL if it is absent; valid until `values` is used again or freed.
 * `present` gets the number of present keys. Each lookup is atomic, the batch is not. Errors: as
 * ch_map_get(). */
int ch_map_get_many(const ch_map *map, const ch_slice *keys, size_t count, ch_values *values, ch_slice *found,
                    size_t *present, ch_error *error);

/* Sets the value of a key, present or not. Errors: as writing; CH_TOO_LARGE; CH_INVALID for a
 * length that a fixed-length map does not have. The same for every other change. */
int ch_map_set(const ch_map *map, const void *key, size_t key_len, const void *value, size_t value_len, uint32_t *uid,
               ch_error *error);

/* Sets a value that expires after `ttl_ms` milliseconds. Errors: CH_MISMATCH if the map is not a
 * cache. */
int ch_map_set_with_ttl(const ch_map *map, const void *key, size_t key_len, const void *value, size_t value_len,
                   uint64_t ttl_ms, uint32_t *uid, ch_error *error);

/* Another handle on the same map: every value that it writes, by any function, expires after `ttl_ms`
 * milliseconds. Errors: CH_MISMATCH if the map is not a cache. */
int ch_map_with_ttl(const ch_map *map, uint64_t ttl_ms, ch_map **with_ttl, ch_error *error);

/* Sets keys[i] to values[i], in order. Each is atomic, the batch is not: after an error those
 * before it are set. */
int ch_map_set_many(const ch_map *map, const ch_slice *keys, const ch_slice *values, size_t count, ch_error *error);

/* The same without the first `*done` pairs; `*done` counts the pairs that are set, so that the
 * same call continues after an error. */
int ch_map_set_many_from(const ch_map *map, const ch_slice *keys, const ch_slice *values, size_t count, size_t *done,
                         ch_error *error);

/* Sets a value only if the key is absent (CH_NONE: it is present), or only if it is present
 * (CH_NONE: absent). */
int ch_map_add(const ch_map *map, const void *key, size_t key_len, const void *value, size_t value_len, uint32_t *uid,
               ch_error *error);
int ch_map_replace(const ch_map *map, const void *key, size_t key_len, const void *value, size_t value_len,
                   uint32_t *uid, ch_error *error);

/* Changes a key from one state to another if it is in the first. NULL stands for "absent", on
 * both sides. CH_NONE: it was in another state. A value that the second function sets expires
 * after `ttl_ms` milliseconds (CH_MISMATCH if the map is not a cache). */
int ch_map_compare_exchange(const ch_map *map, const void *key, size_t key_len, const ch_slice *expected,
                            const ch_slice *replacement, ch_error *error);
int ch_map_compare_exchange_with_ttl(const ch_map *map, const void *key, size_t key_len, const ch_slice *expected,
                                const ch_slice *replacement, uint64_t ttl_ms, ch_error *error);

/* The milliseconds until a pair expires, at least 1; CH_FOREVER if it never does, as in maps that
 * are not caches. CH_NONE: absent. Does not count as a use of the pair. */
int ch_map_remaining_ttl(const ch_map *map, const void *key, size_t key_len, uint64_t *ttl_ms, ch_error *error);

/* Makes a pair expire `ttl_ms` milliseconds from now, and keeps its value, in one atomic step.
 * CH_NONE: absent. Errors: CH_MISMATCH if the map is not a cache. */
int ch_map_touch(const ch_map *map, const void *key, size_t key_len, uint64_t ttl_ms, ch_error *error);

/* Deletes a key; CH_NONE: absent. ch_map_take() returns the value that it had, in one atomic
 * step. */
int ch_map_delete(const ch_map *map, const void *key, size_t key_len, ch_error *error);
int ch_map_take(const ch_map *map, const void *key, size_t key_len, ch_bytes *value, ch_error *error);

/* Adds to a value of 8 bytes, a little-endian number; an absent key counts as 0. `sum` gets the
 * new number, which wraps around. Errors: CH_MISMATCH if the value has another length. */
int ch_map_increment(const ch_map *map, const void *key, size_t key_len, int64_t by, int64_t *sum, ch_error *error);

/* A handle on the pair with a key, which may be absent: for a key that a thread reads or writes
 * often. It hashes the key once and remembers where the pair is. Each call checks that the pair is
 * still there; if not, it looks the key up and remembers the new place. Every call has the effect
 * and the errors of the map's function for the same key. Any value is read faster. It is written
 * faster in fixed-length maps whose pairs have at most 32 bytes, and in general maps in memory if
 * it has 1, 2, 4 or 8 bytes, keeps its length, and the key's length is a multiple of it. One thread
 * at a time may use the handle; two at once: CH_BUSY. Make one for each thread. */
int ch_map_pair(const ch_map *map, const void *key, size_t key_len, ch_pair **pair, ch_error *error);
void ch_pair_free(ch_pair *pair);

/* As ch_map_get(), ch_map_get_into(), ch_map_set() and ch_map_increment(). */
int ch_pair_get(const ch_pair *pair, ch_bytes *value, ch_error *error);
int ch_pair_get_into(const ch_pair *pair, void *room, size_t room_len, size_t *value_len, ch_error *error);
int ch_pair_set(const ch_pair *pair, const void *value, size_t value_len, uint32_t *uid, ch_error *error);
int ch_pair_increment(const ch_pair *pair, int64_t by, int64_t *sum, ch_error *error);

/* Computes a new value. `old` has data NULL if the key is absent. CH_OK: the key gets the
 * contents of `replacement` (ch_bytes_set()). CH_NONE: the key is deleted. Any other code:
 * nothing is changed, and the update returns this code. */
typedef int (*ch_update_fn)(void *user, ch_slice old, ch_bytes *replacement);

/* Reads a value, calls back for the new one, and sets it if the key has not changed meanwhile;
 * otherwise repeats this. CH_NONE: the key is absent afterwards. */
int ch_map_update(const ch_map *map, const void *key, size_t key_len, ch_update_fn call, void *user, uint32_t *uid,
                  ch_error *error);

/* By uid. Reading returns key and value (each may be NULL); CH_NONE: no key has this uid now.
 * Writing happens if the uid still belongs to `key`; otherwise it is CH_NONE. */
int ch_map_get_uid(const ch_map *map, uint32_t uid, ch_bytes *key, ch_bytes *value, ch_error *error);
int ch_map_set_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len, const void *value,
                   size_t value_len, ch_error *error);
int ch_map_delete_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len, ch_error *error);
int ch_map_take_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len, ch_bytes *value,
                    ch_error *error);
int ch_map_increment_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len, int64_t by, int64_t *sum,
                         ch_error *error);
int ch_map_compare_exchange_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len,
                                const ch_slice *expected, const ch_slice *replacement, ch_error *error);
int ch_map_update_uid(const ch_map *map, uint32_t uid, const void *key, size_t key_len, ch_update_fn call, void *user,
                      ch_error *error);

/* A random pair, each with about the same probability. CH_NONE: the map is empty. */
int ch_map_random_pair(const ch_map *map, ch_bytes *key, ch_bytes *value, ch_error *error);

/* The number of pairs; reads one line per segment, about a millisecond per million keys. */
int ch_map_len(const ch_map *map, uint64_t *len, ch_error *error);

/* Deletes every key that is present at the beginning, unless it is set again meanwhile; not one
 * atomic step. */
int ch_map_clear(const ch_map *map, uint64_t *deleted, ch_error *error);

/* Iterates over all pairs, or over all keys alone. Keys that are present throughout are seen
 * exactly once, whatever other processes do; keys that come or go may or may not be seen. Holds
 * no lock. `cursor` is 0, or comes from ch_iter_cursor(). */
int ch_map_iter(const ch_map *map, uint64_t cursor, ch_iter **iter, ch_error *error);
int ch_map_keys(const ch_map *map, ch_iter **iter, ch_error *error);
void ch_iter_free(ch_iter *iter);

/* The next pair; valid until the next call, or until the iterator is freed. CH_NONE: the end.
 * Errors: as reading. */
int ch_iter_next(ch_iter *iter, ch_slice *key, ch_slice *value, ch_error *error);

/* The cursor at which an iteration can resume, here or in another process, without missing a
 * pair. CH_NONE: some pairs will come again. */
int ch_iter_cursor(ch_iter *iter, uint64_t *cursor, ch_error *error);

/* The position of a change in a map's stream. A program may store it, also as text, and return
 * to it as long as the stream has it. */
typedef struct ch_position {
    uint64_t stream; /* the stream's own number: no other stream anywhere has it */
    uint64_t offset; /* bytes from its beginning */
} ch_position;

int ch_position_text(const ch_position *position, ch_bytes *text, ch_error *error);
int ch_position_parse(const char *text, ch_position *position, ch_error *error);

typedef struct ch_map_stat_t {
    uint64_t len; /* pairs */
    uint64_t segments;
    uint64_t index_bytes;
    uint64_t record_bytes;
    /* CH_CACHE: lookups that found a pair, that did not, pairs that expired, that were evicted */
    uint64_t hits;
    uint64_t misses;
    uint64_t expired;
    uint64_t evicted;
    uint64_t stream_bytes; /* bytes of changes that are kept; 0 if there is no stream */
    ch_position stream_end;
    double load; /* share of slots in use */
    uint32_t depth;
    uint32_t replica; /* 1 if only a replica writes it */
} ch_map_stat_t;

/* Statistics; reads every segment. The same as JSON. */
int ch_map_stat(const ch_map *map, ch_map_stat_t *stat, ch_error *error);
int ch_map_describe(const ch_map *map, ch_bytes *json, ch_error *error);

/* Waits until every change of the map that was made before this call is in its journal and
 * durable. Errors: CH_NOT_FOUND if the map has no live journal, CH_IO with the error of the
 * journal, CH_TIMED_OUT, as writing. */
int ch_map_sync(const ch_map *map, uint64_t timeout_ns, ch_position *position, ch_error *error);

/* The same for the changes before a position, which ch_follower_end() returns. It allows waiting in
 * several calls. */
int ch_map_sync_to(const ch_map *map, const ch_position *end, uint64_t timeout_ns, ch_error *error);

/* Waits until at least `count` replicas of the map have applied every change that was made before
 * this call, so that their readers see it; it need not be on a disk. With `end`, which
 * ch_follower_end() returns: every change before that position; it allows waiting in several calls.
 * `applied` (may be NULL) receives the number of replicas that have. Replicas of relays do not
 * count; a replica that is disconnected counts if it had reported before that it has the changes.
 * Errors: CH_NOT_FOUND if the map has no stream, CH_TIMED_OUT, as writing. */
int ch_map_wait_for_replicas(const ch_map *map, const ch_position *end, uint64_t count, uint64_t timeout_ns,
                             uint64_t *applied, ch_error *error);

/* The same for the replica of this name (ch_replica_options, `hold replica --name`); if several have
 * it, for one of them. Errors: also CH_INVALID for a name that no replica can have. */
int ch_map_wait_for_replica(const ch_map *map, const ch_position *end, const char *name, uint64_t timeout_ns,
                            ch_error *error);

/* The age of a replica's contents: everything that the first origin had so long ago is here. It is
 * measured by the clocks of this machine and of the first origin's machine, also behind relays, and
 * grows while any link between them is down. CH_NONE: the map is not a replica, or its replica does
 * not know the age. */
int ch_map_lag(const ch_map *map, uint64_t *lag_ns, ch_error *error);

/* Checks that a replica's contents are at most this old; reads that follow see these contents or
 * later ones. A map that is not a replica is never too old. With CH_FOREVER, any known age is
 * accepted. Errors: CH_STALE if the contents are older, or if their age is not known; as reading. */
int ch_map_ensure_fresh(const ch_map *map, uint64_t max_age_ns, ch_error *error);

/* As ch_map_get(), unless the value comes from a replica's contents that are older than this when the
 * call returns. Errors: CH_STALE; those of ch_map_get(). */
int ch_map_get_fresh(const ch_map *map, const void *key, size_t key_len, uint64_t max_age_ns, ch_bytes *value,
                     ch_error *error);

/* A digest of the whole map, as text: equal for maps with the same pairs, here and elsewhere. */
int ch_map_digest(const ch_map *map, ch_bytes *digest, ch_error *error);

/* ---- Lists as values ------------------------------------------------------------------------
 *
 * Each change is one atomic step, and writes the whole list; for lists of a few kilobytes. An
 * absent key is an empty list. Errors: CH_MISMATCH if the value is not a list; as writing. */

int ch_list_push(const ch_map *map, const void *key, size_t key_len, const void *element, size_t element_len,
                 uint32_t *len, ch_error *error);
int ch_list_unshift(const ch_map *map, const void *key, size_t key_len, const void *element, size_t element_len,
                    uint32_t *len, ch_error *error);
/* The last, or the first, element. CH_NONE: there is none. */
int ch_list_pop(const ch_map *map, const void *key, size_t key_len, ch_bytes *element, ch_error *error);
int ch_list_shift(const ch_map *map, const void *key, size_t key_len, ch_bytes *element, ch_error *error);
int ch_list_len(const ch_map *map, const void *key, size_t key_len, uint32_t *len, ch_error *error);

/* Calls back for each element, from the first, as they were at one moment; ends early (CH_NONE)
 * if the callback returns anything but 0. */
typedef int (*ch_each_fn)(void *user, ch_slice element);
int ch_list_each(const ch_map *map, const void *key, size_t key_len, ch_each_fn call, void *user, ch_error *error);

/* ---- Following a map's changes --------------------------------------------------------------
 *
 * Each change, in the order of each key. No writer waits for a follower, and a killed follower
 * delays no other process. To have the whole map and stay up to date: follow, then iterate over the
 * map, then apply the changes that come. */

typedef enum ch_change_kind {
    CH_CHANGE_SET = 1,
    CH_CHANGE_DELETE = 2,
    CH_CHANGE_EXPIRE = 3,
    CH_CHANGE_EVICT = 4,
    CH_CHANGE_CLEAR = 5, /* deleted because the map was cleared */
    CH_CHANGE_GAP = 6    /* a change too large for the stream: read the map */
} ch_change_kind;

typedef struct ch_change {
    ch_slice key;
    ch_slice value;
    uint64_t expires_ms; /* when the pair expires, in milliseconds since 1970; 0: never */
    uint64_t offset;     /* where in the stream the change lies, */
    uint64_t end;        /* and where the next one begins */
    uint32_t kind;       /* a ch_change_kind */
} ch_change;

/* Follows from now on (`from` NULL), or from a position. Errors: CH_NOT_FOUND if the map has no
 * stream (ch_map_begin_stream()); CH_MISMATCH if the position is of another stream; CH_LAPPED if
 * the stream no longer has it. */
int ch_map_follow(const ch_map *map, const ch_position *from, ch_follower **follower, ch_error *error);
void ch_follower_free(ch_follower *follower);

/* The next change; its bytes are valid until the next call. CH_NONE: there is none now, or none
 * in time. Errors: CH_LAPPED: read the whole map and follow again; as reading. */
int ch_follower_recv(ch_follower *follower, ch_change *change, ch_error *error);
int ch_follower_try_recv(ch_follower *follower, ch_change *change, ch_error *error);
int ch_follower_recv_timeout(ch_follower *follower, uint64_t timeout_ns, ch_change *change, ch_error *error);

/* The position of the next change. The end of the stream: every change that was visible in the map
 * before this call precedes it (errors: as writing). The number of bytes that wait, and the number
 * that the stream keeps. */
int ch_follower_position(ch_follower *follower, ch_position *position, ch_error *error);
int ch_follower_end(ch_follower *follower, ch_position *position, ch_error *error);
int ch_follower_lag(ch_follower *follower, uint64_t *waiting, uint64_t *kept, ch_error *error);

/* ---- Queues ---------------------------------------------------------------------------------
 *
 * Elements of one size that move by reference between named queues, without a copy. Each element is
 * in exactly one of the queues, or in flight in exactly one process, which alone may touch its
 * bytes. A push cannot fail for lack of room. The elements that a dead process had in flight move
 * to the orphan queue as soon as a process waits for elements, opens the hold, or calls
 * ch_hold_sweep(). */

typedef struct ch_queue_options {
    size_t size;               /* CH_QUEUE_OPTIONS_INIT sets it */
    uint32_t elements;         /* number of elements, 1 to 2^31 */
    uint32_t element_bytes;    /* size of each; from 64 on, elements begin on cache lines */
    /* names of 1 to 64 queues, each of 1 to 63 bytes; NULL: one, "free" */
    const char *const *queues;
    size_t queue_count;
    const char *orphans; /* one of them; NULL: the first, where all elements begin */
} ch_queue_options;

#define CH_QUEUE_OPTIONS_INIT \
    { sizeof(ch_queue_options), 0, 0, NULL, 0, NULL }

/* An element in flight. Do not change it; the numbers are the library's. A copy of it is the
 * same element. It moves between the queues of the structure that it was pulled from. */
typedef struct ch_element {
    void *data;     /* its bytes: on a cache line, or else a multiple of 8 */
    size_t len;     /* how many: element_bytes */
    uint32_t id;    /* its number, the same in every process */
    uint32_t owner; /* the process that has it in flight */
} ch_element;

/* The queues of a hold by name, as the maps above. Errors of opening: CH_NOT_FOUND; as writing.
 * Errors of opening or creating: CH_MISMATCH if the queue exists with other options; as writing.
 * Errors of creating: CH_EXISTS; as writing. */
int ch_queue_open(const ch_hold *hold, const char *name, ch_queue **queue, ch_error *error);
int ch_queue_open_or_create(const ch_hold *hold, const char *name, const ch_queue_options *options,
                            ch_queue **queue, ch_error *error);
int ch_queue_create(const ch_hold *hold, const char *name, const ch_queue_options *options,
                    ch_queue **queue, ch_error *error);

/* Drops a queue with everything in it. CH_NONE: there is none. Errors: CH_BUSY, naming slot and
 * process, while another live process has it open or this one has elements in flight;
 * CH_MISMATCH; as writing. */
int ch_queue_drop(const ch_hold *hold, const char *name, ch_error *error);

/* The queues in the hold as JSON, sorted by name. Errors: CH_CLOSED. */
int ch_queue_list(const ch_hold *hold, ch_bytes *json, ch_error *error);

void ch_queue_free(ch_queue *queue);

/* The statistics of a queue as JSON; works even in a read-only hold, where no queue can be
 * opened. */
int ch_queue_describe_by_name(const ch_hold *hold, const char *name, ch_bytes *json,
                              ch_error *error);

/* Its name; valid as long as the handle. */
int ch_queue_name(const ch_queue *queue, ch_slice *name, ch_error *error);

typedef struct ch_queue_stat_t {
    uint32_t elements;
    uint32_t element_bytes;
    uint32_t queues;  /* how many named queues */
    uint32_t orphans; /* the number of the one for orphans */
} ch_queue_stat_t;

int ch_queue_stat(const ch_queue *queue, ch_queue_stat_t *stat, ch_error *error);
int ch_queue_describe(const ch_queue *queue, ch_bytes *json, ch_error *error);

/* The number of a named queue, which identifies it below: 0 for the first. Errors: CH_NOT_FOUND.
 * The second function does the reverse. */
int ch_queue_named(const ch_queue *queue, const char *name, uint32_t *number, ch_error *error);
int ch_queue_name_of(const ch_queue *queue, uint32_t number, ch_slice *name, ch_error *error);

/* The number of elements that were in it a moment ago. */
int ch_queue_len(const ch_queue *queue, uint32_t number, uint64_t *len, ch_error *error);

/* Puts an element in flight at the end of a queue, and wakes a waiting process. Afterwards its
 * bytes must not be touched. After an error the element is still in flight: push it again or
 * release it with ch_queue_release(). Errors: CH_INVALID if it is not in flight in this process
 * (because it was pushed before, for example), or is of another queue, or the number is not one
 * of a queue; CH_TIMED_OUT after the lock_timeout_ns of the hold; as writing. Pushing one
 * element from two threads at the same time is a bug in the program. */
int ch_queue_push(const ch_queue *queue, uint32_t number, const ch_element *element, ch_error *error);

/* Pulls the element at the front. CH_NONE: the queue is empty, or was for this time. */
int ch_queue_pull(const ch_queue *queue, uint32_t number, ch_element *element, ch_error *error);
int ch_queue_pull_timeout(const ch_queue *queue, uint32_t number, uint64_t timeout_ns, ch_element *element,
                          ch_error *error);

/* Pushes to one queue, then pulls from another (or the same), for little more than the cost of
 * one. CH_NONE: pushed, and there was nothing to pull, or pulling failed (ch_queue_pull()
 * returns the error). Errors: those of pushing. */
int ch_queue_push_pull(const ch_queue *queue, uint32_t to, const ch_element *element, uint32_t from,
                       ch_element *pulled, ch_error *error);

/* Many elements for the cost of one. Pushing keeps their order; errors as for one, and
 * CH_INVALID if one of them occurs twice; after an error nothing was moved. Pulling returns at
 * most `most` elements, and their number in `count`. CH_NONE: none. */
int ch_queue_push_many(const ch_queue *queue, uint32_t number, const ch_element *elements, size_t count,
                       ch_error *error);
int ch_queue_pull_many(const ch_queue *queue, uint32_t number, ch_element *elements, size_t most, size_t *count,
                       ch_error *error);
int ch_queue_pull_many_timeout(const ch_queue *queue, uint32_t number, uint64_t timeout_ns, ch_element *elements,
                               size_t most, size_t *count, ch_error *error);

/* Releases an element: pushes it to the orphan queue. Errors: those of pushing. */
int ch_queue_release(const ch_queue *queue, const ch_element *element, ch_error *error);

/* The same without an error, for destructors and garbage collectors: if the element cannot move
 * now, it moves later. An element that is not in flight is ignored. */
void ch_queue_abandon(const ch_queue *queue, const ch_element *element);

/* A file descriptor for poll() and its relatives that becomes readable when elements are pushed
 * to this queue. Wait until it is readable, clear the notifier, then pull until the queue is
 * empty. A thread of this process serves it. In a forked child it never signals: create a new one
 * there. The notifier owns the descriptor (-1 for an invalid handle): do not close it. */
int ch_queue_notifier(const ch_queue *queue, uint32_t number, ch_notifier **notifier, ch_error *error);
int ch_notifier_fd(const ch_notifier *notifier);
int ch_notifier_clear(const ch_notifier *notifier, ch_error *error);
void ch_notifier_free(ch_notifier *notifier);

/* ---- Channels -------------------------------------------------------------------------------
 *
 * One producer sends messages, every consumer receives all of them, in any process. A ring of
 * bytes; a message takes 8 bytes more than its length, rounded up to a multiple of 8, and has at
 * most a quarter of the ring. A dead consumer no longer delays the producer; when a producer dies,
 * the next one continues after its last message without a gap. */

/* A participant at a channel. */
typedef struct ch_peer {
    uint32_t slot; /* its place in the hold */
    uint32_t pid;  /* its process id, in its own PID namespace */
} ch_peer;

/* The channels of a hold by name, as the maps above. A new channel has a ring of `ring_bytes`: a
 * power of two, 4 KiB to 1 GiB. Errors of opening: CH_NOT_FOUND; as reading. Errors of opening or
 * creating: CH_MISMATCH if the channel exists with another ring; CH_INVALID; as writing. Errors of
 * creating: CH_EXISTS; CH_INVALID; as writing. */
int ch_channel_open(const ch_hold *hold, const char *name, ch_channel **channel, ch_error *error);
int ch_channel_open_or_create(const ch_hold *hold, const char *name, uint64_t ring_bytes,
                              ch_channel **channel, ch_error *error);
int ch_channel_create(const ch_hold *hold, const char *name, uint64_t ring_bytes,
                      ch_channel **channel, ch_error *error);

/* Drops a channel with everything in it. CH_NONE: there is none. Errors: CH_BUSY, naming slot and
 * process, while another writable handle has it open, or while this one has a producer or consumer
 * of it; CH_MISMATCH; as writing. */
int ch_channel_drop(const ch_hold *hold, const char *name, ch_error *error);

/* The channels in the hold as JSON, sorted by name. Errors: CH_CLOSED. */
int ch_channel_list(const ch_hold *hold, ch_bytes *json, ch_error *error);

void ch_channel_free(ch_channel *channel);

/* Its name; valid as long as the handle. */
int ch_channel_name(const ch_channel *channel, ch_slice *name, ch_error *error);

typedef struct ch_channel_stat_t {
    uint64_t ring_bytes;
    uint64_t max_message; /* the longest message in bytes */
    uint64_t sequence;    /* messages ever sent: the number of the next one */
    uint64_t sent_bytes;
    uint64_t kept_bytes;   /* bytes that a consumer can read if it joins at the oldest message */
    ch_peer producer;      /* if has_producer */
    ch_peer slowest;       /* if has_slowest: the consumer that delays the producer next */
    uint32_t consumers;    /* live consumers; read-only ones are not counted */
    uint32_t has_producer; /* 1: a live one */
    uint32_t has_slowest;
    uint32_t is_waiting; /* the producer waits for room */
} ch_channel_stat_t;

/* The producer, the consumers, and the one that is furthest behind. As JSON: also each consumer. */
int ch_channel_stat(const ch_channel *channel, ch_channel_stat_t *stat, ch_error *error);
int ch_channel_describe(const ch_channel *channel, ch_bytes *json, ch_error *error);

/* Becomes the producer. Errors: CH_BUSY, naming slot and process, while another one lives, also
 * one of this process. */
int ch_channel_producer(const ch_channel *channel, ch_producer **producer, ch_error *error);

/* Frees the producer; another one may begin. */
void ch_producer_free(ch_producer *producer);

/* Sends a message; `sequence` gets its number. The first function waits for room without limit,
 * as long as a live lossless consumer has not read the bytes that the message would overwrite.
 * CH_NONE: no room now, or none in time; ch_producer_waits_for() names the consumer. Errors:
 * CH_TOO_LARGE; CH_CLOSED. */
int ch_producer_send(ch_producer *producer, const void *message, size_t len, uint64_t *sequence, ch_error *error);
int ch_producer_try_send(ch_producer *producer, const void *message, size_t len, uint64_t *sequence, ch_error *error);
int ch_producer_send_timeout(ch_producer *producer, const void *message, size_t len, uint64_t timeout_ns,
                             uint64_t *sequence, ch_error *error);

/* Sends messages in order; waits for room, the second function for at most `timeout_ns` in total.
 * `sent` gets the number of messages sent, even after an error. CH_NONE: the time passed before
 * all were sent. */
int ch_producer_send_many(ch_producer *producer, const ch_slice *messages, size_t count, size_t *sent,
                          ch_error *error);
int ch_producer_send_many_timeout(ch_producer *producer, const ch_slice *messages, size_t count, uint64_t timeout_ns,
                                  size_t *sent, ch_error *error);

/* Room for a message that the program writes in place. Do not change it; the number belongs to
 * this reservation alone. */
typedef struct ch_reservation {
    void *room;      /* at a multiple of 8; bytes that are not written are undefined */
    size_t len;      /* its length in bytes */
    uint64_t number; /* which one it is */
} ch_reservation;

/* Reserves room for a message of `len` bytes. Committing sends the first `len` bytes of it.
 * Cancelling it, sending another message and reserving again send nothing of it. Then the
 * reservation is over: committing or cancelling it (or one of another producer, or a copy of one
 * that is over) is CH_INVALID and changes nothing. A commit of more bytes than reserved is
 * CH_TOO_LARGE, and the reservation stays. CH_NONE of reserving: no room now, or none in time. */
int ch_producer_reserve(ch_producer *producer, size_t len, ch_reservation *reservation, ch_error *error);
int ch_producer_try_reserve(ch_producer *producer, size_t len, ch_reservation *reservation, ch_error *error);
int ch_producer_reserve_timeout(ch_producer *producer, size_t len, uint64_t timeout_ns, ch_reservation *reservation,
                                ch_error *error);
int ch_producer_commit(ch_producer *producer, const ch_reservation *reservation, size_t len, uint64_t *sequence,
                       ch_error *error);
int ch_producer_cancel(ch_producer *producer, const ch_reservation *reservation, ch_error *error);

/* The number of the next message. The longest message. The consumer that prevented sending when
 * there was no room (CH_NONE: none). Whether to wait by spinning (1) or by sleeping (0, the
 * default). */
int ch_producer_sequence(ch_producer *producer, uint64_t *sequence, ch_error *error);
int ch_producer_max_message(ch_producer *producer, size_t *bytes, ch_error *error);
int ch_producer_waits_for(ch_producer *producer, ch_peer *peer, ch_error *error);
int ch_producer_set_spin(ch_producer *producer, uint32_t spin, ch_error *error);

typedef enum ch_join {
    CH_JOIN_NOW = 0,   /* begins with the first message that is sent after it has joined */
    CH_JOIN_OLDEST = 1 /* begins with the oldest one that is still in the ring */
} ch_join;

typedef enum ch_policy {
    CH_LOSSLESS = 0, /* the producer waits without limit: nothing is lost */
    /* the producer never waits: the consumer misses messages, and gets their number */
    CH_LOSSY = 1,
    CH_PATIENT = 2   /* waits for `patience_ns`, then drops it: its next call is CH_CLOSED */
} ch_policy;

/* The number of a message and what precedes it. */
typedef struct ch_received {
    uint64_t sequence; /* its number: from 0 on, one more for each message of the channel */
    /* how many were missed just before it; always 0 unless the consumer is lossy */
    uint64_t missed;
} ch_received;

/* Becomes a consumer. `from` is a ch_join, `policy` a ch_policy. In a read-only hold it can only
 * be lossy. Errors: CH_FULL if there are 64 already; CH_READ_ONLY. */
int ch_channel_consumer(const ch_channel *channel, uint32_t from, uint32_t policy, uint64_t patience_ns,
                        ch_consumer **consumer, ch_error *error);

/* Leaves the channel. */
void ch_consumer_free(ch_consumer *consumer);

/* A copy of the next message. The first function waits for it without limit, even while there is no
 * producer. CH_NONE: there is none now, or none in time. Errors: CH_CLOSED, including that a patient
 * consumer was dropped (see ch_consumer_rejoin()); CH_DAMAGED. */
int ch_consumer_recv(ch_consumer *consumer, ch_bytes *message, ch_received *received, ch_error *error);
int ch_consumer_try_recv(ch_consumer *consumer, ch_bytes *message, ch_received *received, ch_error *error);
int ch_consumer_recv_timeout(ch_consumer *consumer, ch_bytes *message, uint64_t timeout_ns, ch_received *received,
                             ch_error *error);

/* Calls back for at most `most` messages; waits for the first without limit, or for
 * `timeout_ns`, and for no other. `count` gets their number. CH_NONE: none in time. The callback
 * must not use this consumer (CH_BUSY). */
typedef void (*ch_message_fn)(void *user, ch_slice message, ch_received received);
int ch_consumer_recv_many(ch_consumer *consumer, size_t most, ch_message_fn call, void *user, size_t *count,
                          ch_error *error);
int ch_consumer_recv_many_timeout(ch_consumer *consumer, size_t most, uint64_t timeout_ns, ch_message_fn call,
                                  void *user, size_t *count, ch_error *error);

/* Shows the next message in place, at a multiple of 8, without a copy. It stays, and is the next
 * message again, until ch_consumer_advance() (CH_NONE: there was none). Errors: CH_INVALID
 * unless the consumer is lossless; as above. */
int ch_consumer_peek(ch_consumer *consumer, ch_slice *message, ch_received *received, ch_error *error);
int ch_consumer_try_peek(ch_consumer *consumer, ch_slice *message, ch_received *received, ch_error *error);
int ch_consumer_peek_timeout(ch_consumer *consumer, uint64_t timeout_ns, ch_slice *message, ch_received *received,
                             ch_error *error);
int ch_consumer_advance(ch_consumer *consumer, ch_error *error);

/* Joins again, from now or from the oldest kept message (`from` is a ch_join), after it was dropped
 * or at any other time. */
int ch_consumer_rejoin(ch_consumer *consumer, uint32_t from, ch_error *error);

/* The number of the next message. The number of messages missed since it joined. Whether to wait
 * by spinning, as for a producer. */
int ch_consumer_sequence(ch_consumer *consumer, uint64_t *sequence, ch_error *error);
int ch_consumer_missed(ch_consumer *consumer, uint64_t *missed, ch_error *error);
int ch_consumer_set_spin(ch_consumer *consumer, uint32_t spin, ch_error *error);

/* ---- Logs -----------------------------------------------------------------------------------
 *
 * Many threads in many processes write to one merged log. Each thread writes to its own ring, so no
 * writer ever waits. An accepted line stays in the hold, whatever happens to its writer.
 * One collector at a time merges all lines by time; without one, the last lines stay in the hold
 * and can be dumped after any crash. */

typedef enum ch_level {
    CH_ERROR = 1,
    CH_WARN = 2,
    CH_INFO = 3,
    CH_DEBUG = 4,
    CH_TRACE = 5
} ch_level;

typedef struct ch_log_options {
    size_t size;         /* CH_LOG_OPTIONS_INIT sets it */
    /* of each ring, rounded up to a power of two, 4 KiB to 1 GiB; 0: 256 KiB */
    uint64_t ring_bytes;
    uint32_t rings;      /* how many threads of all processes can write, 1 to 4096; 0: 64 */
    uint32_t overflow;   /* a full ring: 0: drops and counts new lines; 1: overwrites the oldest */
    /* a ch_level: the initial level; less important lines are rejected; 0: CH_INFO */
    uint32_t level;
    /* for this handle: 1: also writes to standard error while there is no collector */
    uint32_t direct;
} ch_log_options;

#define CH_LOG_OPTIONS_INIT \
    { sizeof(ch_log_options), 0, 0, 0, 0, 0 }

/* The logs of a hold by name, as the maps above. Errors of opening: CH_NOT_FOUND; as reading.
 * Errors of opening or creating: CH_MISMATCH if the log exists with other rings; CH_INVALID; as
 * writing. Errors of creating: CH_EXISTS; CH_INVALID; as writing. */
int ch_log_open(const ch_hold *hold, const char *name, ch_log **log, ch_error *error);
int ch_log_open_or_create(const ch_hold *hold, const char *name, const ch_log_options *options,
                          ch_log **log, ch_error *error);
int ch_log_create(const ch_hold *hold, const char *name, const ch_log_options *options,
                  ch_log **log, ch_error *error);

/* Drops a log with everything in it. CH_NONE: there is none. Errors: CH_BUSY, naming slot and
 * process, while another live process has it open; CH_MISMATCH; as writing. */
int ch_log_drop(const ch_hold *hold, const char *name, ch_error *error);

/* The logs in the hold as JSON, sorted by name. Errors: CH_CLOSED. */
int ch_log_list(const ch_hold *hold, ch_bytes *json, ch_error *error);

void ch_log_free(ch_log *log);

/* Its name; valid as long as the handle. */
int ch_log_name(const ch_log *log, ch_slice *name, ch_error *error);

/* True if lines of this level are accepted at the moment; a few nanoseconds. False for an
 * invalid handle. */
bool ch_log_enabled(const ch_log *log, uint32_t level);

/* Writes one line of any bytes. Never waits. CH_NONE: the line was not accepted, and `became`
 * gets the reason: 1: its level is not enabled, 2: dropped, because the ring was full or no ring
 * was free. Signal-safe; if a handler may be the first to write in its thread, call
 * ch_log_prepare() before. Errors: CH_TOO_LARGE (a quarter of the ring less 64 bytes);
 * CH_READ_ONLY. */
int ch_log_write(const ch_log *log, uint32_t level, const void *text, size_t len, uint32_t *became, ch_error *error);

/* Claims the calling thread's ring now rather than with its first line. CH_NONE: none is free. */
int ch_log_prepare(const ch_log *log, ch_error *error);

/* The least important level that is enabled, in all processes. Errors of setting it: as writing. */
int ch_log_level(const ch_log *log, uint32_t *level, ch_error *error);
int ch_log_set_level(const ch_log *log, uint32_t level, ch_error *error);

typedef struct ch_log_stat_t {
    uint64_t ring_bytes;
    uint64_t dropped;       /* lines dropped because their ring was full */
    uint64_t refused;       /* ... because no ring was free, or in a freeze */
    uint64_t overwritten;   /* lines overwritten before they were collected */
    uint64_t waiting_bytes; /* not collected yet */
    uint32_t rings;
    uint32_t overflow;
    uint32_t level;
    uint32_t threads; /* threads that have written so far */
    uint32_t has_collector;
    uint32_t collector_pid;
} ch_log_stat_t;

/* The log's statistics. As JSON: also those of each ring. */
int ch_log_stat(const ch_log *log, ch_log_stat_t *stat, ch_error *error);
int ch_log_describe(const ch_log *log, ch_bytes *json, ch_error *error);

/* A line as it is read. Its bytes are valid in the callback only. */
typedef struct ch_log_line {
    ch_slice text;        /* the line as written */
    ch_slice shown;       /* the line as the log shows it: time, level, thread, text, line end */
    ch_slice thread_name; /* if it announces a thread */
    uint64_t time_ns;     /* when it was written, in nanoseconds since 1970 */
    uint32_t level;       /* a ch_level; 0: a line of the log itself */
    uint32_t thread;      /* the number of the thread that wrote it */
    uint32_t pid;         /* if it announces a thread: its process and number */
    uint32_t tid;
    uint32_t lost;      /* number of lines missing before it: dropped or overwritten */
    uint32_t late;      /* 1: it arrived after later lines had been returned */
    uint32_t collected; /* 1: a collector already has it (dumps only) */
    uint32_t announces; /* 1: it announces its thread */
} ch_log_line;

/* Receives a line; a result other than 0 ends the call. */
typedef int (*ch_line_fn)(void *user, const ch_log_line *line);

/* Calls back for all lines in the hold, collected or not, merged by time; changes nothing.
 * `count` gets their number. CH_NONE: none. Also works in a read-only hold. */
int ch_log_dump(const ch_log *log, ch_line_fn call, void *user, size_t *count, ch_error *error);

/* Reads the log as it grows, independently of its collector, without leaving a trace. Polling
 * returns the lines that have arrived since and are older than 5 ms, so that older lines of other
 * threads can still precede them; finishing returns all. If the callback ends a call, the next call
 * begins with the line that follows. CH_NONE: none. */
int ch_log_reader(const ch_log *log, ch_reader **reader, ch_error *error);
void ch_reader_free(ch_reader *reader);
int ch_reader_poll(ch_reader *reader, ch_line_fn call, void *user, size_t *count, ch_error *error);
int ch_reader_finish(ch_reader *reader, ch_line_fn call, void *user, size_t *count, ch_error *error);

/* Appends the text of a line to `out` (ch_bytes_append()). If it appends nothing, the line is
 * omitted. */
typedef void (*ch_format_fn)(void *user, const ch_log_line *line, ch_bytes *out);
/* Receives text, some lines at a time. A result other than 0 is an error: the callback then
 * receives the text again. */
typedef int (*ch_write_fn)(void *user, ch_slice text);
/* Any result other than 0 ends the call. */
typedef int (*ch_stop_fn)(void *user);

typedef struct ch_collector_options {
    size_t size;           /* CH_COLLECTOR_OPTIONS_INIT sets it */
    uint64_t hold_back_ns; /* how old a line must be before it is written out; 0: 5 ms */
    ch_format_fn format;   /* NULL: as the log shows lines */
    void *user;            /* for `format` */
    uint32_t level;        /* a ch_level: omits less important lines; 0: omits none */
    uint32_t reserved; /* zero */
} ch_collector_options;

#define CH_COLLECTOR_OPTIONS_INIT \
    { sizeof(ch_collector_options), 0, NULL, NULL, 0, 0 }

/* The result of a round of collecting. */
typedef struct ch_round {
    uint64_t lines; /* written out */
    uint64_t lost;  /* found missing */
    uint32_t more;  /* 1: there is more, which the next round takes or which is too young */
} ch_round;

/* Becomes the log's collector. The next collector continues where a dead one stopped, and omits
 * nothing.
 *   to a file: at most `max_bytes` of it, and `keep` older ones (PATH.1, PATH.2, ...). Each line
 *     appears once, whichever process is killed at whichever moment.
 *   to a file descriptor, which is duplicated.
 *   to a callback.
 * For a descriptor or a callback, the next collector repeats the text that a killed one had written
 * but not yet marked as written. Errors: CH_BUSY, naming slot and process, while another collector
 * lives; CH_READ_ONLY; those of files. */
int ch_log_collect_to_file(const ch_log *log, const ch_collector_options *options, const char *path,
                           uint64_t max_bytes, uint32_t keep, ch_collector **collector, ch_error *error);
int ch_log_collect_to_fd(const ch_log *log, const ch_collector_options *options, int fd, ch_collector **collector,
                         ch_error *error);
int ch_log_collect_to(const ch_log *log, const ch_collector_options *options, ch_write_fn call, void *user,
                      ch_collector **collector, ch_error *error);

/* Frees the collector; another one may begin. */
void ch_collector_free(ch_collector *collector);

/* Writes out the lines that are old enough, one round; all lines; or collects until `stop`
 * returns 1 (called every few milliseconds), then finishes. CH_NONE: no line was written.
 * Errors: CH_IO and the like if writing fails: then no line of the round counts as collected;
 * CH_BUSY in a forked child. */
int ch_collector_poll(ch_collector *collector, ch_round *round, ch_error *error);
int ch_collector_finish(ch_collector *collector, ch_round *round, ch_error *error);
int ch_collector_run(ch_collector *collector, ch_stop_fn stop, void *user, ch_round *round, ch_error *error);

/* Writes a formatted line. CH_LOG() and the macros below do not even evaluate their arguments if
 * the level is not enabled. Lines of up to 1 KiB need no allocation. The results are those of
 * ch_log_write(); a format that fails is CH_INVALID. Not for signal handlers. */
static inline int ch_log_vprintf(const ch_log *log, uint32_t level, const char *format, va_list arguments)
    CH_PRINTF(3, 0);
static inline int ch_log_vprintf(const ch_log *log, uint32_t level, const char *format, va_list arguments) {
    char text[1024];
    va_list again;
    int len, result = CH_FULL;
    va_copy(again, arguments);
    len = vsnprintf(text, sizeof text, format, arguments);
    if (len < 0) {
        result = CH_INVALID;
    } else if ((size_t)len < sizeof text) {
        result = ch_log_write(log, level, text, (size_t)len, NULL, NULL);
    } else {
        char *longer = (char *)malloc((size_t)len + 1);
        if (longer != NULL) {
            vsnprintf(longer, (size_t)len + 1, format, again);
            result = ch_log_write(log, level, longer, (size_t)len, NULL, NULL);
            free(longer);
        }
    }
    va_end(again);
    return result;
}

static inline int ch_log_printf(const ch_log *log, uint32_t level, const char *format, ...) CH_PRINTF(3, 4);
static inline int ch_log_printf(const ch_log *log, uint32_t level, const char *format, ...) {
    va_list arguments;
    int result;
    va_start(arguments, format);
    result = ch_log_vprintf(log, level, format, arguments);
    va_end(arguments);
    return result;
}

#define CH_LOG(log, level, ...) (ch_log_enabled((log), (level)) ? ch_log_printf((log), (level), __VA_ARGS__) : CH_NONE)
#define CH_LOG_ERROR(log, ...) CH_LOG(log, CH_ERROR, __VA_ARGS__)
#define CH_LOG_WARN(log, ...) CH_LOG(log, CH_WARN, __VA_ARGS__)
#define CH_LOG_INFO(log, ...) CH_LOG(log, CH_INFO, __VA_ARGS__)
#define CH_LOG_DEBUG(log, ...) CH_LOG(log, CH_DEBUG, __VA_ARGS__)
#define CH_LOG_TRACE(log, ...) CH_LOG(log, CH_TRACE, __VA_ARGS__)

/* ---- Maps over the network ------------------------------------------------------------------
 *
 * An origin serves a map's changes. A replica keeps a map in its own hold equal to the origin's,
 * and every process there reads it like any other map (writing to it is CH_READ_ONLY). An address
 * is `unix:PATH`, `tcp:HOST:PORT`, or `tcp:PORT` for the loopback interface. TCP is not encrypted.
 * Both origins and replicas have their own threads. */

/* Whether the pairs of a full sync are compressed: a connection uses compression if both sides allow
 * it. Changes are never compressed. */
typedef enum ch_compression {
    /* over TCP to another machine; a connection to the local end of a tunnel does not count */
    CH_COMPRESS_AUTO = 0,
    CH_COMPRESS_ALWAYS = 1, /* on every connection */
    CH_COMPRESS_NEVER = 2   /* on none */
} ch_compression;

/* Receives events, one line of text at a time, from any thread. Must not call the origin. */
typedef void (*ch_notice_fn)(void *user, const char *text);

typedef enum ch_loop {
    CH_LOOP_EPOLL = 0,
    CH_LOOP_POOL = 1, /* epoll, with threads for system calls */
    CH_LOOP_URING = 2 /* io_uring, or epoll if the system does not have it */
} ch_loop;

typedef struct ch_origin_options {
    size_t size;           /* CH_ORIGIN_OPTIONS_INIT sets it */
    uint64_t stream_bytes; /* changes that the map's stream keeps; 0: as it is, or 64 MiB */
    uint64_t watermark;    /* fewer pending bytes wait up to delay_ns; 0: sent immediately */
    uint64_t delay_ns;     /* more than 100 ms has the effect of 100 ms */
    const void *secret; /* what both sides must prove that they know; NULL: no secret */
    size_t secret_len;
    ch_notice_fn notice; /* NULL: none */
    void *user;          /* for `notice` */
    /* users whose processes may connect over unix sockets; NULL: all who can open the socket */
    const uint32_t *allowed_uids;
    size_t allowed_uid_count;
    size_t most_replicas;           /* maximum number of connections; 0: 8192 */
    uint32_t io_threads;            /* threads that serve replicas, 1 to 64; 0: 1 */
    uint32_t kind;                  /* a ch_loop */
    uint32_t explicit_transmission; /* 1: changes are sent when ch_origin_transmit() is called */
    /* 1: may listen without a secret where other machines can connect; every client that connects
     * can then read the map */
    uint32_t allow_unauthenticated;
    uint32_t compression; /* a ch_compression */
    uint32_t reserved; /* zero */
} ch_origin_options;

#define CH_ORIGIN_OPTIONS_INIT \
    { sizeof(ch_origin_options), 0, 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Begins to serve a map; creates its stream if it has none. Any process may write to the map, and
 * may be killed, as always. Errors: CH_NOT_FOUND; as writing; CH_IO if a thread cannot start. */
int ch_origin_start(const ch_hold *hold, const char *map, const ch_origin_options *options, ch_origin **origin,
                    ch_error *error);

/* Ends the origin, and closes its connections. */
void ch_origin_free(ch_origin *origin);

/* Accepts no further replicas, sends the pending changes to every replica within `timeout_ns`, then
 * ends and frees the origin. CH_NONE: in a forked child, where there is nothing to end. */
int ch_origin_finish(ch_origin *origin, uint64_t timeout_ns, ch_error *error);

/* Listens at an address; `listens_at` (may be NULL) gets it as text, with the port that the
 * system chose if it was 0. A unix socket has the mode 0600 and is removed with the origin.
 * Errors: CH_BUSY if the address is in use; CH_INVALID if other machines can connect there, and the
 * options have neither a secret nor allow_unauthenticated; CH_PERMISSION; CH_IO. The second function
 * accepts connections from a socket that listens already, and takes it over if the result is
 * CH_OK. */
int ch_origin_listen(const ch_origin *origin, const char *at, ch_bytes *listens_at, ch_error *error);
int ch_origin_listen_on(const ch_origin *origin, int socket, ch_bytes *listens_at, ch_error *error);

/* Serves the replica at the other end of a connected stream socket of any kind. Takes the
 * descriptor over if the result is CH_OK: do not close it. `id` gets a number for detaching,
 * which is CH_NONE if there is no such replica. Errors: CH_FULL at the maximum of connections. */
int ch_origin_attach(const ch_origin *origin, int socket, uint64_t *id, ch_error *error);
int ch_origin_detach(const ch_origin *origin, uint64_t id, ch_error *error);

/* With explicit_transmission: sends every change that was made before this call, without
 * waiting. Errors: as writing. */
int ch_origin_transmit(const ch_origin *origin, ch_error *error);

/* The offset up to which the stream was sent to all replicas. CH_NONE: there are none. */
int ch_origin_sent_to_all(const ch_origin *origin, uint64_t *offset, ch_error *error);

/* The replicas: their number, and JSON (each may be NULL). */
int ch_origin_replicas(const ch_origin *origin, size_t *count, ch_bytes *json, ch_error *error);

/* The replica's thread makes the callbacks. A slow callback delays the replica. Callbacks must
 * not wait for the replica or free it. */
typedef struct ch_replica_options {
    size_t size;        /* CH_REPLICA_OPTIONS_INIT sets it */
    const void *secret; /* what both sides must prove that they know; NULL: no secret */
    size_t secret_len;
    /* delay after the first failed connection; it doubles each time; 0: 50 ms */
    uint64_t first_pause_ns;
    uint64_t longest_pause_ns; /* 0: 5 s */
    /* A change was applied; not called for the pairs of a full sync. Each callback may be NULL. */
    void (*changed)(void *user, const ch_change *change);
    /* the map has the origin's state; again after each gap */
    void (*ready)(void *user, ch_position position);
    /* the connection is lost, or could not be made */
    void (*lost)(void *user, const char *why);
    void *user;
    /* for ch_map_wait_for_replica() at the origin: at most 64 bytes without control characters,
     * different from those of the origin's other replicas; NULL: none */
    const char *name;
    /* further addresses of the map, such as those of relays: if the connection is lost, the replica
     * tries all addresses in turn, and continues at its position where it can; NULL: none */
    const char *const *also;
    size_t also_count;
    const char *origin_map; /* the map's name at the origin, if it is another; NULL: the same */
    /* for a relay: the map gets a stream of this size with the origin's positions, unless it has a
     * stream; 0: none */
    uint64_t stream_bytes;
    /* 1: accepts, for one connection, an origin of another map, or one of an earlier epoch than the
     * replica has seen; its map then replaces the replica's */
    uint32_t adopt;
    uint32_t compression; /* a ch_compression */
    /* only the pairs whose keys begin with these 1 to 255 bytes; NULL: all. The map keeps to the
     * prefix, cannot be served to other replicas, and cannot be promoted. */
    const void *prefix;
    size_t prefix_len;
} ch_replica_options;

#define CH_REPLICA_OPTIONS_INIT \
    { sizeof(ch_replica_options), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL, 0, 0, 0, NULL, 0 }

typedef struct ch_replica_status_t {
    ch_position position;      /* the position that its map has reached, if has_position */
    uint64_t lag_bytes;        /* of the stream, not applied yet */
    uint64_t lag_messages;     /* about how many changes that is */
    uint64_t lag_ms;           /* the age of its data */
    uint64_t changes;          /* applied */
    uint64_t bytes;            /* applied */
    uint64_t synchronisations; /* how often the whole map was sent */
    uint64_t connections;      /* how often a connection was made */
    uint32_t connected;
    /* its map has had the origin's state, and stays readable whatever happens */
    uint32_t ready;
    uint32_t has_position;
    /* its thread has ended, and nothing will change any more: the attached socket was closed */
    uint32_t ended;
} ch_replica_status_t;

/* Follows the origin at an address, or at the other end of a connected stream socket (taken over
 * if the result is CH_OK), with the map of this name, which is created if it does not exist.
 * Returns at once. After a lost connection to an address it reconnects and resumes.
 * Errors: CH_MISMATCH if the map exists and is not a replica's, or has another prefix; CH_BUSY if
 * it has a replica already; CH_INVALID for a bad name or prefix; as writing. */
int ch_replica_connect(const ch_hold *hold, const char *map, const char *origin, const ch_replica_options *options,
                       ch_replica **replica, ch_error *error);
int ch_replica_attach(const ch_hold *hold, const char *map, int socket, const ch_replica_options *options,
                      ch_replica **replica, ch_error *error);

/* Ends the replica; the map stays as it is. */
void ch_replica_free(ch_replica *replica);

/* Its status. As JSON: also its origin and the reason why the last connection ended. */
int ch_replica_status(const ch_replica *replica, ch_replica_status_t *status, ch_error *error);
int ch_replica_describe(const ch_replica *replica, ch_bytes *json, ch_error *error);

/* Waits until the map equals the origin's; until it has reached a position of the origin's
 * stream. CH_NONE: not in time, or the replica has ended. */
int ch_replica_wait_ready(const ch_replica *replica, uint64_t timeout_ns, ch_error *error);
int ch_replica_wait_for(const ch_replica *replica, const ch_position *position, uint64_t timeout_ns, ch_error *error);

typedef struct ch_promotion {
    /* the position of the old origin's stream that the map has reached, if has_position: it lacks the
     * changes behind it */
    ch_position position;
    uint64_t epoch; /* of the map from now on: replicas that have seen it refuse the old origin */
    uint32_t has_position;
} ch_promotion;

/* Makes a replica's map writable for every process, because its origin will not come back. An origin
 * that serves the map from then on has the next epoch. `promotion` may be NULL. CH_NONE: every process
 * may write to the map already. Errors: CH_NOT_FOUND; CH_BUSY while its replica lives; CH_MISMATCH if
 * the map has only the keys of a prefix; as writing. */
int ch_map_promote(const ch_hold *hold, const char *name, ch_promotion *promotion, ch_error *error);

/* Compares the replica of this name with its origin, pair by pair, or only the keys of its prefix if
 * it has one; needs memory for a copy of the map. CH_NONE: they differ, and the report (JSON; may be
 * NULL) names the differences. Errors: CH_NOT_FOUND, CH_MISMATCH, CH_TIMED_OUT. */
int ch_replica_verify(const ch_hold *hold, const char *map, const char *origin, const ch_replica_options *options,
                      uint64_t timeout_ns, ch_bytes *report, ch_error *error);

/* ---- Whole holds over the network -----------------------------------------------------------
 *
 * One origin serves all maps of a hold at the same addresses: those that exist, and those that are
 * created while it runs. Queues, channels and logs are not served, and neither are Commonhold's own
 * maps, whose names begin with a dot. A replica of the hold follows them all, with maps of the same
 * names. A replica of one map (ch_replica_connect()) gets the map of its own name, or of
 * origin_map. Each map gets a stream, a connection and threads of its own. */

typedef struct ch_hold_origin_options {
    size_t size; /* CH_HOLD_ORIGIN_OPTIONS_INIT sets it */
    /* of each map's origin; io_threads is for each map, most_replicas for each map and for the whole
     * hold; explicit_transmission must not be set; NULL: the defaults */
    const ch_origin_options *origin;
    /* patterns of the names of the maps to serve: `*` stands for any characters, `?` for one; NULL:
     * all maps */
    const char *const *maps;
    size_t map_count;
} ch_hold_origin_options;

#define CH_HOLD_ORIGIN_OPTIONS_INIT \
    { sizeof(ch_hold_origin_options), NULL, NULL, 0 }

/* Begins to serve the maps of a hold. A map that cannot be served, for example because the hold has
 * no room for its stream, does not affect the others: see ch_hold_origin_maps(). Errors: CH_INVALID
 * for an empty pattern or explicit_transmission; CH_IO if a thread cannot start. */
int ch_hold_origin_start(const ch_hold *hold, const ch_hold_origin_options *options, ch_hold_origin **origin,
                         ch_error *error);

/* As ch_origin_free(), ch_origin_finish(), ch_origin_listen() and ch_origin_listen_on(). */
void ch_hold_origin_free(ch_hold_origin *origin);
int ch_hold_origin_finish(ch_hold_origin *origin, uint64_t timeout_ns, ch_error *error);
int ch_hold_origin_listen(const ch_hold_origin *origin, const char *at, ch_bytes *listens_at, ch_error *error);
int ch_hold_origin_listen_on(const ch_hold_origin *origin, int socket, ch_bytes *listens_at, ch_error *error);

/* The maps that it serves: their number, and JSON (each may be NULL): their names, their replicas,
 * and the reason why a map cannot be served at the moment. */
int ch_hold_origin_maps(const ch_hold_origin *origin, size_t *count, ch_bytes *json, ch_error *error);

/* The replica's threads make the callbacks, several at a time. A slow callback delays the replica.
 * Callbacks must not wait for the replica or free it. */
typedef struct ch_hold_replica_options {
    size_t size; /* CH_HOLD_REPLICA_OPTIONS_INIT sets it */
    /* of each map's replica, without callbacks, origin_map and prefix; adopt counts once for each map;
     * NULL: the defaults */
    const ch_replica_options *replica;
    /* patterns of the names of the maps to follow: `*` stands for any characters, `?` for one; NULL:
     * all maps */
    const char *const *maps;
    size_t map_count;
    /* a map has the origin's state; again after each gap. Each callback may be NULL. */
    void (*ready)(void *user, const char *map, ch_position position);
    /* the connection of a map is lost, or could not be made; `map` is NULL for the connection that
     * names the maps */
    void (*lost)(void *user, const char *map, const char *why);
    /* a map cannot be followed, for example because the hold has an ordinary map of this name; it is
     * tried again */
    void (*skipped)(void *user, const char *map, const char *why);
    /* the origin no longer has a map; the replica's map stays */
    void (*dropped)(void *user, const char *map);
    void *user;
} ch_hold_replica_options;

#define CH_HOLD_REPLICA_OPTIONS_INIT \
    { sizeof(ch_hold_replica_options), NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL }

/* Follows the maps of the hold at an address, with maps of the same names, which are created if they
 * do not exist. Returns at once. Errors: CH_INVALID for an empty pattern; CH_READ_ONLY; CH_IO if a
 * thread cannot start. */
int ch_hold_replica_connect(const ch_hold *hold, const char *origin, const ch_hold_replica_options *options,
                            ch_hold_replica **replica, ch_error *error);

/* Ends the replica; the maps stay as they are. */
void ch_hold_replica_free(ch_hold_replica *replica);

/* Its status as JSON: the connection, and each map with its state and the status of its replica. */
int ch_hold_replica_describe(const ch_hold_replica *replica, ch_bytes *json, ch_error *error);

/* Waits until the origin has named its maps, and every map that can be followed equals the origin's.
 * CH_NONE: not in time. */
int ch_hold_replica_wait_ready(const ch_hold_replica *replica, uint64_t timeout_ns, ch_error *error);

/* ---- Journals -------------------------------------------------------------------------------
 *
 * A journal is a map's changes in a file, from which the map is rebuilt. */

typedef enum ch_sync_policy {
    CH_SYNC_ALWAYS = 0, /* whenever something was written */
    CH_SYNC_EVERY = 1,  /* at most every_ms after something was written */
    CH_SYNC_NEVER = 2   /* whenever the system does; ch_map_sync() returns an error */
} ch_sync_policy;

typedef struct ch_journal_options {
    size_t size;            /* CH_JOURNAL_OPTIONS_INIT sets it */
    uint64_t stream_bytes;  /* changes that the map's stream keeps; 0: as it is, or 64 MiB */
    /* the file is compacted when it has doubled and has at least this size; 0: 16 MiB */
    uint64_t compact_bytes;
    uint64_t every_ms;      /* for CH_SYNC_EVERY */
    uint32_t sync;          /* a ch_sync_policy */
    uint32_t replace;       /* 1: a file that belongs to another map is replaced, not refused */
    /* how long earlier states of the map can be restored: a file that the next one replaces stays as
     * a segment, until no state within this time needs it; 0: no segments */
    uint64_t keep_ms;
    /* with keep_ms: a new file begins at the latest after this time, unless nothing changes; 0: an
     * hour */
    uint64_t segment_ms;
    /* the directory of the segments, on the file system of the file; NULL: the file's path and .d */
    const char *archive;
    /* rebuilding: 1: leaves damaged parts of the file out, instead of refusing it */
    uint32_t skip_damaged;
    uint32_t reserved; /* zero */
} ch_journal_options;

#define CH_JOURNAL_OPTIONS_INIT \
    { sizeof(ch_journal_options), 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0 }

/* Records every change of a map in a file, from which the map is rebuilt after a system crash. Any
 * process may write to the map, and wait until its changes are durable (ch_map_sync()). Errors:
 * CH_NOT_FOUND; CH_MISMATCH (a cache, a replica, the file of another map); CH_BUSY if the map, or
 * the file, has a journal already; CH_INVALID for an archive or segment_ms without keep_ms, or an
 * archive on another file system; those of files. */
int ch_journal_start(const ch_hold *hold, const char *map, const char *file, const ch_journal_options *options,
                     ch_journal **journal, ch_error *error);

/* Writes all waiting changes, makes them durable, and ends. */
void ch_journal_free(ch_journal *journal);

/* The same, and returns whether that succeeded. Frees the journal also after CH_IO: not every change
 * has become durable, for the reason that the error gives. CH_NONE: in a forked child, where there
 * is nothing to end. */
int ch_journal_finish(ch_journal *journal, ch_error *error);

/* Its status, as JSON. CH_OK if it has ended by itself because its map is gone, else CH_NONE. */
int ch_journal_describe(const ch_journal *journal, ch_bytes *json, ch_error *error);
int ch_journal_is_over(const ch_journal *journal, ch_error *error);

/* Rebuilds a map that does not exist from its journal; `report` (JSON) may be NULL. Of the options,
 * stream_bytes and skip_damaged count. Errors: CH_EXISTS if there is a map with this name; CH_DAMAGED
 * if the file is not a journal, if too much of it is lost, or if a part that was durable is damaged;
 * CH_FULL. */
int ch_journal_rebuild(const ch_hold *hold, const char *map, const char *file, const ch_journal_options *options,
                       ch_bytes *report, ch_error *error);

/* Reads a time as milliseconds since 1970: RFC 3339, such as "2026-11-23T10:15:00+02:00", or shorter,
 * such as "2026-11-23 10:15". Without a zone it is UTC. Errors: CH_INVALID. */
int ch_journal_time(const char *text, uint64_t *at_ms, ch_error *error);

/* Finds the last state of a map whose time is not later than `at_ms`, in milliseconds since 1970: in
 * the journal's file, and in its segments (options: archive; skip_damaged allows damaged parts to lead
 * to it). `state` (JSON; may be NULL) gets its file and its time. Errors: CH_INVALID, with the times
 * that can be restored, if there is no such state, or if it is not known; CH_DAMAGED; CH_NOT_FOUND. */
int ch_journal_find_state(const char *file, uint64_t at_ms, const ch_journal_options *options, ch_bytes *state,
                          ch_error *error);

/* Rebuilds a map that does not exist as it was in that state. A journal does not continue the file,
 * which has changes that the map lacks. `report` (JSON) may be NULL. Errors: those of
 * ch_journal_find_state() and ch_journal_rebuild(). */
int ch_journal_rebuild_state(const ch_hold *hold, const char *map, const char *file, uint64_t at_ms,
                             const ch_journal_options *options, ch_bytes *report, ch_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COMMONHOLD_H */
