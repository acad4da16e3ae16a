// SPDX-License-Identifier: Apache-2.0
// What the stand-in driver reports to a tracer: calls, resources, GPU work, and the table through which libcupti asks
// back.
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "driver.hpp"

namespace standin {

// Calls

namespace {

/// Set by a test: called in each driver call, after a tracer was notified of the call's begin.
std::atomic<void (*)(const char* function)> call_hook{nullptr};

}  // namespace

call_guard::call_guard(function& f, standin_call& call) : function_(f), call_(call) {
  driver& d = driver::get();
  thread_state& thread = this_thread();
  call.cbid = f.cbid;
  call.name = f.name;
  call.correlation = d.last_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
  if (sim::context* c = current_or_null()) {
    call.context = handle<CUcontext>(c);
    call.context_id = d.gpu().alive(c) ? c->id : 0;
  }
  outer_ = thread.call;
  // Calls that a callback makes are not traced: the real driver does not recurse either.
  if (!thread.in_tracer) tracer_ = d.tracer();
  if (tracer_ == nullptr) return;
  thread.call = &call;
  thread.in_tracer = true;
  tracer_->enter(&call);
  thread.in_tracer = false;
}

call_guard::~call_guard() {
  thread_state& thread = this_thread();
  if (tracer_ != nullptr) {
    thread.in_tracer = true;
    tracer_->exit(&call_);
    thread.in_tracer = false;
  }
  thread.call = outer_;
}

CUresult call_guard::fault() {
  if (const auto hook = call_hook.load(std::memory_order_acquire)) hook(function_.name);
  if (const std::int32_t code = function_.fault.load(std::memory_order_relaxed)) {
    const std::uint64_t n = function_.calls.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t at = function_.fault_at.load(std::memory_order_relaxed);
    if ((at == 0 || at == n) && code == fault_hangs)
      for (;;) pause();
    if (at == 0 || at == n) return static_cast<CUresult>(code);
  }
  if (function_.touches_context && call_.context_id != 0) {
    const sim::loss& lost = *current_or_null()->lost;
    if (lost.at_ns != sim::never_ns && lost.reported(driver::get().gpu().now()))
      return static_cast<CUresult>(lost.code.load());
  }
  return function_.before_init || driver::get().ready() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

namespace {

/// The tracer, unless this call is one that a callback made.
const standin_tracer* listener() {
  return this_thread().call != nullptr && !this_thread().in_tracer ? driver::get().tracer() : nullptr;
}

/// Client code runs in here: its driver calls are not to be traced.
template <class F>
void notify(F f) {
  const standin_tracer* t = listener();
  if (t == nullptr) return;
  this_thread().in_tracer = true;
  f(*t);
  this_thread().in_tracer = false;
}

std::uint8_t cupti_memory_kind(cutrace::memory_kind k) { return static_cast<std::uint8_t>(k); }

std::uint8_t cupti_copy_kind(cutrace::copy_direction d) {
  switch (d) {
    case cutrace::copy_direction::host_to_device:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case cutrace::copy_direction::device_to_host:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case cutrace::copy_direction::device_to_device:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    case cutrace::copy_direction::host_to_host:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
    case cutrace::copy_direction::peer:
      return CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    default:
      return CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
  }
}

/// What the record of a kernel holds: its name and the launch parameters.
void fill_kernel(standin_work& r, const sim::kernel_work& k) {
  r.kind = standin_kernel;
  r.name = k.name;
  std::memcpy(r.grid, k.grid, sizeof r.grid);
  std::memcpy(r.block, k.block, sizeof r.block);
  std::memcpy(r.cluster, k.cluster, sizeof r.cluster);
  r.registers = k.registers_per_thread;
  r.static_shared = k.static_shared_bytes;
  r.dynamic_shared = k.dynamic_shared_bytes;
  r.local = k.local_bytes_per_thread;
  r.cooperative = k.cooperative;
}

void fill_copy(standin_work& r, const sim::copy_work& c) {
  r.kind = c.direction == cutrace::copy_direction::peer ? standin_peer : standin_memcpy;
  r.asynchronous = c.asynchronous;
  r.bytes = c.bytes();
  r.copy_kind = cupti_copy_kind(c.direction);
  r.source_kind = cupti_memory_kind(c.source_kind);
  r.destination_kind = cupti_memory_kind(c.destination_kind);
  r.source_device = c.source_device;
  r.destination_device = c.destination_device;
  if (r.kind != standin_peer) return;
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  const auto id = [&](std::uint32_t device) {
    const sim::context* c2 = d.primaries[device].context;
    return c2 != nullptr ? c2->id : 0;
  };
  r.source_context = id(c.source_device);
  r.destination_context = id(c.destination_device);
  r.staged = d.peer_access.count({r.source_context, r.destination_context}) == 0 &&
             d.peer_access.count({r.destination_context, r.source_context}) == 0;
}

}  // namespace

std::uint32_t correlation() { return this_thread().call != nullptr ? this_thread().call->correlation : 0; }

void report_resource(std::uint32_t cbid, sim::context* c, sim::stream* s, void* descriptor) {
  notify([&](const standin_tracer& t) { t.resource(cbid, handle<CUcontext>(c), handle<CUstream>(s), descriptor); });
}

CUgraphNodeType type_of(const sim::graph_node& n) {
  if (n.child != nullptr) return CU_GRAPH_NODE_TYPE_GRAPH;
  switch (n.what.kind) {
    case sim::work_kind::kernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case sim::work_kind::copy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case sim::work_kind::set:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case sim::work_kind::host:
      return CU_GRAPH_NODE_TYPE_HOST;
    case sim::work_kind::value:  // none is made
    case sim::work_kind::empty:
      break;
  }
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

void report_graph(std::uint32_t cbid, const CUgraph_st* graph, const void* original, const sim::graph_node* node,
                  const sim::graph_node* original_node, const void* exec) {
  notify([&](const standin_tracer& t) {
    CUpti_GraphData data{};
    data.graph = const_cast<CUgraph>(graph);
    data.originalGraph = static_cast<CUgraph>(const_cast<void*>(original));
    data.node = handle<CUgraphNode>(const_cast<sim::graph_node*>(node));
    data.originalNode = handle<CUgraphNode>(const_cast<sim::graph_node*>(original_node));
    if (node != nullptr) data.nodeType = type_of(*node);
    data.graphExec = static_cast<CUgraphExec>(const_cast<void*>(exec));
    t.resource(cbid, handle<CUcontext>(current_or_null()), nullptr, &data);
  });
}

void report_work(const sim::stream& s, const sim::work& w, sim::interval at, const sim::moment_ptr& open,
                 const sim::graph_exec* exec, const sim::graph_node* node) {
  if (w.kind == sim::work_kind::host || w.kind == sim::work_kind::value ||
      (w.kind == sim::work_kind::empty && node != nullptr))
    return;
  notify([&](const standin_tracer& t) {
    standin_work r{};
    r.asynchronous = true;
    if (w.kind == sim::work_kind::kernel)
      fill_kernel(r, w.kernel);
    else if (w.kind == sim::work_kind::copy)
      fill_copy(r, w.copy);
    else if (w.kind == sim::work_kind::set) {
      r.kind = standin_memset;
      r.asynchronous = w.set.asynchronous;
      r.bytes = w.set.bytes();
      r.value = w.set.value;
      r.destination_kind = cupti_memory_kind(w.set.kind);
    } else
      r.kind = standin_graph;
    r.correlation = correlation();
    r.device = s.owner->device;
    r.context = s.owner->id;
    r.stream = s.id;
    r.issued_ns = driver::get().gpu().now();
    r.start_ns = at.start_ns;
    r.end_ns = at.end_ns;
    r.open = open;
    r.lost = s.owner->lost;
    if (exec != nullptr) {
      r.graph = exec->id();
      r.made_traced = exec->made_traced;
    }
    if (node != nullptr) r.graph_node = node->id;
    t.work(&r);
  });
}

void report_sync(std::uint32_t type, const sim::context& c, const sim::stream* s, const sim::gpu_event* e,
                 std::uint64_t start_ns, CUresult result, bool query) {
  notify([&](const standin_tracer& t) {
    standin_sync r{};
    r.type = type;
    r.correlation = correlation();
    r.context = c.id;
    r.stream = s != nullptr ? s->id : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    r.event = e != nullptr ? e->id : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
    r.start_ns = start_ns;
    r.end_ns = driver::get().gpu().now();
    r.result = static_cast<std::uint32_t>(result);
    r.query = query;
    t.sync(&r);
  });
}

void report_memory(bool release, std::uint64_t address, std::uint64_t bytes, std::uint8_t kind, const sim::stream* s) {
  notify([&](const standin_tracer& t) {
    standin_memory r{};
    r.release = release;
    r.asynchronous = s != nullptr;
    r.kind = kind;
    r.correlation = correlation();
    if (const sim::context* c = current_or_null()) {
      r.device = c->device;
      r.context = c->id;
    }
    r.stream = s != nullptr ? s->id : CUPTI_INVALID_STREAM_ID;
    r.address = address;
    r.bytes = bytes;
    r.at_ns = driver::get().gpu().now();
    t.memory(&r);
  });
}

sim::machine::issued issue(sim::stream& s, const sim::work& w) {
  sim::machine& gpu = driver::get().gpu();
  const sim::machine::issued r = gpu.issue(&s, w);
  check(r.what);
  if (r.node != nullptr)
    report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, handle<CUgraph>(r.node->owner), nullptr, r.node, nullptr,
                 nullptr);
  else
    report_work(s, r.done, r.time, r.open);
  return r;
}

namespace {
CUresult result_of(sim::status s, const sim::machine::until& u) {
  if (s == sim::status::context_lost) fail(static_cast<CUresult>(u.lost->code.load()));
  return standin::result_of(s);
}
}  // namespace

void block(const sim::machine::until& u) {
  check(u.what);
  result_of(driver::get().gpu().await(u), u);
}

CUresult ask(const sim::machine::until& u) { return result_of(driver::get().gpu().ask(u), u); }

// Questions of libcupti

namespace {

void attach(const standin_tracer* t) { driver::get().attach(t); }
std::uint64_t now_ns() { return cutrace::clock::monotonic_ns(); }

std::uint32_t context_id(CUcontext h) {
  const auto* c = h != nullptr ? reinterpret_cast<sim::context*>(h) : current_or_null();
  return c != nullptr && driver::get().ready() && driver::get().gpu().alive(c) ? c->id : 0;
}

std::uint32_t stream_id(CUcontext h, CUstream s, bool per_thread) {
  if (!driver::get().ready()) return 0;
  thread_state& thread = this_thread();
  if (h != nullptr) thread.stack.push_back(reinterpret_cast<sim::context*>(h));
  std::uint32_t id = 0;
  try {
    id = stream_of(s, per_thread).id;
  } catch (const failure&) {
  }
  if (h != nullptr) thread.stack.pop_back();
  return id;
}

bool device_id(CUcontext h, std::uint32_t* id) {
  const auto* c = h != nullptr ? reinterpret_cast<sim::context*>(h) : current_or_null();
  if (c == nullptr || !driver::get().ready() || !driver::get().gpu().alive(c)) return false;
  *id = c->device;
  return true;
}

std::uint64_t node_id(CUgraphNode n) { return n != nullptr ? reinterpret_cast<sim::graph_node*>(n)->id : 0; }
std::uint32_t graph_id(CUgraph g) { return g != nullptr ? reinterpret_cast<sim::graph*>(g)->id() : 0; }
std::uint32_t exec_id(CUgraphExec e) {
  auto* exec = reinterpret_cast<sim::graph_exec*>(e);
  return exec != nullptr && driver::get().ready() && driver::get().gpu().alive(exec) ? exec->id() : 0;
}

void dump(std::uint32_t what) {
  driver& d = driver::get();
  const standin_tracer* t = d.tracer();
  if (t == nullptr || !d.ready()) return;
  if (what == 0)
    for (std::uint32_t i = 0; i < d.devices(); ++i) {
      const standin_device r = d.describe(i);
      t->device(&r);
    }
  else if (what == 1)
    for (const standin_context& c : d.gpu().contexts<standin_context>([](const sim::context& c) {
           return standin_context{c.id, c.device, c.legacy->id};
         }))
      t->context(&c);
  else
    for (const standin_stream& s : d.gpu().streams<standin_stream>([](const sim::stream& s) {
           const bool null = s.kind == sim::stream_kind::legacy;
           const std::uint32_t flag = null ? 3u : s.kind == sim::stream_kind::non_blocking ? 2u : 1u;
           return standin_stream{s.owner->id, s.id, 0, flag, s.priority};
         }))
      t->stream(&s);
}

const char* fault_text() {
  static thread_local std::string copy;
  copy = driver::get().fault_text();
  return copy.c_str();
}

}  // namespace
}  // namespace standin

extern "C" __attribute__((visibility("default"))) standin_runtime_call cutrace_standin_runtime_call;
void cutrace_standin_runtime_call(std::uint32_t cbid, const char* name, void (*body)(void*), void* data) {
  using namespace standin;  // NOLINT(google-build-using-namespace)
  CUresult result = CUDA_SUCCESS;
  standin_call call{};
  call.cbid = cbid;
  call.name = name;
  call.correlation = driver::get().last_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
  call.result = &result;
  const auto notify_runtime = [&](bool exits) {
    const standin_tracer* t = this_thread().in_tracer ? nullptr : driver::get().tracer();
    if (t == nullptr) return;
    this_thread().in_tracer = true;
    t->runtime(&call, exits);
    this_thread().in_tracer = false;
  };
  notify_runtime(false);
  body(data);
  notify_runtime(true);
}

extern "C" __attribute__((visibility("default"))) const standin_driver cutrace_standin_driver;
const standin_driver cutrace_standin_driver = {
    CUTRACE_STANDIN_ABI, &standin::attach,    &standin::now_ns,     &standin::context_id,
    &standin::stream_id, &standin::device_id, &standin::node_id,    &standin::graph_id,
    &standin::exec_id,   &standin::dump,      &standin::fault_text, [] { return standin::driver::get().ready(); }};

extern "C" __attribute__((visibility("default"))) void cutrace_sim_set_call_hook(void (*hook)(const char* function)) {
  standin::call_hook.store(hook, std::memory_order_release);
}
