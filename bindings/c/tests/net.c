/* Origins, replicas, journals. */
#include "check.h"

#include <pthread.h>
#include <sys/socket.h>
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
    DONE(ch_origin_finish(origin, SOON, &E));
    ch_replica_free(attached);
    ch_replica_free(replica);
    DONE(ch_map_promote(other, "copy", &E));
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
    ch_origin_free(origin);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(net_a_journal_keeps_and_rebuilds) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "it", NULL);
    ch_bytes report = CH_BYTES_INIT;
    ch_journal *journal;
    uint64_t len;
    ANSWERS(CH_NOT_FOUND, ch_map_sync(map, 1000000, NULL, &E));
    DONE(ch_journal_start(hold, "it", place("it.journal"), NULL, &journal, &E));
    for (uint32_t i = 0; i < 500; i++) DONE(ch_map_set(map, &i, 4, &i, 4, NULL, &E));
    DONE(ch_map_sync(map, SOON, NULL, &E));
    DONE(ch_journal_describe(journal, &report, &E));
    ANSWERS(CH_NONE, ch_journal_is_over(journal, &E));
    ch_journal_free(journal);
    ch_map_free(map);
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    DONE(ch_journal_rebuild(other, "it", place("it.journal"), &report, &E));
    DONE(ch_map_open(other, "it", &map, &E));
    DONE(ch_map_len(map, &len, &E));
    CHECK(len == 500);
    ch_bytes_free(&report);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}
