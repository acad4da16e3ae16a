// SPDX-License-Identifier: Apache-2.0
// Events of Chrome JSON from their fields: what our sink and PyTorch's Kineto mean by their categories.
#include <algorithm>
#include <cutrace/analysis/category.hpp>
#include <cutrace/names.hpp>

#include "trace/chrome_reader.hpp"
#include "trace/spoken_names.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

using cutrace::event;
using cutrace::event_kind;

namespace {

constexpr std::uint64_t no_stream = 0xFFFFFFFFu;
/// Numbers of stages that the reader gives, beyond those that Kineto gives.
constexpr std::uint64_t first_own_stage = std::uint64_t{1} << 62;

}  // namespace

bool chrome_reader::make(event& e, const chrome_fields& f) {
  if (f.goes_by_fields) e = f.said;
  e.start_ns = f.ts_ns;
  const std::int64_t dur_ns = f.ended_before_start_ns != 0 ? -f.ended_before_start_ns : f.dur_ns;
  e.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(f.ts_ns) + static_cast<std::uint64_t>(dur_ns));
  e.process_id = ours_ ? facts_.process_id : rows_.host();
  e.name = to_.texts().intern(f.name_text);
  e.late = f.late;
  e.skewed = f.skewed;
  e.by_events = f.by_events;
  e.incomplete = f.incomplete;
  if (f.phase == "X") return make_slice(e, f);
  if (f.phase == "i" || f.phase == "I") return make_instant(e, f);
  if (f.phase == "C" && ours_) {
    e.kind = event_kind::counter;
    e.process_id = host_process(f.pid);
    e.counter.value = f.value;
    return true;
  }
  complain("events of phase \"" + std::string(f.phase.substr(0, 16)) + "\" are left out");
  return false;
}

bool chrome_reader::make_slice(event& e, const chrome_fields& f) {
  switch (word_key(f.category)) {
    case word_key("kernel"):
      e.kind = f.has_grid ? event_kind::kernel : event_kind::graph_launch;
      return make_gpu(e, f), true;
    case word_key("gpu_memcpy"):
      e.kind = event_kind::memcpy;
      return make_gpu(e, f), true;
    case word_key("gpu_memset"):
      e.kind = event_kind::memset;
      return make_gpu(e, f), true;
    case word_key("cuda_sync"):
      e.kind = event_kind::sync;
      return make_gpu(e, f), true;
    case word_key("cuda_driver"):
    case word_key("cuda_runtime"):
      e.kind = event_kind::api;
      break;
    case word_key("user_annotation"):
    case word_key("cpu_op"):
    case word_key("python_function"):
      e.kind = event_kind::stage;
      break;
    case word_key("Trace"):  // the time in which Kineto recorded
      e.kind = event_kind::window;
      break;
    case word_key("gpu_user_annotation"):
    case word_key("ac2g"):
    case word_key("fwdbwd"):
      return false;             // shadows of other events
    case word_key("overhead"):  // of Kineto itself
      e.kind = event_kind::overhead;
      break;
    default:
      if (f.goes_by_fields) break;
      complain("events of category \"" + std::string(f.category.substr(0, 64)) + "\" are left out");
      return false;
  }
  make_host(e, f);
  return true;
}

void chrome_reader::make_origin(cutrace::stage_data& s, const chrome_fields& f) {
  if (!f.nvtx) return;
  s.origin = cutrace::stage_origin::nvtx;
  s.domain = f.domain;
  s.category = f.category_number;
  s.category_name = f.category_name;
  s.color = static_cast<std::uint32_t>(f.color);
  s.payload_kind = f.payload_kind;
  s.payload = f.payload;
}

void chrome_reader::make_host(event& e, const chrome_fields& f) {
  if (!f.text_pid) e.process_id = host_process(f.pid);
  if (e.kind != event_kind::overhead && e.kind != event_kind::window && !f.text_pid) {
    const bool known = rows_.thread_of(f.pid, f.tid, e.thread_id);
    if (!known && !rows_.knows(f.pid, f.tid) && ours_ && !lanes_said_) {
      lanes_said_ = true;
      complain("rows whose threads are not known: their names, at the end of the file, are missing or cannot be read");
    }
  }
  if (e.kind == event_kind::stage) {
    e.stage.parent = f.parent;
    e.stage.adopted = f.adopted;
    e.stage.span = rows_.is_spans(f.pid, f.tid);
    if (e.stage.span) e.thread_id = f.thread;
    make_origin(e.stage, f);
    return;
  }
  if (e.kind != event_kind::api) return;
  e.correlation_id = f.correlation;
  e.api.function = f.function;
  e.api.result = static_cast<std::int32_t>(f.result);
  e.api.result_name = f.result_name;
  e.api.runtime_name = f.runtime;
  e.api.runtime_api = f.category == "cuda_runtime";
}

void chrome_reader::make_gpu(event& e, const chrome_fields& f) {
  if (ours_ && f.process != 0) e.process_id = f.process;  // of another process than the trace's
  e.joined = f.has_attribution ? f.attribution : cutrace::attribution::by_call;
  e.correlation_id = f.correlation;
  e.device = f.device;
  e.context = f.context;
  e.stream = f.no_stream ? no_stream : f.has_cuda_stream ? f.cuda_stream : f.stream;
  switch (e.kind) {
    case event_kind::kernel:
      std::copy(std::begin(f.grid), std::end(f.grid), std::begin(e.kernel.grid));
      std::copy(std::begin(f.block), std::end(f.block), std::begin(e.kernel.block));
      std::copy(std::begin(f.cluster), std::end(f.cluster), std::begin(e.kernel.cluster));
      e.kernel.registers_per_thread = f.registers_per_thread;
      e.kernel.static_shared_bytes = f.shared_bytes;
      e.kernel.priority = f.priority;
      e.kernel.graph_id = f.graph_id;
      e.kernel.graph_node_id = f.graph_node_id;
      e.kernel.queued_ns = ours_ ? f.queued_ns : 0;
      break;
    case event_kind::graph_launch:
      e.kernel.graph_id = f.graph_id;
      e.name = {};
      break;
    case event_kind::memcpy: {
      spoken_copy spoken;
      static_cast<void>(read_copy_name(f.name_text, spoken));
      e.memcpy_.bytes = f.bytes;
      e.memcpy_.asynchronous = f.asynchronous;
      e.memcpy_.direction = spoken.direction;
      e.memcpy_.source = spoken.source;
      e.memcpy_.destination = spoken.destination;
      e.memcpy_.source_device = f.from_device;
      e.memcpy_.destination_device = f.to_device;
      e.memcpy_.graph_id = f.graph_id;
      e.memcpy_.graph_node_id = f.graph_node_id;
      e.name = copy_name(spoken.direction, to_.texts());
      break;
    }
    case event_kind::memset:
      static_cast<void>(read_set_name(f.name_text, e.memset_.memory));
      e.memset_.bytes = f.bytes;
      e.memset_.asynchronous = f.asynchronous;
      e.memset_.graph_id = f.graph_id;
      e.memset_.graph_node_id = f.graph_node_id;
      e.name = to_.texts().intern("memset");
      break;
    case event_kind::sync:
      if (f.has_sync) e.sync.what = f.sync;
      e.sync.event_id = f.event_id;
      e.name = to_.texts().intern(cutrace::name_of_wait(e.sync.what));
      break;
    default:
      break;
  }
}

bool chrome_reader::make_instant(event& e, const chrome_fields& f) {
  if (starts_with(f.name_text, "Record Window End") || starts_with(f.name_text, "Iteration Start")) return false;
  if (f.category == "mark") {
    e.kind = event_kind::mark;
    if (f.context != 0) {
      make_gpu(e, f);
    } else {
      make_host(e, f);
    }
    make_origin(e.stage, f);
    return true;
  }
  if (f.category == "memory") {
    e.kind = event_kind::memory;
    make_host(e, f);
    e.device = f.device;
    e.memory.operation =
        starts_with(f.name_text, "free") ? cutrace::memory_operation::free : cutrace::memory_operation::allocate;
    e.memory.address = f.address;
    e.memory.bytes = f.bytes;
    e.memory.memory = f.memory;
    e.call_start_ns = e.start_ns;
    e.name = {};
    return true;
  }
  constexpr std::string_view lost = "lost: ";
  if (f.category == "loss" && starts_with(f.name_text, lost)) {
    e.kind = event_kind::loss;
    e.process_id = host_process(f.pid);
    if (!cutrace_reading::parse(f.name_text.substr(lost.size()), e.loss.cause)) complain("an unknown cause of loss");
    e.loss.count = f.count;
    e.name = to_.texts().intern("lost records");
    return true;
  }
  if (!ours_ && f.category == "cpu_instant_event") return false;  // Kineto's memory events
  complain("instants of category \"" + std::string(f.category.substr(0, 64)) + "\" are left out");
  return false;
}

/// Sets stage and requests, and delivers: at once (a file of cutrace) or with the block (Kineto).
void chrome_reader::deliver(event& e, const chrome_fields& f) {
  const bool gpu = call_ring::takes_call(e);
  if (ours_) {
    e.stage_id = f.stage_id;
    e.stage_name = e.kind == event_kind::stage ? e.name : f.stage;
    e.capture_stage_id = f.capture_stage_id;
    e.capture_stage_name = f.capture_stage;
    e.requests = requests_.finish();
    e.request_count = static_cast<std::uint32_t>(requests_.size());
    const std::uint64_t named = requests_.size() + requests_.left_out();
    e.request_total = static_cast<std::uint32_t>(
        f.request_total > named || (f.request_total != 0 && requests_.left_out() == 0) ? f.request_total : named);
    to_.set_arguments(e, arguments_);
    if (e.kind == event_kind::api) {
      calls_.add(e);
    } else if (gpu) {
      e.call_start_ns = e.start_ns;  // until call_ring::finish: the call may come later in the file
    }
    to_.begin() = e;
    return to_.add(at_);
  }
  if (e.kind == event_kind::stage) {
    e.stage_name = e.name;
    e.stage_id = f.external_id != 0 ? f.external_id : first_own_stage + own_stages_++;
    if (f.external_id != 0 && f.category == "cpu_op") {
      if (externals_.empty()) externals_.resize(external_size);
      externals_[f.external_id % external_size] = {f.external_id, e.name};
    }
  } else if (gpu) {
    e.stage_id = f.external_id;  // join_stage sets its name
  } else if (e.kind == event_kind::api) {
    calls_.add(e);
  }
  block_.push_back(e);
  if (block_.size() >= block_limit) deliver_block();
}

/// The operation of PyTorch that launched the work.
void chrome_reader::join_stage(event& work) {
  if (work.stage_id != 0 && !externals_.empty()) {
    const external_name& known = externals_[work.stage_id % external_size];
    if (known.id == work.stage_id) {
      work.stage_name = known.name;
      return;
    }
  }
  work.stage_id = 0;
  if (work.joined == cutrace::attribution::by_call) work.joined = cutrace::attribution::outside_stage;
}

void chrome_reader::deliver_block() {
  if (ours_) return;
  if (!has_origin_) {
    has_origin_ = true;
    origin_ns_ = 0;
    for (std::size_t i = 0; i < block_.size(); ++i)
      origin_ns_ = i == 0 ? block_[i].start_ns : std::min(origin_ns_, block_[i].start_ns);
    facts_.process_id = rows_.host();
    facts_.process_name = rows_.host_name();
    facts_.backend = "kineto";
    facts_.backend_detail = "read from a file of PyTorch's profiler, or one like it";
    facts_.start.realtime_ns = static_cast<std::uint64_t>(base_ns_) + static_cast<std::uint64_t>(origin_ns_);
    for (const event& e : block_) {
      if (facts_.process_id == 0 && e.kind == event_kind::api) facts_.process_id = e.process_id;
    }
    to_.open(facts_);
  }
  rows_.describe(at_);
  for (event& e : block_) {
    const bool gpu = call_ring::takes_call(e);
    if (gpu && !calls_.join(e)) {
      e.joined = e.correlation_id == 0 ? cutrace::attribution::no_callback : cutrace::attribution::expired;
      e.stage_id = 0;
    } else if (gpu) {
      join_stage(e);
    }
    // These files do not say it of the work, but of its call.
    if (e.kind == event_kind::memcpy) e.memcpy_.asynchronous = cutrace::analysis::is_asynchronous_call(e.call_name);
    if (e.kind == event_kind::memset) e.memset_.asynchronous = cutrace::analysis::is_asynchronous_call(e.call_name);
    if (e.process_id == 0) e.process_id = facts_.process_id;
    const auto shifted = [this](std::int64_t ns) {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(ns) - static_cast<std::uint64_t>(origin_ns_));
    };
    e.start_ns = shifted(e.start_ns);
    e.end_ns = shifted(e.end_ns);
    if (gpu) e.call_start_ns = shifted(e.call_start_ns);
  }
  std::stable_sort(block_.begin(), block_.end(), [](const event& a, const event& b) { return a.end_ns < b.end_ns; });
  for (const event& e : block_) {
    to_.begin() = e;
    to_.add(at_);
  }
  block_.clear();
}

}  // namespace cutrace_reading
