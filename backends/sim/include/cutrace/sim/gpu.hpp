// SPDX-License-Identifier: Apache-2.0
// A GPU for programs without any CUDA: streams, kernels with a name and a duration, copies that move bytes, events and
// graphs. Each call is named and timed like the driver function that it stands for (functions.hpp), and is traced while
// a session with a sim_backend runs (sim_backend.hpp).
//
//   cutrace::sim::gpu gpu;
//   cutrace::sim::stream& s = gpu.create_stream();
//   gpu.launch(s, "gemm", {128, 1, 1}, {256, 1, 1}, 20000);
//   gpu.synchronize(s);
//
// Times are nanoseconds. All functions may be called from any thread. None throws, apart from std::bad_alloc; what went
// wrong is in the returned status.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <cutrace/sim/machine.hpp>
#include <cutrace/sim/recorder.hpp>
#include <mutex>
#include <string>
#include <unordered_set>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

using dimensions = std::array<std::uint32_t, 3>;

class gpu {
 public:
  /// `o.time` is ignored: the model's clock is real time, in step with the session's clock while there is one.
  explicit gpu(options o = {}) : machine_(with_clock(o)), context_(machine_.create_context(0, true, 0)) {}
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;

  machine& model() { return machine_; }
  recorder& records() { return recorder_; }

  // Streams
  stream& default_stream() { return *context_->legacy; }
  /// A blocking stream synchronises with the default stream.
  stream& create_stream(bool blocking = false, std::int32_t priority = 0) {
    const auto call = recorder_.begin(function::stream_create);
    stream* s =
        machine_.create_stream(context_, blocking ? stream_kind::blocking : stream_kind::non_blocking, priority);
    recorder_.end(call, 0, {word(s), blocking ? 0u : 1u, static_cast<std::uint64_t>(std::int64_t{priority})});
    record_stream(facts_of(*s));
    return *s;
  }
  status destroy_stream(stream& s) {
    const auto call = recorder_.begin(function::stream_destroy);
    return done(call, machine_.destroy_stream(&s) ? status::ok : status::invalid_handle, {word(&s)});
  }
  status synchronize(stream& s) {
    const auto call = recorder_.begin(function::stream_synchronize);
    const status what = block(call, machine_.finish(&s), sync_kind::stream, s.id);
    return done(call, what, {word(&s)});
  }
  /// Waits for all streams.
  status synchronize() {
    const auto call = recorder_.begin(function::context_synchronize);
    return done(call, block(call, machine_.finish(context_), sync_kind::context, 0), {});
  }

  // Memory
  /// Device address, 0 when there is no room.
  std::uint64_t allocate(std::uint64_t bytes) {
    const auto call = recorder_.begin(function::allocate);
    const std::uint64_t address = machine_.allocate(0, bytes);
    done(call, address != 0 ? status::ok : status::out_of_memory, {address, bytes});
    return address;
  }
  /// Waits for the work of all streams first, as the driver's function does.
  status free(std::uint64_t address) {
    const auto call = recorder_.begin(function::free);
    machine_.await(machine_.finish(context_));
    return done(call, machine_.free(address) != 0 ? status::ok : status::invalid_value, {address});
  }

  // Work
  /// `duration_ns` 0: drawn from the seed and the number of blocks.
  status launch(stream& s, const char* name, const dimensions& grid, const dimensions& block,
                std::uint64_t duration_ns = 0, std::uint32_t shared_bytes = 0) {
    kernel_work k;
    k.name = keep(name);
    for (std::size_t i = 0; i < 3; ++i) {
      k.grid[i] = grid[i];
      k.block[i] = block[i];
    }
    k.duration_ns = duration_ns;
    k.dynamic_shared_bytes = shared_bytes;
    k.registers_per_thread = 32;
    const auto call = recorder_.begin(function::launch);
    const status what = issue(call, s, k);
    return done(call, what,
                {word(k.name), grid[0], grid[1], grid[2], block[0], block[1], block[2], shared_bytes, word(&s)});
  }
  status copy_in(stream& s, std::uint64_t to, const void* from, std::uint64_t bytes) {
    return copy(function::copy_in, &s, to, word(from), bytes);
  }
  status copy_out(stream& s, void* to, std::uint64_t from, std::uint64_t bytes) {
    return copy(function::copy_out, &s, word(to), from, bytes);
  }
  status copy_within(stream& s, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    return copy(function::copy_within, &s, to, from, bytes);
  }
  /// On the default stream; return when the bytes have arrived.
  status copy_in(std::uint64_t to, const void* from, std::uint64_t bytes) {
    return copy(function::copy_in_blocking, nullptr, to, word(from), bytes);
  }
  status copy_out(void* to, std::uint64_t from, std::uint64_t bytes) {
    return copy(function::copy_out_blocking, nullptr, word(to), from, bytes);
  }
  status set(stream& s, std::uint64_t address, std::uint8_t value, std::uint64_t bytes) {
    set_work w;
    w.address = address;
    w.value = value;
    w.width = bytes;
    const auto call = recorder_.begin(function::set);
    return done(call, issue(call, s, w), {address, value, bytes, word(&s)});
  }

  // Events
  gpu_event& create_event() { return *machine_.create_event(true); }
  void destroy_event(gpu_event& e) { machine_.destroy_event(&e); }
  status record(gpu_event& e, stream& s) {
    const auto call = recorder_.begin(function::event_record);
    return done(call, machine_.record(&e, &s), {word(&e), word(&s)});
  }
  status wait(stream& s, gpu_event& e) {
    const auto call = recorder_.begin(function::stream_wait_event);
    return done(call, machine_.wait(&s, &e), {word(&s), word(&e), 0});
  }
  status synchronize(gpu_event& e) {
    const auto call = recorder_.begin(function::event_synchronize);
    return done(call, block(call, machine_.finish(&e), sync_kind::event, e.where != nullptr ? e.where->id : 0),
                {word(&e)});
  }

  // Graphs
  status begin_capture(stream& s) {
    const auto call = recorder_.begin(function::begin_capture);
    return done(call, machine_.begin_capture(&s), {word(&s)});
  }
  /// Null when the capture failed.
  graph* end_capture(stream& s) {
    const auto call = recorder_.begin(function::end_capture);
    graph* g = nullptr;
    done(call, machine_.end_capture(&s, g), {word(&s), word(g)});
    return g;
  }
  graph_exec* instantiate(const graph& g) {
    const auto call = recorder_.begin(function::instantiate);
    graph_exec* e = machine_.instantiate(&g);
    done(call, status::ok, {word(e), word(&g), 0});
    return e;
  }
  status launch(graph_exec& e, stream& s) {
    const auto call = recorder_.begin(function::graph_launch);
    const machine::launched r = machine_.launch(&e, &s);
    for (const machine::node_run& n : r.nodes) record_work(call, s, n.node->what, n.time, n.open, e.id(), n.node->id);
    return done(call, r.what, {word(&e), word(&s)});
  }
  void destroy(graph& g) { machine_.destroy_graph(&g); }
  void destroy(graph_exec& e) { machine_.destroy_exec(&e); }

  /// Device, context and streams, for a session that begins.
  void record_descriptions() {
    cutrace::event e;
    e.kind = event_kind::device;
    e.name = text{"cutrace simulated GPU", 21};
    e.device_.memory_bytes = machine_.settings().memory_bytes;
    e.device_.memory_bandwidth_bytes_per_s = static_cast<std::uint64_t>(machine_.settings().device_bytes_per_ns * 1e9);
    e.device_.multiprocessors = machine_.settings().multiprocessors;
    e.device_.compute_major = 9;
    e.device_.core_clock_khz = 1980000;
    std::memcpy(e.device_.uuid, "cutrace-sim-gpu", 16);
    recorder_.describe_event(e);
    cutrace::event c;
    c.kind = event_kind::context;
    c.context = context_->id;
    recorder_.describe_event(c);
    // Copies: another thread may make or destroy streams just now.
    auto streams = machine_.streams<stream_facts>(facts_of);
    std::sort(streams.begin(), streams.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (const stream_facts& s : streams) record_stream(s);
  }

 private:
  template <class T>
  static std::uint64_t word(T* p) {
    return reinterpret_cast<std::uint64_t>(p);
  }
  options with_clock(options o) {
    o.devices = 1;
    o.time = time_source{[](void* self) { return static_cast<gpu*>(self)->recorder_.now(); }, this, true};
    return o;
  }
  const char* keep(const char* name) {
    const std::lock_guard<std::mutex> hold(names_lock_);
    return names_.insert(name).first->c_str();
  }

  status done(const recorder::call& c, status what, std::initializer_list<std::uint64_t> words) {
    recorder_.end(c, result_code(what), words);
    return what;
  }

  status issue(const recorder::call& c, stream& s, const work& w, interval* time = nullptr,
               moment_ptr* open = nullptr) {
    const machine::issued r = machine_.issue(&s, w);
    if (r.what == status::ok && r.node == nullptr) record_work(c, s, r.done, r.time, r.open, 0, 0);
    if (time != nullptr) *time = r.time;
    if (open != nullptr) *open = r.open;
    return r.what;
  }

  status copy(function f, stream* where, std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
    stream& s = where != nullptr ? *where : default_stream();
    copy_work w;
    w.destination.address = to;
    w.source.address = from;
    w.width_bytes = bytes;
    w.asynchronous = where != nullptr;
    const auto call = recorder_.begin(f);
    interval time;
    moment_ptr open;
    const status what = issue(call, s, w, &time, &open);
    if (where != nullptr) return done(call, what, {to, from, bytes, word(where)});
    if (what == status::ok)
      machine_.await(open != nullptr ? machine::until{what, 0, {open}, nullptr}
                                     : machine::until{what, time.end_ns, {}, nullptr});
    return done(call, what, {to, from, bytes});
  }

  /// Blocks the host, and records the wait as a `sync` event beside the call.
  status block(const recorder::call& c, const machine::until& u, sync_kind kind, std::uint32_t stream_id) {
    if (u.what != status::ok) return u.what;
    gpu_work w{};
    w.kind = event_kind::sync;
    w.name = "";
    w.begin = machine_.now();
    machine_.await(u);
    w.end = machine_.now();
    w.sync = kind;
    w.context = context_->id;
    w.stream = stream_id;
    recorder_.work(c, w);
    recorder_.report();
    return status::ok;
  }

  void record_work(const recorder::call& c, const stream& s, const work& w, interval time, const moment_ptr& open,
                   std::uint32_t graph_id, std::uint64_t node_id) {
    gpu_work g{};
    g.name = "";
    g.begin = time.start_ns;
    g.end = time.end_ns;
    g.context = context_->id;
    g.stream = s.id;
    g.graph_id = graph_id;
    g.graph_node_id = node_id;
    if (w.kind == work_kind::kernel) {
      g.kind = event_kind::kernel;
      g.name = w.kernel.name;
      std::memcpy(g.grid, w.kernel.grid, sizeof g.grid);
      std::memcpy(g.block, w.kernel.block, sizeof g.block);
      g.registers_per_thread = w.kernel.registers_per_thread;
      g.shared_bytes = w.kernel.static_shared_bytes + w.kernel.dynamic_shared_bytes;
    } else if (w.kind == work_kind::copy) {
      g.kind = event_kind::memcpy;
      g.bytes = w.copy.bytes();
      g.direction = w.copy.direction;
      g.source = w.copy.source_kind;
      g.destination = w.copy.destination_kind;
    } else if (w.kind == work_kind::set) {
      g.kind = event_kind::memset;
      g.bytes = w.set.bytes();
      g.destination = w.set.kind;
    } else {
      return;
    }
    recorder_.work(c, g, open);
  }

  struct stream_facts {
    std::uint32_t id;
    std::int32_t priority;
    stream_kind kind;
  };
  static stream_facts facts_of(const stream& s) { return {s.id, s.priority, s.kind}; }
  void record_stream(const stream_facts& s) {
    cutrace::event e;
    e.kind = event_kind::stream;
    e.context = context_->id;
    e.stream = s.id;
    e.stream_.priority = s.priority;
    e.stream_.flags = s.kind == stream_kind::non_blocking ? 1 : 0;
    recorder_.describe_event(e);
  }

  recorder recorder_;  // first: it is the machine's clock
  machine machine_;
  context* context_;
  std::mutex names_lock_;
  std::unordered_set<std::string> names_;
};

/// The GPU of each sim_backend that is given none: one in each object (executable or library) that uses it.
inline gpu& default_gpu() {
  static gpu g;
  return g;
}

}  // namespace sim
CUTRACE_END_NAMESPACE
