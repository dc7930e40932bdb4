/* Mistakes of a program are clean errors: NULL, handles of another kind, closed ones, lengths
 * that nothing has. */
#include "check.h"

static int enough(void *user, const ch_log_line *line) {
    (void)user;
    (void)line;
    return 1;
}

TEST(faults_null_is_refused_everywhere) {
    ch_hold *hold = new_hold(), *no_hold = hold;
    ch_map *map = new_map(hold, "it", NULL), *no_map = map;
    ch_bytes value = CH_BYTES_INIT;
    FAILS(CH_INVALID, "NULL", ch_hold_open(NULL, NULL, &no_hold, &E));
    FAILS(CH_INVALID, "NULL", ch_hold_open("a", NULL, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_map_open_or_create(NULL, "it", NULL, &no_map, &E));
    CHECK(no_map == NULL && no_hold == NULL);
    FAILS(CH_INVALID, "NULL", ch_map_open_or_create(hold, NULL, NULL, &no_map, &E));
    FAILS(CH_INVALID, "NULL", ch_map_get(NULL, "a", 1, &value, &E));
    FAILS(CH_INVALID, "NULL", ch_map_get(map, NULL, 1, &value, &E));
    FAILS(CH_INVALID, "NULL", ch_map_get(map, "a", 1, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_map_get_into(map, "a", 1, NULL, 4, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_map_get_many(map, NULL, 1, NULL, NULL, NULL, &E));
    FAILS(CH_INVALID, "array", ch_map_set_many(map, NULL, NULL, 1, &E));
    FAILS(CH_INVALID, "NULL", ch_map_len(map, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_iter_next(NULL, NULL, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_producer_send(NULL, "a", 1, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_queue_push(NULL, 0, NULL, &E));
    FAILS(CH_INVALID, "NULL", ch_origin_finish(NULL, 0, &E));
    CHECK(ch_map_get(NULL, NULL, 0, NULL, NULL) == CH_INVALID);
    ch_map_free(NULL);
    ch_hold_free(NULL);
    ch_bytes_free(NULL);
    ch_replica_free(NULL);
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
    CHECK(strcmp(ch_code_name(CH_FULL), "full") == 0 && strcmp(ch_code_name(4711), "unknown") == 0);
    CHECK(strcmp(ch_version(), "") != 0);
}

/* A call that removes something checks first that there is room for it. */
TEST(faults_nothing_is_taken_without_a_place_for_it) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    char text[] = "not a buffer's";
    const ch_bytes wrong = {text, 2, 1};
    ch_bytes value = wrong;
    uint32_t uid, len;
    DONE(ch_map_set(map, CH_LIT("k"), CH_LIT("v"), &uid, &E));
    FAILS(CH_INVALID, "CH_BYTES_INIT", ch_map_take(map, CH_LIT("k"), &value, &E));
    value = wrong;
    FAILS(CH_INVALID, "CH_BYTES_INIT", ch_map_take_uid(map, uid, CH_LIT("k"), &value, &E));
    CHECK(ch_map_contains(map, CH_LIT("k"), NULL) == CH_OK);
    DONE(ch_list_push(map, CH_LIT("l"), CH_LIT("1"), NULL, &E));
    DONE(ch_list_push(map, CH_LIT("l"), CH_LIT("2"), NULL, &E));
    value = wrong;
    FAILS(CH_INVALID, "CH_BYTES_INIT", ch_list_pop(map, CH_LIT("l"), &value, &E));
    value = wrong;
    FAILS(CH_INVALID, "CH_BYTES_INIT", ch_list_shift(map, CH_LIT("l"), &value, &E));
    DONE(ch_list_len(map, CH_LIT("l"), &len, &E));
    CHECK(len == 2);
    CHECK(value.data == text && value.len == 2 && value.capacity == 1);

    ch_log *log;
    ch_reader *reader;
    size_t count;
    DONE(ch_log_open_or_create(hold, "log", NULL, &log, &E));
    DONE(ch_log_reader(log, &reader, &E));
    DONE(ch_log_write(log, CH_ERROR, CH_LIT("line"), NULL, &E));
    DONE(ch_log_write(log, CH_ERROR, CH_LIT("next"), NULL, &E));
    DONE(ch_log_write(log, CH_ERROR, CH_LIT("last"), NULL, &E));
    FAILS(CH_INVALID, "callback", ch_reader_finish(reader, NULL, NULL, NULL, &E));
    /* The callback ends each call after one line; the next call goes on behind it. */
    for (int line = 0; line < 2; line++) {
        DONE(ch_reader_finish(reader, enough, NULL, &count, &E));
        CHECK(count == 1);
    }
    /* Lines that were read and not given survive the log. The thread's announcement is one, too. */
    DONE(ch_log_drop(hold, "log", &E));
    for (int line = 0; line < 2; line++) {
        DONE(ch_reader_finish(reader, enough, NULL, &count, &E));
        CHECK(count == 1);
    }
    FAILS(CH_NOT_FOUND, "log", ch_reader_finish(reader, enough, NULL, &count, &E));
    ch_reader_free(reader);
    ch_log_free(log);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(faults_handles_of_another_kind_are_refused) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes value = CH_BYTES_INIT;
    ch_queue *queue = NULL;
    ch_map *none = NULL;
    uint64_t number;
    FAILS(CH_INVALID, "another kind", ch_map_get((ch_map *)hold, "a", 1, &value, &E));
    FAILS(CH_INVALID, "another kind", ch_map_open_or_create((ch_hold *)map, "it", NULL, &none, &E));
    FAILS(CH_INVALID, "another kind", ch_queue_len((ch_queue *)map, 0, &number, &E));
    ch_map_free((ch_map *)hold); /* Nothing happens. */
    FAILS(CH_MISMATCH, "", ch_queue_open(hold, "it", &queue, &E));
    FAILS(CH_MISMATCH, "", ch_log_drop(hold, "it", &E));
    ch_map_options fixed = {.size = sizeof fixed, .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 4};
    ch_map_options wrong = {.size = sizeof wrong, .mode = 77};
    ch_map *other;
    FAILS(CH_MISMATCH, "its existing options", ch_map_open_or_create(hold, "it", &fixed, &other, &E));
    FAILS(CH_INVALID, "77", ch_map_open_or_create(hold, "x", &wrong, &other, &E));
    DONE(ch_map_open_or_create(hold, "fixed", &fixed, &other, &E));
    FAILS(CH_INVALID, "", ch_map_set(other, "a", 1, "b", 1, NULL, &E));
    FAILS(CH_INVALID, "UTF-8", ch_map_open_or_create(hold, "caf\xe9", NULL, &none, &E));
    FAILS(CH_INVALID, "", ch_map_open_or_create(hold, "", NULL, &none, &E));
    ch_map_free(other);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(faults_lengths_that_nothing_has_are_refused) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes value = CH_BYTES_INIT;
    ch_slice huge = {"a", SIZE_MAX};
    FAILS(CH_TOO_LARGE, "2^32", ch_map_get(map, "a", SIZE_MAX, &value, &E));
    FAILS(CH_TOO_LARGE, "2^32", ch_map_set(map, "a", 1, "b", (size_t)1 << 32, NULL, &E));
    FAILS(CH_TOO_LARGE, "2^32", ch_map_set_many(map, &huge, &huge, 1, &E));
    FAILS(CH_TOO_LARGE, "2^32", ch_map_compare_exchange(map, "a", 1, &huge, NULL, &E));
    FAILS(CH_INVALID, "array", ch_map_set_many(map, &huge, &huge, SIZE_MAX, &E));
    FAILS(CH_TOO_LARGE, "2^32", ch_bytes_resize(&value, SIZE_MAX, &E));
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(faults_a_closed_hold_is_a_clean_error) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_queue_options options = {.size = sizeof options, .elements = 2, .element_bytes = 8};
    ch_bytes value = CH_BYTES_INIT;
    ch_element element;
    ch_queue *queue;
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_log *log;
    ch_iter *iter;
    ch_slice slice;
    DONE(ch_queue_open_or_create(hold, "queue", &options, &queue, &E));
    DONE(ch_channel_open_or_create(hold, "channel", 4096, &channel, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    DONE(ch_log_open_or_create(hold, "log", NULL, &log, &E));
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    DONE(ch_map_iter(map, 0, &iter, &E));
    DONE(ch_queue_pull(queue, 0, &element, &E));
    DONE(ch_hold_close(hold, &E));
    FAILS(CH_CLOSED, "closed", ch_hold_close(hold, &E));
    FAILS(CH_CLOSED, "closed", ch_map_get(map, CH_LIT("a"), &value, &E));
    FAILS(CH_CLOSED, "closed", ch_map_set(map, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    ch_map *none;
    FAILS(CH_CLOSED, "closed", ch_map_open_or_create(hold, "it", NULL, &none, &E));
    ANSWERS(CH_CLOSED, ch_queue_pull(queue, 0, &element, &E));
    ANSWERS(CH_CLOSED, ch_producer_send(producer, "a", 1, NULL, &E));
    ANSWERS(CH_CLOSED, ch_consumer_try_recv(consumer, &value, NULL, &E));
    ANSWERS(CH_CLOSED, ch_log_write(log, CH_ERROR, "a", 1, NULL, &E));
    ANSWERS(CH_CLOSED, ch_iter_next(iter, &slice, NULL, &E));
    ch_iter_free(iter);
    ch_consumer_free(consumer);
    ch_producer_free(producer);
    ch_log_free(log);
    ch_channel_free(channel);
    ch_queue_free(queue);
    ch_map_free(map);
    ch_hold_free(hold);
    ch_bytes_free(&value);
}
