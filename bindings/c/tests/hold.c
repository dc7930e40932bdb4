/* Holds: opening, names, statistics, copies, dropping. */
#include "check.h"

#include <unistd.h>

TEST(hold_is_opened_created_and_dropped) {
    ch_hold *hold, *other;
    FAILS(CH_NOT_FOUND, "it.hold", ch_hold_open(place("it.hold"), NULL, &hold, &E));
    CHECK(hold == NULL);
    hold = new_hold();
    FAILS(CH_EXISTS, "it.hold", ch_hold_create(place("it.hold"), NULL, &other, &E));
    DONE(ch_hold_open_or_create(place("it.hold"), NULL, &other, &E));
    FAILS(CH_BUSY, "", ch_hold_remove(place("it.hold"), 0, &E));
    ch_hold_free(other);
    ch_hold_free(hold);
    DONE(ch_hold_remove(place("it.hold"), 0, &E));
    FAILS(CH_NOT_FOUND, "", ch_hold_remove(place("it.hold"), 1, &E));
}

/* Not under valgrind, which hides the descriptors from the helper process that waits for the last
 * user. */
TEST(hold_goes_with_its_last_user) {
    ch_hold_options options = {.size = sizeof options, .delete_on_last_exit = 1};
    ch_hold *hold;
    DONE(ch_hold_create(place("it.hold"), &options, &hold, &E));
    CHECK(access(place("it.hold"), F_OK) == 0);
    ch_hold_free(hold);
    for (int i = 0; i < 1000 && access(place("it.hold"), F_OK) == 0; i++) usleep(10000);
    CHECK(access(place("it.hold"), F_OK) != 0);
}

TEST(hold_options_are_taken) {
    ch_hold_options options = CH_HOLD_OPTIONS_INIT;
    ch_hold_stat_t stat;
    ch_hold *hold, *none;
    ch_map *map;
    ch_bytes path = CH_BYTES_INIT;
    char folder[400];
    snprintf(folder, sizeof folder, "%s", place(""));
    folder[strlen(folder) - 1] = '\0';
    options.max_bytes = 8 << 20;
    options.directory = folder;
    DONE(ch_hold_create("named", &options, &hold, &E));
    DONE(ch_hold_resolve("named", folder, &path, &E));
    CHECK(bytes_are(&path, place("named.hold")));
    DONE(ch_hold_stat(hold, &stat, &E));
    CHECK(stat.max_bytes == 8 << 20 && stat.participants == 1 && stat.in_memory == 1 && stat.maps == 0);
    ch_hold_free(hold);

    hold = new_hold();
    ch_map_free(new_map(hold, "it", NULL));
    ch_hold_free(hold);
    options = (ch_hold_options)CH_HOLD_OPTIONS_INIT;
    options.read_only = 1;
    DONE(ch_hold_open(place("it.hold"), &options, &hold, &E));
    DONE(ch_map_open(hold, "it", &map, &E));
    FAILS(CH_READ_ONLY, "read-only", ch_map_set(map, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    ANSWERS(CH_NONE, ch_map_get(map, CH_LIT("a"), &path, &E));
    options.max_bytes = 1;
    FAILS(CH_INVALID, "", ch_hold_create(place("small.hold"), &options, &none, &E));
    ch_map_free(map);
    ch_hold_free(hold);
    ch_bytes_free(&path);
}

TEST(hold_tells_of_itself) {
    ch_hold *hold = new_hold();
    ch_map_options cache = {.size = sizeof cache, .mode = CH_CACHE, .max_entries = 5};
    uint8_t uuid[16] = {0}, none[16] = {0};
    ch_slice path;
    ch_bytes json = CH_BYTES_INIT;
    ch_map_free(new_map(hold, "first", NULL));
    ch_map_free(new_map(hold, "second", &cache));
    DONE(ch_hold_path(hold, &path, &E));
    CHECK(slice_is(path, place("it.hold")));
    DONE(ch_hold_uuid(hold, &uuid, &E));
    CHECK(memcmp(uuid, none, 16) != 0);
    for (uint32_t what = CH_ABOUT_HOLD; what <= CH_ABOUT_REPORTS; what++) {
        DONE(ch_hold_describe(hold, what, &json, &E));
        CHECK(json.len > 0 && (((char *)json.data)[0] == '{' || ((char *)json.data)[0] == '['));
    }
    FAILS(CH_INVALID, "99", ch_hold_describe(hold, 99, &json, &E));
    DONE(ch_map_list(hold, &json, &E));
    DONE(ch_bytes_append(&json, "", 1, &E));
    CHECK(strstr(json.data, "\"first\"") && strstr(json.data, "\"second\"") && strstr(json.data, "\"max_entries\":5"));
    DONE(ch_hold_sweep(hold, NULL, &E));
    DONE(ch_hold_trim(hold, NULL, &E));
    DONE(ch_map_drop(hold, "first", &E));
    ANSWERS(CH_NONE, ch_map_drop(hold, "first", &E));
    whole(hold);
    ch_bytes_free(&json);
    ch_hold_free(hold);
}

/* Whether the list, which is JSON, has the name. */
static int has(ch_bytes *json, const char *name) {
    DONE(ch_bytes_append(json, "", 1, &E));
    return strstr(json->data, name) != NULL;
}

TEST(hold_opens_structures_by_name) {
    ch_hold *hold = new_hold();
    ch_queue_options elements = {.size = sizeof elements, .elements = 2, .element_bytes = 64};
    ch_map *map;
    ch_queue *queue;
    ch_channel *channel;
    ch_log *log;
    ch_bytes json = CH_BYTES_INIT;
    FAILS(CH_NOT_FOUND, "it", ch_map_open(hold, "it", &map, &E));
    DONE(ch_map_create(hold, "a map", NULL, &map, &E));
    ch_map_free(map);
    FAILS(CH_EXISTS, "a map", ch_map_create(hold, "a map", NULL, &map, &E));
    CHECK(map == NULL);
    FAILS(CH_NOT_FOUND, "it", ch_queue_open(hold, "it", &queue, &E));
    DONE(ch_queue_create(hold, "a queue", &elements, &queue, &E));
    ch_queue_free(queue);
    FAILS(CH_EXISTS, "a queue", ch_queue_create(hold, "a queue", &elements, &queue, &E));
    FAILS(CH_NOT_FOUND, "it", ch_channel_open(hold, "it", &channel, &E));
    DONE(ch_channel_create(hold, "a channel", 4096, &channel, &E));
    ch_channel_free(channel);
    FAILS(CH_EXISTS, "a channel", ch_channel_create(hold, "a channel", 4096, &channel, &E));
    FAILS(CH_NOT_FOUND, "it", ch_log_open(hold, "it", &log, &E));
    DONE(ch_log_create(hold, "a log", NULL, &log, &E));
    ch_log_free(log);
    FAILS(CH_EXISTS, "a log", ch_log_create(hold, "a log", NULL, &log, &E));
    FAILS(CH_MISMATCH, "a log", ch_map_create(hold, "a log", NULL, &map, &E));

    DONE(ch_map_list(hold, &json, &E));
    CHECK(has(&json, "\"a map\"") && !has(&json, "\"a queue\""));
    DONE(ch_queue_list(hold, &json, &E));
    CHECK(has(&json, "\"a queue\"") && !has(&json, "\"a channel\""));
    DONE(ch_channel_list(hold, &json, &E));
    CHECK(has(&json, "\"a channel\"") && !has(&json, "\"a log\""));
    DONE(ch_log_list(hold, &json, &E));
    CHECK(has(&json, "\"a log\"") && !has(&json, "\"a map\""));

    ANSWERS(CH_NONE, ch_map_promote(hold, "a map", NULL, &E));
    DONE(ch_queue_drop(hold, "a queue", &E));
    DONE(ch_channel_drop(hold, "a channel", &E));
    DONE(ch_log_drop(hold, "a log", &E));
    ANSWERS(CH_NONE, ch_log_drop(hold, "a log", &E));
    FAILS(CH_MISMATCH, "a map", ch_log_drop(hold, "a map", &E));
    ch_bytes_free(&json);
    ch_hold_free(hold);
}

TEST(hold_is_copied_and_restored) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_backup_report report;
    uint64_t pairs;
    uint32_t maps;
    ch_bytes value = CH_BYTES_INIT;
    for (int i = 0; i < 1000; i++) DONE(ch_map_set(map, &i, sizeof i, &i, sizeof i, NULL, &E));
    DONE(ch_hold_backup(hold, place("copy"), &report, &E));
    CHECK(report.pairs == 1000 && report.maps == 1 && report.left_out == 0);
    FAILS(CH_EXISTS, "copy", ch_hold_backup(hold, place("copy"), NULL, &E));
    ch_map_free(map);
    ch_hold_free(hold);
    DONE(ch_hold_restore(place("copy"), place("again.hold"), &maps, &pairs, &E));
    CHECK(maps == 1 && pairs == 1000);
    DONE(ch_hold_open(place("again.hold"), NULL, &hold, &E));
    DONE(ch_map_open(hold, "it", &map, &E));
    int key = 77;
    DONE(ch_map_get(map, &key, sizeof key, &value, &E));
    CHECK(value.len == sizeof key && memcmp(value.data, &key, sizeof key) == 0);
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
}

static int look(void *user) {
    ch_bytes value = CH_BYTES_INIT;
    ANSWERS(CH_BUSY, ch_map_set(user, CH_LIT("a"), CH_LIT("2"), NULL, &E));
    DONE(ch_map_get(user, CH_LIT("a"), &value, &E));
    CHECK(bytes_are(&value, "1"));
    ch_bytes_free(&value);
    return 7;
}

TEST(hold_is_frozen_for_a_callback) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    int answer = 0;
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    DONE(ch_hold_with_frozen(hold, look, map, &answer, &E));
    CHECK(answer == 7);
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("2"), NULL, &E));
    ch_map_free(map);
    ch_hold_free(hold);
}

/* Programs and libraries of different versions: members that only one of them knows are at their
 * default, or refused. */
TEST(options_say_their_size) {
    ch_hold *hold = new_hold();
    ch_map *map;
    struct {
        ch_map_options known;
        uint64_t later[4];
    } newer = {.known = {.size = sizeof newer, .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 8}};
    DONE(ch_map_open_or_create(hold, "newer", &newer.known, &map, &E));
    memset(&newer.known.mode, 0xff, sizeof newer - sizeof newer.known.size);
    DONE(ch_map_get_options(map, &newer.known, &E));
    CHECK(newer.known.size == sizeof newer && newer.known.key_bytes == 4 && newer.later[0] == 0 && newer.later[3] == 0);
    ch_map_free(map);
    newer.later[3] = 1;
    FAILS(CH_INVALID, "newer version", ch_map_open_or_create(hold, "newest", &newer.known, &map, &E));
    CHECK(map == NULL);
    /* An older program's structure ends earlier; the bytes after it belong to others. */
    ch_map_options older = {.size = offsetof(ch_map_options, max_bytes), .mode = CH_CACHE, .max_bytes = 1 << 20, .ttl_ms = 1};
    DONE(ch_map_open_or_create(hold, "older", &older, &map, &E));
    ch_map_options found = CH_MAP_OPTIONS_INIT;
    DONE(ch_map_get_options(map, &found, &E));
    CHECK(found.mode == CH_CACHE && found.max_bytes == 0 && found.ttl_ms == 0);
    DONE(ch_map_get_options(map, &older, &E));
    CHECK(older.max_bytes == 1 << 20 && older.ttl_ms == 1);
    ch_map_options none = {0}, odd = {.size = 9};
    FAILS(CH_INVALID, "CH_MAP_OPTIONS_INIT", ch_map_get_options(map, &none, &E));
    ch_map_free(map);
    FAILS(CH_INVALID, "CH_MAP_OPTIONS_INIT", ch_map_open_or_create(hold, "none", &none, &map, &E));
    FAILS(CH_INVALID, "CH_MAP_OPTIONS_INIT", ch_map_open_or_create(hold, "odd", &odd, &map, &E));
    ch_hold_options reserved = {.size = sizeof reserved, .reserved = 1};
    ch_hold *other;
    FAILS(CH_INVALID, "newer version", ch_hold_open(place("it.hold"), &reserved, &other, &E));
    ch_hold_free(hold);
}
