// SPDX-License-Identifier: Apache-2.0
// Events of a Perfetto trace: slices, instants and counters of the host, and work of the GPU.
#include <algorithm>
#include <cutrace/names.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>
#include <iterator>

#include "trace/pbf_value.hpp"
#include "trace/perfetto_reader.hpp"
#include "trace/words.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;
using cutrace::event_kind;
using cutrace::detail::slice_category;

namespace {

/// CUPTI's invalid stream id.
constexpr std::uint64_t no_stream = 0xFFFFFFFFu;
/// The sink numbers work without a correlation id from here on (cutrace/sinks/perfetto/gpu.hpp).
constexpr std::uint64_t first_free_number = std::uint64_t{1} << 62;
constexpr std::size_t depth_limit = 4096;

/// Whether the stage of an event waits for its call (place_in_stage).
bool is_placed(const cutrace::event& e) noexcept { return e.is_gpu_work() || e.is_cuda_event(); }

}  // namespace

void perfetto_reader::read_event(perfetto_sequence& s, std::uint64_t ns, pbf p) {
  std::uint64_t track_uuid = s.track_uuid, category_number = 0, name_number = 0, type = 0, correlation = 0;
  std::int64_t value = 0;
  std::string_view name_text;
  const pbf whole = p;
  notes_.clear();
  while (p.next()) {
    switch (p.tag()) {
      case pf::event_field::category_iids:
        category_number = number(p);
        break;
      case pf::event_field::debug_annotations:
        notes_.push_back(bytes(p));
        break;
      case pf::event_field::type:
        type = number(p);
        break;
      case pf::event_field::name_iid:
        name_number = number(p);
        break;
      case pf::event_field::track_uuid:
        track_uuid = number(p);
        break;
      case pf::event_field::name:
        name_text = bytes(p);
        break;
      case pf::event_field::categories:
        p.skip();
        break;
      case pf::event_field::counter_value:
        value = static_cast<std::int64_t>(number(p));
        break;
      case pf::event_field::gpu_correlation: {
        pbf c = message(p);
        while (c.next()) {
          if (c.tag() == pf::event_field::submission_event_ids) {
            correlation = number(c);
          } else {
            c.skip();
          }
        }
        break;
      }
      default:
        complain("unknown field " + std::to_string(p.tag()) + " of an event");
        p.skip();
    }
  }
  if (type == pf::event_field::slice_end) return end_slice(s, ns);
  perfetto_track* const track = track_of(s, track_uuid);
  if (track == nullptr) return complain("an event on a track that nobody has described");
  if (track->what == perfetto_track::kind::about) {
    return name_text == "records lost" ? read_loss(session_ns(ns), whole) : read_about(ns, name_text, whole);
  }
  open_trace();
  if (type == pf::event_field::counter) return read_counter(*track, session_ns(ns), value);
  const slice_category* const category = s.categories.find(category_number);
  const interned_name* const name = s.names.find(name_number);
  if (category == nullptr) return complain("an event of an unknown category");
  if (name == nullptr && name_number != 0) complain("an event with a name_iid that is not defined");
  if (type == pf::event_field::instant) {
    begin_slice(scratch_, *track, *category, name, session_ns(ns));
    scratch_.e.correlation_id = correlation;
    if (scratch_.e.kind == event_kind::memory && !parse(name_text, scratch_.e.memory.operation))
      complain("unknown word \"" + std::string(name_text.substr(0, 64)) + "\"");
    apply_host_notes(s, scratch_);
    return finish_slice(scratch_, session_ns(ns));
  }
  if (type != pf::event_field::slice_begin) return complain("an event of an unknown type");
  if (s.open_count >= depth_limit) return complain("slices nested too deep");
  if (s.open_count >= s.open.size()) s.open.emplace_back();
  open_slice& to = s.open[s.open_count];
  begin_slice(to, *track, *category, name, session_ns(ns));
  to.e.correlation_id = correlation;
  apply_host_notes(s, to);
  ++s.open_count;
}

void perfetto_reader::read_counter(perfetto_track& track, std::int64_t ns, std::int64_t value) {
  cutrace::event& e = to_.begin();
  e.kind = event_kind::counter;
  e.process_id = track.process;
  e.start_ns = e.end_ns = ns;
  e.name = track.name;
  e.counter.value = value;
  if (track.sampled) {
    e.counter.change =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(track.last_value));
  }
  track.last_value = value;
  track.sampled = true;
  to_.add(at_);
}

void perfetto_reader::begin_slice(open_slice& to, const perfetto_track& track, slice_category category,
                                  const interned_name* name, std::int64_t ns) {
  to.clear();
  cutrace::event& e = to.e;
  e.start_ns = e.end_ns = ns;
  e.process_id = track.process;
  e.thread_id = track.thread;
  if (name != nullptr) e.name = name->text;
  switch (category) {
    case slice_category::stage:
    case slice_category::nvtx:
      e.kind = event_kind::stage;
      e.stage.span = track.what == perfetto_track::kind::spans;
      if (category == slice_category::nvtx) e.stage.origin = cutrace::stage_origin::nvtx;
      e.stage_name = e.name;
      return;
    case slice_category::cuda_driver:
    case slice_category::cuda_runtime:
      e.kind = event_kind::api;
      e.api.runtime_api = category == slice_category::cuda_runtime;
      return;
    case slice_category::cuda_sync:
      e.kind = event_kind::sync;
      e.process_id = main_process_;
      if (name != nullptr) e.sync.what = name->sync;
      e.name = to_.texts().intern(cutrace::name_of_wait(e.sync.what));
      e.device = track.device;
      e.stream = track.what == perfetto_track::kind::stream_sync ? track.id : no_stream;
      if (track.what == perfetto_track::kind::context_sync) e.context = static_cast<std::uint32_t>(track.id);
      e.call_start_ns = ns;
      return;
    case slice_category::memory:
      e.kind = event_kind::memory;
      e.call_start_ns = ns;
      return;
    case slice_category::mark:
    case slice_category::none:
      e.kind = event_kind::mark;
      return;
    default:  // the category has the name of the kind
      static_cast<void>(parse(cutrace::detail::slice_category_names[static_cast<std::uint8_t>(category)], e.kind));
  }
}

void perfetto_reader::apply_host_notes(perfetto_sequence& s, open_slice& to) {
  for (const std::string_view one : notes_) apply_host(to, read_note(s, pbf(one.data(), one.size())));
}

void perfetto_reader::end_slice(perfetto_sequence& s, std::uint64_t ns) {
  if (s.open_count == 0) return complain("an end without its begin");
  finish_slice(s.open[--s.open_count], session_ns(ns));
}

void perfetto_reader::finish_slice(open_slice& from, std::int64_t end_ns) {
  cutrace::event& e = to_.begin();
  e = from.e;
  e.end_ns = from.ended_before_start_ns != 0
                 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(e.start_ns) - from.ended_before_start_ns)
                 : end_ns;
  complete(e, from);
  if (e.kind == event_kind::api) calls_.add(e);
  to_.add(at_);
}

/// Fills in requests, arguments and the number of the stage.
void perfetto_reader::complete(cutrace::event& e, open_slice& from) {
  if (from.request_count() != 0) {
    e.request_count = static_cast<std::uint32_t>(from.request_count());
    e.requests = requests_.place(from.requests(), from.request_count());
  }
  if (e.request_total < e.request_count) e.request_total = e.request_count;
  to_.set_arguments(e, from.arguments);
  if (e.kind == event_kind::stage || e.stage_name.size != 0) {
    if (e.kind == event_kind::stage && !e.stage.adopted)
      end_stage(e, from);
    else if (!is_placed(e))
      e.stage_id = stage_number(e.process_id, e.stage_name, from.requests(), from.request_count());
  }
  if (e.capture_stage_name.size != 0) e.capture_stage_id = stage_number(e.process_id, e.capture_stage_name, nullptr, 0);
}

// The format does not number instances of stages. A stage is written when it ends, after what happened in it. So a
// call or GPU work belongs to the instance of its process, its stage's name and requests that ends next; GPU work whose
// call lies in an instance that has ended belongs to that one. Where such instances overlap, an event may get the wrong
// one.

std::uint64_t perfetto_reader::stage_key(std::uint32_t process, cutrace::text name,
                                         const cutrace::request_ref* requests, std::size_t count) noexcept {
  std::uint64_t sum =
      cutrace::detail::hash_number(reinterpret_cast<std::uintptr_t>(name.data));  // interned: one address for one text
  sum = cutrace::detail::hash_number(sum ^ process);
  for (std::size_t i = 0; i < count; ++i) sum = cutrace::detail::hash_number(sum ^ requests[i].id);
  return sum;
}

/// Requests come and go, and work of the GPU lags behind by some thousands of runs at most: forgets older ones.
void perfetto_reader::forget_runs() {
  ended_runs_ = opened_runs_ = 0;
  for (auto at = stages_.begin(); at != stages_.end();) {
    auto& ended = at->second.ended;
    if (at->second.of_requests && at->second.used + open_limit < next_stage_number_) at->second.open = 0;
    const auto is_old = [this](const stage_instances::run& r) { return r.number + run_limit / 2 < next_stage_number_; };
    ended.erase(std::remove_if(ended.begin(), ended.end(), is_old), ended.end());
    ended.shrink_to_fit();
    ended_runs_ += ended.size();
    at = at->second.open == 0 && ended.empty() ? stages_.erase(at) : std::next(at);
  }
}

std::uint64_t perfetto_reader::stage_number(std::uint32_t process, cutrace::text name,
                                            const cutrace::request_ref* requests, std::size_t count) {
  if (name.data == last_stage_name_ && process == last_stage_process_ && count == 0) return last_stage_number_;
  stage_instances* known = &stages_[stage_key(process, name, requests, count)];
  if (known->open == 0) {
    if (++opened_runs_ > open_limit) {
      forget_runs();
      known = &stages_[stage_key(process, name, requests, count)];
    }
    known->open = next_stage_number_++;
    known->of_requests = count != 0;
  }
  known->used = next_stage_number_;
  last_stage_name_ = count == 0 ? name.data : nullptr;
  last_stage_process_ = process;
  return last_stage_number_ = known->open;
}

void perfetto_reader::end_stage(cutrace::event& e, const open_slice& of) {
  if (++ended_runs_ > run_limit) forget_runs();
  stage_instances& known = stages_[stage_key(e.process_id, e.stage_name, of.requests(), of.request_count())];
  e.stage_id = known.open != 0 ? known.open : next_stage_number_++;
  known.open = 0;
  known.ended.insert(known.ending_after(e.end_ns), {e.start_ns, e.end_ns, e.stage_id});
  last_stage_name_ = nullptr;
}

/// Numbers the stage of GPU work when its call has been read. Only work whose call lies in no instance that has ended
/// opens one: it would stay open for ever where no further one has the same requests.
void perfetto_reader::place_in_stage(cutrace::event& e) {
  if (!is_placed(e) || e.stage_name.size == 0) return;
  const auto found = stages_.find(stage_key(e.process_id, e.stage_name, e.requests, e.request_count));
  if (found != stages_.end()) {
    stage_instances& known = found->second;
    for (auto run = known.ending_after(e.call_start_ns); run != known.ended.end(); ++run) {
      if (run->start_ns > e.call_start_ns) continue;
      e.stage_id = run->number;
      return;
    }
  }
  e.stage_id = stage_number(e.process_id, e.stage_name, e.requests, e.request_count);
}

void perfetto_reader::read_launch(perfetto_sequence& s, open_slice& to, pbf p) {
  while (p.next()) {
    const std::uint32_t tag = p.tag();
    if (tag == pf::gpu::launch_args) {
      apply_gpu(to, read_gpu_note(s, message(p)));
      continue;
    }
    if (tag != pf::gpu::launch_grid && tag != pf::gpu::launch_workgroup) {
      p.skip();
      continue;
    }
    pbf size = message(p);
    std::uint32_t(&v)[3] = tag == pf::gpu::launch_grid ? to.e.kernel.grid : to.e.kernel.block;
    while (size.next()) {
      const std::uint32_t axis = size.tag();
      const std::uint32_t n = number32(size);
      if (to.e.kind == event_kind::kernel && axis >= pf::gpu::x && axis <= pf::gpu::z) v[axis - 1] = n;
    }
  }
}

void perfetto_reader::read_gpu_event(perfetto_sequence& s, std::uint64_t ns, pbf p) {
  open_trace();
  open_slice& to = scratch_;
  to.clear();
  cutrace::event& e = to.e;
  std::uint64_t event_number = 0, duration = 0;
  const interned_queue* queue = nullptr;
  const interned_queue* render_stage = nullptr;
  const interned_kernel* kernel = nullptr;
  const interned_name* name = nullptr;
  std::string_view launch;
  while (p.next()) {
    switch (p.tag()) {
      case pf::gpu::event_id:
        event_number = number(p);
        break;
      case pf::gpu::duration:
        duration = number(p);
        break;
      case pf::gpu::context:
        e.context = number32(p);
        break;
      case pf::gpu::gpu_id:
        e.device = number32(p);
        break;
      case pf::gpu::hw_queue_iid:
        queue = s.queues.find(number(p));
        break;
      case pf::gpu::stage_iid:
        render_stage = s.queues.find(number(p));
        break;
      case pf::gpu::kernel_iid:
        kernel = s.kernels.find(number(p));
        break;
      case pf::gpu::name_iid:
        name = s.names.find(number(p));
        break;
      case pf::gpu::launch:
        launch = bytes(p);
        break;
      default:
        complain("unknown field " + std::to_string(p.tag()) + " of GPU work");
        p.skip();
    }
  }
  if (queue == nullptr || render_stage == nullptr) return complain("GPU work without a stream, or of an unknown kind");
  e.start_ns = session_ns(ns);
  e.correlation_id = event_number < first_free_number ? event_number : 0;
  e.stream = queue->stream;
  e.joined = cutrace::attribution::by_call;
  const auto context = s.context_processes.find(e.context);
  e.process_id = context != s.context_processes.end() ? context->second : main_process_;
  switch (render_stage->what) {
    case interned_queue::meaning::kernel:
      e.kind = event_kind::kernel;
      if (kernel == nullptr) {
        complain("a kernel with a kernel_iid that is missing or not defined");
        break;
      }
      e.kernel.mangled_name = kernel->mangled;
      e.kernel.registers_per_thread = kernel->registers_per_thread;
      e.kernel.static_shared_bytes = kernel->static_shared_bytes;
      e.kernel.dynamic_shared_bytes = kernel->dynamic_shared_bytes;
      e.kernel.local_bytes_per_thread = kernel->local_bytes_per_thread;
      e.kernel.priority = kernel->priority;
      if (kernel->cluster != 0) {
        e.kernel.cluster[0] = kernel->cluster;
        e.kernel.cluster[1] = e.kernel.cluster[2] = 1;
      }
      e.stage_name = kernel->stage;
      e.capture_stage_name = kernel->capture_stage;
      e.joined = kernel->joined;
      e.name = kernel->name;
      break;
    case interned_queue::meaning::memcpy:
      e.kind = event_kind::memcpy;
      if (name != nullptr) {
        e.memcpy_.direction = name->copy.direction;
        e.memcpy_.source = name->copy.source;
        e.memcpy_.destination = name->copy.destination;
      }
      e.name = copy_name(e.memcpy_.direction, to_.texts());
      break;
    case interned_queue::meaning::memset:
      e.kind = event_kind::memset;
      if (name != nullptr) e.memset_.memory = name->memory;
      e.name = to_.texts().intern("memset");
      break;
    case interned_queue::meaning::graph:
      e.kind = event_kind::graph_launch;
      break;
    case interned_queue::meaning::event:
      e.kind = event_kind::mark;
      if (name != nullptr) e.name = name->text;
      break;
    case interned_queue::meaning::stream:
    case interned_queue::meaning::none:
      return complain("GPU work without a stream, or of an unknown kind");
  }
  read_launch(s, to, pbf(launch.data(), launch.size()));
  e.call_start_ns = e.start_ns;  // the call itself may come later in the file
  e.end_ns = to.ended_before_start_ns != 0
                 ? static_cast<std::int64_t>(static_cast<std::uint64_t>(e.start_ns) - to.ended_before_start_ns)
                 : static_cast<std::int64_t>(static_cast<std::uint64_t>(e.start_ns) + duration);
  cutrace::event& out = to_.begin();
  out = e;
  complete(out, to);
  to_.add(at_);
}

}  // namespace cutrace_reading
