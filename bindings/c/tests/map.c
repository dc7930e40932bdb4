/* Maps: every operation, in every mode; the same cases as the library's own contract. */
#include "check.h"

#include <unistd.h>

static const ch_map_options modes[] = {
    {.size = sizeof(ch_map_options), .mode = CH_GENERAL},
    {.size = sizeof(ch_map_options), .mode = CH_CACHE, .max_entries = 1 << 20},
    {.size = sizeof(ch_map_options), .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 4},
    {.size = sizeof(ch_map_options), .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 8},
    {.size = sizeof(ch_map_options), .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 40},
};
enum { MODES = sizeof modes / sizeof modes[0] };

static size_t value_len(const ch_map_options *mode, uint32_t id) {
    return mode->mode == CH_FIXED ? mode->value_bytes : id % 50;
}

static void fill(char *value, uint32_t id, uint32_t version) {
    for (uint32_t i = 0; i < 64; i++) value[i] = (char)(id * 7 + version * 13 + i);
}

/* All ways to read agree. */
static void expect(ch_map *map, const ch_map_options *mode, uint32_t id, int version) {
    char wanted[64], room[64];
    ch_bytes value = CH_BYTES_INIT, key = CH_BYTES_INIT;
    size_t len = value_len(mode, id), got;
    uint32_t uid;
    int answer = version < 0 ? CH_NONE : CH_OK;
    fill(wanted, id, (uint32_t)version);
    ANSWERS(answer, ch_map_get(map, &id, 4, &value, &E));
    ANSWERS(answer, ch_map_get_into(map, &id, 4, room, sizeof room, &got, &E));
    ANSWERS(answer, ch_map_contains(map, &id, 4, &E));
    ANSWERS(answer, ch_map_uid(map, &id, 4, &uid, &E));
    if (version >= 0) {
        CHECK(value.len == len && got == len && memcmp(room, wanted, len) == 0);
        CHECK(len == 0 || memcmp(value.data, wanted, len) == 0);
        DONE(ch_map_get_uid(map, uid, &key, &value, &E));
        CHECK(key.len == 4 && memcmp(key.data, &id, 4) == 0 && value.len == len);
    } else {
        CHECK(value.len == 0);
    }
    ch_bytes_free(&value);
    ch_bytes_free(&key);
}

TEST(map_set_get_and_delete_in_every_mode) {
    ch_hold *hold = new_hold();
    for (int m = 0; m < MODES; m++) {
        char name[20], value[64];
        uint64_t len;
        uint32_t uid, again;
        snprintf(name, sizeof name, "map %d", m);
        ch_map *map = new_map(hold, name, &modes[m]);
        for (uint32_t id = 0; id < 3000; id++) {
            fill(value, id, 1);
            DONE(ch_map_set(map, &id, 4, value, value_len(&modes[m], id), &uid, &E));
            DONE(ch_map_uid(map, &id, 4, &again, &E));
            CHECK(uid == again);
        }
        for (uint32_t id = 0; id < 3000; id += 3) DONE(ch_map_delete(map, &id, 4, &E));
        for (uint32_t id = 0; id < 3000; id++) expect(map, &modes[m], id, id % 3 == 0 ? -1 : 1);
        DONE(ch_map_len(map, &len, &E));
        CHECK(len == 2000);
        uint32_t gone = 0;
        ANSWERS(CH_NONE, ch_map_delete(map, &gone, 4, &E));
        DONE(ch_map_clear(map, &len, &E));
        CHECK(len == 2000);
        DONE(ch_map_len(map, &len, &E));
        CHECK(len == 0);
        ch_map_free(map);
    }
    whole(hold);
    ch_hold_free(hold);
}

TEST(map_conditions) {
    ch_hold *hold = new_hold();
    for (int m = 0; m < MODES; m++) {
        char name[20], one[64], two[64];
        uint32_t id = 5;
        size_t len = value_len(&modes[m], id);
        snprintf(name, sizeof name, "map %d", m);
        ch_map *map = new_map(hold, name, &modes[m]);
        ch_bytes taken = CH_BYTES_INIT;
        fill(one, id, 1);
        fill(two, id, 2);
        ch_slice first = {one, len}, second = {two, len};
        ANSWERS(CH_NONE, ch_map_replace(map, &id, 4, one, len, NULL, &E));
        DONE(ch_map_add(map, &id, 4, one, len, NULL, &E));
        ANSWERS(CH_NONE, ch_map_add(map, &id, 4, two, len, NULL, &E));
        DONE(ch_map_replace(map, &id, 4, two, len, NULL, &E));
        expect(map, &modes[m], id, 2);
        ANSWERS(CH_NONE, ch_map_compare_exchange(map, &id, 4, NULL, &first, &E));
        ANSWERS(CH_NONE, ch_map_compare_exchange(map, &id, 4, &first, &second, &E));
        DONE(ch_map_compare_exchange(map, &id, 4, &second, &first, &E));
        expect(map, &modes[m], id, 1);
        DONE(ch_map_compare_exchange(map, &id, 4, &first, NULL, &E));
        DONE(ch_map_compare_exchange(map, &id, 4, NULL, NULL, &E));
        DONE(ch_map_compare_exchange(map, &id, 4, NULL, &second, &E));
        DONE(ch_map_take(map, &id, 4, &taken, &E));
        CHECK(taken.len == len && memcmp(taken.data, two, len) == 0);
        ANSWERS(CH_NONE, ch_map_take(map, &id, 4, &taken, &E));
        expect(map, &modes[m], id, -1);
        ch_bytes_free(&taken);
        ch_map_free(map);
    }
    ch_hold_free(hold);
}

static int longer(void *user, ch_slice old, ch_bytes *replacement) {
    int *calls = user;
    *calls += 1;
    if (old.data == NULL) return ch_bytes_set(replacement, "x", 1, NULL);
    if (old.len >= 3) return CH_NONE;
    if (*calls == 100) return CH_MISMATCH;
    DONE(ch_bytes_set(replacement, old.data, old.len, &E));
    DONE(ch_bytes_resize(replacement, old.len + 1, &E));
    ((char *)replacement->data)[old.len] = 'y';
    return CH_OK;
}

static int gives_up(void *user, ch_slice old, ch_bytes *replacement) {
    (void)user, (void)old, (void)replacement;
    return CH_STALE;
}

TEST(map_updates_by_callback) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes value = CH_BYTES_INIT;
    int calls = 0;
    uint32_t uid;
    DONE(ch_map_update(map, CH_LIT("k"), longer, &calls, &uid, &E));
    DONE(ch_map_update(map, CH_LIT("k"), longer, &calls, NULL, &E));
    DONE(ch_map_update_uid(map, uid, CH_LIT("k"), longer, &calls, &E));
    DONE(ch_map_get(map, CH_LIT("k"), &value, &E));
    CHECK(bytes_are(&value, "xyy") && calls == 3);
    ANSWERS(CH_NONE, ch_map_update(map, CH_LIT("k"), longer, &calls, NULL, &E));
    ANSWERS(CH_NONE, ch_map_contains(map, CH_LIT("k"), &E));
    ANSWERS(CH_NONE, ch_map_update_uid(map, uid, CH_LIT("k"), longer, &calls, &E));
    DONE(ch_map_set(map, CH_LIT("k"), CH_LIT("a"), NULL, &E));
    calls = 99;
    FAILS(CH_MISMATCH, "callback", ch_map_update(map, CH_LIT("k"), longer, &calls, NULL, &E));
    FAILS(CH_STALE, "callback", ch_map_update(map, CH_LIT("k"), gives_up, NULL, NULL, &E));
    FAILS(CH_INVALID, "callback", ch_map_update(map, CH_LIT("k"), NULL, NULL, NULL, &E));
    DONE(ch_map_get(map, CH_LIT("k"), &value, &E));
    CHECK(bytes_are(&value, "a"));
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_uids_check_their_key) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes value = CH_BYTES_INIT;
    ch_slice eight = {"\1\0\0\0\0\0\0\0", 8}, nine = text_slice("nine");
    uint32_t uid;
    int64_t sum;
    DONE(ch_map_set(map, CH_LIT("k"), eight.data, 8, &uid, &E));
    DONE(ch_map_increment_uid(map, uid, CH_LIT("k"), 41, &sum, &E));
    CHECK(sum == 42);
    ANSWERS(CH_NONE, ch_map_increment_uid(map, uid, CH_LIT("other"), 41, &sum, &E));
    ANSWERS(CH_NONE, ch_map_set_uid(map, uid, CH_LIT("other"), CH_LIT("v"), &E));
    DONE(ch_map_set_uid(map, uid, CH_LIT("k"), eight.data, eight.len, &E));
    ANSWERS(CH_NONE, ch_map_compare_exchange_uid(map, uid, CH_LIT("k"), &nine, &eight, &E));
    DONE(ch_map_compare_exchange_uid(map, uid, CH_LIT("k"), &eight, &nine, &E));
    FAILS(CH_INVALID, "expected", ch_map_compare_exchange_uid(map, uid, CH_LIT("k"), NULL, &nine, &E));
    ANSWERS(CH_NONE, ch_map_delete_uid(map, uid, CH_LIT("other"), &E));
    DONE(ch_map_take_uid(map, uid, CH_LIT("k"), &value, &E));
    CHECK(bytes_are(&value, "nine"));
    ANSWERS(CH_NONE, ch_map_get_uid(map, uid, NULL, NULL, &E));
    ANSWERS(CH_NONE, ch_map_delete_uid(map, uid, CH_LIT("k"), &E));
    ANSWERS(CH_NONE, ch_map_get_uid(map, UINT32_MAX, NULL, NULL, &E));
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_increments) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    int64_t sum;
    for (int i = 1; i <= 100; i++) {
        DONE(ch_map_increment(map, CH_LIT("n"), -3, &sum, &E));
        CHECK(sum == -3 * i);
    }
    DONE(ch_map_set(map, CH_LIT("text"), CH_LIT("abc"), NULL, &E));
    FAILS(CH_MISMATCH, "", ch_map_increment(map, CH_LIT("text"), 1, &sum, &E));
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_pairs_are_found_again) {
    ch_hold *hold = new_hold();
    for (size_t m = 0; m < MODES; m++) {
        const ch_map_options *mode = &modes[m];
        ch_map *map = new_map(hold, "it", mode);
        ch_bytes value = CH_BYTES_INIT;
        uint32_t id = 7, uid, same;
        size_t len = value_len(mode, id), got;
        char wanted[64], room[64];
        ch_pair *pair;
        DONE(ch_map_pair(map, &id, 4, &pair, &E));
        ANSWERS(CH_NONE, ch_pair_get(pair, &value, &E));
        for (uint32_t version = 1; version < 40; version++) {
            fill(wanted, id, version);
            DONE(ch_pair_set(pair, wanted, len, &uid, &E));
            expect(map, mode, id, (int)version);
            /* Through the map: deleted, created again, and many others. */
            if (version % 3 == 0) DONE(ch_map_delete(map, &id, 4, &E));
            if (version % 3 == 0) ANSWERS(CH_NONE, ch_pair_get_into(pair, room, sizeof room, &got, &E));
            fill(wanted, id, version + 100);
            if (version % 2) DONE(ch_map_set(map, &id, 4, wanted, len, NULL, &E));
            for (uint32_t other = 0; other < 200; other++) {
                uint32_t key = 1000 + version * 200 + other;
                DONE(ch_map_set(map, &key, 4, wanted, len, NULL, &E));
            }
            if (version % 2 == 0 && version % 3 == 0) continue;
            fill(wanted, id, version % 2 ? version + 100 : version);
            DONE(ch_pair_get(pair, &value, &E));
            CHECK(value.len == len && (len == 0 || memcmp(value.data, wanted, len) == 0));
            DONE(ch_pair_get_into(pair, room, sizeof room, &got, &E));
            CHECK(got == len && memcmp(room, wanted, len) == 0);
        }
        DONE(ch_pair_set(pair, wanted, len, &uid, &E));
        DONE(ch_map_uid(map, &id, 4, &same, &E));
        CHECK(uid == same);
        DONE(ch_map_drop(hold, "it", &E));
        FAILS(CH_NOT_FOUND, "", ch_pair_get(pair, &value, &E));
        ch_bytes_free(&value);
        ch_pair_free(pair);
        ch_pair_free(NULL);
        ch_map_free(map);
    }
    ch_hold_free(hold);
}

TEST(map_pairs_increment) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_pair *pair;
    int64_t sum;
    DONE(ch_map_pair(map, CH_LIT("12345678"), &pair, &E));
    for (int i = 1; i <= 100; i++) {
        DONE(ch_pair_increment(pair, -3, &sum, &E));
        CHECK(sum == -3 * i);
    }
    DONE(ch_pair_set(pair, CH_LIT("abc"), NULL, &E));
    FAILS(CH_MISMATCH, "", ch_pair_increment(pair, 1, &sum, &E));
    FAILS(CH_INVALID, "", ch_pair_increment((ch_pair *)map, 1, &sum, &E));
    ch_map_free(map);
    ch_hold_free(hold);
    DONE(ch_pair_set(pair, CH_LIT("it keeps its hold"), NULL, &E));
    ch_pair_free(pair);
}

TEST(map_batches) {
    enum { COUNT = 1000 };
    static uint32_t ids[COUNT];
    static ch_slice keys[COUNT], found[COUNT];
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_values *values;
    size_t present;
    DONE(ch_values_new(&values, &E));
    for (uint32_t i = 0; i < COUNT; i++) {
        ids[i] = i;
        keys[i].data = &ids[i];
        keys[i].len = 4;
    }
    DONE(ch_map_set_many(map, keys, keys, COUNT / 2, &E));
    DONE(ch_map_set(map, CH_LIT("empty"), NULL, 0, NULL, &E));
    for (int round = 0; round < 3; round++) {
        DONE(ch_map_get_many(map, keys, COUNT, values, found, &present, &E));
        CHECK(present == COUNT / 2);
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK((found[i].data != NULL) == (i < COUNT / 2));
            CHECK(found[i].data == NULL || (found[i].len == 4 && memcmp(found[i].data, &i, 4) == 0));
        }
    }
    keys[0] = text_slice("empty");
    DONE(ch_map_get_many(map, keys, 1, values, found, NULL, &E));
    CHECK(found[0].data != NULL && found[0].len == 0);
    DONE(ch_map_get_many(map, NULL, 0, values, NULL, &present, &E));
    CHECK(present == 0);
    ch_values_free(values);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_walks) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes key_bytes = CH_BYTES_INIT, value_bytes = CH_BYTES_INIT;
    static uint8_t seen[5000];
    ch_slice key, value;
    ch_iter *iter;
    uint64_t cursor = 0;
    ANSWERS(CH_NONE, ch_map_random_pair(map, &key_bytes, &value_bytes, &E));
    for (uint32_t id = 0; id < 5000; id++) DONE(ch_map_set(map, &id, 4, &id, 4, NULL, &E));
    DONE(ch_map_iter(map, 0, &iter, &E));
    uint32_t walked = 0;
    for (; ch_iter_next(iter, &key, &value, NULL) == CH_OK; walked++) {
        uint32_t id;
        CHECK(key.len == 4 && value.len == 4 && memcmp(key.data, value.data, 4) == 0);
        memcpy(&id, key.data, 4);
        CHECK(id < 5000 && seen[id]++ == 0);
        if (walked >= 2500 && ch_iter_cursor(iter, &cursor, NULL) == CH_OK) break;
    }
    ch_iter_free(iter);
    DONE(ch_map_iter(map, cursor, &iter, &E));
    for (walked++; ch_iter_next(iter, &key, &value, NULL) == CH_OK; walked++) {}
    CHECK(walked == 5000);
    ANSWERS(CH_NONE, ch_iter_next(iter, &key, &value, &E));
    CHECK(key.data == NULL);
    ch_iter_free(iter);
    DONE(ch_map_keys(map, &iter, &E));
    for (walked = 0; ch_iter_next(iter, &key, NULL, NULL) == CH_OK; walked++) CHECK(key.len == 4);
    CHECK(walked == 5000);
    ch_iter_free(iter);
    DONE(ch_map_random_pair(map, &key_bytes, &value_bytes, &E));
    CHECK(key_bytes.len == 4 && memcmp(key_bytes.data, value_bytes.data, 4) == 0);
    ch_bytes_free(&key_bytes);
    ch_bytes_free(&value_bytes);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_values_of_any_bytes_and_lengths) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes value = CH_BYTES_INIT;
    size_t len, large = 3 << 20;
    char *bytes = malloc(large), room[4];
    for (size_t i = 0; i < large; i++) bytes[i] = (char)(i * 31 >> 3);
    DONE(ch_map_set(map, bytes, 1000, bytes, large, NULL, &E));
    DONE(ch_map_get(map, bytes, 1000, &value, &E));
    CHECK(value.len == large && memcmp(value.data, bytes, large) == 0);
    DONE(ch_map_get_into(map, bytes, 1000, room, sizeof room, &len, &E));
    CHECK(len == large && memcmp(room, bytes, sizeof room) == 0);
    DONE(ch_map_set(map, NULL, 0, NULL, 0, NULL, &E));
    DONE(ch_map_get(map, "", 0, &value, &E));
    CHECK(value.len == 0);
    DONE(ch_map_set(map, "a\0b", 3, "\0\0", 2, NULL, &E));
    ANSWERS(CH_NONE, ch_map_get(map, "a", 1, &value, &E));
    DONE(ch_map_get(map, "a\0b", 3, &value, &E));
    CHECK(value.len == 2 && memcmp(value.data, "\0\0", 2) == 0);
    free(bytes);
    ch_bytes_free(&value);
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_caches_forget) {
    ch_hold *hold = new_hold();
    ch_map_options options = {.size = sizeof options, .mode = CH_CACHE, .max_entries = 100, .ttl_ms = 3600000};
    ch_map *map = new_map(hold, "it", &options), *plain = new_map(hold, "plain", NULL);
    ch_map_options found = CH_MAP_OPTIONS_INIT;
    ch_map_stat_t stat;
    ch_slice one = text_slice("one"), two = text_slice("two");
    uint64_t len;
    for (uint32_t id = 0; id < 1000; id++) DONE(ch_map_set(map, &id, 4, &id, 4, NULL, &E));
    DONE(ch_map_len(map, &len, &E));
    CHECK(len > 0 && len <= 101);
    DONE(ch_map_set_with_ttl(map, CH_LIT("short"), CH_LIT("lived"), 1, NULL, &E));
    for (int i = 0; i < 1000 && ch_map_contains(map, CH_LIT("short"), NULL) == CH_OK; i++) usleep(1000);
    ANSWERS(CH_NONE, ch_map_contains(map, CH_LIT("short"), &E));
    DONE(ch_map_set(map, CH_LIT("short"), CH_LIT("one"), NULL, &E));
    ANSWERS(CH_NONE, ch_map_compare_exchange_with_ttl(map, CH_LIT("short"), NULL, &two, 1, &E));
    DONE(ch_map_compare_exchange_with_ttl(map, CH_LIT("short"), &one, &two, 1, &E));
    for (int i = 0; i < 1000 && ch_map_contains(map, CH_LIT("short"), NULL) == CH_OK; i++) usleep(1000);
    ANSWERS(CH_NONE, ch_map_contains(map, CH_LIT("short"), &E));
    DONE(ch_map_stat(map, &stat, &E));
    CHECK(stat.evicted > 800 && stat.misses > 0 && stat.load > 0);
    DONE(ch_map_get_options(map, &found, &E));
    CHECK(found.mode == CH_CACHE && found.max_entries == 100 && found.ttl_ms == 3600000);
    uint64_t left = 7;
    ANSWERS(CH_NONE, ch_map_remaining_ttl(map, CH_LIT("short"), &left, &E));
    CHECK(left == 0);
    ANSWERS(CH_NONE, ch_map_touch(map, CH_LIT("short"), 10, &E));
    DONE(ch_map_set_with_ttl(map, CH_LIT("short"), CH_LIT("one"), 60000, NULL, &E));
    DONE(ch_map_remaining_ttl(map, CH_LIT("short"), &left, &E));
    CHECK(left >= 1 && left <= 60000);
    DONE(ch_map_touch(map, CH_LIT("short"), 900000, &E));
    DONE(ch_map_remaining_ttl(map, CH_LIT("short"), &left, &E));
    CHECK(left > 60000 && left <= 900000);
    DONE(ch_map_set(plain, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    DONE(ch_map_remaining_ttl(plain, CH_LIT("a"), &left, &E));
    CHECK(left == CH_FOREVER);
    FAILS(CH_MISMATCH, "not a cache", ch_map_touch(plain, CH_LIT("a"), 5, &E));
    FAILS(CH_MISMATCH, "not a cache", ch_map_set_with_ttl(plain, CH_LIT("a"), CH_LIT("b"), 5, NULL, &E));
    FAILS(CH_MISMATCH, "not a cache", ch_map_compare_exchange_with_ttl(plain, CH_LIT("a"), NULL, &one, 5, &E));
    ch_map_free(plain);
    ch_map_free(map);
    ch_hold_free(hold);
}

static int join(void *user, ch_slice element) { return ch_bytes_append(user, element.data, element.len, NULL); }

TEST(map_lists) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes element = CH_BYTES_INIT, all = CH_BYTES_INIT;
    uint32_t len;
    DONE(ch_list_push(map, CH_LIT("k"), CH_LIT("b"), &len, &E));
    DONE(ch_list_push(map, CH_LIT("k"), CH_LIT("c"), &len, &E));
    DONE(ch_list_unshift(map, CH_LIT("k"), CH_LIT("a"), &len, &E));
    CHECK(len == 3);
    DONE(ch_list_each(map, CH_LIT("k"), join, &all, &E));
    CHECK(bytes_are(&all, "abc"));
    DONE(ch_list_pop(map, CH_LIT("k"), &element, &E));
    CHECK(bytes_are(&element, "c"));
    DONE(ch_list_shift(map, CH_LIT("k"), &element, &E));
    CHECK(bytes_are(&element, "a"));
    DONE(ch_list_len(map, CH_LIT("k"), &len, &E));
    CHECK(len == 1);
    DONE(ch_list_shift(map, CH_LIT("k"), NULL, &E));
    ANSWERS(CH_NONE, ch_list_pop(map, CH_LIT("k"), &element, &E));
    DONE(ch_map_set(map, CH_LIT("k"), CH_LIT("ab"), NULL, &E));
    FAILS(CH_MISMATCH, "list", ch_list_push(map, CH_LIT("k"), CH_LIT("b"), NULL, &E));
    ch_bytes_free(&element);
    ch_bytes_free(&all);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_changes_are_followed) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_follower *follower, *again;
    ch_change change;
    ch_position from, end, read;
    ch_bytes text = CH_BYTES_INIT;
    uint64_t waiting, kept;
    FAILS(CH_NOT_FOUND, "stream", ch_map_follow(map, NULL, &follower, &E));
    DONE(ch_map_begin_stream(hold, "it", 1 << 16, &E));
    ANSWERS(CH_NONE, ch_map_begin_stream(hold, "it", 1 << 16, &E));
    DONE(ch_map_follow(map, NULL, &follower, &E));
    DONE(ch_follower_position(follower, &from, &E));
    ANSWERS(CH_NONE, ch_follower_try_recv(follower, &change, &E));
    ANSWERS(CH_NONE, ch_follower_recv_timeout(follower, 1000000, &change, &E));
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_delete(map, CH_LIT("a"), &E));
    DONE(ch_follower_lag(follower, &waiting, &kept, &E));
    CHECK(waiting > 0 && kept == 1 << 16);
    DONE(ch_follower_recv(follower, &change, &E));
    CHECK(change.kind == CH_CHANGE_SET && slice_is(change.key, "a") && slice_is(change.value, "1"));
    DONE(ch_follower_recv(follower, &change, &E));
    CHECK(change.kind == CH_CHANGE_DELETE && slice_is(change.key, "a"));
    DONE(ch_follower_end(follower, &end, &E));
    CHECK(end.offset == change.end && end.stream == from.stream);
    DONE(ch_position_text(&from, &text, &E));
    DONE(ch_bytes_append(&text, "", 1, &E));
    DONE(ch_position_parse(text.data, &read, &E));
    CHECK(read.stream == from.stream && read.offset == from.offset);
    FAILS(CH_INVALID, "position", ch_position_parse("nonsense", &read, &E));
    DONE(ch_map_follow(map, &read, &again, &E));
    DONE(ch_follower_recv(again, &change, &E));
    CHECK(change.kind == CH_CHANGE_SET);
    for (uint32_t id = 0; id < 5000; id++) DONE(ch_map_set(map, &id, 4, &id, 4, NULL, &E));
    FAILS(CH_LAPPED, "behind", ch_follower_recv(again, &change, &E));
    ch_follower_free(again);
    ch_follower_free(follower);
    ch_bytes_free(&text);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(map_every_write_has_the_time_to_live_of_its_handle) {
    ch_hold *hold = new_hold();
    ch_map_options cache = {.size = sizeof cache, .mode = CH_CACHE};
    ch_map *map = new_map(hold, "cache", &cache), *general = new_map(hold, "general", NULL), *brief;
    const char *keys[] = {"set", "added", "counted", "listed"};
    uint64_t len = 1;
    FAILS(CH_MISMATCH, "not a cache", ch_map_with_ttl(general, 1, &brief, &E));
    CHECK(brief == NULL);
    DONE(ch_map_with_ttl(map, 1, &brief, &E));
    DONE(ch_map_set(brief, CH_LIT("set"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_add(brief, CH_LIT("added"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_increment(brief, CH_LIT("counted"), 1, NULL, &E));
    DONE(ch_list_push(brief, CH_LIT("listed"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_set(map, CH_LIT("stays"), CH_LIT("1"), NULL, &E));
    for (int i = 0; i < 4; i++)
        while (ch_map_contains(map, keys[i], strlen(keys[i]), NULL) == CH_OK) usleep(1000);
    DONE(ch_map_contains(map, CH_LIT("stays"), &E));
    ch_map_free(map); /* the other handle stays */
    DONE(ch_map_len(brief, &len, &E));
    ch_map_free(brief);
    ch_map_free(general);
    ch_hold_free(hold);
}
