/* The bindings' benchmark in C; see README.md in this folder. */
#include <commonhold.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* NUMBERS: different keys of Localmemcache's loop. */
enum { KEYS = 100000, OPERATIONS = 2000000, BATCH = 32, NUMBERS = 10000 };

static ch_error error;
static char keys[KEYS][16], texts[NUMBERS][8];
static uint32_t state = 1;

static int must(int result) {
    if (result > 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return result;
}

static uint32_t next(void) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

#define TIMED(name, count, run) \
    do { \
        double start = now(); \
        for (int i = 0; i < (count); i++) { run } \
        printf("%s %.1f\n", name, (now() - start) / (count)); \
    } while (0)

int main(void) {
    ch_hold_options options = {.size = sizeof options, .delete_on_last_exit = 1};
    char name[80], value[100];
    ch_hold *hold;
    ch_map *map, *loops;
    ch_values *values;
    ch_slice batch[BATCH], found[BATCH];
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_bytes out = CH_BYTES_INIT;
    memset(value, 7, sizeof value);
    snprintf(name, sizeof name, "/dev/shm/bindings-bench-c-%d.hold", getpid());
    must(ch_hold_create(name, &options, &hold, &error));
    must(ch_map_open_or_create(hold, "it", NULL, &map, &error));
    for (int i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "key %08d", i);
        must(ch_map_set(map, keys[i], 12, value, sizeof value, NULL, &error));
    }
    TIMED("set", OPERATIONS, { must(ch_map_set(map, keys[next() % KEYS], 12, value, sizeof value, NULL, &error)); });
    TIMED("get", OPERATIONS, { must(ch_map_get(map, keys[next() % KEYS], 12, &out, &error)); });
    must(ch_values_new(&values, &error));
    TIMED("get_many", OPERATIONS / BATCH, {
        for (int k = 0; k < BATCH; k++) {
            batch[k].data = keys[next() % KEYS];
            batch[k].len = 12;
        }
        must(ch_map_get_many(map, batch, BATCH, values, found, NULL, &error));
    });
    must(ch_channel_open_or_create(hold, "channel", 1 << 20, &channel, &error));
    must(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &error));
    must(ch_channel_producer(channel, &producer, &error));
    TIMED("send_recv", OPERATIONS, {
        must(ch_producer_send(producer, value, sizeof value, NULL, &error));
        must(ch_consumer_recv(consumer, &out, NULL, &error));
    });
    must(ch_map_open_or_create(hold, "loop", NULL, &loops, &error));
    state = 1;
    for (int i = 0; i < NUMBERS; i++) snprintf(texts[i], sizeof texts[i], "%d", i);
    TIMED("localmemcache", OPERATIONS, {
        const char *text = texts[next() % NUMBERS];
        size_t len = strlen(text);
        must(ch_map_set(loops, text, len, text, len, NULL, &error));
        must(ch_map_get(loops, text, len, &out, &error));
    });
    ch_map_free(loops);
    ch_consumer_free(consumer);
    ch_producer_free(producer);
    ch_channel_free(channel);
    ch_values_free(values);
    ch_bytes_free(&out);
    ch_map_free(map);
    ch_hold_free(hold);
    return 0;
}
