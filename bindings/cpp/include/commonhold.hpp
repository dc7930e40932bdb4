// Commonhold for C++20. A hold is a memory-mapped file that many processes share. This header-only
// layer uses commonhold.h, whose conventions (threads, fork, the death of a process) and error
// lists also apply here.
//
//     #include <commonhold.hpp>
//
//     commonhold::hold shop = commonhold::hold::open_or_create("shop");
//     commonhold::map stock = shop.maps().open_or_create("stock");
//     stock.set("apple", "12 crates");
//     std::optional<std::string> apples = stock.get("apple");
//     for (auto [key, value] : stock) std::cout << key << ": " << value << '\n';
//
//     auto weights = shop.maps().open_or_create<int, double>("weights"); // trivially copyable
//     weights.set(7, 12.5);
//
// The headers:
//     error.hpp      one tree of exceptions; std::expected where the library has it
//     bytes.hpp      conversions to bytes, and buffers
//     many.hpp       the elements of a range for a call with many elements
//     hold.hpp       the file: opening, statistics, copies
//     by_name.hpp    its structures by name: opening, creating, dropping, listing
//     map.hpp        maps: by key, by uid, batches, iteration, lists, following
//     typed.hpp      maps, channels and queue elements of trivially copyable types
//     queue.hpp      elements that move between named queues
//     channel.hpp    one producer, many consumers
//     log.hpp        many writers, one merged log
//     replicate.hpp  origins, replicas, journals
//     replicate_hold.hpp  all maps of a hold
//
// Conventions: every class is a move-only handle that frees itself. Absence is std::nullopt (or
// false, where there is no value to return); errors are exceptions, of which commonhold::error is
// the root. Keys, values and messages may be anything that consists of bytes: std::string_view,
// string literals, spans and contiguous ranges of bytes. Returned values are std::string, which may
// have any bytes. Times are std::chrono durations.
#ifndef COMMONHOLD_HPP
#define COMMONHOLD_HPP

#include <commonhold/by_name.hpp>
#include <commonhold/bytes.hpp>
#include <commonhold/channel.hpp>
#include <commonhold/error.hpp>
#include <commonhold/hold.hpp>
#include <commonhold/log.hpp>
#include <commonhold/many.hpp>
#include <commonhold/map.hpp>
#include <commonhold/queue.hpp>
#include <commonhold/replicate.hpp>
#include <commonhold/replicate_hold.hpp>
#include <commonhold/typed.hpp>

#endif
