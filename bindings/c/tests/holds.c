/* Origins and replicas of whole holds. */
#include "check.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SOON 20000000000u /* 20 s, in nanoseconds */

struct heard {
    pthread_mutex_t lock;
    int ready, lost, skipped, dropped;
};

static void ready(void *user, const char *map, ch_position position) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->ready += strncmp(map, "p", 1) == 0 && position.stream != 0;
    pthread_mutex_unlock(&heard->lock);
}

static void lost(void *user, const char *map, const char *why) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->lost += map == NULL && why[0] != '\0';
    pthread_mutex_unlock(&heard->lock);
}

static void skipped(void *user, const char *map, const char *why) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->skipped += strcmp(map, "plain") == 0 && why[0] != '\0';
    pthread_mutex_unlock(&heard->lock);
}

static void dropped(void *user, const char *map) {
    struct heard *heard = user;
    pthread_mutex_lock(&heard->lock);
    heard->dropped += strcmp(map, "passing") == 0;
    pthread_mutex_unlock(&heard->lock);
}

static void until(struct heard *heard, const int *what) {
    for (int i = 0;; i++) {
        pthread_mutex_lock(&heard->lock);
        int there = *what > 0;
        pthread_mutex_unlock(&heard->lock);
        if (there) return;
        CHECK(i < 20000);
        usleep(1000);
    }
}

static const ch_origin_options small = {.size = sizeof small, .stream_bytes = 1 << 20, .secret = "s", .secret_len = 1};

TEST(holds_all_maps_are_served_and_followed) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "prices", NULL), *copy, *passing = new_map(hold, "passing", NULL);
    ch_hold_origin *origin;
    ch_hold_replica *replica;
    struct heard heard = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0, 0};
    const char *serve[] = {"p*"}, *follow[] = {"prices", "pas*", "plain"};
    ch_hold_origin_options at_origin = {.size = sizeof at_origin, .origin = &small, .maps = serve, .map_count = 1};
    ch_replica_options each = {.size = sizeof each, .first_pause_ns = 1000000, .secret = "s", .secret_len = 1};
    ch_hold_replica_options at_replica = {.size = sizeof at_replica,
                                          .replica = &each,
                                          .maps = follow,
                                          .map_count = 3,
                                          .ready = ready,
                                          .lost = lost,
                                          .skipped = skipped,
                                          .dropped = dropped,
                                          .user = &heard};
    ch_bytes report = CH_BYTES_INIT;
    char address[200];
    size_t count;
    ch_map_free(new_map(hold, "plain", NULL));
    ch_map_free(new_map(hold, "quantities", NULL)); /* not served */
    ch_map_free(new_map(hold, "people", NULL));     /* not followed */
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    DONE(ch_map_set(passing, CH_LIT("b"), CH_LIT("2"), NULL, &E));
    DONE(ch_hold_origin_start(hold, &at_origin, &origin, &E));
    snprintf(address, sizeof address, "unix:%s", place("socket"));
    DONE(ch_hold_origin_listen(origin, address, &report, &E));
    CHECK(bytes_are(&report, address));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    ch_map_free(new_map(other, "plain", NULL));
    DONE(ch_hold_replica_connect(other, address, &at_replica, &replica, &E));
    DONE(ch_hold_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_open(other, "prices", &copy, &E));
    DONE(ch_map_get(copy, CH_LIT("a"), &report, &E));
    CHECK(bytes_are(&report, "1"));
    DONE(ch_map_is_replica(copy, &E));
    ch_map_free(copy);
    FAILS(CH_NOT_FOUND, "people", ch_map_open(other, "people", &copy, &E));
    FAILS(CH_NOT_FOUND, "quantities", ch_map_open(other, "quantities", &copy, &E));
    DONE(ch_hold_origin_maps(origin, &count, &report, &E));
    DONE(ch_bytes_append(&report, "", 1, &E));
    CHECK(count == 4 && strstr(report.data, "\"prices\"") && !strstr(report.data, "quantities"));
    DONE(ch_hold_replica_describe(replica, &report, &E));
    DONE(ch_bytes_append(&report, "", 1, &E));
    CHECK(strstr(report.data, "\"listed\":true") && strstr(report.data, "\"skipped\""));
    until(&heard, &heard.ready);
    until(&heard, &heard.skipped);
    ch_map_free(passing);
    DONE(ch_map_drop(hold, "passing", &E));
    until(&heard, &heard.dropped);
    DONE(ch_map_set(map, CH_LIT("c"), CH_LIT("3"), NULL, &E));
    DONE(ch_hold_origin_finish(origin, SOON, &E));
    DONE(ch_map_open(other, "prices", &copy, &E));
    DONE(ch_map_contains(copy, CH_LIT("c"), &E));
    until(&heard, &heard.lost);
    ch_hold_replica_free(replica);
    ch_bytes_free(&report);
    ch_map_free(copy);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

TEST(holds_a_replica_of_one_map_gets_its_own) {
    ch_hold *hold = new_hold(), *other;
    ch_map *map = new_map(hold, "prices", NULL), *copy;
    ch_hold_origin_options options = {.size = sizeof options, .origin = &small};
    ch_replica_options named = {.size = sizeof named, .origin_map = "prices", .secret = "s", .secret_len = 1};
    ch_hold_origin *origin;
    ch_replica *replica;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char address[200];
    int listens = socket(AF_UNIX, SOCK_STREAM, 0);
    ch_map_free(new_map(hold, "another", NULL));
    DONE(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &E));
    DONE(ch_hold_origin_start(hold, &options, &origin, &E));
    snprintf(at.sun_path, sizeof at.sun_path, "%s", place("socket"));
    CHECK(bind(listens, (struct sockaddr *)&at, sizeof at) == 0 && listen(listens, 10) == 0);
    DONE(ch_hold_origin_listen_on(origin, listens, NULL, &E));
    snprintf(address, sizeof address, "unix:%s", place("socket"));
    DONE(ch_hold_create(place("other.hold"), NULL, &other, &E));
    DONE(ch_replica_connect(other, "copy", address, &named, &replica, &E));
    DONE(ch_replica_wait_ready(replica, SOON, &E));
    DONE(ch_map_open(other, "copy", &copy, &E));
    DONE(ch_map_contains(copy, CH_LIT("a"), &E));
    ch_replica_free(replica);
    ch_hold_origin_free(origin);
    ch_map_free(copy);
    ch_map_free(map);
    ch_hold_free(other);
    ch_hold_free(hold);
}

static void not_called(void *user, const char *why) {
    (void)user;
    CHECK(why == NULL);
}

TEST(holds_refusals) {
    ch_hold *hold = new_hold();
    ch_hold_origin *origin;
    ch_hold_replica *replica;
    const char *empty[] = {""};
    ch_origin_options manual = {.size = sizeof manual, .explicit_transmission = 1};
    ch_hold_origin_options wrong = {.size = sizeof wrong, .origin = &manual};
    ch_replica_options one = {.size = sizeof one, .origin_map = "prices"};
    ch_hold_replica_options all = {.size = sizeof all, .replica = &one};
    FAILS(CH_INVALID, "origin of one map", ch_hold_origin_start(hold, &wrong, &origin, &E));
    wrong = (ch_hold_origin_options){.size = sizeof wrong, .maps = empty, .map_count = 1};
    FAILS(CH_INVALID, "pattern", ch_hold_origin_start(hold, &wrong, &origin, &E));
    DONE(ch_hold_origin_start(hold, NULL, &origin, &E));
    FAILS(CH_INVALID, "allow_unauthenticated", ch_hold_origin_listen(origin, "tcp:0.0.0.0:0", NULL, &E));
    FAILS(CH_INVALID, "address", ch_hold_origin_listen(origin, "nowhere", NULL, &E));
    ch_hold_origin_free(origin);
    FAILS(CH_INVALID, "origin_map", ch_hold_replica_connect(hold, "tcp:1", &all, &replica, &E));
    one = (ch_replica_options){.size = sizeof one, .prefix = "a", .prefix_len = 1};
    FAILS(CH_INVALID, "prefix", ch_hold_replica_connect(hold, "tcp:1", &all, &replica, &E));
    one = (ch_replica_options){.size = sizeof one, .lost = not_called};
    FAILS(CH_INVALID, "ch_hold_replica_options", ch_hold_replica_connect(hold, "tcp:1", &all, &replica, &E));
    all = (ch_hold_replica_options){.size = sizeof all, .maps = empty, .map_count = 1};
    FAILS(CH_INVALID, "pattern", ch_hold_replica_connect(hold, "tcp:1", &all, &replica, &E));
    FAILS(CH_INVALID, "address", ch_hold_replica_connect(hold, "nowhere", NULL, &replica, &E));
    DONE(ch_hold_replica_connect(hold, "tcp:1", NULL, &replica, &E));
    ANSWERS(CH_NONE, ch_hold_replica_wait_ready(replica, 1000000, &E));
    ch_hold_replica_free(replica);
    ch_hold_free(hold);
}
