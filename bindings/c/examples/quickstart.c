/* Quick start in C: a map, a channel, a log, in a hold in memory that goes with the program.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs commonhold) && ./a.out
 */
#include <commonhold.h>

static ch_error error;

static void must(int result) {
    if (result > 0) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
}

static int show(void *user, const ch_log_line *line) {
    (void)user;
    printf("log: %.*s", (int)line->shown.len, (const char *)line->shown.data);
    return 0;
}

int main(void) {
    ch_hold_options options = {.size = sizeof options, .delete_on_last_exit = 1};
    char name[40];
    ch_hold *hold;
    ch_map *stock;
    ch_iter *iter;
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_log *log;
    ch_slice key, value;
    ch_bytes bytes = CH_BYTES_INIT;
    int64_t visits;

    /* Another process opens the same name and sees all of this. */
    snprintf(name, sizeof name, "quickstart-c-%d", rand());
    must(ch_hold_open_or_create(name, &options, &hold, &error));

    /* A map: bytes to bytes. */
    must(ch_map_open_or_create(hold, "stock", NULL, &stock, &error));
    must(ch_map_set(stock, CH_LIT("apple"), CH_LIT("12 crates"), NULL, &error));
    must(ch_map_set(stock, CH_LIT("pear"), CH_LIT("3 crates"), NULL, &error));
    if (ch_map_get(stock, CH_LIT("apple"), &bytes, &error) == CH_OK)
        printf("apple: %.*s\n", (int)bytes.len, (char *)bytes.data);
    must(ch_map_iter(stock, 0, &iter, &error));
    while (ch_iter_next(iter, &key, &value, NULL) == CH_OK)
        printf("%.*s: %.*s\n", (int)key.len, (const char *)key.data, (int)value.len, (const char *)value.data);
    ch_iter_free(iter);
    must(ch_map_increment(stock, CH_LIT("visits"), 1, &visits, &error));
    printf("visit %lld\n", (long long)visits);

    /* A channel: one producer, any number of consumers in any process. */
    must(ch_channel_open_or_create(hold, "ticks", 1 << 16, &channel, &error));
    must(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &error));
    must(ch_channel_producer(channel, &producer, &error));
    must(ch_producer_send(producer, CH_LIT("apple 12.50"), NULL, &error));
    must(ch_consumer_recv(consumer, &bytes, NULL, &error));
    printf("received: %.*s\n", (int)bytes.len, (char *)bytes.data);

    /* A log: any thread of any process writes, without waiting for anybody. */
    must(ch_log_open_or_create(hold, "events", NULL, &log, &error));
    CH_LOG_INFO(log, "the shop has %d kinds of fruit", 2);
    CH_LOG_DEBUG(log, "this is not even formatted: %d", 3);
    must(ch_log_dump(log, show, NULL, NULL, &error));

    ch_log_free(log);
    ch_producer_free(producer);
    ch_consumer_free(consumer);
    ch_channel_free(channel);
    ch_bytes_free(&bytes);
    ch_map_free(stock);
    ch_hold_free(hold);
    return 0;
}
