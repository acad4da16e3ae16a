// SPDX-License-Identifier: Apache-2.0
// What the collector delivers to sinks: one event for each thing that happened, times in one frame, names resolved,
// GPU work joined to its call, thread, stage and requests. Plain data; all pointers are owned by the runtime.
//
// Lifetime: `text` members of an event point to interned, NUL-terminated strings that live until the session ends;
// `requests` and `arguments` live until sink::write returns.
// Times: integer nanoseconds since the start of the session, half-open intervals [start_ns, end_ns); an instant has
// start_ns == end_ns. What began before the session has a negative start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE

enum class event_kind : std::uint8_t {
  stage,         ///< marker scope, span or adopted part of a stage
  mark,          ///< instant
  counter,       ///< sampled value of a counter or gauge
  api,           ///< driver or runtime call of the host
  kernel,        ///< GPU
  memcpy,        ///< GPU, copies between devices included
  memset,        ///< GPU
  sync,          ///< the host waits for a stream, an event or a context, or a stream is made to wait
  memory,        ///< device memory allocated or freed
  graph_launch,  ///< whole replay of a CUDA graph (graph level)
  overhead,      ///< time that the tracing of the GPU itself took
  jit,           ///< the driver's just-in-time compiler at work
  nvtx,          ///< not in use: what NVTX brings is `stage` or `mark`, see stage_origin
  ioctl,         ///< system call on a device node of NVIDIA
  loss,          ///< records that were lost, by cause
  process,       ///< this and the next four are descriptions: kept, and delivered to sinks that are added later, too
  thread,
  device,
  context,
  stream,
  window,  ///< time in which everything was recorded; only in a trace that was paused or sampled: what happened outside
           ///< of windows is unknown, not idle
  other,   ///< only from a file: a type that this version does not know, kept with what the file says of it
  system,  ///< what Linux did, or a probe saw: a span or an instant
  alarm,   ///< a fault: one event for each candidate; a hang: one for each stream, call or stage that does not go on
};
inline constexpr std::size_t event_kind_count = 24;

/// View of an interned string. Empty where `size` is 0; `data` may be null then.
struct text {
  const char* data = "";
  std::uint32_t size = 0;
};

/// One request that a stage, and so the work in it, serves.
struct request_ref {
  std::uint64_t id = 0;  ///< the number given, or the hash of the text
  text name;             ///< text form, empty for numbers
};

/// How a GPU event found its call and stage, or why it did not.
enum class attribution : std::uint8_t {
  none,           ///< not a GPU event
  by_call,        ///< the stage of its launching call, which was found by the correlation id
  outside_stage,  ///< the call is known and was made outside of any stage
  no_callback,    ///< no call with this id was seen: tracing began later, or work of the driver itself
  expired,        ///< the call had been forgotten when the record came
  stage_unknown,  ///< the call is known, but the stage's record was lost
};

enum class copy_direction : std::uint8_t {
  unknown,
  host_to_device,
  device_to_host,
  device_to_device,
  host_to_host,
  peer
};
enum class memory_kind : std::uint8_t {
  unknown,
  pageable,
  pinned,
  device,
  array,
  managed,
  device_static,
  managed_static
};
enum class sync_kind : std::uint8_t { unknown, event, stream_wait_event, stream, context };
enum class memory_operation : std::uint8_t { allocate, free };
/// Where a stage or mark was set.
enum class stage_origin : std::uint8_t {
  marker,  ///< by a macro or class of cutrace
  nvtx     ///< by a range or mark of NVTX
};
enum class argument_kind : std::uint8_t {
  word,  ///< bits of unknown meaning
  integer,
  unsigned_integer,
  floating,
  pointer,
  bytes,
  stream,
  handle,
  output,  ///< a value that the call returned through a pointer
  string   ///< `value` is the address of a text: NUL-terminated, interned; see argument::string_value
};
/// Kind of the device node that an ioctl went to, by its device number.
enum class ioctl_device : std::uint8_t { unknown, control, gpu, modeset, uvm, uvm_tools, caps };
inline constexpr std::size_t ioctl_device_count = 7;
/// Why a record was lost. `stats::lost` (stats.hpp) counts by cause, in this order.
enum class loss_cause : std::uint8_t {
  chunk_full,      ///< a thread found no room for a record
  buffer_limit,    ///< a backend found no room for a record
  cupti_dropped,   ///< CUPTI reports so
  unknown_record,  ///< of a kind or size that this version cannot read
  unpaired,        ///< a call or ioctl whose other half is missing
  sink_failed,     ///< counted for each sink (sink_stats::lost)
  out_of_memory    ///< the collector could not get what it needed for an event
};
inline constexpr std::size_t loss_cause_count = 7;

/// Argument of a call. `value` holds the bits: two's complement for integers, IEEE double for `floating`.
struct argument {
  text name;  ///< as in CUDA's header; empty where this build does not know the function
  argument_kind kind = argument_kind::word;
  std::uint64_t value = 0;

  /// Of a `string`: NUL-terminated.
  const char* string_value() const noexcept { return reinterpret_cast<const char*>(value); }
  static std::uint64_t word_of(const char* string) noexcept { return reinterpret_cast<std::uintptr_t>(string); }
};

struct api_data {
  std::uint32_t function;  ///< CUPTI's callback id; of hooked calls a number of this trace; 0: none
  std::int32_t result;     ///< CUresult or cudaError_t
  text result_name;        ///< "CUDA_SUCCESS", ...; empty when unknown
  const argument* arguments;
  std::uint32_t argument_count;
  bool runtime_api;
  copy_direction direction;     ///< of copy calls
  std::uint64_t bytes;          ///< of copy, set and allocation calls, 0 where there is none
  text runtime_name;            ///< driver calls: runtime-API function that made it, with CUTRACE_KINDS=+runtime
  std::uint64_t enclosing = 0;  ///< `correlation_id` of the driver call in which this call was made; 0: none, or the
                                ///< backend does not see it
  std::uint64_t joined = 0;     ///< probed calls: CUPTI's correlation id of the same call, by which `cutrace run
                                ///< --method all` joins the two events; 0: none
};
struct kernel_data {
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::uint32_t cluster[3];
  std::uint32_t registers_per_thread;
  std::uint32_t static_shared_bytes;
  std::uint32_t dynamic_shared_bytes;
  std::uint32_t local_bytes_per_thread;
  std::int32_t priority;
  std::uint32_t graph_id;       ///< 0: not part of a graph launch
  std::uint64_t graph_node_id;  ///< 0: not part of a graph launch
  text mangled_name;            ///< `name` of the event is the demangled one
  std::int64_t queued_ns;       ///< when put into the driver's command buffer; 0: not recorded (CUTRACE_KINDS=+latency)
  std::int64_t submitted_ns;    ///< when handed to the GPU; 0 likewise
};
struct memcpy_data {
  std::uint64_t bytes;
  copy_direction direction;
  memory_kind source;
  memory_kind destination;
  bool asynchronous;
  std::uint32_t source_device;  ///< peer copies
  std::uint32_t destination_device;
  std::uint32_t graph_id;
  std::uint64_t graph_node_id;
};
struct memset_data {
  std::uint64_t bytes;
  std::uint32_t value;
  memory_kind memory;
  bool asynchronous;
  std::uint32_t graph_id;
  std::uint64_t graph_node_id;
};
struct sync_data {
  sync_kind what;
  std::uint32_t event_id;  ///< CUPTI's id of the CUDA event, 0 where there is none
};
struct memory_data {
  std::uint64_t address;
  std::uint64_t bytes;
  memory_operation operation;
  memory_kind memory;
};
struct counter_data {
  std::int64_t value;
  std::int64_t change;  ///< since the previous sample
  bool gauge;
};
struct loss_data {
  loss_cause cause;
  std::uint64_t count;
};
/// Of a stage, and of a mark, whose first five members are empty or 0.
struct stage_data {
  std::uint64_t parent;  ///< instance of the enclosing stage, 0 at top level
  bool adopted;          ///< the event is the part of the stage that ran on a thread which adopted it
  bool span;             ///< may have ended on another thread than it began
  text file;             ///< of the call site, empty for run-time names
  std::uint32_t line;
  stage_origin origin;         ///< unless it is `nvtx`, all members below are empty or 0
  argument_kind payload_kind;  ///< unsigned_integer, integer or floating; `word`: no payload
  std::uint32_t category;      ///< 0: none
  std::uint32_t color;         ///< ARGB, 0: none
  text category_name;
  text domain;            ///< empty: the default domain
  std::uint64_t payload;  ///< bits, as argument::value
};
struct device_data {
  std::uint64_t memory_bytes;
  std::uint64_t memory_bandwidth_bytes_per_s;
  std::uint32_t multiprocessors;
  std::uint32_t compute_major;
  std::uint32_t compute_minor;
  std::uint32_t core_clock_khz;
  std::uint8_t uuid[16];
};
struct context_data {
  bool derived;  ///< made from the first work seen in the context, which nothing else had described
};
struct stream_data {
  std::int32_t priority;
  std::uint32_t flags;
  bool derived;  ///< as context_data::derived; priority and flags are not known then
};

struct other_data {
  text type;  ///< as the file calls it
};

/// An ioctl system call on a device node of NVIDIA. The event's name is that of the request ("NV_ESC_RM_ALLOC"),
/// "0x..." where it is unknown. What did not come with the record, or is no parameter of this request, is 0 or empty.
struct ioctl_data {
  text node;                ///< "nvidiactl", "nvidia0", "nvidia-uvm"
  text command_name;        ///< control command of the resource manager, or class of the object that is made
  text status_name;         ///< NV_STATUS in the parameter block ("NV_OK"); empty: the block has none, or was not read
  std::uint64_t enclosing;  ///< `correlation_id` of the driver call in which the ioctl was made; 0: not known
  std::uint32_t request;    ///< the command word, as the program gave it
  std::uint32_t bytes;      ///< of the parameter block
  std::uint32_t command;    ///< number of what `command_name` names
  std::uint32_t status;     ///< NV_STATUS: the resource manager puts errors here while the system call succeeds
  std::int32_t error;       ///< errno of the system call, 0: it succeeded
  std::uint32_t client;     ///< a handle of the resource manager, as the next two
  std::uint32_t parent;
  std::uint32_t object;
  ioctl_device device;
  bool transferred;  ///< wrapped in NV_ESC_IOCTL_XFER_CMD; the event is what was inside
  bool has_command;  ///< `command` holds a number, be it 0
};

/// What Linux did, or a probe saw. The event's name is what happened, its thread the one that it concerns (0: none); it
/// is a span or, where both times are equal, an instant.
struct system_data {
  text category;            ///< "sched", "irq", "xid", or the probe's own
  std::uint64_t enclosing;  ///< `correlation_id` of the driver call in which it happened; 0: none, or not known
  const argument* arguments;
  std::uint32_t argument_count;  ///< at most 10 from a backend
  std::uint32_t cpu;             ///< on which it was seen
  std::int64_t result;
  bool has_result;
};

/// One piece of work that an alarm names. The event's name is that of the work (of a wait: of the function that issued
/// it); device, stream, call, stage and requests are the work's; both times are when the alarm was raised.
struct alarm_data {
  text what;  ///< "fault", "hang"
  text work;  ///< "kernel", "memcpy", "memset", "graph", "wait_event", "wait_value", "host_function", "implicit_wait"
              ///< (of a stream for the legacy default stream, or the reverse); "call": a host thread is in a call;
              ///< "stage": a stage is open for longer than allowed
  text why;   ///< why this work is named, in words
  std::uint32_t rank;        ///< among the candidates of the alarm, from 1: the first is the most likely, or the cause
  std::uint32_t candidates;  ///< of the alarm; more than it has events where they are too many to deliver
  std::uint32_t behind;      ///< number of pieces of work that stood behind this one on its stream
  std::int32_t result;       ///< faults: what the driver returned, a CUresult
  std::int64_t unfinished_ns;   ///< hangs: for how long nothing had ended on the stream, the thread had been in the
                                ///< call, or the stage had been seen open
  std::uint64_t graph_node_id;  ///< 0: no node of a graph
  std::uint32_t grid[3];        ///< of kernels, else 0; as `block`
  std::uint32_t block[3];
};

struct event {
  event_kind kind;
  attribution joined;
  bool late;        ///< arrived after later events had been delivered
  bool skewed;      ///< GPU work that seems to start before its call by more than the bound of the clocks' error
  bool by_events;   ///< GPU work measured by two CUDA events around its call, not by the GPU: the work took no longer
                    ///< than the event, and a note of the trace says by how much the times may be wrong
  bool incomplete;  ///< GPU work whose record was fetched before the work had ended, so that its times are lost. It ran
                    ///< between its call (start_ns) and the begin of the next work on its stream, the return of a wait
                    ///< that proves it done, or the end of the trace (end_ns)
  std::uint32_t process_id;
  std::uint32_t thread_id;  ///< of the marker or call; for GPU work that of its call; 0 unknown
  std::uint32_t depth;      ///< stages: number of enclosing stages on the thread
  std::int64_t start_ns;
  std::int64_t end_ns;
  text name;

  std::uint64_t correlation_id;  ///< CUPTI's 32-bit id; in the upper half how often that id has wrapped; 0 none
  std::uint64_t stage_id;        ///< stages: own instance; others: innermost stage they belong to, 0 none
  text stage_name;
  const request_ref* requests;  ///< of that stage or, if it names none, of the nearest enclosing stage that does
  std::uint32_t request_count;  ///< entries of `requests`
  std::uint32_t request_total;  ///< requests that the marker named; more than `request_count` where a batch was cut

  std::uint64_t capture_stage_id;  ///< GPU work of a CUDA graph: the stage in which its node was captured or added, 0:
                                   ///< unknown, or none; `stage_id` is the stage in which the graph was launched
  text capture_stage_name;

  std::uint32_t device;        ///< GPU events: index of the device
  std::uint32_t context;       ///< GPU events: CUPTI's context id
  std::uint64_t stream;        ///< GPU events: CUPTI's stream id
  std::int64_t call_start_ns;  ///< GPU work: begin of its launching call; start_ns where that is unknown
  text call_name;              ///< GPU work: name of its launching call, empty where unknown
  text more;                   ///< only of a file: JSON fields that this version does not know, as they stand there,
                               ///< without braces; lives until sink::write returns

  /// The member of the event's kind; `mark` uses `stage`, `graph_launch` uses `kernel` (graph_id only). Kinds without a
  /// member here have no further fields.
  union {
    stage_data stage;
    counter_data counter;
    api_data api;
    kernel_data kernel;
    memcpy_data memcpy_;
    memset_data memset_;
    sync_data sync;
    memory_data memory;
    loss_data loss;
    device_data device_;
    context_data context_;
    stream_data stream_;
    ioctl_data ioctl_;
    system_data system;
    alarm_data alarm;
    other_data other;
  };

  event() noexcept {
    // In pieces: for the whole event g++ makes a `rep stos`, which takes tens of cycles to begin, and for a loop twice
    // as many instructions.
    constexpr std::size_t piece = 48;
    static_assert(sizeof(event) == 6 * piece, "no rest");
    char* const bytes = reinterpret_cast<char*>(this);
    const auto clear = [bytes](std::size_t n) { __builtin_memset(bytes + n * piece, 0, piece); };
    clear(0), clear(1), clear(2), clear(3), clear(4), clear(5);
    name = stage_name = call_name = capture_stage_name = more = text{};
  }

  std::int64_t duration_ns() const noexcept { return end_ns - start_ns; }
  /// The moment at which a CUDA event was reached on its stream.
  bool is_cuda_event() const noexcept { return kind == event_kind::mark && context != 0; }
  /// Kernel, copy, set or whole graph: time in which the device was at work.
  bool is_gpu_work() const noexcept {
    return kind == event_kind::kernel || kind == event_kind::memcpy || kind == event_kind::memset ||
           kind == event_kind::graph_launch;
  }
  /// What has a device, context and stream and comes from a call: GPU work, waits, device memory, CUDA events.
  bool is_on_gpu() const noexcept {
    return is_gpu_work() || kind == event_kind::sync || kind == event_kind::memory || is_cuda_event();
  }
  /// Describes a process, thread, device, context or stream. The times of the event have no meaning.
  bool is_description() const noexcept { return kind >= event_kind::process && kind <= event_kind::stream; }
};
static_assert(std::is_trivially_copyable<event>::value, "events are copied as bytes");

/// What sink::write gets: `size` events, ordered by end_ns but for those that came too late, which are marked `late`.
struct event_view {
  const event* data = nullptr;
  std::size_t size = 0;
  const event* begin() const noexcept { return data; }
  const event* end() const noexcept { return data + size; }
};

CUTRACE_END_NAMESPACE
