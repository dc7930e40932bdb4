/* Real processes and threads: kills, forks, waiting for one another. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A page that a child and its parent share. */
static volatile int *shared_words(void) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    return page;
}

static ch_hold *open_again(void) {
    ch_hold *hold;
    DONE(ch_hold_open(place("it.hold"), NULL, &hold, &E));
    return hold;
}

TEST(processes_a_reader_continues_while_writers_are_killed) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    volatile int *rounds = shared_words();
    ch_bytes value = CH_BYTES_INIT;
    char same[200];
    for (int kills = 0; kills < 8; kills++) {
        int before = *rounds;
        pid_t child = fork();
        if (child == 0) {
            ch_hold *own = open_again();
            ch_map *it = new_map(own, "it", NULL);
            for (;; *rounds += 1) {
                for (uint32_t id = 0; id < 50; id++) {
                    memset(same, *rounds & 0x7f, sizeof same);
                    DONE(ch_map_set(it, &id, 4, same, 1 + (id + (uint32_t)*rounds) % 200, NULL, &E));
                }
            }
        }
        while (*rounds < before + 3) {
            for (uint32_t id = 0; id < 50; id++) {
                if (ch_map_get(map, &id, 4, &value, NULL) != CH_OK) continue;
                memset(same, ((char *)value.data)[0], sizeof same);
                CHECK(value.len >= 1 && value.len <= 200 && memcmp(value.data, same, value.len) == 0);
            }
        }
        killed(child);
        DONE(ch_map_set(map, CH_LIT("mine"), CH_LIT("goes on"), NULL, &E));
    }
    DONE(ch_hold_sweep(hold, NULL, &E));
    whole(hold);
    ch_bytes_free(&value);
    ch_map_free(map);
    ch_hold_free(hold);
}

TEST(processes_elements_of_a_killed_one_come_back) {
    ch_hold *hold = new_hold();
    const char *const names[] = {"free", "full", "lost"};
    ch_queue_options options = {sizeof options, 10, 8, names, 3, "lost"};
    volatile int *taken = shared_words();
    ch_element element;
    ch_queue *queue;
    DONE(ch_queue_open_or_create(hold, "it", &options, &queue, &E));
    pid_t child = fork();
    if (child == 0) {
        ch_queue *own;
        DONE(ch_queue_open(open_again(), "it", &own, &E));
        for (int i = 0; i < 3; i++) DONE(ch_queue_pull(own, 0, &element, &E));
        *taken = 1;
        for (;;) pause();
    }
    while (!*taken) usleep(1000);
    killed(child);
    for (int i = 0; i < 3; i++) {
        DONE(ch_queue_pull_timeout(queue, 2, 20000000000u, &element, &E));
        DONE(ch_queue_push(queue, 0, &element, &E));
    }
    ch_queue_free(queue);
    whole(hold);
    ch_hold_free(hold);
}

TEST(processes_an_element_stays_in_flight_if_a_stopped_one_is_in_the_way) {
    ch_hold *hold, *made = new_hold();
    const char *const names[] = {"free", "lost"};
    ch_queue_options options = {sizeof options, 3, 8, names, 2, "lost"};
    ch_hold_options hasty = {.size = sizeof hasty, .lock_timeout_ns = 2000000};
    ch_element element;
    ch_queue *queue;
    ch_error error;
    int code = CH_OK;
    DONE(ch_queue_open_or_create(made, "it", &options, &queue, &E));
    ch_queue_free(queue);
    ch_hold_free(made);
    pid_t child = fork();
    if (child == 0) {
        DONE(ch_queue_open(open_again(), "it", &queue, &E));
        for (;;) {
            if (ch_queue_pull(queue, 0, &element, &error) == CH_OK) DONE(ch_queue_push(queue, 0, &element, &E));
        }
    }
    DONE(ch_hold_open(place("it.hold"), &hasty, &hold, &E));
    DONE(ch_queue_open(hold, "it", &queue, &E));
    while (code != CH_TIMED_OUT) { /* Until it is stopped in the middle of a push. */
        while (ch_queue_pull(queue, 0, &element, &error) != CH_OK) usleep(100);
        kill(child, SIGSTOP);
        CHECK(waitpid(child, NULL, WUNTRACED) == child);
        code = ch_queue_push(queue, 0, &element, &error);
        CHECK(code == CH_OK || code == CH_TIMED_OUT);
        if (code == CH_OK) kill(child, SIGCONT);
    }
    memcpy(element.data, "element", 8);
    ANSWERS(CH_TIMED_OUT, ch_queue_push(queue, 0, &element, &E));
    ANSWERS(CH_TIMED_OUT, ch_queue_push_pull(queue, 0, &element, 0, &element, &E));
    ANSWERS(CH_TIMED_OUT, ch_queue_push_many(queue, 0, &element, 1, &E));
    kill(child, SIGCONT);
    CHECK(memcmp(element.data, "element", 8) == 0);
    while ((code = ch_queue_push(queue, 0, &element, &error)) == CH_TIMED_OUT) { /* It may not run yet. */
    }
    CHECK(code == CH_OK);
    killed(child);
    ch_queue_free(queue);
    DONE(ch_hold_sweep(hold, NULL, &E));
    whole(hold);
    ch_hold_free(hold);
}

/* An interpreter asks without patience first: it waits for no process, and does not recover
 * after a dead one either. */
TEST(processes_a_thread_without_patience_times_out_at_once) {
    ch_hold *hold, *made = new_hold();
    ch_map *map = new_map(made, "it", NULL);
    char value[2000] = "a long value is written for longer";
    ch_error error;
    int code = CH_OK;
    ch_map_free(map);
    ch_hold_free(made);
    pid_t child = fork();
    if (child == 0) {
        DONE(ch_map_open(open_again(), "it", &map, &E));
        for (;;) DONE(ch_map_set(map, CH_LIT("key"), value, sizeof value, NULL, &E));
    }
    DONE(ch_hold_open(place("it.hold"), NULL, &hold, &E));
    DONE(ch_map_open(hold, "it", &map, &E));
    CHECK(ch_thread_patience(1000000) == CH_FOREVER);
    while (code != CH_TIMED_OUT) { /* Until it is stopped in the middle of a change. */
        usleep(100);
        kill(child, SIGSTOP);
        CHECK(waitpid(child, NULL, WUNTRACED) == child);
        code = ch_map_set(map, CH_LIT("key"), CH_LIT("mine"), NULL, &error);
        CHECK(code == CH_OK || code == CH_TIMED_OUT);
        if (code == CH_OK) kill(child, SIGCONT);
    }
    CHECK(ch_thread_patience(0) == 1000000);
    FAILS(CH_TIMED_OUT, "lives", ch_map_set(map, CH_LIT("key"), CH_LIT("mine"), NULL, &E));
    killed(child);
    FAILS(CH_TIMED_OUT, "recover", ch_map_set(map, CH_LIT("key"), CH_LIT("mine"), NULL, &E));
    FAILS(CH_TIMED_OUT, "recover", ch_map_set(map, CH_LIT("key"), CH_LIT("mine"), NULL, &E));
    CHECK(ch_thread_patience(CH_FOREVER) == 0);
    DONE(ch_map_set(map, CH_LIT("key"), CH_LIT("mine"), NULL, &E));
    CHECK(ch_thread_patience(0) == CH_FOREVER);
    DONE(ch_map_set(map, CH_LIT("key"), CH_LIT("now free"), NULL, &E));
    ch_thread_patience(CH_FOREVER);
    ch_map_free(map);
    whole(hold);
    ch_hold_free(hold);
}

TEST(processes_a_killed_producer_has_a_successor) {
    ch_hold *hold = new_hold();
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_bytes message = CH_BYTES_INIT;
    ch_received received;
    uint64_t next = 0, number;
    DONE(ch_channel_open_or_create(hold, "it", 1 << 14, &channel, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    for (int kills = 0; kills < 5; kills++) {
        pid_t child = fork();
        if (child == 0) {
            ch_channel *own;
            DONE(ch_channel_open(open_again(), "it", &own, &E));
            DONE(ch_channel_producer(own, &producer, &E));
            for (;;) {
                DONE(ch_producer_sequence(producer, &number, &E));
                DONE(ch_producer_send(producer, &number, sizeof number, NULL, &E));
            }
        }
        for (int i = 0; i < 1000; i++, next++) {
            DONE(ch_consumer_recv(consumer, &message, &received, &E));
            CHECK(message.len == 8 && memcmp(message.data, &next, 8) == 0 && received.sequence == next);
        }
        killed(child);
    }
    DONE(ch_channel_producer(channel, &producer, &E));
    while (ch_consumer_try_recv(consumer, &message, &received, NULL) == CH_OK) CHECK(received.sequence == next++);
    DONE(ch_producer_send(producer, "end", 3, &number, &E));
    CHECK(number == next);
    ch_producer_free(producer);
    ch_consumer_free(consumer);
    ch_channel_free(channel);
    ch_bytes_free(&message);
    ch_hold_free(hold);
}

TEST(processes_lines_of_a_killed_one_stay) {
    ch_hold *hold = new_hold();
    volatile int *written = shared_words();
    ch_log *log;
    DONE(ch_log_open_or_create(hold, "it", NULL, &log, &E));
    pid_t child = fork();
    if (child == 0) {
        ch_log *own;
        DONE(ch_log_open(open_again(), "it", &own, &E));
        for (int i = 0; i < 10; i++) CHECK(CH_LOG_INFO(own, "line %d", i) == CH_OK);
        *written = 1;
        for (;;) pause();
    }
    while (!*written) usleep(1000);
    killed(child);
    ch_bytes json = CH_BYTES_INIT;
    DONE(ch_log_describe(log, &json, &E));
    DONE(ch_bytes_append(&json, "", 1, &E));
    CHECK(strstr(json.data, "\"lines\":11") != NULL);
    ch_bytes_free(&json);
    ch_log_free(log);
    ch_hold_free(hold);
}

TEST(processes_a_forked_child_uses_inherited_handles) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    const char *const names[] = {"free"};
    ch_queue_options options = {sizeof options, 4, 8, names, 1, NULL};
    ch_queue *queue;
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_log *log;
    ch_collector *collector;
    ch_origin *origin;
    ch_journal *journal;
    ch_bytes value = CH_BYTES_INIT;
    ch_element element, other;
    ch_slice key;
    ch_iter *iter;
    uint64_t len;
    DONE(ch_map_set(map, CH_LIT("parent"), CH_LIT("1"), NULL, &E));
    DONE(ch_queue_open_or_create(hold, "queue", &options, &queue, &E));
    DONE(ch_queue_pull(queue, 0, &element, &E));
    DONE(ch_channel_open_or_create(hold, "channel", 4096, &channel, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    DONE(ch_log_open_or_create(hold, "log", NULL, &log, &E));
    DONE(ch_log_collect_to_fd(log, NULL, 2, &collector, &E));
    DONE(ch_origin_start(hold, "it", NULL, &origin, &E));
    DONE(ch_journal_start(hold, "it", place("it.journal"), NULL, &journal, &E));
    DONE(ch_map_iter(map, 0, &iter, &E));
    pid_t child = fork();
    if (child == 0) {
        DONE(ch_map_get(map, CH_LIT("parent"), &value, &E));
        DONE(ch_map_set(map, CH_LIT("child"), CH_LIT("2"), NULL, &E));
        DONE(ch_iter_next(iter, &key, NULL, &E));
        FAILS(CH_INVALID, "", ch_queue_push(queue, 0, &element, &E));
        DONE(ch_queue_pull(queue, 0, &other, &E));
        DONE(ch_queue_push(queue, 0, &other, &E));
        ANSWERS(CH_CLOSED, ch_producer_send(producer, "a", 1, NULL, &E));
        ANSWERS(CH_CLOSED, ch_consumer_try_recv(consumer, &value, NULL, &E));
        DONE(ch_log_write(log, CH_INFO, "a", 1, NULL, &E));
        ANSWERS(CH_BUSY, ch_collector_finish(collector, NULL, &E));
        FAILS(CH_INVALID, "belongs to the parent", ch_origin_transmit(origin, &E));
        ANSWERS(CH_NONE, ch_origin_finish(origin, 0, &E));
        FAILS(CH_INVALID, "belongs to the parent", ch_journal_is_over(journal, &E));
        ANSWERS(CH_NONE, ch_journal_finish(journal, &E));
        ch_collector_free(collector);
        ch_iter_free(iter);
        ch_consumer_free(consumer);
        ch_producer_free(producer);
        ch_bytes_free(&value);
        ch_log_free(log);
        ch_channel_free(channel);
        ch_queue_free(queue);
        ch_map_free(map);
        ch_hold_free(hold);
        _exit(0);
    }
    ended_well(child);
    DONE(ch_map_get(map, CH_LIT("child"), &value, &E));
    CHECK(bytes_are(&value, "2"));
    DONE(ch_queue_push(queue, 0, &element, &E));
    DONE(ch_queue_len(queue, 0, &len, &E));
    CHECK(len == 4);
    DONE(ch_producer_send(producer, "a", 1, NULL, &E));
    DONE(ch_consumer_recv(consumer, &value, NULL, &E));
    DONE(ch_origin_transmit(origin, &E));
    ch_origin_free(origin);
    DONE(ch_map_sync(map, 20000000000u, NULL, &E));
    DONE(ch_journal_finish(journal, &E));
    ch_collector_free(collector);
    ch_iter_free(iter);
    ch_consumer_free(consumer);
    ch_producer_free(producer);
    ch_bytes_free(&value);
    ch_log_free(log);
    ch_channel_free(channel);
    ch_queue_free(queue);
    ch_map_free(map);
    whole(hold);
    ch_hold_free(hold);
}

static void *count_up(void *map) {
    ch_bytes value = CH_BYTES_INIT;
    for (int i = 0; i < 2000; i++) {
        DONE(ch_map_increment(map, CH_LIT("n"), 1, NULL, &E));
        DONE(ch_map_get(map, CH_LIT("n"), &value, &E));
        CHECK(value.len == 8);
    }
    ch_bytes_free(&value);
    return NULL;
}

static void *send_some(void *producer) {
    for (int i = 0; i < 5000; i++) DONE(ch_producer_send(producer, &i, sizeof i, NULL, &E));
    return NULL;
}

TEST(processes_threads_share_handles) {
    ch_hold *hold = new_hold();
    ch_map *map = new_map(hold, "it", NULL);
    pthread_t threads[4];
    ch_channel *channel;
    ch_producer *producer;
    ch_consumer *consumer;
    ch_bytes message = CH_BYTES_INIT;
    int64_t sum;
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, count_up, map) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    DONE(ch_map_increment(map, CH_LIT("n"), 0, &sum, &E));
    CHECK(sum == 8000);
    DONE(ch_channel_open_or_create(hold, "channel", 4096, &channel, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    CHECK(pthread_create(&threads[0], NULL, send_some, producer) == 0);
    for (int i = 0; i < 5000; i++) {
        DONE(ch_consumer_recv(consumer, &message, NULL, &E));
        CHECK(message.len == sizeof i && memcmp(message.data, &i, sizeof i) == 0);
    }
    CHECK(pthread_join(threads[0], NULL) == 0);
    ch_bytes_free(&message);
    ch_consumer_free(consumer);
    ch_producer_free(producer);
    ch_channel_free(channel);
    ch_map_free(map);
    ch_hold_free(hold);
}
