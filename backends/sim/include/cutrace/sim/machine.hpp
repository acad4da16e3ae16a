// SPDX-License-Identifier: Apache-2.0
// The simulated machine: devices with engines, contexts, streams, events, memory and graphs behind one lock. A work
// gets its times when it is issued: start = max(issue + launch latency, engine free, what its stream waits for).
//
// What it does: bytes of copies and sets really move (at issue, which is a legal order for programs without races; a
// copy that depends on what an earlier host function of its stream writes would come too early). Kernels execute
// nothing. All functions may be called from any thread. None blocks: `until` names what the caller is to wait for (see
// waiting.hpp).
#pragma once

#include <atomic>
#include <cstring>
#include <cutrace/sim/draw.hpp>
#include <cutrace/sim/engines.hpp>
#include <cutrace/sim/graph.hpp>
#include <cutrace/sim/host_worker.hpp>
#include <cutrace/sim/memory.hpp>
#include <cutrace/sim/options.hpp>
#include <cutrace/sim/stream.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class machine {
 public:
  /// What became of a work. Captured: `node` is set and there is no time yet.
  struct issued {
    status what = status::ok;
    interval time;
    graph_node* node = nullptr;
    work done;  ///< as given, with directions and memory kinds filled in
  };
  struct node_run {
    const graph_node* node;
    interval time;
  };
  struct launched {
    status what = status::ok;
    interval time;
    std::vector<node_run> nodes;
  };
  /// The moment up to which a blocking call has to wait, and the host function (0: none) that must have returned.
  struct until {
    status what = status::ok;
    std::uint64_t at_ns = 0;
    std::uint64_t host_ticket = 0;
  };

  explicit machine(const options& o) : options_(o), memory_(o.devices, o.memory_bytes), worker_(options_.time) {
    for (std::uint32_t d = 0; d < options_.devices; ++d) engines_.emplace_back(options_);
  }

  const options& settings() const { return options_; }
  std::uint64_t now() const { return options_.time.now(); }
  host_worker& hosts() { return worker_; }

  // Contexts and streams
  context* create_context(std::uint32_t device, bool primary, std::uint32_t flags);
  bool destroy_context(context*);
  stream* create_stream(context*, stream_kind, std::int32_t priority);
  /// The stream's work goes on. False for the legacy stream and for handles that are not alive.
  bool destroy_stream(stream*);
  bool alive(const context* c) const { return find(contexts_, c); }
  bool alive(const stream* s) const { return find(live_streams_, s); }
  /// What `describe` says of each context and of each stream that is alive.
  template <class Description, class F>
  std::vector<Description> contexts(F describe) const {
    const std::lock_guard<std::mutex> hold(lock_);
    std::vector<Description> all;
    for (const auto& c : contexts_) all.push_back(describe(*c.second));
    return all;
  }
  template <class Description, class F>
  std::vector<Description> streams(F describe) const {
    const std::lock_guard<std::mutex> hold(lock_);
    std::vector<Description> all;
    for (const stream* s : live_streams_) all.push_back(describe(*s));
    return all;
  }

  // Work
  issued issue(stream*, const work&);
  until finish(const stream*);
  until finish(const context*);
  /// not_ready while work of the stream runs.
  status query(const stream* s) { return ready(finish(s)); }

  // Events
  gpu_event* create_event(bool timing);
  bool destroy_event(gpu_event*);
  bool alive(const gpu_event* e) const { return find(events_, e); }
  status record(gpu_event*, stream*);
  status wait(stream*, gpu_event*);
  until finish(const gpu_event*);
  status query(const gpu_event* e) { return ready(finish(e)); }
  status elapsed(const gpu_event* from, const gpu_event* to, double& ms);

  // Memory, see memory.hpp
  std::uint64_t allocate(std::uint32_t device, std::uint64_t bytes) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.allocate(device, bytes);
  }
  std::uint64_t free(std::uint64_t address) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.free(address);
  }
  bool pin(const void* p, std::uint64_t bytes) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.pin(p, bytes);
  }
  bool unpin(const void* p) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.unpin(p);
  }
  memory::location where(std::uint64_t address) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.find(address);
  }
  std::uint64_t live_bytes(std::uint32_t device) {
    const std::lock_guard<std::mutex> hold(lock_);
    return memory_.live_bytes(device);
  }

  // Graphs and capture, defined in machine_graphs.hpp
  graph* create_graph();
  graph* clone_graph(const graph*);
  bool destroy_graph(graph*);
  bool alive(const graph* g) const { return find(graphs_, g); }
  /// Null when a dependency or an address does not belong.
  graph_node* add_node(graph*, const work&, const std::vector<graph_node*>& after);
  /// A whole clone of `child` in the place of one node; null when a graph is to become its own child.
  graph_node* add_child(graph*, const graph* child, const std::vector<graph_node*>& after);
  graph_exec* instantiate(const graph*);
  /// For those who want to look on: `graph_exec::finish` is theirs to call before the first launch.
  graph_exec* begin_instance(const graph*);
  bool destroy_exec(graph_exec*);
  bool alive(const graph_exec* e) const { return find(execs_, e); }
  launched launch(graph_exec*, stream*);
  status begin_capture(stream*, bool global = false);
  /// A call that waits or asks: breaks captures that are `global`, and says whether there was one.
  bool break_captures();
  /// `result` is the finished graph, null on failure.
  status end_capture(stream*, graph*& result);
  /// Runs `f(const capture*)` under the lock; null when the stream is not capturing.
  template <class F>
  void inspect_capture(const stream* s, F f) {
    const std::lock_guard<std::mutex> hold(lock_);
    f(s->capturing);
  }
  /// Ends in capture_invalidated whatever capture of the stream is under way.
  void break_capture(const stream* s) {
    const std::lock_guard<std::mutex> hold(lock_);
    if (s->capturing != nullptr) s->capturing->broken = true;
  }

 private:
  template <class Map, class T>
  bool find(const Map& map, const T* key) const {
    const std::lock_guard<std::mutex> hold(lock_);
    return map.find(const_cast<T*>(key)) != map.end();
  }
  status ready(const until& u) {
    if (u.what != status::ok) return u.what;
    return now() >= u.at_ns && (u.host_ticket == 0 || worker_.done(u.host_ticket)) ? status::ok : status::not_ready;
  }

  std::uint64_t stream_ready(const stream& s) const {
    switch (s.kind) {
      case stream_kind::legacy:
        return std::max(s.end_ns, s.owner->blocking_end_ns);
      case stream_kind::non_blocking:
        return s.end_ns;
      default:
        return std::max(s.end_ns, s.owner->legacy->end_ns);
    }
  }
  void advance(stream& s, std::uint64_t end_ns) {
    s.end_ns = std::max(s.end_ns, end_ns);
    if (s.kind == stream_kind::blocking || s.kind == stream_kind::per_thread)
      s.owner->blocking_end_ns = std::max(s.owner->blocking_end_ns, s.end_ns);
    s.owner->end_ns = std::max(s.owner->end_ns, s.end_ns);
  }

  status resolve(work&);
  interval place(stream&, const work&, std::uint64_t ready_ns);
  /// The bytes of a copy or set, to be moved once the lock is released.
  struct movement {
    memory::view to, from;
  };
  status look(const work&, movement&);
  static void move(const work&, const movement&);
  static std::uint64_t extent(std::uint64_t width, std::uint64_t height, std::uint64_t depth, const copy_side& s) {
    return (depth - 1) * s.slice + (height - 1) * s.pitch + width;
  }
  void leave_capture(capture&);

  const options options_;
  mutable std::mutex lock_;
  std::vector<engines> engines_;
  memory memory_;
  host_worker worker_;
  std::uint32_t last_context_ = 0, last_event_ = 0, last_graph_ = 0;
  std::uint64_t last_capture_ = 0;
  std::unordered_map<context*, std::unique_ptr<context>> contexts_;
  std::unordered_set<stream*> live_streams_;
  std::unordered_map<gpu_event*, std::unique_ptr<gpu_event>> events_;
  std::unordered_map<graph*, std::unique_ptr<graph>> graphs_;
  std::unordered_map<graph_exec*, std::unique_ptr<graph_exec>> execs_;
  std::unordered_map<capture*, std::unique_ptr<capture>> captures_;
};

}  // namespace sim
CUTRACE_END_NAMESPACE

#include <cutrace/sim/machine_graphs.hpp>
#include <cutrace/sim/machine_work.hpp>
