/* Origins, replicas, journals. */
#include "check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOON 20000000000u /* 20 s, in nanoseconds */

struct heard {
    pthread_mutex_t lock;
    int changes, ready, lost;
};

static void changed(void *user, const ch_change *change) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    CHECK(change->kind == CH_CHANGE_SET && change->key.len == 4);
    heard->changes++;
    pthread_mutex_unlock(&heard->lock);
}

static void ready(void *user, ch_position position) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->ready += position.stream != 0;
    pthread_mutex_unlock(&heard->lock);
}

static void lost(void *user, const char *why) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->lost += why[0] != '\0';
    pthread_mutex_unlock(&heard->lock);
}

static void end_of(ch_map *map, ch_position *end) {
    ch_follower *follower;
    DONE(ch_map_follow(map, NULL, &follower, &E));
    DONE(ch_follower_end(follower, end, &E));
    ch_follower_free(follower);
}

TEST(net_a_replica_follows_over_a_socket_and_a_pair) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *copy;
    ch_origin_options at_origin = {.size = sizeof at_origin, .secret = "a secret of bytes", .secret_len = 17};
    ch_replica_options at_replica = {
        .size = sizeof at_replica, .secret = "a secret of bytes", .secret_len = 17, .changed = changed};
    struct heard heard = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};
    ch_bytes address = CH_BYTES_INIT, report = CH_BYTES_INIT, mine = CH_BYTES_INIT;
    ch_origin *origin;
    ch_replica *replica, *attached;
    ch_replica_status_t status;
    ch_promotion promotion;
    ch_position end;
    uint64_t id;
    size_t count;
    char text[400];
    int pair[2];
    for (uint32_t i = 0; i < 1000; i++) DONE(ch_map_set(map, &i, 4, &i, 4, NULL, &E));
    DONE(ch_origin_start(hold, "it", &at_origin, &origin, &E));
    snprintf(text, sizeof text, "unix:%s", place("socket"));
    DONE(ch_origin_listen(origin, text, &address, &E));
    DONE(ch_bytes_append(&address, "", 1, &E));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    at_replica.ready = ready;
    at_replica.lost = lost;
    at_replica.user = &heard;
    DONE(ch_replica_connect(other, "copy", address.data, &at_replica, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    at_replica.changed = NULL;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    DONE(ch_origin_attach(origin, pair[0], &id, &E));
    DONE(ch_replica_attach(other, "second", pair[1], &at_replica, &attached, &E));
    DONE(ch_replica_wait_ready(attached, SOON, &E));
    for (uint32_t i = 0; i < 100; i++) DONE(ch_map_set(map, &i, 4, "new", 3, NULL, &E));
    end_of(map, &end);
    DONE(ch_replica_wait_for(replica, &end, SOON, &E));
    DONE(ch_replica_wait_for(attached, &end, SOON, &E));
    DONE(ch_map_open(other, "copy", &copy, &E));
    DONE(ch_map_is_replica(copy, &E));
    DONE(ch_map_get(copy, "\5\0\0\0", 4, &report, &E));
    CHECK(bytes_are(&report, "new"));
    FAILS(CH_READ_ONLY, "replica", ch_map_set(copy, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    DONE(ch_map_digest(map, &mine, &E));
    DONE(ch_map_digest(copy, &report, &E));
    CHECK(mine.len == report.len && memcmp(mine.data, report.data, mine.len) == 0);
    DONE(ch_origin_replicas(origin, &count, &report, &E));
    CHECK(count == 2);
    DONE(ch_replica_status(replica, &status, &E));
    CHECK(status.connected && status.ready && status.has_position && status.changes == 100);
    pthread_mutex_lock(&heard.lock);
    CHECK(heard.changes == 100 && heard.ready >= 2);
    pthread_mutex_unlock(&heard.lock);
    DONE(ch_origin_detach(origin, id, &E));
    ANSWERS(CH_NONE, ch_origin_detach(origin, 999999, &E));
    do {
        usleep(1000);
        DONE(ch_replica_status(attached, &status, &E));
    } while (!status.ended);
    end.offset += 1000;
    ANSWERS(CH_NONE, ch_replica_wait_for(attached, &end, CH_FOREVER, &E));
    DONE(ch_replica_status(replica, &status, &E));
    CHECK(!status.ended);
    DONE(ch_origin_finish(origin, SOON, &E));
    ch_replica_free(attached);
    ch_replica_free(replica);
    DONE(ch_map_promote(other, "copy", &promotion, &E));
    CHECK(promotion.epoch > 0 && promotion.has_position && promotion.position.stream == end.stream);
    ANSWERS(CH_NONE, ch_map_promote(other, "copy", NULL, &E));
    DONE(ch_map_set(copy, CH_LIT("a"), CH_LIT("b"), NULL, &E));
    CHECK(heard.lost >= 1);
    ch_bytes_free(&address);
    ch_bytes_free(&report);
    ch_bytes_free(&mine);
    ch_map_free(copy);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(net_a_replica_is_verified) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes report = CH_BYTES_INIT;
    ch_origin *origin;
    ch_replica *replica;
    char text[400];
    for (uint32_t i = 0; i < 1000; i++) DONE(ch_map_set(map, &i, 4, &i, 4, NULL, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    snprintf(text, sizeof text, "unix:%s", place("socket"));
    DONE(ch_origin_listen(origin, text, NULL, &E));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    DONE(ch_replica_connect(other, "copy", text, NULL, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_replica_verify(other, "copy", text, NULL, SOON, &report, &E));
    CHECK(report.len > 0);
    ch_replica_free(replica);
    ch_origin_free(origin);
    ch_bytes_free(&report);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(net_refusals) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_origin *origin;
    ch_replica *replica;
    ch_origin_options wrong = {.size = sizeof wrong, .kind = 9};
    uint64_t id;
    FAILS(CH_INVALID, "loop", ch_origin_start(hold, "it", &wrong, &origin, &E));
    FAILS(CH_NOT_FOUND, "none", ch_origin_start(hold, "none", NULL, &origin, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    FAILS(CH_INVALID, "address", ch_origin_listen(origin, "nowhere", NULL, &E));
    FAILS(CH_INVALID, "descriptor", ch_origin_attach(origin, -1, &id, &E));
    FAILS(CH_INVALID, "descriptor", ch_origin_attach(origin, 12345, &id, &E));
    FAILS(CH_MISMATCH, "", ch_replica_connect(hold, "it", "unix:/nowhere", NULL, &replica, &E));
    DONE(ch_origin_transmit(origin, &E));
    ANSWERS(CH_NONE, ch_origin_sent_to_all(origin, &id, &E));
    FAILS(CH_INVALID, "allow_unauthenticated", ch_origin_listen(origin, "tcp:0.0.0.0:0", NULL, &E));
    ch_origin_free(origin);
    ch_origin_options by_name = {.size = sizeof by_name, .allow_unauthenticated = 1};
    DONE(ch_origin_start(hold, "it", &by_name, &origin, &E));
    DONE(ch_origin_listen(origin, "tcp:0.0.0.0:0", NULL, &E));
    ch_origin_free(origin);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(net_a_replica_follows_the_keys_of_a_prefix) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *copy;
    ch_origin *origin;
    ch_replica *replica;
    ch_replica_options options = CH_REPLICA_OPTIONS_INIT;
    ch_bytes report = CH_BYTES_INIT, none = CH_BYTES_INIT;
    uint64_t len;
    char text[256], longest[256];
    DONE(ch_map_set(map, CH_LIT("a\0b"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_set(map, CH_LIT("a\1b"), CH_LIT("1"), NULL, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    snprintf(text, sizeof text, "unix:%s", place("socket"));
    DONE(ch_origin_listen(origin, text, NULL, &E));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    memset(longest, 'n', sizeof longest);
    options.prefix = longest;
    options.prefix_len = sizeof longest;
    FAILS(CH_INVALID, "a prefix of 256 bytes", ch_replica_connect(other, "copy", text, &options, &replica, &E));
    options.prefix_len = 0;
    FAILS(CH_INVALID, "a prefix of 0 bytes", ch_replica_connect(other, "copy", text, &options, &replica, &E));
    options.prefix = NULL;
    options.prefix_len = 1;
    FAILS(CH_INVALID, "got NULL", ch_replica_connect(other, "copy", text, &options, &replica, &E));
    options.prefix = "a\0";
    options.prefix_len = 2;
    DONE(ch_replica_connect(other, "copy", text, &options, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_set(map, CH_LIT("a\0c"), CH_LIT("2"), NULL, &E));
    DONE(ch_map_set(map, CH_LIT("b"), CH_LIT("2"), NULL, &E));
    DONE(ch_map_wait_for_replicas(map, NULL, 1, SOON, NULL, &E));
    DONE(ch_map_open(other, "copy", &copy, &E));
    DONE(ch_map_len(copy, &len, &E));
    CHECK(len == 2);
    DONE(ch_map_get(copy, CH_LIT("a\0c"), &none, &E));
    CHECK(bytes_are(&none, "2"));
    ANSWERS(CH_NONE, ch_map_get(copy, CH_LIT("b"), &none, &E));
    DONE(ch_replica_verify(other, "copy", text, NULL, SOON, &report, &E));
    ch_replica_free(replica);
    FAILS(CH_MISMATCH, "all keys are wanted", ch_replica_connect(other, "copy", text, NULL, &replica, &E));
    FAILS(CH_MISMATCH, "cannot become the origin", ch_map_promote(other, "copy", NULL, &E));
    ch_origin_free(origin);
    ch_bytes_free(&report);
    ch_bytes_free(&none);
    ch_map_free(copy);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(net_writers_wait_for_replicas) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *copy;
    ch_origin *origin;
    ch_replica *replica;
    ch_replica_options options = CH_REPLICA_OPTIONS_INIT;
    ch_position before, end;
    char text[256], longest[80];
    uint64_t applied = 0, shortly = 1000000;
    ANSWERS(CH_NOT_FOUND, ch_map_wait_for_replicas(map, NULL, 1, shortly, NULL, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    FAILS(CH_TIMED_OUT, "0 of 1", ch_map_wait_for_replicas(map, NULL, 1, shortly, NULL, &E));
    snprintf(text, sizeof text, "unix:%s", place("socket"));
    DONE(ch_origin_listen(origin, text, NULL, &E));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    options.name = longest;
    FAILS(CH_INVALID, "name", ch_replica_connect(other, "copy", text, &options, &replica, &E));
    options.name = "near";
    DONE(ch_replica_connect(other, "copy", text, &options, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_open(other, "copy", &copy, &E));
    end_of(map, &before);
    DONE(ch_map_set(map, "a", 1, "1", 1, NULL, &E));
    DONE(ch_map_wait_for_replicas(map, NULL, 1, SOON, &applied, &E));
    CHECK(applied == 1);
    DONE(ch_map_contains(copy, "a", 1, &E));
    DONE(ch_map_set(map, "b", 1, "1", 1, NULL, &E));
    DONE(ch_map_wait_for_replica(map, NULL, "near", SOON, &E));
    DONE(ch_map_contains(copy, "b", 1, &E));
    FAILS(CH_TIMED_OUT, "far", ch_map_wait_for_replica(map, NULL, "far", shortly, &E));
    FAILS(CH_INVALID, "NULL", ch_map_wait_for_replica(map, NULL, NULL, shortly, &E));
    ch_map_free(copy);
    ch_replica_free(replica);
    DONE(ch_map_set(map, "c", 1, "1", 1, NULL, &E));
    end_of(map, &end);
    DONE(ch_map_wait_for_replicas(map, &before, 1, shortly, NULL, &E));
    DONE(ch_map_wait_for_replica(map, &before, "near", shortly, &E));
    FAILS(CH_TIMED_OUT, "0 of 1", ch_map_wait_for_replicas(map, &end, 1, shortly, NULL, &E));
    ch_origin_free(origin);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(net_a_journal_keeps_and_rebuilds) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes report = CH_BYTES_INIT;
    ch_journal *journal;
    ch_position end;
    uint64_t len;
    ANSWERS(CH_NOT_FOUND, ch_map_sync(map, 1000000, NULL, &E));
    DONE(ch_journal_start(hold, "it", place("it.journal"), NULL, &journal, &E));
    for (uint32_t i = 0; i < 500; i++) DONE(ch_map_set(map, &i, 4, &i, 4, NULL, &E));
    DONE(ch_map_sync(map, SOON, &end, &E));
    DONE(ch_map_sync_to(map, &end, SOON, &E));
    ANSWERS(CH_INVALID, ch_map_sync_to(map, NULL, SOON, &E));
    DONE(ch_journal_describe(journal, &report, &E));
    ANSWERS(CH_NONE, ch_journal_is_over(journal, &E));
    DONE(ch_journal_finish(journal, &E));
    FAILS(CH_INVALID, "NULL", ch_journal_finish(NULL, &E));
    ch_map_free(map);
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    DONE(ch_journal_rebuild(other, "it", place("it.journal"), NULL, &report, &E));
    DONE(ch_map_open(other, "it", &map, &E));
    DONE(ch_map_len(map, &len, &E));
    CHECK(len == 500);
    ch_bytes_free(&report);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(net_the_end_of_a_journal_reports_what_is_not_durable) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    ch_journal *journal;
    CHECK(mkdir(place("folder"), 0700) == 0);
    DONE(ch_journal_start(hold, "it", place("folder/it.journal"), NULL, &journal, &E));
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_sync(map, SOON, NULL, &E));
    CHECK(unlink(place("folder/it.journal")) == 0 && rmdir(place("folder")) == 0);
    DONE(ch_map_set(map, CH_LIT("b"), CH_LIT("2"), NULL, &E));
    FAILS(CH_IO, "it.journal", ch_journal_finish(journal, &E));
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(net_readers_limit_the_age_of_a_replicas_contents) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL), *copy;
    ch_bytes value = CH_BYTES_INIT;
    ch_origin *origin;
    ch_replica *replica;
    char text[256];
    const uint64_t hour = 3600000000000u, young = 50000000u;
    uint64_t lag = 1;
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    ANSWERS(CH_NONE, ch_map_lag(map, &lag, &E));
    CHECK(lag == 0);
    DONE(ch_map_ensure_fresh(map, 0, &E));
    DONE(ch_map_get_fresh(map, CH_LIT("a"), 0, &value, &E));
    CHECK(bytes_are(&value, "1"));
    ANSWERS(CH_NONE, ch_map_get_fresh(map, CH_LIT("b"), 0, &value, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    snprintf(text, sizeof text, "unix:%s", place("socket"));
    DONE(ch_origin_listen(origin, text, NULL, &E));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    DONE(ch_replica_connect(other, "copy", text, NULL, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_open(other, "copy", &copy, &E));
    ch_origin_free(origin);
    do {
        usleep(1000);
        CHECK(ch_map_lag(copy, &lag, NULL) <= 0);
    } while (lag <= young);
    FAILS(CH_STALE, "must not be older", ch_map_ensure_fresh(copy, young, &E));
    FAILS(CH_STALE, "copy", ch_map_get_fresh(copy, CH_LIT("a"), young, &value, &E));
    FAILS(CH_STALE, "copy", ch_map_get_fresh(copy, CH_LIT("b"), young, &value, &E));
    DONE(ch_map_ensure_fresh(copy, hour, &E));
    DONE(ch_map_get_fresh(copy, CH_LIT("a"), CH_FOREVER, &value, &E));
    CHECK(bytes_are(&value, "1"));
    ANSWERS(CH_NONE, ch_map_get_fresh(copy, CH_LIT("b"), hour, &value, &E));
    CHECK(value.len == 0);
    ANSWERS(CH_INVALID, ch_map_lag(copy, NULL, &E));
    ANSWERS(CH_INVALID, ch_map_get_fresh(copy, CH_LIT("a"), hour, NULL, &E));
    ch_replica_free(replica);
    ch_bytes_free(&value);
    ch_map_free(copy);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}
