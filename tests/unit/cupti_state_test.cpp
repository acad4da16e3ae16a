// SPDX-License-Identifier: Apache-2.0
// What CUPTI calls, with functions of the test in CUPTI's place: whose records a buffer holds, updates of graphs while
// nothing is recorded, windows after a client of the program took the records, and the exit of a forked child.
#include <cupti.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cutrace/cupti/callbacks.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cupti/recording_switch.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace cupti_state_test {

namespace {

using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)
using cutrace::event;
using cutrace::event_kind;
using cutrace::graph_change;

constexpr CUpti_CallbackId launch = 1, update = 2;

/// What of CUPTI is on.
std::set<CUpti_CallbackId>& callbacks_on() {
  static std::set<CUpti_CallbackId> ids;
  return ids;
}
std::set<CUpti_ActivityKind>& kinds_on() {
  static std::set<CUpti_ActivityKind> ids;
  return ids;
}

CUptiResult CUPTIAPI enable_callback(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                     CUpti_CallbackId id) {
  if (on != 0)
    callbacks_on().insert(id);
  else
    callbacks_on().erase(id);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI enable_domain(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain) {
  if (on == 0) callbacks_on().clear();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI enable_kind(CUpti_ActivityKind k) {
  kinds_on().insert(k);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI disable_kind(CUpti_ActivityKind k) {
  kinds_on().erase(k);
  return CUPTI_SUCCESS;
}

/// The handles of graphs are their ids.
template <class Handle>
CUptiResult CUPTIAPI id_of(Handle h, std::uint32_t* id) {
  *id = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(h));
  return CUPTI_SUCCESS;
}

process_state& prepared() {
  process_state& p = process_state::get();
  p.api.cuptiEnableCallback = &enable_callback;
  p.api.cuptiEnableDomain = &enable_domain;
  p.api.cuptiActivityEnable = &enable_kind;
  p.api.cuptiActivityDisable = &disable_kind;
  p.api.cuptiGetGraphId = &id_of<CUgraph>;
  p.api.cuptiGetGraphExecId = &id_of<CUgraphExec>;
  p.version = 130001;
  p.recipes[launch].set(call_recipe::makes_work, nullptr);
  p.recipes[update].set(call_recipe::updates_graph, nullptr);
  callbacks_on() = {launch, update};
  kinds_on() = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY};
  return p;
}

/// A recording_switch with what is on.
recording_switch all_on() {
  recording_switch s;
  s.add_call(launch);
  s.add_call(update);
  for (const kind& k : kinds)
    if (kinds_on().count(k.id) != 0) s.add_kind(k);
  return s;
}

/// Gets its calls as CUPTI shows them, and reports kernels by hand.
struct called_backend : cutrace::backend {
  cutrace::event_writer* writer = nullptr;
  std::vector<event> kernels;
  std::uint32_t correlation = 0;

  const char* name() const noexcept override { return "called"; }
  cutrace::backend_status start(cutrace::event_writer& w) override {
    writer = &w;
    w.name_function(launch, false, {"cuGraphLaunch", nullptr, 0, cutrace::copy_direction::unknown, -1, true});
    process_state::get().writer.store(&w);
    return {true, "called by the test"};
  }
  bool flush(std::uint32_t) noexcept override { return true; }
  bool stop(std::uint32_t) noexcept override {
    process_state::get().writer.store(nullptr);
    return true;
  }

  std::uint32_t call(CUpti_CallbackId id, const void* params = nullptr) {
    std::uint64_t kept = 0;
    CUresult result = CUDA_SUCCESS;
    CUpti_CallbackData data{};
    data.correlationId = ++correlation;
    data.correlationData = &kept;
    data.functionReturnValue = &result;
    data.functionParams = params;
    for (const CUpti_ApiCallbackSite site : {CUPTI_API_ENTER, CUPTI_API_EXIT}) {
      data.callbackSite = site;
      callbacks::on_call<cutrace::event_writer>(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
    }
    return correlation;
  }
  void replay(std::uint64_t node) {
    event e;
    e.kind = event_kind::kernel;
    e.correlation_id = call(launch);
    e.kernel.graph_node_id = node;
    e.start_ns = e.end_ns = static_cast<std::int64_t>(writer->raw_ns(writer->ticks()));
    kernels.assign(1, e);
    const auto decode = [](const cutrace::activity_buffer& b, cutrace::event_emitter& to) {
      for (const event& one : static_cast<called_backend*>(b.owner)->kernels) to.emit(one);
    };
    REQUIRE(writer->submit({nullptr, 0, this, decode, [](const cutrace::activity_buffer&) {}}));
  }
};

struct traced {
  static cutrace::session_options quiet() {
    cutrace::session_options o;
    o.backend = "none";
    o.sinks = "null";
    return o;
  }
  traced() { trace.add_backend(gpu); }
  called_backend gpu;
  cutrace::session trace{quiet()};
  cutrace::memory_sink& sink = trace.emplace_sink<cutrace::memory_sink>();
};

std::uint64_t first_node(std::uint64_t graph) { return graph << 32; }

}  // namespace

TEST_CASE("cupti state: a buffer that all threads share is no thread's own") {
  process_state& p = prepared();
  traced t;
  { CUTRACE_STAGE("gives this thread a number"); }
  p.buffers.allow(std::size_t{2} << 20);
  const auto holder = [&] {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, records = 0;
    callbacks::buffer_requested(&buffer, &size, &records);
    REQUIRE(buffer != nullptr);
    std::uint32_t thread = 0;
    p.buffers.list(
        [](void* to, const cutrace::activity_buffers::held& h) { *static_cast<std::uint32_t*>(to) = h.thread; },
        &thread);
    p.buffers.returned(buffer);
    p.buffers.give(buffer, 0);
    return thread;
  };
  p.buffer_a_thread = false;
  CHECK(holder() == cutrace::activity_buffers::any);
  p.buffer_a_thread = true;
  CHECK(holder() == t.gpu.writer->thread_number());
  CHECK(holder() != cutrace::activity_buffers::any);
}

TEST_CASE("cupti state: a buffer of another client that comes back is reported and left alone") {
  prepared();
  std::string reported;
  cutrace::session_options o = traced::quiet();
  o.on_error = [](const char*, const char* line, void* to) { static_cast<std::string*>(to)->append(line); };
  o.on_error_user = &reported;
  called_backend gpu;
  cutrace::session trace(o);
  trace.emplace_sink<cutrace::memory_sink>();
  trace.add_backend(gpu);
  std::vector<std::uint8_t> others(1 << 16, 0xab);
  callbacks::buffer_completed(nullptr, 0, others.data(), others.size(), 64);
  CHECK(std::count(others.begin(), others.end(), 0xab) == 1 << 16);
  trace.stop();
  CHECK(trace.stats().lost_total() == 0);
  CHECK(reported.find("buffer of another client") != std::string::npos);
}

TEST_CASE("cupti state: what an update puts into a graph while tracing is paused, later replays run") {
  prepared();
  traced t;
  cutrace::event_writer& w = *t.gpu.writer;
  using action = graph_change::action;
  {
    CUTRACE_STAGE("prefill");
    w.graph({action::node_added, first_node(1), 0});
  }
  {
    CUTRACE_STAGE("decode");
    w.graph({action::node_added, first_node(2), 0});
  }
  w.graph({action::node_copied, first_node(9), first_node(1)});
  t.gpu.replay(first_node(9));
  REQUIRE(t.trace.flush());
  t.trace.pause();
  const std::uintptr_t exec_and_graph[] = {9, 2};
  t.gpu.call(update, exec_and_graph);
  w.graph({action::node_copied, first_node(10), first_node(2)});  // instantiated
  t.trace.resume();
  for (const std::uint64_t exec : {9u, 10u}) {
    t.gpu.replay(first_node(exec));
    REQUIRE(t.trace.flush());
  }
  t.trace.stop();
  std::vector<std::string> captured;
  for (const event& e : t.sink.events())
    if (e.kind == event_kind::kernel) captured.emplace_back(e.capture_stage_name.data, e.capture_stage_name.size);
  CHECK(captured == std::vector<std::string>{"prefill", "decode", "decode"});
}

TEST_CASE("cupti state: between windows updates of graphs are still seen, and no other call") {
  process_state& p = prepared();
  recording_switch s = all_on();
  CHECK(s.set(p, nullptr, false, true) == CUPTI_SUCCESS);
  CHECK(callbacks_on() == std::set<CUpti_CallbackId>{update});
  CHECK(kinds_on().empty());
  CHECK(s.set(p, nullptr, true, true) == CUPTI_SUCCESS);
  CHECK(callbacks_on() == std::set<CUpti_CallbackId>{launch, update});
  CHECK(kinds_on().size() == 2);
}

TEST_CASE("cupti state: once a client of the program has the records, windows switch calls alone") {
  process_state& p = prepared();
  recording_switch s = all_on();
  CHECK(s.end(p) == CUPTI_SUCCESS);
  for (const bool forgotten : {false, true}) {
    if (forgotten) s.forget_kinds();
    s.set(p, nullptr, false, forgotten);
    CHECK(callbacks_on() == std::set<CUpti_CallbackId>{update});
    s.set(p, nullptr, true, forgotten);
    CHECK(callbacks_on() == std::set<CUpti_CallbackId>{launch, update});
    CHECK(kinds_on().empty());
  }
}

TEST_CASE("cupti state: a forked child exits at once, whatever the program held when it forked") {
  process_state& p = prepared();
  p.process = ::getpid();
  const auto begun = std::chrono::steady_clock::now();
  pid_t child = 0;
  {
    const std::lock_guard<std::mutex> hold(p.switching);
    child = ::fork();
    if (child == 0) {
      p.begin_exit();
      ::_exit(0);
    }
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(1500));
}

}  // namespace cupti_state_test
