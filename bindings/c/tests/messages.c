/* Queues and channels. */
#include "check.h"

#include <poll.h>
#include <unistd.h>

static const char *const names[] = {"free", "full"};

static ch_queue *new_queue(ch_hold *hold, uint32_t elements) {
    ch_queue_options options = {
        .size = sizeof options, .elements = elements, .element_bytes = 64, .queues = names, .queue_count = 2};
    ch_queue *queue;
    DONE(ch_queue_open_or_create(hold, "it", &options, &queue, &E));
    return queue;
}

TEST(queue_elements_move) {
    ch_hold *hold = new_hold();
    ch_queue *queue = new_queue(hold, 4);
    ch_element element, other;
    ch_queue_stat_t stat;
    ch_slice name;
    uint64_t len;
    uint32_t full;
    DONE(ch_queue_named(queue, "full", &full, &E));
    CHECK(full == 1);
    DONE(ch_queue_name_of(queue, 1, &name, &E));
    CHECK(slice_is(name, "full"));
    ANSWERS(CH_NONE, ch_queue_pull(queue, full, &element, &E));
    ANSWERS(CH_NONE, ch_queue_pull_timeout(queue, full, 1000000, &element, &E));
    for (int i = 0; i < 100; i++) {
        DONE(ch_queue_pull(queue, 0, &element, &E));
        CHECK(element.len == 64 && (uintptr_t)element.data % 64 == 0);
        memcpy(element.data, &i, sizeof i);
        DONE(ch_queue_push(queue, full, &element, &E));
        FAILS(CH_INVALID, "in flight", ch_queue_push(queue, full, &element, &E));
        DONE(ch_queue_pull(queue, full, &other, &E));
        CHECK(other.id == element.id && memcmp(other.data, &i, sizeof i) == 0);
        ANSWERS(CH_NONE, ch_queue_push_pull(queue, 0, &other, full, &element, &E));
    }
    DONE(ch_queue_pull(queue, 0, &element, &E));
    DONE(ch_queue_len(queue, 0, &len, &E));
    CHECK(len == 3);
    DONE(ch_queue_release(queue, &element, &E));
    DONE(ch_queue_len(queue, 0, &len, &E));
    CHECK(len == 4);
    DONE(ch_queue_stat(queue, &stat, &E));
    CHECK(stat.elements == 4 && stat.element_bytes == 64 && stat.queues == 2 && stat.orphans == 0);
    FAILS(CH_NOT_FOUND, "none", ch_queue_named(queue, "none", &full, &E));
    FAILS(CH_INVALID, "number 9", ch_queue_pull(queue, 9, &element, &E));
    ch_queue_free(queue);
    whole(hold);
    ch_hold_free(hold);
}

TEST(queue_elements_that_cannot_be_pushed_stay_in_flight) {
    ch_hold *hold = new_hold();
    ch_queue *queue = new_queue(hold, 3), *another;
    ch_queue_options options = {.size = sizeof options, .elements = 3, .element_bytes = 64};
    ch_element elements[3], theirs, other;
    uint64_t len;
    DONE(ch_queue_open_or_create(hold, "another", &options, &another, &E));
    for (int i = 0; i < 3; i++) DONE(ch_queue_pull(queue, 0, &elements[i], &E));
    /* The same numbers, the same process. */
    for (int i = 0; i < 3; i++) DONE(ch_queue_pull(another, 0, &theirs, &E));
    CHECK(theirs.id == elements[2].id && theirs.owner == elements[2].owner);
    FAILS(CH_INVALID, "number 9", ch_queue_push(queue, 9, &elements[0], &E));
    FAILS(CH_INVALID, "another queue", ch_queue_push(queue, 0, &theirs, &E));
    FAILS(CH_INVALID, "another queue", ch_queue_push_pull(queue, 0, &theirs, 0, &other, &E));
    FAILS(CH_INVALID, "another queue", ch_queue_release(queue, &theirs, &E));
    other = elements[2], elements[2] = theirs;
    FAILS(CH_INVALID, "another queue", ch_queue_push_many(queue, 0, elements, 3, &E));
    elements[2] = other;
    DONE(ch_queue_len(queue, 0, &len, &E));
    CHECK(len == 0);
    DONE(ch_queue_push_many(queue, 0, elements, 3, &E));
    DONE(ch_queue_push(another, 0, &theirs, &E));
    ch_queue_free(another);
    ch_queue_free(queue);
    whole(hold);
    ch_hold_free(hold);
}

TEST(queue_batches) {
    enum { COUNT = 50 };
    ch_hold *hold = new_hold();
    ch_queue *queue = new_queue(hold, COUNT);
    static ch_element elements[COUNT + 1];
    size_t count;
    DONE(ch_queue_pull_many(queue, 0, elements, COUNT + 1, &count, &E));
    CHECK(count == COUNT);
    ANSWERS(CH_NONE, ch_queue_pull_many(queue, 0, elements, 1, &count, &E));
    for (uint32_t i = 0; i < COUNT; i++) memcpy(elements[i].data, &i, 4);
    elements[COUNT] = elements[0];
    FAILS(CH_INVALID, "twice", ch_queue_push_many(queue, 1, elements, COUNT + 1, &E));
    DONE(ch_queue_push_many(queue, 1, elements, COUNT, &E));
    FAILS(CH_INVALID, "in flight", ch_queue_push_many(queue, 1, elements, COUNT, &E));
    DONE(ch_queue_pull_many_timeout(queue, 1, 1000000, elements, COUNT, &count, &E));
    CHECK(count == COUNT);
    for (uint32_t i = 0; i < COUNT; i++) CHECK(memcmp(elements[i].data, &i, 4) == 0);
    FAILS(CH_BUSY, "in flight", ch_queue_drop(hold, "it", &E));
    DONE(ch_queue_push_many(queue, 0, elements, COUNT, &E));
    DONE(ch_queue_drop(hold, "it", &E));
    ANSWERS(CH_NOT_FOUND, ch_queue_pull(queue, 0, elements, &E));
    ch_queue_free(queue);
    ch_hold_free(hold);
}

TEST(queue_notifiers_signal) {
    ch_hold *hold = new_hold();
    ch_queue *queue = new_queue(hold, 2);
    ch_element element;
    ch_notifier *notifier;
    DONE(ch_queue_notifier(queue, 1, &notifier, &E));
    struct pollfd waits = {.fd = ch_notifier_fd(notifier), .events = POLLIN};
    CHECK(waits.fd >= 0 && poll(&waits, 1, 0) == 0);
    DONE(ch_queue_pull(queue, 0, &element, &E));
    DONE(ch_queue_push(queue, 1, &element, &E));
    CHECK(poll(&waits, 1, 20000) == 1);
    DONE(ch_notifier_clear(notifier, &E));
    CHECK(poll(&waits, 1, 0) == 0);
    ch_notifier_free(notifier);
    CHECK(ch_notifier_fd(NULL) == -1);
    ch_queue_free(queue);
    ch_hold_free(hold);
}

static ch_channel *new_channel(ch_hold *hold) {
    ch_channel *channel;
    DONE(ch_channel_open_or_create(hold, "it", 1 << 12, &channel, &E));
    return channel;
}

TEST(channel_messages_arrive) {
    ch_hold *hold = new_hold();
    ch_channel *channel = new_channel(hold);
    ch_producer *producer, *second;
    ch_consumer *consumer;
    ch_bytes message = CH_BYTES_INIT;
    ch_received received;
    ch_channel_stat_t stat;
    uint64_t sequence;
    size_t most;
    char sent[1000];
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    FAILS(CH_BUSY, "producer", ch_channel_producer(channel, &second, &E));
    DONE(ch_producer_max_message(producer, &most, &E));
    CHECK(most >= 900 && most <= 1024);
    ANSWERS(CH_NONE, ch_consumer_try_recv(consumer, &message, &received, &E));
    ANSWERS(CH_NONE, ch_consumer_recv_timeout(consumer, &message, 1000000, &received, &E));
    for (uint64_t i = 0; i < 3000; i++) {
        size_t len = (size_t)(i * 7 % 900);
        memset(sent, (int)i, sizeof sent);
        DONE(ch_producer_send(producer, sent, len, &sequence, &E));
        DONE(ch_consumer_recv(consumer, &message, &received, &E));
        CHECK(sequence == i && received.sequence == i && received.missed == 0);
        CHECK(message.len == len && (len == 0 || memcmp(message.data, sent, len) == 0));
    }
    DONE(ch_channel_stat(channel, &stat, &E));
    CHECK(stat.sequence == 3000 && stat.consumers == 1 && stat.has_producer && stat.producer.pid == (uint32_t)getpid());
    FAILS(CH_TOO_LARGE, "limit", ch_producer_send(producer, sent, 1 << 20, NULL, &E));
    FAILS(CH_BUSY, "", ch_channel_drop(hold, "it", &E));
    ch_producer_free(producer);
    ch_consumer_free(consumer);
    DONE(ch_channel_drop(hold, "it", &E));
    ch_bytes_free(&message);
    ch_channel_free(channel);
    ch_hold_free(hold);
}

TEST(channel_full_names_the_consumer_in_the_way) {
    ch_hold *hold = new_hold();
    ch_channel *channel = new_channel(hold);
    ch_producer *producer;
    ch_consumer *lossless, *lossy, *patient;
    ch_bytes message = CH_BYTES_INIT;
    ch_received received;
    ch_peer peer;
    char sent[100] = "message";
    uint64_t missed;
    int count = 0;
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &lossless, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSY, 0, &lossy, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    ANSWERS(CH_NONE, ch_producer_waits_for(producer, &peer, &E));
    while (ch_producer_try_send(producer, sent, sizeof sent, NULL, NULL) == CH_OK) CHECK(count++ < 1000);
    ANSWERS(CH_NONE, ch_producer_send_timeout(producer, sent, sizeof sent, 1000000, NULL, &E));
    DONE(ch_producer_waits_for(producer, &peer, &E));
    CHECK(peer.pid == (uint32_t)getpid());
    ch_consumer_free(lossless);
    DONE(ch_channel_consumer(channel, CH_JOIN_OLDEST, CH_PATIENT, 2000000, &patient, &E));
    for (int i = 0; i < 100; i++) DONE(ch_producer_send(producer, sent, sizeof sent, NULL, &E));
    FAILS(CH_CLOSED, "join again", ch_consumer_try_recv(patient, &message, NULL, &E));
    DONE(ch_consumer_rejoin(patient, CH_JOIN_OLDEST, &E));
    DONE(ch_consumer_recv(patient, &message, NULL, &E));
    CHECK(message.len == sizeof sent);
    DONE(ch_consumer_recv(lossy, &message, &received, &E));
    DONE(ch_consumer_missed(lossy, &missed, &E));
    CHECK(received.missed > 0 && received.missed == missed && received.sequence == missed);
    FAILS(CH_INVALID, "lossless", ch_consumer_peek(lossy, NULL, NULL, &E));
    ch_consumer_free(lossy);
    ch_consumer_free(patient);
    ch_producer_free(producer);
    ch_bytes_free(&message);
    ch_channel_free(channel);
    ch_hold_free(hold);
}

struct seen {
    uint64_t next;
    ch_consumer *consumer;
};

static void each(void *user, ch_slice message, ch_received received) {
    struct seen *seen = user;
    CHECK(received.sequence == seen->next++ && message.len == received.sequence % 10);
    FAILS(CH_BUSY, "one thread", ch_consumer_advance(seen->consumer, &E));
}

TEST(channel_batches_reservations_and_looking) {
    ch_hold *hold = new_hold();
    ch_channel *channel = new_channel(hold);
    ch_producer *producer;
    ch_consumer *consumer;
    ch_slice messages[20], message;
    ch_received received;
    size_t count;
    uint64_t sequence;
    ch_reservation first, room;
    DONE(ch_channel_producer(channel, &producer, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    struct seen seen = {0, consumer};
    for (size_t i = 0; i < 20; i++) {
        messages[i].data = "0123456789";
        messages[i].len = i % 10;
    }
    DONE(ch_producer_send_many(producer, messages, 20, &count, &E));
    CHECK(count == 20);
    DONE(ch_consumer_recv_many(consumer, 15, each, &seen, &count, &E));
    CHECK(count == 15);
    DONE(ch_consumer_recv_many_timeout(consumer, 15, CH_FOREVER, each, &seen, &count, &E));
    CHECK(count == 5 && seen.next == 20);
    ANSWERS(CH_NONE, ch_consumer_recv_many_timeout(consumer, 15, 1000000, each, &seen, &count, &E));
    CHECK(count == 0);
    for (uint64_t i = 20; i < 500; i++) {
        DONE(ch_producer_reserve(producer, 300, &first, &E));
        CHECK(first.len == 300);
        memset(first.room, 0xff, 300);
        if (i % 3 == 0) DONE(ch_producer_cancel(producer, &first, &E));
        DONE(ch_producer_try_reserve(producer, 200, &room, &E));
        CHECK((uintptr_t)room.room % 8 == 0);
        memcpy(room.room, &i, sizeof i);
        DONE(ch_producer_commit(producer, &room, sizeof i, &sequence, &E));
        CHECK(sequence == i);
        FAILS(CH_INVALID, "no longer valid", ch_producer_commit(producer, &room, 1, NULL, &E));
        for (int twice = 0; twice < 2; twice++) {
            DONE(ch_consumer_peek(consumer, &message, &received, &E));
            CHECK(received.sequence == i && message.len == sizeof i && memcmp(message.data, &i, sizeof i) == 0);
        }
        DONE(ch_consumer_advance(consumer, &E));
    }
    ANSWERS(CH_NONE, ch_consumer_advance(consumer, &E));
    ANSWERS(CH_NONE, ch_consumer_try_peek(consumer, &message, NULL, &E));
    ANSWERS(CH_NONE, ch_consumer_peek_timeout(consumer, 1000000, &message, NULL, &E));
    DONE(ch_producer_reserve_timeout(producer, 10, CH_FOREVER, &room, &E));
    FAILS(CH_TOO_LARGE, "reserved", ch_producer_commit(producer, &room, 11, NULL, &E));
    DONE(ch_producer_cancel(producer, &room, &E));
    messages[3].len = 1 << 20;
    FAILS(CH_TOO_LARGE, "limit", ch_producer_send_many(producer, messages, 20, &count, &E));
    CHECK(count == 3);
    ch_producer_free(producer);
    ch_consumer_free(consumer);
    ch_channel_free(channel);
    ch_hold_free(hold);
}

/* One that is over, or another producer's, commits and cancels nothing. */
TEST(channel_reservations_are_distinct) {
    ch_hold *hold = new_hold();
    ch_channel *channel = new_channel(hold), *elsewhere;
    ch_producer *producer, *other;
    ch_consumer *consumer;
    ch_reservation first, second, theirs, none = {0};
    ch_slice message;
    DONE(ch_channel_open_or_create(hold, "elsewhere", 1 << 12, &elsewhere, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    DONE(ch_channel_producer(elsewhere, &other, &E));
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    DONE(ch_producer_reserve(other, 6, &theirs, &E));
    DONE(ch_producer_reserve(producer, 5, &first, &E));
    DONE(ch_producer_reserve(producer, 6, &second, &E));
    memcpy(second.room, "second", 6);
    ch_reservation *stale[] = {&first, &theirs, &none};
    for (int i = 0; i < 3; i++) {
        FAILS(CH_INVALID, "no longer valid", ch_producer_commit(producer, stale[i], 5, NULL, &E));
        FAILS(CH_INVALID, "no longer valid", ch_producer_cancel(producer, stale[i], &E));
        ANSWERS(CH_NONE, ch_consumer_try_peek(consumer, &message, NULL, &E));
    }
    FAILS(CH_INVALID, "NULL", ch_producer_cancel(producer, NULL, &E));
    DONE(ch_producer_commit(producer, &second, 6, NULL, &E));
    DONE(ch_consumer_peek(consumer, &message, NULL, &E));
    CHECK(slice_is(message, "second"));
    DONE(ch_consumer_advance(consumer, &E));
    DONE(ch_producer_reserve(producer, 5, &first, &E));
    DONE(ch_producer_send(producer, "sent", 4, NULL, &E));
    FAILS(CH_INVALID, "no longer valid", ch_producer_commit(producer, &first, 5, NULL, &E));
    DONE(ch_consumer_peek(consumer, &message, NULL, &E));
    CHECK(slice_is(message, "sent"));
    DONE(ch_producer_cancel(other, &theirs, &E));
    ch_producer_free(producer);
    ch_producer_free(other);
    ch_consumer_free(consumer);
    ch_channel_free(channel);
    ch_channel_free(elsewhere);
    ch_hold_free(hold);
}

TEST(channel_many_are_sent_as_far_as_there_is_room_in_time) {
    ch_hold *hold = new_hold();
    ch_channel *channel = new_channel(hold);
    ch_producer *producer;
    ch_consumer *consumer;
    ch_bytes message = CH_BYTES_INIT;
    ch_reservation room;
    ch_slice messages[100];
    size_t sent;
    for (size_t i = 0; i < 100; i++) messages[i] = (ch_slice){"0123456789012345678901234567890123456789", 40 - i % 2};
    DONE(ch_channel_consumer(channel, CH_JOIN_NOW, CH_LOSSLESS, 0, &consumer, &E));
    DONE(ch_channel_producer(channel, &producer, &E));
    ANSWERS(CH_NONE, ch_producer_send_many_timeout(producer, messages, 100, 2000000, &sent, &E));
    CHECK(sent > 50 && sent < 100);
    ANSWERS(CH_NONE, ch_producer_reserve_timeout(producer, 200, 2000000, &room, &E));
    for (size_t i = 0; i < sent; i++) {
        DONE(ch_consumer_try_recv(consumer, &message, NULL, &E));
        CHECK(message.len == 40 - i % 2);
    }
    ANSWERS(CH_NONE, ch_consumer_try_recv(consumer, &message, NULL, &E));
    DONE(ch_producer_send_many_timeout(producer, messages, 10, CH_FOREVER, &sent, &E));
    CHECK(sent == 10);
    ch_producer_free(producer);
    ch_consumer_free(consumer);
    ch_bytes_free(&message);
    ch_channel_free(channel);
    ch_hold_free(hold);
}
