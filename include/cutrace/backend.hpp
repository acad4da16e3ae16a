// SPDX-License-Identifier: Apache-2.0
// Where records come from, apart from markers. The collector knows a backend only through start, flush and stop; a
// backend knows only the event writer that start hands to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/clock.hpp>
#include <cutrace/event.hpp>
#include <cutrace/twin_choice.hpp>

CUTRACE_BEGIN_NAMESPACE

/// A call of the host that a backend saw end.
struct api_call {
  std::uint32_t function;  ///< id under which the backend named it, see event_writer::name_function
  std::uint64_t begin_ticks;
  std::uint64_t end_ticks;
  std::uint32_t correlation;
  std::int32_t result;
  std::uint64_t stage;         ///< what event_writer::enter returned, or `stage_of_thread`
  const std::uint64_t* words;  ///< arguments, in the order of the function's description
  std::uint32_t word_count;    ///< at most 10
  bool runtime_api;
  std::uint32_t runtime_function;  ///< function of the runtime API that made this call of the driver, 0: not known
  std::uint32_t enclosing;         ///< correlation of the call of the driver in which this one was made, 0: not known
  std::uint8_t context = 0;        ///< low bits of the number of its context, 0: not known

  /// The innermost stage at the end of the call, which is that at its begin: stages and calls nest.
  static constexpr std::uint64_t stage_of_thread = ~std::uint64_t{0};
  /// Result of event_writer::enter: tracing is paused, the end of this call is not to be reported.
  static constexpr std::uint64_t not_recorded = stage_of_thread - 1;
};

/// Description of a function whose calls are recorded. Strings are copied.
struct function_info {
  struct parameter {
    const char* name;
    argument_kind kind;
  };
  const char* name;
  const parameter* parameters;
  std::uint32_t parameter_count;
  copy_direction direction;        ///< of copies, `unknown` otherwise
  std::int32_t bytes_parameter;    ///< index of the argument that is the number of bytes moved or allocated, -1 none
  bool makes_gpu_work;             ///< calls whose correlation id GPU records may carry
  bool per_thread_stream = false;  ///< its default stream is that of the calling thread ("_ptsz", "_ptds")
};

/// GPU work that a backend describes in full by itself, without activity buffers. Times as in `times_are_ticks`.
struct gpu_work {
  event_kind kind;   ///< kernel, memcpy, memset, sync, graph_launch
  const char* name;  ///< copied; kernels
  std::uint64_t begin;
  std::uint64_t end;     ///< 0: it had not ended when the backend stopped, neither time is known (event::incomplete)
  bool times_are_ticks;  ///< raw ticks of `clock::ticks`, else nanoseconds of the raw frame (event_writer::raw_ns)
  std::uint32_t correlation;
  std::uint32_t device;
  std::uint32_t context;
  std::uint64_t stream;
  std::uint64_t bytes;
  copy_direction direction;
  memory_kind source, destination;
  sync_kind sync;
  std::uint32_t grid[3], block[3];
  std::uint32_t registers_per_thread, shared_bytes;
  std::uint32_t graph_id;
  std::uint64_t graph_node_id;
};

/// What became of a node of a CUDA graph. Numbers of nodes are the graph's number << 32 | index, as `graph_node_id`.
struct graph_change {
  enum class action : std::uint8_t {
    node_added,   ///< captured or added by hand, now: belongs to the innermost stage of the calling thread
    node_copied,  ///< `node` was made from `from`, or is the new number of `from`
    updated,      ///< nodes of executable graph `node` >> 32 do from now on what those of graph `from` >> 32 do
    gone,         ///< graph `node` >> 32 is being destroyed
  };
  action what;
  std::uint64_t node;
  std::uint64_t from;
};

/// What a decoder hands to the collector for each record of an activity buffer; collector's thread only.
class event_emitter {
 public:
  virtual ~event_emitter() = default;
  /// A record. Times of `e` are nanoseconds of the raw frame; `correlation_id` is the plain 32-bit id. The collector
  /// joins, corrects and orders it. Strings must be interned. Of a call (api) it takes the values of at most ten
  /// arguments; names come from what was said of its function. Work that is `incomplete` has no times. Of what the
  /// kernel did (system) it takes ten with their names, which are interned or literals, as are strings among the
  /// values.
  virtual void emit(const event& e) = 0;
  /// Copies of one text share one address until the session ends.
  virtual text intern(const char* text, std::size_t size) = 0;
  /// Human form of a mangled kernel name, cached.
  virtual text demangle(text mangled) = 0;
  virtual void count_loss(loss_cause, std::uint64_t n) = 0;
  virtual void count_quality(std::uint32_t quality_index) = 0;
};

/// A full buffer on its way to the collector. The functions are called on the collector's thread: decode, then release.
struct activity_buffer {
  void* data;
  std::size_t valid_bytes;
  void* owner;
  void (*decode)(const activity_buffer&, event_emitter&);
  void (*release)(const activity_buffer&);
};

/// The activity buffers of a backend: what they hold of GPU records that may still come, for the collector to keep what
/// those refer to. A backend whose records come at once needs none.
class activity_buffers {
 public:
  struct held {
    std::uint32_t thread;    ///< event_writer::thread_number, or `any`
    std::uint64_t since_ns;  ///< raw frame
  };
  static constexpr std::uint32_t any = ~std::uint32_t{0} - 1;

  /// Calls `take(to, one)` for each buffer that holds, or will hold, records of calls that a thread was in at
  /// `since_ns` or made later. Records that are in none of them have been decoded. Collector's thread.
  virtual void list(void (*take)(void* to, const held& one), void* to) const = 0;
  /// Memory that all of them take.
  virtual std::uint64_t bytes() const noexcept = 0;

 protected:
  ~activity_buffers() = default;
};

/// How a backend chooses between the two instances of a graph that cutrace::graph_exec holds. May be called from any
/// thread at any time, also after the session's end.
using twin_chooser = twin_choice (*)(twin_step) noexcept;

/// All that a backend may do. Thread-safe; nothing here throws or blocks.
class event_writer {
 public:
  virtual ~event_writer() = default;

  /// Raw time now, and the raw frame's nanoseconds of a tick value: the one conversion that a process has.
  virtual std::uint64_t ticks() const noexcept = 0;
  virtual std::uint64_t raw_ns(std::uint64_t ticks) const noexcept = 0;
  /// That conversion itself, for code that outlives the session.
  virtual tick_scale scale() const noexcept { return {}; }

  /// Names function `id` (below 4,096; runtime-API functions use their own range) before its first call is written.
  virtual void name_function(std::uint32_t id, bool runtime_api, const function_info&) noexcept = 0;

  /// Name of a result code ("CUDA_ERROR_OUT_OF_MEMORY"), so that sinks can print it. Copied.
  virtual void name_result(bool runtime_api, std::int32_t code, const char* name) noexcept {
    static_cast<void>(runtime_api), static_cast<void>(code), static_cast<void>(name);
  }

  /// Begin of a call, on the thread that makes it: remembers thread, stage and time under `correlation` when
  /// `makes_gpu_work`, and returns the stage: 0 outside of any, `api_call::not_recorded` while tracing is paused.
  virtual std::uint64_t enter(std::uint32_t function, std::uint32_t correlation, std::uint64_t begin_ticks,
                              bool makes_gpu_work) noexcept = 0;
  /// End of a call whose begin was recorded, same thread; also when tracing has been paused meanwhile.
  virtual void exit(const api_call&) noexcept = 0;

  /// `enter` and `exit` with times of now. Of a begin it returns the ticks, 0 where the end is not to be reported; an
  /// end takes them in `begin_ticks`, and `end_ticks` are set here.
  virtual std::uint64_t begin_call(std::uint32_t function, std::uint32_t correlation, bool makes_gpu_work) noexcept {
    const std::uint64_t begin = ticks();
    return enter(function, correlation, begin, makes_gpu_work) != api_call::not_recorded ? begin : 0;
  }
  virtual void end_call(api_call& c) noexcept {
    c.end_ticks = ticks();
    exit(c);
  }

  /// A call, whose end was recorded, returned an error that loses the context (loses_context). The first one of a
  /// session, and all others meanwhile, return from here when the report of it is out, after 100 ms at the latest,
  /// since programs end in the next line. The thread that made the call.
  virtual void context_lost(std::uint32_t function, std::int32_t result, std::uint64_t at_ticks) noexcept {
    static_cast<void>(function), static_cast<void>(result), static_cast<void>(at_ticks);
  }
  /// Records of GPU work have been given room. Any thread, also in a callback of CUPTI.
  virtual void work_begins() noexcept {}
  /// What is complete is about to be handed over, and has been. The thread that flushes, as of the next.
  virtual void flush_begins() noexcept {}
  virtual void flushed() noexcept {}
  /// The flushes that `context_lost` asked for have been made.
  virtual void flushed_after_fault() noexcept {}

  /// GPU work, from whichever thread learnt of it. The name should be one of few: each distinct one is kept.
  virtual void gpu(const gpu_work&) noexcept = 0;

  /// A change of a CUDA graph, on the thread that makes it. GPU work with a `graph_node_id` gets the stage of its
  /// node's capture by it.
  virtual void graph(const graph_change&) noexcept {}

  /// From here on cutrace::graph_exec asks this function, which stays loaded.
  virtual void offer(twin_chooser chooser) noexcept { static_cast<void>(chooser); }
  /// From here on the collector asks this object; nullptr: once this has returned no longer. Before `stop` returns.
  virtual void offer(const activity_buffers* buffers) noexcept { static_cast<void>(buffers); }
  /// Of the calling thread, as activity_buffers names it; activity_buffers::any where it has none yet.
  virtual std::uint32_t thread_number() const noexcept { return activity_buffers::any; }
  /// The session does not record all the time: the backend is suspended in between.
  virtual bool in_windows() const noexcept { return false; }

  /// Something has happened that backends should look at before the next poll is due. Any thread, also in a callback.
  virtual void request_poll() noexcept {}

  /// Hands a buffer to the collector. False when the queue is full: the caller keeps it and counts the loss.
  virtual bool submit(const activity_buffer&) noexcept = 0;

  /// A description event (device, context, stream, thread): kept, and reported to sinks that join later too.
  virtual void describe(const event&) noexcept = 0;

  virtual void count_loss(loss_cause, std::uint64_t n) noexcept = 0;

  /// Bytes that all activity buffers of a backend together may take (part of the session's memory limit).
  virtual std::size_t buffer_budget_bytes() const noexcept { return std::size_t{12} << 20; }
  /// How long a call that makes GPU work may be held up while there is little room for its records; 0: never
  /// (overflow_policy::drop).
  virtual std::uint32_t overflow_wait_us() const noexcept { return 0; }
  /// One line for the error handler and for the notes of every file, each distinct one once.
  virtual void report(const char* component, const char* message) noexcept = 0;
  /// The same for the notes alone: no error.
  virtual void note(const char* component, const char* message) noexcept {
    static_cast<void>(component), static_cast<void>(message);
  }
};

/// Whether a result of a CUDA call says that the context is lost: cuda.h says of each of these that "any further CUDA
/// work will return the same error" or that the context "must be destroyed". The runtime's numbers are the same
/// (driver_types.h).
inline bool loses_context(std::int32_t result) noexcept {
  if (result < 214) return false;  // the usual way out
  switch (result) {
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 226:  // CONTAINED
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 721:  // TENSOR_MEMORY_LEAK
    case 810:  // MPS_CLIENT_TERMINATED
    case 911:  // EXTERNAL_DEVICE
      return true;
    default:
      return false;
  }
}

/// Result of start: what the session hands to its sinks.
struct backend_status {
  bool active;       ///< GPU records are to be expected
  char detail[256];  ///< versions when active, else the reason and what to do
};

class backend {
 public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
  virtual ~backend() = default;

  virtual const char* name() const noexcept = 0;
  /// Begins to record. Never throws for what the machine lacks: that is `active = false` with a reason. The writer
  /// lives until `stop` has returned. Caller's thread.
  virtual backend_status start(event_writer&) = 0;
  /// Hands over what is complete so far. Returns false when `deadline_ms` passed first. Collector's helper thread.
  virtual bool flush(std::uint32_t deadline_ms) noexcept = 0;
  /// The same, and unfinished GPU work as well, without times, where the backend can: at most once a second. Same
  /// thread as flush.
  virtual bool flush_unfinished(std::uint32_t deadline_ms) noexcept { return flush(deadline_ms); }
  /// Each flush period, of `period_ms`: hands over what is complete. Same thread as flush.
  virtual bool poll(std::uint32_t period_ms, std::uint32_t deadline_ms) noexcept {
    static_cast<void>(period_ms);
    return flush(deadline_ms);
  }
  /// Hands over everything, incomplete records included, and stops. Safe to call twice.
  virtual bool stop(std::uint32_t deadline_ms) noexcept = 0;
  virtual void pause() noexcept {}
  virtual void resume() noexcept {}
  /// Between the windows of a session that samples: what costs the program time is switched off, and on again before
  /// the next window. Nothing is recorded meanwhile, so what is on its way may be reported later. Same thread as flush.
  virtual void suspend() noexcept {}
  virtual void restart() noexcept {}
  /// The program has asked for what this backend has, or, with `records`, is about to register buffers of its own for
  /// the GPU's records, which the backend lets go of: no more come, and those that are there are handed over by the
  /// flush_unfinished that follows. Returns whether it has it. The program's thread.
  virtual bool meets_client(bool records) noexcept {
    static_cast<void>(records);
    return false;
  }
};

CUTRACE_END_NAMESPACE
