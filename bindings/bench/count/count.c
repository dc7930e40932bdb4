/* One operation COUNT times, for callgrind: count OPERATION COUNT; see bindings/budgets. Keys and
 * values are those of crates/budgets: 60,000 pairs of 4 bytes each. */
#include <commonhold.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAIRS = 60000, BATCH = 1000 };

static ch_error error;
static ch_map *map;
static ch_queue *queue;
static ch_element elements[BATCH];
static uint64_t state = 7;

static int must(int result) {
    if (result > 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    return result;
}

static uint32_t key(uint32_t number) { return number * 0x9e3779b1u; }

static uint32_t next(void) {
    state = state * 0x5851f42d4c957f2dull + 0x14057b7ef767814full;
    return (uint32_t)(((state >> 33) * PAIRS) >> 31);
}

static volatile uint32_t sink;

static void empty(void) { sink = key(next()); }

static void get_into(void) {
    uint32_t wanted = key(next()), value;
    size_t len;
    must(ch_map_get_into(map, &wanted, 4, &value, sizeof value, &len, &error));
    sink = value;
}

static ch_bytes value = CH_BYTES_INIT;

static void get(void) {
    uint32_t wanted = key(next());
    must(ch_map_get(map, &wanted, 4, &value, &error));
}

static void update(void) {
    uint32_t wanted = key(next());
    must(ch_map_set(map, &wanted, 4, &wanted, 4, NULL, &error));
}

static void move_many(void) {
    size_t count;
    must(ch_queue_pull_many(queue, 0, elements, BATCH, &count, &error));
    must(ch_queue_push_many(queue, 1, elements, count, &error));
}

static const struct {
    const char *name;
    void (*run)(void);
    unsigned at_once;
} operations[] = {
    {"empty", empty, 1}, {"get_into", get_into, 1}, {"get", get, 1}, {"update", update, 1},
    {"move_many", move_many, BATCH},
};

/* Callgrind collects inside of it only. */
__attribute__((noinline)) void measured(void (*run)(void), unsigned count) {
    while (count--) run();
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    unsigned count = (unsigned)atoi(argv[2]);
    ch_hold_options options = CH_HOLD_OPTIONS_INIT;
    ch_hold *hold;
    char name[80];
    options.delete_on_last_exit = 1;
    snprintf(name, sizeof name, "/dev/shm/commonhold-count-%d.hold", getpid());
    must(ch_hold_create(name, &options, &hold, &error));
    must(ch_map_open_or_create(hold, "map", NULL, &map, &error));
    for (uint32_t number = 0; number < PAIRS; number++) {
        uint32_t made = key(number);
        must(ch_map_set(map, &made, 4, &made, 4, NULL, &error));
    }
    const char *queues[] = {"from", "to"};
    ch_queue_options wanted = CH_QUEUE_OPTIONS_INIT;
    wanted.elements = count;
    wanted.element_bytes = 32;
    wanted.queues = queues;
    wanted.queue_count = 2;
    must(ch_queue_create(hold, "queue", &wanted, &queue, &error));
    for (size_t at = 0; at < sizeof operations / sizeof *operations; at++) {
        if (strcmp(operations[at].name, argv[1]) == 0) {
            measured(operations[at].run, count / operations[at].at_once);
            return 0;
        }
    }
    fprintf(stderr, "there is no operation %s\n", argv[1]);
    return 2;
}
