// SPDX-License-Identifier: Apache-2.0
// The simulated machine: devices with engines, contexts, streams, events, memory and graphs behind one lock. A work
// gets its times when it is issued: start = max(issue + launch latency, engine free, what its stream waits for). Where
// something of that is not known, because of a host function, a value in memory or a kernel without end, the work is
// put aside, and gets its times once all is known (machine_jobs.hpp).
//
// Bytes of copies and sets really move: at issue, which is a legal order for programs without races. Those of work that
// was put aside move when it is placed, but copies from pageable memory move at issue even then. Kernels execute
// nothing. All functions may be called from any thread. None blocks but `await`.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cutrace/sim/draw.hpp>
#include <cutrace/sim/engines.hpp>
#include <cutrace/sim/graph.hpp>
#include <cutrace/sim/host_worker.hpp>
#include <cutrace/sim/memory.hpp>
#include <cutrace/sim/moment.hpp>
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
    moment_ptr open;  ///< instead of `time`, where that is not known yet
    graph_node* node = nullptr;
    work done;  ///< as given, with directions and memory kinds filled in
  };
  struct node_run {
    const graph_node* node;
    interval time;
    moment_ptr open;
  };
  struct launched {
    status what = status::ok;
    interval time;
    moment_ptr open;
    std::vector<node_run> nodes;
  };
  /// What a blocking call has to wait for.
  struct until {
    status what = status::ok;
    std::uint64_t at_ns = 0;
    std::vector<moment_ptr> open;
    std::shared_ptr<const loss> lost;  ///< of the context; null: it cannot be lost
  };

  explicit machine(const options& o)
      : options_(o), memory_(o.devices, o.memory_bytes), hosts_(options_.time), values_(options_.time) {
    for (std::uint32_t d = 0; d < options_.devices; ++d) engines_.emplace_back(options_);
  }

  const options& settings() const { return options_; }
  std::uint64_t now() const { return options_.time.now(); }
  host_worker& hosts() { return hosts_; }
  /// Writes of values and waits for them.
  host_worker& values() { return values_; }
  /// Replaces the kernels that go wrong; their executions are counted from now on. `report_ns`: from the fault to the
  /// first call that returns its code.
  void set_kernel_faults(std::vector<kernel_fault>, std::uint64_t report_ns);

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
  /// not_ready while it is not done; context_lost once the loss is reported.
  status ask(const until&) const;
  /// Blocks until it is done, or until the loss of the context is reported. The clock must run by itself.
  status await(const until&);
  status query(const stream* s) { return ask(finish(s)); }

  // Events
  gpu_event* create_event(bool timing);
  bool destroy_event(gpu_event*);
  bool alive(const gpu_event* e) const { return find(events_, e); }
  status record(gpu_event*, stream*);
  status wait(stream*, gpu_event*);
  until finish(const gpu_event*);
  status query(const gpu_event* e) { return ask(finish(e)); }
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
  /// Null when a dependency is of another graph, or the work is invalid.
  graph_node* add_node(graph*, const work&, const std::vector<graph_node*>& after);
  /// A whole clone of `child` in the place of one node; null when a graph is to become its own child.
  graph_node* add_child(graph*, const graph* child, const std::vector<graph_node*>& after);
  graph_exec* instantiate(const graph*);
  /// For callers that report the steps: they call `graph_exec::finish` themselves, before the first launch.
  graph_exec* begin_instance(const graph*);
  bool destroy_exec(graph_exec*);
  bool alive(const graph_exec* e) const { return find(execs_, e); }
  launched launch(graph_exec*, stream*);
  status begin_capture(stream*, bool global = false);
  /// For a call that is unsafe during a capture: breaks captures that are `global`. @returns whether there was one
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
  /// The bytes of a copy or set, or those that a value is compared with or written to.
  struct movement {
    memory::view to, from;
  };

  // Work on its way to its times, see machine_jobs.hpp.
  struct job {
    work what;
    movement bytes;
    std::uint32_t device = 0;
    std::uint64_t duration_ns = 0;  ///< of a kernel; drawn at issue, so that it does not depend on what is put aside
    std::int32_t misfortune = -1;   ///< of a kernel: -1 none, 0 it never ends, else the code of its fault
    std::shared_ptr<loss> lost;
    std::uint64_t ready_ns = 0;
    std::vector<moment_ptr> after;  ///< not known yet
    std::uint64_t latency_ns = 0;   ///< between their ends and this work
    moment_ptr when;                ///< of work that is put aside, or whose end is not known when it is placed
    bool spans = false;             ///< a whole graph: it begins with the first of its nodes
    std::uint64_t first_ns = never_ns;
  };
  /// Times, or where they will stand.
  struct outcome {
    interval time;
    moment_ptr open;
  };
  /// What the next work of a stream has to wait for.
  struct front {
    std::uint64_t at_ns = 0;
    std::vector<moment_ptr> open;
  };
  front front_of(const stream&) const;
  job job_of(const stream&, const work&, const front&, std::uint64_t ready_ns = 0);
  static bool ready(job&);
  outcome run(job&&, movement&);
  outcome place(job&);
  outcome place_kernel(job&);
  void launch_nodes(graph_exec&, stream&, const front&, std::vector<std::pair<const work*, movement>>&, launched&);
  void carry_out(const moment_ptr&, std::uint64_t at_ns, const std::shared_ptr<loss>&, const std::function<void()>&);
  static void write(const value_work&, const movement&);
  static bool holds(const value_work&, const movement&);
  void poll(const moment_ptr&, std::uint64_t since_ns, const std::shared_ptr<loss>&, const value_work&,
            const movement&);
  static void close(moment&, interval);
  void release();
  void settle(stream&);
  void take(stream&, const outcome&);
  std::int32_t misfortune(const work&);
  static std::uint64_t end_of(const until&);
  static std::uint64_t end_of(const gpu_event& e) { return e.open != nullptr ? e.open->end_ns.load() : e.at_ns; }

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
  std::condition_variable changed_;
  std::atomic<std::uint64_t> changes_{0};  ///< counted up when what `await` waits for may have become known
  std::vector<job> aside_;                 ///< in the order of their issue
  struct counted_fault {
    kernel_fault what;
    std::uint64_t seen = 0;
  };
  std::vector<counted_fault> faults_;
  std::uint64_t report_ns_ = 0;
  std::uint32_t last_context_ = 0, last_event_ = 0, last_graph_ = 0;
  std::uint64_t last_capture_ = 0;
  std::unordered_map<context*, std::unique_ptr<context>> contexts_;
  std::unordered_set<stream*> live_streams_;
  std::unordered_map<gpu_event*, std::unique_ptr<gpu_event>> events_;
  std::unordered_map<graph*, std::unique_ptr<graph>> graphs_;
  std::unordered_map<graph_exec*, std::unique_ptr<graph_exec>> execs_;
  std::unordered_map<capture*, std::unique_ptr<capture>> captures_;
  host_worker hosts_, values_;  // last: their threads use the rest
};

}  // namespace sim
CUTRACE_END_NAMESPACE

#include <cutrace/sim/machine_graphs.hpp>
#include <cutrace/sim/machine_jobs.hpp>
#include <cutrace/sim/machine_work.hpp>
