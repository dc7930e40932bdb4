/* The options of origins, replicas and journals. */
#include "check.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

#define SOON 20000000000u /* 20 s, in nanoseconds */

/* Whether the replica's status, as JSON, has this text. */
static int described(ch_replica *replica, const char *text) {
    ch_bytes json = CH_BYTES_INIT;
    int found;
    DONE(ch_replica_describe(replica, &json, &E));
    DONE(ch_bytes_append(&json, "", 1, &E));
    found = strstr(json.data, text) != NULL;
    ch_bytes_free(&json);
    return found;
}

static void until_described(ch_replica *replica, const char *text) {
    for (int i = 0; !described(replica, text); i++) {
        CHECK(i < 20000);
        usleep(1000);
    }
}

/* A number of the replica's status. */
static unsigned long long number(ch_replica *replica, const char *name) {
    ch_bytes json = CH_BYTES_INIT;
    char key[64], *found;
    unsigned long long number;
    snprintf(key, sizeof key, "\"%s\":", name);
    DONE(ch_replica_describe(replica, &json, &E));
    DONE(ch_bytes_append(&json, "", 1, &E));
    found = strstr(json.data, key);
    CHECK(found != NULL);
    number = strtoull(found + strlen(key), NULL, 10);
    ch_bytes_free(&json);
    return number;
}

/* Waits until the replica has counted the bytes of the full sync; how many came over the wire. */
static unsigned long long wire_bytes(ch_replica *replica) {
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    for (int i = 0; number(replica, "sync_bytes") < 300000; i++) {
        CHECK(i < 20000);
        usleep(1000);
    }
    return number(replica, "sync_wire_bytes");
}

/* An origin of a map that listens at this address. */
static ch_origin *serving(ch_hold *hold, const char *map, const char *address, uint32_t compression) {
    ch_origin_options options = {.size = sizeof options, .compression = compression};
    ch_origin *origin;
    DONE(ch_origin_start(hold, map, &options, &origin, &E));
    DONE(ch_origin_listen(origin, address, NULL, &E));
    return origin;
}

static ch_replica *following(ch_hold *hold, const char *map, const char *address, const ch_replica_options *options) {
    ch_replica *replica;
    DONE(ch_replica_connect(hold, map, address, options, &replica, &E));
    return replica;
}

TEST(options_both_sides_decide_on_compression) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL);
    ch_origin *always, *never;
    ch_replica *replica;
    ch_origin_options wrong = {.size = sizeof wrong, .compression = 3};
    ch_origin_options newer = {.size = sizeof newer, .reserved = 1};
    ch_replica_options options = {.size = sizeof options, .compression = CH_COMPRESS_ALWAYS};
    char first[200], second[200], zeros[1000] = {0};
    for (uint32_t i = 0; i < 300; i++) DONE(ch_map_set(map, &i, 4, zeros, sizeof zeros, NULL, &E));
    FAILS(CH_INVALID, "ch_compression", ch_origin_start(hold, "it", &wrong, &always, &E));
    FAILS(CH_INVALID, "newer version", ch_origin_start(hold, "it", &newer, &always, &E));
    snprintf(first, sizeof first, "unix:%s", place("first"));
    snprintf(second, sizeof second, "unix:%s", place("second"));
    always = serving(hold, "it", first, CH_COMPRESS_ALWAYS);
    never = serving(hold, "it", second, CH_COMPRESS_NEVER);
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    replica = following(other, "compressed", first, &options);
    CHECK(wire_bytes(replica) < 100000);
    ch_replica_free(replica);
    replica = following(other, "plain", second, &options);
    CHECK(wire_bytes(replica) > 300000);
    ch_replica_free(replica);
    options.compression = CH_COMPRESS_AUTO; /* not over a local socket */
    replica = following(other, "automatic", first, &options);
    CHECK(wire_bytes(replica) > 300000);
    ch_replica_free(replica);
    options.compression = 9;
    FAILS(CH_INVALID, "ch_compression", ch_replica_connect(other, "it", first, &options, &replica, &E));
    ch_origin_free(always);
    ch_origin_free(never);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(options_a_replica_goes_on_at_another_address_and_relays) {
    ch_hold *hold = new_hold(), *middle, *last;
    ch_map *map = new_map(hold, "it", NULL), *copy;
    ch_origin *origin, *relay;
    ch_replica *replica, *second, *none;
    ch_map_stat_t ours, theirs;
    char first[200], also[200];
    const char *addresses[] = {also};
    ch_replica_options relaying = {.size = sizeof relaying, .stream_bytes = 1 << 20};
    ch_replica_options options = {.size = sizeof options, .also = addresses, .also_count = 1, .origin_map = "it"};
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    snprintf(first, sizeof first, "unix:%s", place("first"));
    snprintf(also, sizeof also, "unix:%s", place("also"));
    origin = serving(hold, "it", first, CH_COMPRESS_AUTO);
    DONE(ch_hold_create(place("middle.hold"), NULL, &middle, &E));
    DONE(ch_hold_create(place("last.hold"), NULL, &last, &E));
    replica = following(middle, "it", first, &relaying);
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_open(middle, "it", &copy, &E));
    DONE(ch_map_stat(map, &ours, &E));
    DONE(ch_map_stat(copy, &theirs, &E));
    CHECK(theirs.stream_bytes == 1 << 20 && theirs.stream_end.stream == ours.stream_end.stream);
    ch_map_free(copy);
    relay = serving(middle, "it", also, CH_COMPRESS_AUTO);
    second = following(last, "copy", first, &options);
    DONE(ch_replica_wait_ready(second, SOON, &E));
    ch_origin_free(origin);
    until_described(second, also); /* its origin now */
    until_described(second, "\"connected\":true");
    CHECK(number(second, "synchronisations") == 1);
    addresses[0] = "nowhere";
    FAILS(CH_INVALID, "nowhere", ch_replica_connect(last, "it", first, &options, &none, &E));
    ch_replica_free(second);
    ch_origin_free(relay);
    ch_replica_free(replica);
    ch_map_free(map);
    ch_hold_free(last);
    ch_hold_free(middle);
    ch_hold_free(hold);
}

TEST(options_a_replica_adopts_another_map_only_if_it_may) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *next = new_map(hold, "next", NULL), *copy;
    ch_origin *origin;
    ch_replica *replica;
    char address[200];
    ch_replica_options options = {.size = sizeof options, .first_pause_ns = 1000000};
    DONE(ch_map_set(next, CH_LIT("b"), CH_LIT("2"), NULL, &E));
    snprintf(address, sizeof address, "unix:%s", place("socket"));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    origin = serving(hold, "it", address, CH_COMPRESS_AUTO);
    options.origin_map = "wrong";
    replica = following(other, "it", address, &options);
    until_described(replica, "wrong");
    until_described(replica, "\"ready\":false");
    ch_replica_free(replica);
    options.origin_map = NULL;
    replica = following(other, "it", address, &options);
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    ch_origin_free(origin);
    origin = serving(hold, "next", address, CH_COMPRESS_AUTO);
    until_described(replica, "map 'next' of hold");
    ch_replica_free(replica);
    DONE(ch_map_open(other, "it", &copy, &E));
    ANSWERS(CH_NONE, ch_map_contains(copy, CH_LIT("b"), &E));
    options.adopt = 1;
    replica = following(other, "it", address, &options);
    for (int i = 0; ch_map_contains(copy, CH_LIT("b"), NULL) != CH_OK; i++) {
        CHECK(i < 20000);
        usleep(1000);
    }
    ch_replica_free(replica);
    ch_origin_free(origin);
    ch_map_free(copy);
    ch_map_free(next);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

/* Removes a folder and its files. */
static void remove_folder(const char *path) {
    DIR *folder = opendir(path);
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        CHECK(entry->d_name[0] == '.' || unlinkat(dirfd(folder), entry->d_name, 0) == 0);
    closedir(folder);
    CHECK(rmdir(path) == 0);
}

static int files_in(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

TEST(options_a_journal_keeps_segments) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_journal *journal;
    char archive[200];
    ch_journal_options options = {.size = sizeof options, .archive = archive};
    snprintf(archive, sizeof archive, "%s", place("segments"));
    FAILS(CH_INVALID, "segments", ch_journal_start(hold, "it", place("it.journal"), &options, &journal, &E));
    options.archive = NULL;
    options.segment_ms = 1000;
    FAILS(CH_INVALID, "segments", ch_journal_start(hold, "it", place("it.journal"), &options, &journal, &E));
    options.archive = archive;
    options.keep_ms = 3600000;
    options.segment_ms = 1; /* the next change begins a file */
    DONE(ch_journal_start(hold, "it", place("it.journal"), &options, &journal, &E));
    for (uint32_t i = 0; files_in(archive) == 0; i++) {
        CHECK(i < 20000);
        DONE(ch_map_set(map, &i, 4, &i, 4, NULL, &E));
        DONE(ch_map_sync(map, SOON, NULL, &E));
        usleep(1000);
    }
    DONE(ch_journal_finish(journal, &E));
    remove_folder(archive);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(options_damaged_parts_are_left_out_if_wanted) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL);
    ch_journal *journal;
    ch_bytes report = CH_BYTES_INIT;
    ch_journal_options options = {.size = sizeof options, .skip_damaged = 1};
    char value[100] = {0};
    uint64_t len;
    FILE *file;
    DONE(ch_journal_start(hold, "it", place("it.journal"), NULL, &journal, &E));
    DONE(ch_map_sync(map, SOON, NULL, &E)); /* so that the file has each key once */
    for (uint32_t i = 0; i < 2000; i++) DONE(ch_map_set(map, &i, 4, value, sizeof value, NULL, &E));
    DONE(ch_map_sync(map, SOON, NULL, &E));
    DONE(ch_journal_finish(journal, &E));
    file = fopen(place("it.journal"), "r+b");
    CHECK(file != NULL && fseek(file, 100000, SEEK_SET) == 0);
    for (int i = 0; i < 3000; i++) CHECK(fputc(0xff, file) == 0xff);
    CHECK(fclose(file) == 0);
    ch_map_free(map);
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    FAILS(CH_DAMAGED, "it.journal", ch_journal_rebuild(other, "it", place("it.journal"), NULL, NULL, &E));
    DONE(ch_journal_rebuild(other, "it", place("it.journal"), &options, &report, &E));
    DONE(ch_bytes_append(&report, "", 1, &E));
    CHECK(strstr(report.data, "\"damage\":[{") != NULL);
    DONE(ch_map_open(other, "it", &map, &E));
    DONE(ch_map_len(map, &len, &E));
    CHECK(len > 1900 && len < 2000);
    ch_bytes_free(&report);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

TEST(options_an_earlier_state_is_rebuilt) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *past;
    ch_journal *journal;
    ch_bytes report = CH_BYTES_INIT;
    ch_journal_options options = {.size = sizeof options, .archive = "/nowhere"};
    uint64_t at, time = 0;
    DONE(ch_journal_start(hold, "it", place("it.journal"), NULL, &journal, &E));
    DONE(ch_map_set(map, CH_LIT("first"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_sync(map, SOON, NULL, &E));
    at = now_ms();
    usleep(300000); /* a pause, of which the journal notes the beginning */
    DONE(ch_map_set(map, CH_LIT("second"), CH_LIT("2"), NULL, &E));
    DONE(ch_journal_finish(journal, &E));
    ch_map_free(map);
    DONE(ch_journal_find_state(place("it.journal"), at, NULL, &report, &E));
    DONE(ch_bytes_append(&report, "", 1, &E));
    CHECK(strstr(report.data, "it.journal") && strstr(report.data, "\"time_ms\":"));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    FAILS(CH_INVALID, "", ch_journal_rebuild_state(other, "it", place("it.journal"), 1000, NULL, NULL, &E));
    FAILS(CH_INVALID, "", ch_journal_find_state(place("it.journal"), 1000, &options, NULL, &E));
    FAILS(CH_NOT_FOUND, "none", ch_journal_find_state(place("none"), at, NULL, NULL, &E));
    DONE(ch_journal_rebuild_state(other, "it", place("it.journal"), at, NULL, &report, &E));
    DONE(ch_bytes_append(&report, "", 1, &E));
    CHECK(strstr(report.data, "\"time_ms\":") && strstr(report.data, "\"changes\":"));
    DONE(ch_map_open(other, "it", &past, &E));
    DONE(ch_map_contains(past, CH_LIT("first"), &E));
    ANSWERS(CH_NONE, ch_map_contains(past, CH_LIT("second"), &E));
    FAILS(CH_EXISTS, "it", ch_journal_rebuild_state(other, "it", place("it.journal"), at, NULL, NULL, &E));
    DONE(ch_journal_time("2026-11-23 10:15", &time, &E));
    CHECK(time == 1795428900000u);
    FAILS(CH_INVALID, "now", ch_journal_time("now", &time, &E));
    ch_bytes_free(&report);
    ch_map_free(past);
    ch_hold_free(other);
    ch_hold_free(hold);
}
