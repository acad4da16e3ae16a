// SPDX-License-Identifier: Apache-2.0
// Pairs of CUDA events of one context, made in advance by our own thread, and the work between them. The program's
// threads take a pair, record it around a call and pass it on; our thread gives it back when the GPU has passed both.
#pragma once

#include <atomic>
#include <boost/lockfree/queue.hpp>
#include <cstdint>
#include <cutrace/event.hpp>

#include "hooks.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

/// Work of the GPU between two events.
struct timed_work {
  void* begin = nullptr;  ///< the events, made once
  void* end = nullptr;
  void* on = nullptr;          ///< the stream's handle
  std::uint64_t stream = 0;    ///< the driver's number of it
  const char* name = nullptr;  ///< of a kernel; null: unknown
  std::uint64_t bytes = 0;
  std::uint32_t correlation = 0;
  std::uint32_t grid[3] = {}, block[3] = {}, shared_bytes = 0;
  std::uint32_t value = 0;  ///< of a memset
  event_kind kind = event_kind::kernel;
  copy_direction direction = copy_direction::unknown;
  bool asynchronous = false;
  int source_device = -1, destination_device = -1;  ///< of a copy between devices; -1: not known
  /// Rises each time the pair is given back, so that a thread that comes late sees that the pair is not its own any
  /// more.
  std::atomic<std::uint16_t> generation{0};
};

/// Events and state of one context. Entries of the table are used again, for other contexts; their memory stays.
struct event_context {
  /// Pairs in flight at once: a program may be about a thousand launches of a stream ahead of the GPU.
  static constexpr std::uint32_t pairs = 4096;
  enum : int { empty, wanted, ready, refused, gone };

  std::atomic<int> state{empty};
  std::atomic<std::uint64_t> id{0};  ///< the driver's, never given twice in a process
  std::atomic<void*> handle{nullptr};
  std::atomic<int> device{-1};
  /// Held by our thread while it works in the context, and by a thread of the program that ends the context.
  spin_lock used;
  std::atomic<bool> held{false};    ///< a thread that ends the context holds `used`
  std::atomic<bool> ending{false};  ///< a thread waits to end the context

  using indices = boost::lockfree::queue<std::uint16_t, boost::lockfree::capacity<pairs>>;
  struct memory {
    timed_work work[pairs];
    indices unused, in_flight;
  };
  memory* pool = nullptr;             ///< set before `ready`, never freed
  std::atomic<std::uint32_t> out{0};  ///< pairs that are taken
};

/// What a thread of the program holds between begin and end of a call. 0: nothing. Trivial, 4 bytes: one for each open
/// call of a thread.
struct event_ticket {
  static constexpr std::uint32_t not_timed = 1u << 31;  ///< and the cause in the low bits
  static constexpr std::uint32_t contexts = 8;

  static std::uint32_t of(std::uint32_t context, std::uint16_t index, std::uint16_t generation) noexcept {
    return 1u << 30 | context << 24 | static_cast<std::uint32_t>(index) << 12 | (generation & 0xfffu);
  }
  static std::uint32_t cause(std::uint32_t t) noexcept { return t & 0xff; }  ///< where it is not timed
  static std::uint32_t context(std::uint32_t t) noexcept { return t >> 24 & 0x3f; }
  static std::uint16_t index(std::uint32_t t) noexcept { return static_cast<std::uint16_t>(t >> 12 & 0xfff); }
  static std::uint16_t generation(std::uint32_t t) noexcept { return static_cast<std::uint16_t>(t & 0xfff); }
};
static_assert(event_context::pairs <= 4096, "an index has 12 bits");

/// Why the GPU time of a call that succeeded is not known.
enum class untimed : std::uint32_t {
  capturing,
  preparing,
  no_pair,
  refused,
  many_contexts,
  lost,
  context_ended,
  ended,
  no_context
};
constexpr std::size_t untimed_count = 9;
constexpr const char* untimed_names[untimed_count] = {"while their stream was captured into a graph",
                                                      "before the events of their context were made",
                                                      "with all events in flight",
                                                      "to which the driver refused an event",
                                                      "in more contexts than are kept",
                                                      "whose events failed",
                                                      "whose context ended before they did",
                                                      "not done, or called, at the end of the trace",
                                                      "of threads without a current context"};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
