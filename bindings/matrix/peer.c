/* The matrix's peer in C; see README.md in this folder. */
#include <commonhold.h>
#include <string.h>
#include <unistd.h>

static ch_error error;

/* Ends the program if a call failed. */
static int ok(int result) {
    if (result > 0) {
        fprintf(stderr, "%s: %s\n", ch_code_name(result), error.message);
        exit(1);
    }
    return result;
}

static uint32_t hash(const void *data, size_t len) {
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < len; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x01000193;
    return hash;
}

static const uint8_t *value_of(uint32_t i, size_t len) {
    static uint8_t value[256];
    for (size_t j = 0; j < len; j++) value[j] = (uint8_t)(7 * i + j);
    return value;
}

static ch_map *map_of(ch_hold *hold, const char *name, const ch_map_options *options) {
    ch_map *map;
    ok(ch_map_open_or_create(hold, name, options, &map, &error));
    return map;
}

static void pairs(ch_hold *hold, const char *what, int write) {
    ch_map_options options = CH_MAP_OPTIONS_INIT;
    ch_bytes value = CH_BYTES_INIT;
    int fixed = strcmp(what, "word") == 0 || strcmp(what, "fixed") == 0;
    if (strcmp(what, "cache") == 0) {
        options.mode = CH_CACHE;
        options.max_entries = 1000;
        options.ttl_ms = 3600000;
    } else if (fixed) {
        options.mode = CH_FIXED;
        options.key_bytes = 4;
        options.value_bytes = what[0] == 'w' ? 4 : 24;
    }
    ch_map *map = map_of(hold, what, &options);
    for (int reading = !write; reading < 2; reading++) {
        for (uint32_t i = 0; i < 200; i++) {
            char text[20];
            const void *key = text;
            size_t key_len = (size_t)snprintf(text, sizeof text, "key %u", i), len = fixed ? options.value_bytes : i;
            uint32_t uid;
            if (fixed) key = &i, key_len = 4;
            if (!reading) {
                ok(ch_map_set(map, key, key_len, value_of(i, len), len, NULL, &error));
                if (i % 10 == 0) ok(ch_map_delete(map, key, key_len, &error));
            } else if (ok(ch_map_uid(map, key, key_len, &uid, &error)) == CH_OK &&
                       ok(ch_map_get(map, key, key_len, &value, &error)) == CH_OK) {
                printf("%u %u %08x\n", i, uid, hash(value.data, value.len));
            } else {
                printf("%u none\n", i);
            }
        }
    }
    ch_bytes_free(&value);
    ch_map_free(map);
}

static void queue(ch_hold *hold, int write) {
    const char *const names[] = {"free", "full"};
    ch_queue_options options = {sizeof options, 4, 16, names, 2, NULL};
    ch_queue *queue;
    ch_element element;
    ok(ch_queue_open_or_create(hold, "queue", &options, &queue, &error));
    for (int n = 0; n < 3 && ok(ch_queue_pull(queue, write ? 0 : 1, &element, &error)) == CH_OK; n++) {
        char *data = element.data;
        if (write) data[0] = (char)(65 + n);
        printf("%c\n", data[0]);
        ok(ch_queue_push(queue, write ? 1 : 0, &element, &error));
    }
    ch_queue_free(queue);
}

static void channel(ch_hold *hold, int write) {
    ch_channel *channel;
    ok(ch_channel_open_or_create(hold, "channel", 1 << 16, &channel, &error));
    if (write) {
        ch_producer *producer;
        ok(ch_channel_producer(channel, &producer, &error));
        for (uint32_t i = 0; i < 50; i++) {
            uint64_t sequence;
            ok(ch_producer_send(producer, value_of(i, i), i, &sequence, &error));
            printf("%llu %08x\n", (unsigned long long)sequence, hash(value_of(i, i), i));
        }
        ch_producer_free(producer);
    } else {
        ch_consumer *consumer;
        ch_bytes message = CH_BYTES_INIT;
        ch_received received;
        ok(ch_channel_consumer(channel, CH_JOIN_OLDEST, CH_LOSSLESS, 0, &consumer, &error));
        while (ok(ch_consumer_try_recv(consumer, &message, &received, &error)) == CH_OK)
            printf("%llu %08x\n", (unsigned long long)received.sequence, hash(message.data, message.len));
        ch_bytes_free(&message);
        ch_consumer_free(consumer);
    }
    ch_channel_free(channel);
}

static int show_line(void *user, const ch_log_line *line) {
    (void)user;
    if (!line->announces) printf("%.*s\n", (int)line->text.len, (const char *)line->text.data);
    return 0;
}

static void logged(ch_hold *hold, int write) {
    ch_log *log;
    ok(ch_log_open_or_create(hold, "log", NULL, &log, &error));
    for (int i = 0; write && i < 5; i++) ok(CH_LOG_INFO(log, "line %d", i));
    ok(ch_log_dump(log, show_line, NULL, NULL, &error));
    ch_log_free(log);
}

static void stream(ch_hold *hold, int write) {
    ch_map *map = map_of(hold, "stream", NULL), *at = map_of(hold, "at", NULL);
    ch_follower *follower;
    ch_position from;
    ch_change change;
    ch_bytes text = CH_BYTES_INIT;
    if (write) {
        ok(ch_map_begin_stream(hold, "stream", 1 << 16, &error));
        ok(ch_map_follow(map, NULL, &follower, &error));
        ok(ch_follower_position(follower, &from, &error));
        ok(ch_position_text(&from, &text, &error));
        ok(ch_map_set(at, CH_LIT("from"), text.data, text.len, NULL, &error));
        ch_follower_free(follower);
        ok(ch_map_set(map, CH_LIT("a"), CH_LIT("1"), NULL, &error));
        ok(ch_map_set(map, CH_LIT("b"), CH_LIT("2"), NULL, &error));
        ok(ch_map_delete(map, CH_LIT("a"), &error));
    }
    ok(ch_map_get(at, CH_LIT("from"), &text, &error));
    ok(ch_bytes_append(&text, "", 1, &error));
    ok(ch_position_parse(text.data, &from, &error));
    ok(ch_map_follow(map, &from, &follower, &error));
    while (ok(ch_follower_try_recv(follower, &change, &error)) == CH_OK)
        printf("%u %.*s%s%.*s\n", change.kind, (int)change.key.len, (const char *)change.key.data,
               change.value.len ? " " : "", (int)change.value.len, (const char *)change.value.data);
    ch_follower_free(follower);
    ch_bytes_free(&text);
    ch_map_free(at);
    ch_map_free(map);
}

static void errors(ch_hold *hold, const char *path) {
    ch_map_options fixed = {.size = sizeof fixed, .mode = CH_FIXED, .key_bytes = 4, .value_bytes = 4};
    ch_map *map = map_of(hold, "errors", NULL), *other;
    ch_queue *queue;
    ch_channel *channel;
    ch_hold *again;
    ok(ch_map_set(map, CH_LIT("short"), CH_LIT("ab"), NULL, &error));
    ok(ch_map_set(map, CH_LIT("n"), CH_LIT("1"), NULL, &error));
    printf("%d\n", ch_map_open(hold, "none", &other, NULL));
    printf("%d\n", ch_map_open_or_create(hold, "errors", &fixed, &other, NULL));
    printf("%d\n", ch_map_increment(map, CH_LIT("n"), 1, NULL, NULL));
    printf("%d\n", ch_map_open_or_create(hold, "", NULL, &other, NULL));
    printf("%d\n", ch_queue_open(hold, "errors", &queue, NULL));
    printf("%d\n", ch_channel_open_or_create(hold, "ring", 5, &channel, NULL));
    printf("%d\n", ch_list_push(map, CH_LIT("short"), CH_LIT("x"), NULL, NULL));
    printf("%d\n", ch_hold_create(path, NULL, &again, NULL));
    ch_map_free(map);
}

static int show_element(void *user, ch_slice element) {
    int *number = user;
    printf("%s%.*s", (*number)++ ? "," : "", (int)element.len, (const char *)element.data);
    return 0;
}

static void facts(ch_hold *hold, const char *what, const char *path, int write) {
    if (strcmp(what, "queue") == 0) {
        queue(hold, write);
    } else if (strcmp(what, "channel") == 0) {
        channel(hold, write);
    } else if (strcmp(what, "log") == 0) {
        logged(hold, write);
    } else if (strcmp(what, "stream") == 0) {
        stream(hold, write);
    } else if (strcmp(what, "errors") == 0) {
        errors(hold, path);
    } else if (strcmp(what, "list") == 0) {
        ch_map *map = map_of(hold, "list", NULL);
        int number = 0;
        if (write) {
            ok(ch_list_push(map, CH_LIT("l"), CH_LIT("a"), NULL, &error));
            ok(ch_list_push(map, CH_LIT("l"), CH_LIT("b"), NULL, &error));
            ok(ch_list_unshift(map, CH_LIT("l"), CH_LIT("c"), NULL, &error));
        }
        ok(ch_list_each(map, CH_LIT("l"), show_element, &number, &error));
        printf("\n");
        ch_map_free(map);
    } else if (strcmp(what, "counter") == 0) {
        ch_map *map = map_of(hold, "counter", NULL);
        int64_t by[] = {-5, 7, 40}, sum;
        for (int i = 0; i < 3; i++) ok(ch_map_increment(map, CH_LIT("n"), write ? by[i] : 0, &sum, &error));
        printf("%lld\n", (long long)sum);
        ch_map_free(map);
    } else {
        pairs(hold, what, write);
    }
}

static void storm(ch_hold *hold) {
    ch_map *map = map_of(hold, "storm", NULL);
    for (uint32_t round = 0;; round++) {
        char key[20];
        int len = snprintf(key, sizeof key, "key %u", round % 100);
        ok(ch_map_set(map, key, (size_t)len, value_of(round, round % 100), round % 100, NULL, &error));
        ok(ch_map_increment(map, CH_LIT("n"), 1, NULL, &error));
    }
}

static void sound(ch_hold *hold) {
    ch_map *map = map_of(hold, "storm", NULL);
    ch_bytes problems = CH_BYTES_INIT;
    int64_t mine, n;
    for (int i = 0; i < 5000; i++) {
        ok(ch_map_increment(map, CH_LIT("mine"), 0, &mine, &error));
        ok(ch_map_increment(map, CH_LIT("n"), 0, &n, &error));
        if (mine > 0 || n >= 1000) break;
        usleep(1000);
    }
    ok(ch_map_increment(map, CH_LIT("mine"), 1, NULL, &error));
    ok(ch_hold_sweep(hold, NULL, &error));
    if (ok(ch_hold_check(hold, NULL, &problems, &error)) == CH_OK) puts("sound");
    else printf("%.*s\n", (int)problems.len, (char *)problems.data);
    ch_bytes_free(&problems);
    ch_map_free(map);
}

int main(int argc, char **argv) {
    ch_hold *hold;
    const char *command = argc > 2 ? argv[1] : "", *path = argv[argc - 1];
    int begins = strcmp(command, "write") == 0 || strcmp(command, "storm") == 0;
    ok((begins ? ch_hold_open_or_create : ch_hold_open)(path, NULL, &hold, &error));
    if (strcmp(command, "storm") == 0) storm(hold);
    else if (strcmp(command, "sound") == 0) sound(hold);
    else if (argc == 4) facts(hold, argv[2], path, begins);
    ch_hold_free(hold);
    return argc < 3;
}
