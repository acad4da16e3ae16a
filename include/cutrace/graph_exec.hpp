// SPDX-License-Identifier: Apache-2.0
// A CUDA graph in two instances (executable graphs), so that a server that is always on can have single replays
// recorded node by node without slowing down the others: an instance is slower for good once CUPTI has recorded a
// replay of it node by node. The first instance is never recorded so; the second one is called twin.
//
//   cutrace::graph_exec step([&] { cudaGraphExec_t e; check(cudaGraphInstantiate(&e, graph)); return e; });
//   step.launch([&](cudaGraphExec_t e) { check(cudaGraphLaunch(e, stream)); });
//   step.each([&](cudaGraphExec_t e) { check(cudaGraphExecUpdate(e, changed, &result)); });   // and, last, destroy
//
// Of use with CUTRACE_GRAPHS=graph, where one launch in `one_in` is recorded by node, and with windows
// (CUTRACE_SAMPLE), where launches in windows are. Otherwise, and where nobody traces, there is no second instance and
// a launch costs one test more. Needs no CUDA header: the program's functions call CUDA.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <utility>

#if CUTRACE_ENABLED
#include <cutrace/marker/slot.hpp>
#endif

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// Asks the process's runtime which instance of a graph to launch.
struct twin_question {
#if CUTRACE_ENABLED
  const table* owner = find_owner();

  bool wanted() const noexcept { return ask(twin_step::wanted) != twin_choice::first; }
  twin_choice begin(bool sampled) const noexcept { return ask(sampled ? twin_step::begin_sampled : twin_step::begin); }
  void end() const noexcept { ask(twin_step::end); }

 private:
  static const table* find_owner() noexcept {
    const table* found = own_slot().owner.load(std::memory_order_acquire);
    if (found == nullptr) found = find_runtime();
    const bool knows = found != nullptr && found->size >= offsetof(table, graph_twin) + sizeof(found->graph_twin);
    return knows ? found : nullptr;
  }
  twin_choice ask(twin_step step) const noexcept {
    return owner != nullptr ? owner->graph_twin(step) : twin_choice::first;
  }
#else
  bool wanted() const noexcept { return false; }
#endif
};

}  // namespace detail

/// `Exec` is CUgraphExec or cudaGraphExec_t. Destroys no instance: the program does that by `each`, as shown above.
/// Any thread may launch.
template <class Exec>
class graph_exec {
 public:
  /// `make()` instantiates the graph and is called once or, where a second instance is of use now, twice; what it
  /// throws leaves this constructor. To be constructed while the session runs that is to trace the launches: a
  /// graph_exec that is older has one instance for ever. `one_in` 0: launches are recorded by node in windows only.
  template <class Make>
  explicit graph_exec(Make make, std::uint64_t one_in = 100) : first_(make()), one_in_(one_in) {
    if (!question_.wanted()) return;
    twin_ = make();
    has_twin_ = true;
  }
  graph_exec(const graph_exec&) = delete;
  graph_exec& operator=(const graph_exec&) = delete;

  /// Calls `l` with the instance to launch, and returns what `l` returns. `l` launches the instance once, on any
  /// stream, and must not wait for what another thread's launch does: such a launch may be held up meanwhile.
  template <class Launch>
  auto launch(Launch l) -> decltype(l(std::declval<Exec>())) {
#if CUTRACE_ENABLED
    if (has_twin_) {
      const std::uint64_t n = launches_.fetch_add(1, std::memory_order_relaxed);
      const launching now(question_, one_in_ != 0 && n % one_in_ == one_in_ - 1);
      return l(now.choice == twin_choice::twin ? twin_ : first_);
    }
#endif
    return l(first_);
  }

  /// Calls `action` with each instance. Not while another thread is in `launch`.
  template <class Action>
  void each(Action action) {
    action(first_);
    if (has_twin_) action(twin_);
  }

  bool has_twin() const noexcept { return has_twin_; }

 private:
#if CUTRACE_ENABLED
  struct launching {
    launching(const detail::twin_question& q, bool sampled) noexcept : question(q), choice(q.begin(sampled)) {}
    ~launching() {
      if (choice != twin_choice::first) question.end();
    }
    launching(const launching&) = delete;
    launching& operator=(const launching&) = delete;
    const detail::twin_question& question;
    const twin_choice choice;
  };
#endif

  const detail::twin_question question_{};
  Exec first_;
  Exec twin_{};
  const std::uint64_t one_in_;
  std::atomic<std::uint64_t> launches_{0};
  bool has_twin_ = false;
};

template <class Make>
graph_exec(Make) -> graph_exec<decltype(std::declval<Make&>()())>;
template <class Make>
graph_exec(Make, std::uint64_t) -> graph_exec<decltype(std::declval<Make&>()())>;

CUTRACE_END_NAMESPACE
