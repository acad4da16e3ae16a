// SPDX-License-Identifier: Apache-2.0
// The C table through which all objects of a process (executable, plug-ins, injected library) reach the one runtime,
// and the per-thread state that their markers write to. Plain data and function pointers only: no std:: type whose
// layout depends on the compiler crosses here. std::atomic of an integer or pointer has the layout of that type.
#pragma once

#include <atomic>
#include <cstdint>
#include <cutrace/marker/record.hpp>
#include <cutrace/twin_choice.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

struct table;

/// A stage that is running, or the part of one that was passed on to this thread (adopted_stage): lives in the
/// program's scoped_stage, span or adopted_stage, or in a range of NVTX. All but spans are linked from the thread's
/// state, so that a driver callback on this thread finds them without a lookup.
///
/// Members that are neighbours in the record are not neighbours here: the compiler would copy such a pair by one
/// 16-byte load, which stalls until both 8-byte stores have left the store buffer.
struct stage_frame {
  stage_frame* outer;
  std::uint64_t head;    ///< of the record that its end will write: site, form of the request, flags
  std::uint64_t id;      ///< instance, unique among all that are known at a time: thread index << 40 | sequence
  std::uint64_t begin;   ///< ticks
  std::uint64_t parent;  ///< instance of the enclosing stage, 0 at top level
  /// Number of enclosing stages on the thread, 16 bits | number of the trace that the stage was announced in << 16.
  std::uint64_t depth_and_trace;
  std::uint64_t request;       ///< word of the request named here, else of the nearest enclosing stage that names one
  std::uint64_t naming_stage;  ///< instance that named the request, 0 when none did

  /// Whether the stage was announced in trace number `trace`: a record of its begin was written, before the first call
  /// in it. A stage may outlive a trace.
  bool announced_in(std::uint16_t trace) const noexcept { return (depth_and_trace >> 16 & 0xffff) == trace; }
  void set_announced_in(std::uint16_t trace) noexcept {
    depth_and_trace = (depth_and_trace & 0xffff) | std::uint64_t{trace} << 16;
  }
};

/// What one thread's markers touch. Owned by the runtime, given to another thread only after this one is gone.
struct thread_state {
  record* cursor;                         ///< next free record
  record* limit;                          ///< one past the chunk's last record
  std::atomic<std::uint32_t>* committed;  ///< records of the current chunk that the collector may read
  std::uint32_t count;                    ///< mirror of *committed, so that the hot path never loads it
  bool use_counter;                       ///< see clock::ticks
  bool plain;  ///< times come from the CPU's counter, and nobody is notified of stages and marks
  std::atomic<std::uint16_t> trace_number;  ///< of the running trace, never 0
  stage_frame* top;                         ///< innermost running stage
  std::uint64_t next_stage;                 ///< instance id of the next stage
  const table* owner;                       ///< table of the process's runtime
  std::uint32_t index;              ///< number of the thread in this process, from 1, below 2^24; then from 1 again
  std::uint32_t thread_id;          ///< the operating system's (gettid)
  std::atomic<std::uint64_t> lost;  ///< events that found no chunk
};

/// `nvtx`: a name that came through NVTX; the site's `file` is the NVTX domain.
enum class site_kind : std::uint8_t { stage = 0, mark = 1, counter = 2, gauge = 3, nvtx = 4 };

/// Facts of a call site. Static storage of the object that holds the marker; the runtime copies what it needs when the
/// site is first passed, so that records stay readable after dlclose.
struct site {
  std::atomic<std::uint32_t> id;  ///< 0: not yet known to the runtime
  site_kind kind;
  const char* name;
  const char* file;
  std::uint32_t line;
  std::atomic<std::atomic<std::uint64_t>*> cell;  ///< counters and gauges: where to add or store
};

/// `gate_unresolved`: the object has not looked for the process's runtime yet. `gate_notify`: on, and the runtime is
/// notified of stages and marks. Every marker then goes through attach_thread, where the thread clears its own `plain`:
/// so `plain` need not be atomic, which would cost an instruction.
enum gate : std::uint32_t { gate_off = 0, gate_on = 1, gate_unresolved = 2, gate_notify = 3 };

/// One for each object (executable or shared library). Its ELF note lets the other objects find it.
struct slot {
  std::atomic<std::uint32_t> gate;
  std::uint32_t abi;
  std::atomic<const table*> owner;
};

struct session_request;  // see run/session_call.hpp

/// The runtime's functions. The table grows only at its end; `size` (bytes) shows which functions an older owner has.
struct table {
  std::uint32_t abi;
  std::uint32_t size;
  const char* version;
  /// State of the calling thread; nullptr when tracing is off for good (after fork) or memory ran out. Any thread.
  thread_state* (*attach_thread)(slot*) noexcept;
  /// Room for `records` more in one chunk; nullptr when there is none, and one event then counts as lost if a slot is
  /// given. Owning thread.
  record* (*refill)(thread_state*, std::uint32_t records, slot*) noexcept;
  /// Gives the site its id (counters and gauges: its cell, too). Lock-free, allocates nothing, idempotent. Any thread.
  void (*register_site)(site*) noexcept;
  /// Current state of the gate, for objects that are loaded later.
  std::uint32_t (*gate_state)() noexcept;
  /// What a `session` object asks of the runtime. Returns 0, or writes a message and returns non-zero.
  int (*session_call)(session_request*) noexcept;
  // From here on: present only where `size` reaches that far.
  /// Names the thread whose id in the operating system is `thread_id`. The text is copied. Any thread.
  void (*name_thread)(std::uint32_t thread_id, const char* name) noexcept;
  /// Threads whose `plain` is false call these: when a stage begins (`dynamic_name`: its name, where that is known at
  /// run time only), when one has ended, and at a mark. Owning thread.
  void (*stage_begins)(thread_state*, stage_frame*, const char* dynamic_name) noexcept;
  void (*stage_ended)(thread_state*, const stage_frame*) noexcept;
  void (*mark_passed)(thread_state*, std::uint32_t site) noexcept;
  /// See twin_choice.hpp. Any thread.
  twin_choice (*graph_twin)(twin_step) noexcept;
  /// A stage of the thread has ended that was not its innermost one. Owning thread.
  void (*scopes_interleave)(thread_state*) noexcept;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
