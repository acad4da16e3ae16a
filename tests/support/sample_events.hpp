// SPDX-License-Identifier: Apache-2.0
// Builders of realistic events for tests of sinks and analyses. Text is not copied: pass literals, or strings that
// outlive the event. Requests and arguments point to arrays with static storage, or to what the test hands in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <cutrace/sink.hpp>
#include <cutrace/stats.hpp>
#include <string_view>
#include <vector>

namespace sample {

constexpr std::uint32_t pid = 4242;
constexpr std::uint32_t main_thread = 4242;
constexpr std::uint32_t worker_thread = 4250;

inline cutrace::text text_of(std::string_view s) noexcept {
  cutrace::text t;
  t.data = s.data();
  t.size = static_cast<std::uint32_t>(s.size());
  return t;
}

inline cutrace::request_ref request_id(std::uint64_t id) noexcept {
  cutrace::request_ref r;
  r.id = id;
  return r;
}
inline cutrace::request_ref request_name(std::string_view name) noexcept {
  cutrace::request_ref r;
  r.id = 0x9e3779b97f4a7c15u;
  r.name = text_of(name);
  return r;
}
inline cutrace::argument argument_of(std::string_view name, cutrace::argument_kind kind, std::uint64_t value) noexcept {
  cutrace::argument a;
  a.name = text_of(name);
  a.kind = kind;
  a.value = value;
  return a;
}

/// Any event of the sample process; GPU fields and the union stay zero.
inline cutrace::event base(cutrace::event_kind kind, std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                           std::uint32_t thread = main_thread) noexcept {
  cutrace::event e;
  e.kind = kind;
  e.process_id = pid;
  e.thread_id = thread;
  e.start_ns = start_ns;
  e.end_ns = end_ns;
  e.name = text_of(name);
  return e;
}

/// Puts an event into a stage, as the collector does for calls and GPU work.
inline cutrace::event in_stage(cutrace::event e, std::string_view stage, std::uint64_t stage_id,
                               const cutrace::request_ref* requests = nullptr, std::uint32_t count = 0) noexcept {
  e.stage_name = text_of(stage);
  e.stage_id = stage_id;
  e.requests = requests;
  e.request_count = count;
  e.request_total = count;
  e.joined = cutrace::attribution::by_call;
  return e;
}

inline cutrace::event stage(std::string_view name, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t id,
                            std::uint64_t parent = 0, std::uint32_t depth = 0,
                            std::uint32_t thread = main_thread) noexcept {
  cutrace::event e = base(cutrace::event_kind::stage, name, start_ns, end_ns, thread);
  e.stage_name = e.name;
  e.stage_id = id;
  e.depth = depth;
  e.stage.parent = parent;
  e.stage.file = text_of("server.cpp");
  e.stage.line = 120;
  return e;
}

inline cutrace::event ioctl(std::string_view name, std::int64_t start_ns, std::int64_t end_ns) {
  cutrace::event e = base(cutrace::event_kind::ioctl, name, start_ns, end_ns);
  e.ioctl_.node = text_of("nvidiactl");
  e.ioctl_.device = cutrace::ioctl_device::control;
  e.ioctl_.request = 0xc020462a;
  e.ioctl_.bytes = 32;
  e.ioctl_.has_command = true;
  e.ioctl_.command = 0x20800102;
  e.ioctl_.command_name = text_of("NV2080_CTRL_CMD_GPU_GET_INFO_V2");
  e.ioctl_.status = 0x56;
  e.ioctl_.status_name = text_of("NV_ERR_NOT_SUPPORTED");
  e.ioctl_.client = 0xc1d00001;
  e.ioctl_.parent = 0x5c000001;
  e.ioctl_.object = 0x5c000002;
  e.ioctl_.enclosing = 7;
  e.ioctl_.transferred = true;
  return e;
}
/// Names one of two candidates for the cause; the one of `rank` 1 is the likeliest.
inline cutrace::event alarm(std::string_view what, std::string_view work, std::string_view name, std::int64_t at_ns,
                            std::uint32_t rank) {
  cutrace::event e = base(cutrace::event_kind::alarm, name, at_ns, at_ns);
  e.alarm.what = text_of(what);
  e.alarm.work = text_of(work);
  e.alarm.why = text_of("head of its stream");
  e.alarm.rank = rank;
  e.alarm.candidates = 2;
  e.alarm.behind = 5;
  e.joined = cutrace::attribution::by_call;
  e.device = 1;
  e.context = 1;
  e.stream = 7;
  e.call_name = text_of("cuLaunchKernel");
  e.call_start_ns = at_ns - 1000;
  return e;
}

/// What Linux did, or a probe saw; `arguments` must outlive the event.
inline cutrace::event system(std::string_view category, std::string_view name, std::int64_t start_ns,
                             std::int64_t end_ns, std::uint32_t thread, std::uint64_t enclosing = 0,
                             const cutrace::argument* arguments = nullptr, std::uint32_t argument_count = 0) {
  cutrace::event e = base(cutrace::event_kind::system, name, start_ns, end_ns, thread);
  e.system.category = text_of(category);
  e.system.cpu = 1;
  e.system.enclosing = enclosing;
  e.system.arguments = arguments;
  e.system.argument_count = argument_count;
  return e;
}
inline cutrace::event mark(std::string_view name, std::int64_t at_ns) noexcept {
  return base(cutrace::event_kind::mark, name, at_ns, at_ns);
}

inline cutrace::event counter(std::string_view name, std::int64_t at_ns, std::int64_t value, std::int64_t change = 0,
                              bool gauge = true) noexcept {
  cutrace::event e = base(cutrace::event_kind::counter, name, at_ns, at_ns);
  e.counter = cutrace::counter_data{value, change, gauge};
  return e;
}

/// Successful driver call.
inline cutrace::event api(std::string_view name, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t correlation,
                          const cutrace::argument* arguments = nullptr, std::uint32_t argument_count = 0,
                          std::uint64_t bytes = 0) noexcept {
  cutrace::event e = base(cutrace::event_kind::api, name, start_ns, end_ns);
  e.correlation_id = correlation;
  e.api = cutrace::api_data{
      307, 0, text_of("CUDA_SUCCESS"), arguments, argument_count, false, cutrace::copy_direction::unknown, bytes, {}};
  return e;
}

/// Fields that each GPU event has. The launching call began 5 us before.
inline cutrace::event gpu(cutrace::event_kind kind, std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                          std::uint64_t correlation, std::uint64_t stream = 7, std::uint32_t device = 0) noexcept {
  cutrace::event e = base(kind, name, start_ns, end_ns);
  e.joined = cutrace::attribution::outside_stage;
  e.correlation_id = correlation;
  e.device = device;
  e.context = 1;
  e.stream = stream;
  e.call_start_ns = start_ns < 0 ? start_ns : start_ns - 5000;
  return e;
}

/// Sets the begin of the launching call.
inline cutrace::event called_at(cutrace::event e, std::int64_t call_start_ns) noexcept {
  e.call_start_ns = call_start_ns;
  return e;
}

inline cutrace::event kernel(std::string_view name, std::int64_t start_ns, std::int64_t end_ns,
                             std::uint64_t correlation, std::uint64_t stream = 7, std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::kernel, name, start_ns, end_ns, correlation, stream, device);
  e.call_name = text_of("cuLaunchKernel");
  cutrace::kernel_data k{};
  k.grid[0] = 12;
  k.grid[1] = k.grid[2] = 1;
  k.block[0] = 256;
  k.block[1] = k.block[2] = 1;
  k.registers_per_thread = 64;
  k.static_shared_bytes = 1024;
  k.dynamic_shared_bytes = 32768;
  k.mangled_name = text_of("_Z4gemmPKfS0_Pfi");
  e.kernel = k;
  return e;
}

inline cutrace::event memcpy(cutrace::copy_direction direction, std::uint64_t bytes, std::int64_t start_ns,
                             std::int64_t end_ns, std::uint64_t correlation, std::uint64_t stream = 7,
                             std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::memcpy, "memcpy", start_ns, end_ns, correlation, stream, device);
  const bool up = direction == cutrace::copy_direction::host_to_device;
  const bool down = direction == cutrace::copy_direction::device_to_host;
  e.call_name = text_of(up ? "cuMemcpyHtoDAsync" : down ? "cuMemcpyDtoHAsync" : "cuMemcpyAsync");
  cutrace::memcpy_data c{};
  c.bytes = bytes;
  c.direction = direction;
  c.source = up ? cutrace::memory_kind::pinned : cutrace::memory_kind::device;
  c.destination = down ? cutrace::memory_kind::pinned : cutrace::memory_kind::device;
  c.asynchronous = true;
  e.memcpy_ = c;
  return e;
}

/// The moment at which a CUDA event was reached.
inline cutrace::event cuda_event(std::int64_t at_ns, std::uint64_t correlation, std::uint64_t stream = 7,
                                 std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::mark, "CUDA event", at_ns, at_ns, correlation, stream, device);
  e.call_name = text_of("cuEventRecord");
  return e;
}

inline cutrace::event memset(std::uint64_t bytes, std::int64_t start_ns, std::int64_t end_ns, std::uint64_t correlation,
                             std::uint64_t stream = 7, std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::memset, "memset", start_ns, end_ns, correlation, stream, device);
  e.call_name = text_of("cuMemsetD8Async");
  cutrace::memset_data m{};
  m.bytes = bytes;
  m.memory = cutrace::memory_kind::device;
  m.asynchronous = true;
  e.memset_ = m;
  return e;
}

inline cutrace::event sync(cutrace::sync_kind what, std::int64_t start_ns, std::int64_t end_ns,
                           std::uint64_t correlation, std::uint64_t stream = 7, std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::sync, "sync", start_ns, end_ns, correlation, stream, device);
  e.call_name = text_of("cuStreamSynchronize");
  e.sync = cutrace::sync_data{what, 0};
  return e;
}

inline cutrace::event memory(cutrace::memory_operation operation, std::uint64_t address, std::uint64_t bytes,
                             std::int64_t at_ns, std::uint64_t correlation, std::uint32_t device = 0) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::memory, "memory", at_ns, at_ns, correlation, 0, device);
  e.memory = cutrace::memory_data{address, bytes, operation, cutrace::memory_kind::device};
  return e;
}

/// Whole replay of a graph; what identifies it stands in `kernel.graph_id`.
inline cutrace::event graph_launch(std::int64_t start_ns, std::int64_t end_ns, std::uint64_t correlation,
                                   std::uint32_t graph_id, std::uint64_t stream = 7) noexcept {
  cutrace::event e = gpu(cutrace::event_kind::graph_launch, "graph", start_ns, end_ns, correlation, stream, 0);
  e.call_name = text_of("cuGraphLaunch");
  e.kernel.graph_id = graph_id;
  return e;
}

inline cutrace::event loss(cutrace::loss_cause cause, std::uint64_t count, std::int64_t at_ns) noexcept {
  cutrace::event e = base(cutrace::event_kind::loss, "loss", at_ns, at_ns, 0);
  e.loss = cutrace::loss_data{cause, count};
  return e;
}

inline cutrace::event device(std::uint32_t index, std::string_view name) noexcept {
  cutrace::event e = base(cutrace::event_kind::device, name, 0, 0, 0);
  e.device = index;
  cutrace::device_data d{};
  d.memory_bytes = 150119448576u;
  d.memory_bandwidth_bytes_per_s = 4800000000000u;
  d.multiprocessors = 132;
  d.compute_major = 9;
  d.core_clock_khz = 1980000;
  for (unsigned i = 0; i < 16; ++i) d.uuid[i] = static_cast<std::uint8_t>(0x10u * (i % 16u) + index % 16u);
  e.device_ = d;
  return e;
}
inline cutrace::event context(std::uint32_t id, std::uint32_t device_index) noexcept {
  cutrace::event e = base(cutrace::event_kind::context, "", 0, 0, 0);
  e.context = id;
  e.device = device_index;
  return e;
}
inline cutrace::event stream(std::uint64_t id, std::uint32_t device_index = 0, std::uint32_t context_id = 1) noexcept {
  cutrace::event e = base(cutrace::event_kind::stream, "", 0, 0, 0);
  e.stream = id;
  e.device = device_index;
  e.context = context_id;
  return e;
}

/// A short run of an inference server in the order of delivery (by end): descriptions, then "prefill" of request 17
/// and "decode" of a batch. Each event kind occurs at least once.
inline std::vector<cutrace::event> server_run() {
  using namespace cutrace;
  static const request_ref one[] = {request_id(17)};
  static const request_ref batch[] = {request_id(17), request_id(18), request_name("chat-0007")};
  static const argument alloc_arguments[] = {argument_of("bytesize", argument_kind::bytes, 4000000),
                                             argument_of("dptr", argument_kind::output, 0x7f32a4000000u)};
  static const argument copy_arguments[] = {argument_of("dstDevice", argument_kind::pointer, 0x7f32a4000000u),
                                            argument_of("srcHost", argument_kind::pointer, 0x7ffd10203040u),
                                            argument_of("ByteCount", argument_kind::bytes, 4000000),
                                            argument_of("hStream", argument_kind::stream, 0x55d0c0ffee00u)};
  static const argument launch_arguments[] = {argument_of("f", argument_kind::handle, 0x55d0c0de0010u),
                                              argument_of("gridDimX", argument_kind::unsigned_integer, 12),
                                              argument_of("blockDimX", argument_kind::unsigned_integer, 256),
                                              argument_of("hStream", argument_kind::stream, 0x55d0c0ffee00u)};
  std::vector<event> run;
  run.push_back(base(event_kind::process, "llm_server", 0, 0, 0));
  run.push_back(base(event_kind::thread, "scheduler", 0, 0, main_thread));
  run.push_back(base(event_kind::thread, "worker", 0, 0, worker_thread));
  run.push_back(device(0, "NVIDIA H200"));
  run.push_back(context(1, 0));
  run.push_back(stream(7));

  event alloc = in_stage(api("cuMemAlloc", 20000, 32300, 1, alloc_arguments, 2, 4000000), "prefill", 1, one, 1);
  run.push_back(in_stage(called_at(memory(memory_operation::allocate, 0x7f32a4000000u, 4000000, 31000, 1), 20000),
                         "prefill", 1, one, 1));
  run.push_back(alloc);
  event copy = in_stage(api("cuMemcpyHtoDAsync", 40000, 43000, 2, copy_arguments, 4, 4000000), "prefill", 1, one, 1);
  copy.api.direction = copy_direction::host_to_device;
  run.push_back(copy);
  run.push_back(base(event_kind::overhead, "Lazy Function Loading", 50500, 52000));
  run.push_back(in_stage(api("cuLaunchKernel", 50000, 53100, 3, launch_arguments, 4), "prefill", 1, one, 1));
  run.push_back(in_stage(api("cuMemsetD8Async", 54000, 56000, 4), "prefill", 1, one, 1));
  run.push_back(in_stage(called_at(memcpy(copy_direction::host_to_device, 4000000, 45000, 125000, 2), 40000), "prefill",
                         1, one, 1));
  run.push_back(in_stage(called_at(kernel("gemm(float const*, float const*, float*, int)", 126000, 138300, 3), 50000),
                         "prefill", 1, one, 1));
  run.push_back(in_stage(called_at(memset(65536, 139000, 140000, 4), 54000), "prefill", 1, one, 1));
  run.push_back(in_stage(called_at(sync(sync_kind::stream, 60000, 141000, 5), 60000), "prefill", 1, one, 1));
  run.push_back(in_stage(api("cuStreamSynchronize", 60000, 141500, 5), "prefill", 1, one, 1));
  run.push_back(in_stage(mark("first token", 142000), "prefill", 1, one, 1));
  run.push_back(counter("queue depth", 142500, 3, -1));
  event prefill = in_stage(stage("prefill", 10000, 150000, 1), "prefill", 1, one, 1);
  run.push_back(prefill);

  run.push_back(base(event_kind::jit, "gemm.ptx", 151000, 159000));
  run.push_back(base(event_kind::nvtx, "tokenize", 152000, 158500, worker_thread));
  run.push_back(base(event_kind::window, "recorded", 0, 160000));
  run.push_back(base(event_kind::ioctl, "NV_ESC_RM_ALLOC", 160000, 160155));
  run.push_back(ioctl("NV_ESC_RM_CONTROL", 160200, 160500));
  event refused = ioctl("0xc0044601", 160600, 160700);
  refused.ioctl_.error = 25;
  refused.ioctl_.status_name = refused.ioctl_.command_name = {};
  refused.ioctl_.has_command = refused.ioctl_.transferred = false;
  refused.ioctl_.status = refused.ioctl_.command = 0;
  run.push_back(refused);
  static const argument off_arguments[] = {
      argument_of("state", argument_kind::string, argument::word_of("sleeping \"S\"")),
      argument_of("", argument_kind::unsigned_integer, ~std::uint64_t{0})};
  run.push_back(system("sched", "switched out", 160700, 160800, main_thread, 7, off_arguments, 2));
  event probed = system("uprobe", "read", 160900, 160900, worker_thread);  // an instant
  probed.system.cpu = 0;
  probed.system.has_result = true;
  probed.system.result = -5000000000;
  run.push_back(probed);
  run.push_back(system("irq", "nvidia", 161000, 161500, 0));
  event faulted = alarm("fault", "kernel", "gather(float*, int const*)", 161600, 1);
  faulted.alarm.result = 700;
  faulted.alarm.graph_node_id = 0x100000007;
  run.push_back(in_stage(faulted, "prefill", 1, one, 1));
  event hangs = alarm("hang", "wait_event", "cuStreamWaitEvent", 161700, 2);
  hangs.alarm.unfinished_ns = 12000000000;
  run.push_back(hangs);
  run.push_back(in_stage(api("cuGraphLaunch", 165000, 171000, 6), "decode", 2, batch, 3));
  event inner = in_stage(stage("sample", 172000, 174000, 3, 2, 1), "sample", 3, batch, 3);
  run.push_back(inner);
  run.push_back(in_stage(graph_launch(170000, 190000, 6, 9), "decode", 2, batch, 3));
  event decode = in_stage(stage("decode", 164000, 195000, 2), "decode", 2, batch, 3);
  decode.request_total = 40;  // the marker named more requests than a record holds
  run.push_back(decode);
  event failed = api("cuMemAlloc", 196000, 197000, 7, alloc_arguments, 1, 0);
  failed.api.result = 2;
  failed.api.result_name = text_of("CUDA_ERROR_OUT_OF_MEMORY");
  run.push_back(failed);
  event orphan = kernel("warm_up()", 197000, 198000, 0);
  orphan.joined = attribution::no_callback;
  orphan.thread_id = 0;
  orphan.call_start_ns = orphan.start_ns;
  orphan.call_name = text{};
  run.push_back(orphan);
  run.push_back(loss(loss_cause::chunk_full, 12, 199000));
  return run;
}

inline cutrace::trace_info info() noexcept {
  cutrace::trace_info i{};
  i.process_id = pid;
  i.process_name = "llm_server";
  i.command_line = "./llm_server --model gpt2 \"quoted\"";
  i.host_name = "node-3";
  i.boot_id = "0b5c1b4e-8e1f-4c7e-9f57-3d7e9b0c9a11";
  i.backend = "sim";
  i.backend_detail = "simulated H200";
  i.clock = "tsc";
  i.rank = 3;
  i.world_size = 8;
  i.start = cutrace::clock_anchor{0, 1790000000123456789u, 5000000000u, 6000000000u, 120};
  return i;
}

/// Totals of a session that delivered `delivered` events and lost `lost` for want of a chunk.
inline cutrace::trace_summary summary(std::uint64_t delivered, std::uint64_t lost = 12) noexcept {
  static const char* const notes[] = {"cupti: \"quoted\" note", "2 launches before the first GPU record"};
  cutrace::trace_summary s{};
  s.stop = cutrace::clock_anchor{200000, 1790000000123656789u, 5000200000u, 6000200000u, 140};
  s.totals.produced = delivered + lost;
  s.totals.delivered = delivered;
  s.totals.lost[static_cast<std::size_t>(cutrace::loss_cause::chunk_full)] = lost;
  s.totals.clock_error_ns = 140;
  s.totals.launches_seen = 2;
  s.totals.gpu_records_seen = 5;
  s.totals.sink_count = 1;
  std::strncpy(s.totals.sinks[0].name, "sample", sizeof(s.totals.sinks[0].name) - 1);
  s.totals.sinks[0].delivered = delivered;
  s.totals.sinks[0].written = delivered;
  s.notes = notes;
  s.note_count = 2;
  return s;
}

inline cutrace::event_view view(const std::vector<cutrace::event>& events) noexcept {
  cutrace::event_view v;
  v.data = events.data();
  v.size = events.size();
  return v;
}

}  // namespace sample
