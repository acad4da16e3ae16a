// SPDX-License-Identifier: Apache-2.0
// A backend records CUDA calls and GPU work (by CUPTI, by preloading, of a simulated GPU). The runtime of cutrace knows
// it only as class backend; it knows the runtime only as the event_writer that start gets. Ticks, raw frame: clock.hpp.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cutrace/clock.hpp>
#include <cutrace/event.hpp>
#include <cutrace/twin_choice.hpp>

CUTRACE_BEGIN_NAMESPACE

/// For overflow_policy::wait: holds the calling thread up until `done()` is true, for `us` microseconds at most. The
/// pauses grow to 51 ms: hundreds of threads that look at once would take the processors from those that make room.
/// Keeps errno. By a system call of its own, since pthread_cancel ends threads in nanosleep.
template <class Done>
void wait_for_room(std::uint32_t us, Done done) noexcept {
  if (done()) return;
  const int program_errno = errno;
  std::uint64_t now_ns = clock::monotonic_ns(), pause_ns = 50000;
  for (const std::uint64_t until_ns = now_ns + std::uint64_t{us} * 1000; now_ns < until_ns;
       now_ns = clock::monotonic_ns()) {
    const std::uint64_t left_ns = until_ns - now_ns;
    const timespec pause{0, static_cast<long>(pause_ns < left_ns ? pause_ns : left_ns)};
    ::syscall(SYS_nanosleep, &pause, nullptr);
    if (done()) break;
    if (pause_ns < 50000000) pause_ns *= 2;
  }
  errno = program_errno;
}

/// A call of the driver or the runtime API that has ended, on the host.
struct api_call {
  std::uint32_t function;  ///< id that the backend gave it by event_writer::name_function
  std::uint64_t begin_ticks;
  std::uint64_t end_ticks;
  std::uint32_t correlation;   ///< id that the GPU records of the call carry, too
  std::int32_t result;         ///< CUresult or cudaError_t
  std::uint64_t stage;         ///< what event_writer::enter returned, or `stage_of_thread`
  const std::uint64_t* words;  ///< arguments, in the order of the function's description
  std::uint32_t word_count;    ///< at most 10
  bool runtime_api;
  std::uint32_t runtime_function;  ///< runtime-API function that made this driver call, 0: not known
  std::uint32_t enclosing;         ///< correlation of the driver call in which this call was made, 0: not known
  std::uint16_t context = 0;       ///< low 16 bits of the id of the call's CUDA context, 0: not known

  /// Value of `stage`: the thread's innermost stage when the call ends. Stages and calls nest: it is the same at begin.
  static constexpr std::uint64_t stage_of_thread = ~std::uint64_t{0};
  /// Result of event_writer::enter: the call is not recorded (tracing is paused, say); its end is not to be reported.
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
  bool makes_gpu_work;             ///< GPU records may carry the correlation ids of its calls
  bool per_thread_stream = false;  ///< its default stream is the calling thread's ("_ptsz", "_ptds")
};

/// GPU work that a backend reports in full by itself, without activity buffers. `times_are_ticks`: unit of both times.
struct gpu_work {
  event_kind kind;   ///< kernel, memcpy, memset, sync, graph_launch
  const char* name;  ///< kernels; copied. Null: none, and that of name_of_wait where `kind` is sync
  std::uint64_t begin;
  std::uint64_t end;     ///< 0: unfinished when the backend stopped, then neither time is known (event::incomplete)
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

/// A change of a CUDA graph or of a node of it. A node's number is the graph's id << 32 | index, as `graph_node_id`.
struct graph_change {
  enum class action : std::uint8_t {
    node_added,   ///< `node` was just captured, or added by hand: it belongs to the thread's innermost stage
    node_copied,  ///< `node` was cloned from node `from`, or node `from` got this number (child graphs)
    updated,      ///< executable graph `node` >> 32 does from now on what the nodes of graph `from` >> 32 do
    gone,         ///< graph `node` >> 32 is being destroyed
  };
  action what;
  std::uint64_t node;
  std::uint64_t from;
};

/// Takes from activity_buffer::decode what each record of the buffer holds. Collector's thread only.
class event_emitter {
 public:
  virtual ~event_emitter() = default;
  /// One record; the collector joins it to its call, corrects its times and orders it. Times of `e` are nanoseconds of
  /// the raw frame, `incomplete` work has none; `correlation_id` is the plain 32-bit id; strings must be interned. Of
  /// an `api` event the values of at most ten arguments are taken: their names are those that name_function gave. Of a
  /// `system` event at most ten arguments are taken with their names. These names, and strings among the values, are
  /// interned or literals.
  virtual void emit(const event& e) = 0;
  /// A copy that lives until the session ends. Equal texts get the same address.
  virtual text intern(const char* text, std::size_t size) = 0;
  /// Human form of a mangled kernel name, cached.
  virtual text demangle(text mangled) = 0;
  virtual void count_loss(loss_cause, std::uint64_t n) = 0;
  virtual void count_quality(std::uint32_t quality_index) = 0;  ///< adds one; a value of `quality` (stats.hpp)
};

/// A buffer of GPU records on its way to the collector, whose thread calls `decode`, then `release`.
struct activity_buffer {
  void* data;
  std::size_t valid_bytes;
  void* owner;
  void (*decode)(const activity_buffer&, event_emitter&);
  void (*release)(const activity_buffer&);
};

/// The activity buffers of a backend whose GPU records the collector has not read yet: the collector keeps the calls
/// and stages that these records may refer to. A backend that reports its records at once needs no such object.
class activity_buffers {
 public:
  struct held {
    std::uint32_t thread;    ///< event_writer::thread_number of the calls' thread, or `any`
    std::uint64_t since_ns;  ///< see list; raw frame
  };
  static constexpr std::uint32_t any = ~std::uint32_t{0} - 1;

  /// Calls `take(to, one)` for each buffer that holds, or will hold, records of calls that `one.thread` was in at
  /// `one.since_ns` or made later. All records outside of these buffers have been decoded. Collector's thread.
  virtual void list(void (*take)(void* to, const held& one), void* to) const = 0;
  /// Memory that all activity buffers take.
  virtual std::uint64_t bytes() const noexcept = 0;

 protected:
  ~activity_buffers() = default;
};

/// Chooses between the two instances of a graph that cutrace::graph_exec holds (twin_choice.hpp). May be called from
/// any thread at any time, also after the session's end.
using twin_chooser = twin_choice (*)(twin_step) noexcept;

/// The call that returned an error by which its context is lost.
struct lost_context {
  std::uint32_t function, correlation;
  std::uint32_t context;  ///< the thread's, by its number in records; 0: not known
  std::int32_t result;
  std::uint64_t at_ticks;
};

/// What a backend may ask of the runtime. Thread-safe, throws nothing. Only context_lost waits, and with
/// overflow_policy::wait a report that finds no room.
class event_writer {
 public:
  virtual ~event_writer() = default;

  /// Ticks now, and the raw frame's nanoseconds of a tick value, by the one conversion of the process (tick_scale).
  virtual std::uint64_t ticks() const noexcept = 0;
  virtual std::uint64_t raw_ns(std::uint64_t ticks) const noexcept = 0;
  /// That conversion itself, for code that outlives the session.
  virtual tick_scale scale() const noexcept { return {}; }

  /// Describes function `id` (below 4,096; driver and runtime API number separately) before its first call is reported.
  virtual void name_function(std::uint32_t id, bool runtime_api, const function_info&) noexcept = 0;

  /// Name of a result code ("CUDA_ERROR_OUT_OF_MEMORY"), so that sinks can print it. Copied.
  virtual void name_result(bool runtime_api, std::int32_t code, const char* name) noexcept {
    static_cast<void>(runtime_api), static_cast<void>(code), static_cast<void>(name);
  }

  /// Begin of a call, on the thread that makes it. With `makes_gpu_work` the runtime keeps thread, stage and time under
  /// `correlation`, for the GPU records. Returns the stage, 0: in no stage, or `api_call::not_recorded`.
  virtual std::uint64_t enter(std::uint32_t function, std::uint32_t correlation, std::uint64_t begin_ticks,
                              bool makes_gpu_work) noexcept = 0;
  /// End of a call whose begin was recorded, same thread; also when tracing has been paused meanwhile.
  virtual void exit(const api_call&) noexcept = 0;

  /// `enter` and `exit`, with the clock read here. begin_call returns the ticks of the begin, 0: do not report the end.
  /// end_call takes these ticks in `c.begin_ticks`, and sets `c.end_ticks`.
  virtual std::uint64_t begin_call(std::uint32_t function, std::uint32_t correlation, bool makes_gpu_work) noexcept {
    const std::uint64_t begin = ticks();
    return enter(function, correlation, begin, makes_gpu_work) != api_call::not_recorded ? begin : 0;
  }
  virtual void end_call(api_call& c) noexcept {
    c.end_ticks = ticks();
    exit(c);
  }

  /// A call, whose end was recorded, returned an error that loses the context (loses_context). For the first such call
  /// of a session, and for others that fail meanwhile, this returns when the report of the fault is out, after 100 ms
  /// at the latest: a program may end in its next line. On the thread that made the call.
  virtual void context_lost(const lost_context& by) noexcept { static_cast<void>(by); }
  /// A buffer for GPU records has been given out: a resting collector wakes. Any thread, also in a callback of CUPTI.
  virtual void work_begins() noexcept {}
  /// A flush of complete records begins, and has ended. On the thread that flushes, as flushed_after_fault.
  virtual void flush_begins() noexcept {}
  virtual void flushed() noexcept {}
  /// A forced flush has been made that began after a call had returned an error that loses the context.
  virtual void flushed_after_fault() noexcept {}

  /// Reports GPU work. Any thread. There should be few names: each distinct one is kept until the process ends.
  virtual void gpu(const gpu_work&) noexcept = 0;

  /// A change of a CUDA graph, on the thread that makes it. From these changes follows in which stage the node of GPU
  /// work with a `graph_node_id` was captured.
  virtual void graph(const graph_change&) noexcept {}

  /// From here on cutrace::graph_exec asks `chooser`, whose code must stay loaded.
  virtual void offer(twin_chooser chooser) noexcept { static_cast<void>(chooser); }
  /// From here on the collector asks `buffers`; nullptr, to be passed before `stop` returns: it asks none any more.
  virtual void offer(const activity_buffers* buffers) noexcept { static_cast<void>(buffers); }
  /// Number of the calling thread, for activity_buffers::held; activity_buffers::any where the thread has none yet.
  virtual std::uint32_t thread_number() const noexcept { return activity_buffers::any; }
  /// The session records in windows (session_options::sample); between windows the backend is suspended.
  virtual bool in_windows() const noexcept { return false; }

  /// Has backend::poll called before its next time is due. Any thread, also in a callback.
  virtual void request_poll() noexcept {}

  /// Hands a buffer to the collector. False when the queue is full: the caller keeps it and counts the loss.
  virtual bool submit(const activity_buffer&) noexcept = 0;

  /// A description (device, context, stream, thread): kept, and delivered to sinks that are added later, too.
  virtual void describe(const event&) noexcept = 0;

  virtual void count_loss(loss_cause, std::uint64_t n) noexcept = 0;

  /// Bytes that all activity buffers of a backend together may take (part of the session's memory limit).
  virtual std::size_t buffer_budget_bytes() const noexcept { return std::size_t{12} << 20; }
  /// For how many microseconds a call that makes GPU work may be held up while there is little room for its records;
  /// 0: never (overflow_policy::drop).
  virtual std::uint32_t overflow_wait_us() const noexcept { return 0; }
  /// One line for the error handler and for the notes of every file, each distinct one once.
  virtual void report(const char* component, const char* message) noexcept = 0;
  /// A line for the notes alone, each distinct one once: no error.
  virtual void note(const char* component, const char* message) noexcept {
    static_cast<void>(component), static_cast<void>(message);
  }
};

/// Whether a result of a CUDA call says that the context is lost: cuda.h says of each of these that "any further CUDA
/// work will return the same error" or that the context "must be destroyed". The CUDA runtime's numbers are the
/// same (driver_types.h).
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
  /// lives until `stop` has returned. On the thread that begins the session or adds the backend.
  virtual backend_status start(event_writer&) = 0;
  /// Hands over what is complete so far. Returns false when `deadline_ms` passed first. Thread of run/backend_pump.hpp.
  virtual bool flush(std::uint32_t deadline_ms) noexcept = 0;
  /// As flush and, where the backend can, hands over unfinished GPU work, too, without its times. Each time that it is
  /// asked, since what is not handed over is then taken to be done. Same thread as flush.
  virtual bool flush_unfinished(std::uint32_t deadline_ms) noexcept { return flush(deadline_ms); }
  /// Called each `period_ms` (the flush period): hands over what is complete. Same thread as flush.
  virtual bool poll(std::uint32_t period_ms, std::uint32_t deadline_ms) noexcept {
    static_cast<void>(period_ms);
    return flush(deadline_ms);
  }
  /// Hands over everything, incomplete records included, and stops. Safe to call twice.
  virtual bool stop(std::uint32_t deadline_ms) noexcept = 0;
  virtual void pause() noexcept {}   ///< by session::pause, on the thread that calls it
  virtual void resume() noexcept {}  ///< by session::resume, likewise
  /// In a session that records in windows: `suspend` switches off what costs the program time, `restart` switches it on
  /// before the next window. Records on their way may be reported while suspended. Same thread as flush, but a backend
  /// that is added between windows is suspended by the thread that adds it.
  virtual void suspend() noexcept {}
  virtual void restart() noexcept {}
  /// The program is about to use the tracing interface (CUPTI) that this backend may hold. With `records` it will
  /// register buffers for GPU records: the backend takes no more records, and hands over what it has in the
  /// flush_unfinished that follows. Returns whether it held the interface, or took records. On the program's thread.
  virtual bool meets_client(bool records) noexcept {
    static_cast<void>(records);
    return false;
  }
};

CUTRACE_END_NAMESPACE
