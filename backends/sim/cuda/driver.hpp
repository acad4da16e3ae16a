// SPDX-License-Identifier: Apache-2.0
// State of the stand-in libcuda: the machine, what handles mean, the thread's current context, and the one path that
// every exported function takes: correlation id, fault, tracer's ENTER, body, tracer's EXIT.
#pragma once

#include <atomic>
#include <cutrace/sim/machine.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda_header.hpp"
#include "faults.hpp"
#include "standin_abi.hpp"

namespace standin {

namespace sim = cutrace::sim;

/// Thrown by helpers, turned into the call's result at the boundary.
struct failure {
  CUresult code;
};

/// One exported function. Objects are static; the list of them serves cuGetProcAddress and the fault language.
struct function {
  const char* name;
  std::uint32_t cbid;
  void* address;
  bool before_init;      ///< may be called before cuInit
  bool touches_context;  ///< fails once the context is lost
  function* next;
  std::atomic<std::int32_t> fault{0};
  std::atomic<std::uint64_t> fault_at{0};
  std::atomic<std::uint64_t> calls{0};

  function(const char* name, std::uint32_t cbid, void* address, bool before_init = false);
  static function* first();
  static function* find(const char* name);
};

/// A kernel as modules and libraries hand it out; serves as CUfunction and CUkernel.
struct kernel_handle {
  std::string name;
  void* module = nullptr;
  std::uint64_t duration_ns = 0;
  int dynamic_shared_limit = 48 * 1024;
  std::uint32_t registers = 0;
};
struct module_handle {
  std::uint32_t id = 0;
  std::string image;  ///< for the module callback: the name of the image's file, empty for one in memory
  std::map<std::string, kernel_handle*> kernels;
};
struct primary_context {
  sim::context* context = nullptr;
  unsigned references = 0;
  unsigned flags = 0;
};

class driver {
 public:
  static driver& get();

  /// cuInit: environment, machine, injection library. After a success later calls do nothing.
  CUresult initialise();
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  sim::machine& gpu() { return *machine_; }
  std::uint32_t devices() const { return ready() ? machine_->settings().devices : 0; }
  standin_device describe(std::uint32_t device) const;

  bool set_faults(const char* text);
  std::string fault_text();
  fault_set faults();

  const standin_tracer* tracer() const { return tracer_.load(std::memory_order_acquire); }
  void attach(const standin_tracer* t);

  std::mutex lock;  ///< guards the members below
  std::vector<primary_context> primaries;
  std::set<module_handle*> modules;
  std::unordered_map<const void*, std::unique_ptr<kernel_handle>> kernels;  // kept for good: records hold the names
  std::map<std::string, std::uint64_t> durations;                           // from cutrace_sim_set_kernel_duration
  std::map<void*, std::uint64_t> host_allocations;
  std::set<void*> pools;
  std::set<std::pair<std::uint32_t, std::uint32_t>> peer_access;  // ids of contexts: who may reach whose memory
  std::uint32_t last_module = 0;

  std::atomic<std::uint32_t> last_correlation{0};

 private:
  driver();
  std::atomic<bool> ready_{false};
  std::unique_ptr<sim::machine> machine_;
  std::atomic<const standin_tracer*> tracer_{nullptr};
  void break_kernels(const fault_set&);
  std::mutex fault_lock_;
  std::string fault_text_;
  fault_set faults_;
  std::mutex init_lock_;
  CUresult init_result_ = CUDA_ERROR_NOT_INITIALIZED;
};

struct thread_state {
  std::vector<sim::context*> stack;
  std::unordered_map<std::uint32_t, sim::stream*> default_streams;  // per-thread default stream, by context id
  standin_call* call = nullptr;  ///< the traced call in progress; calls that a callback makes are not traced
  bool in_tracer = false;
};
thread_state& this_thread();

// Handles
[[noreturn]] void fail(CUresult code);
void check(sim::status);
CUresult result_of(sim::status);
template <class T>
T& required(T* pointer) {
  if (pointer == nullptr) fail(CUDA_ERROR_INVALID_VALUE);
  return *pointer;
}
sim::context* current_or_null();
sim::context& current();
sim::context& context_of(CUcontext);
sim::stream& stream_of(CUstream, bool per_thread);
sim::gpu_event& event_of(CUevent);
sim::graph& graph_of(CUgraph);
sim::graph_exec& exec_of(CUgraphExec);
sim::graph_node& node_of(CUgraphNode);
kernel_handle& kernel_of(const void* function);
std::uint32_t device_of(CUdevice);
template <class Handle, class T>
Handle handle(T* object) {
  return reinterpret_cast<Handle>(object);
}

// Reports to the tracer
std::uint32_t correlation();
void report_resource(std::uint32_t cbid, sim::context*, sim::stream*, void* descriptor);
void report_graph(std::uint32_t cbid, const CUgraph_st* graph, const void* original, const sim::graph_node* node,
                  const sim::graph_node* original_node, const void* exec);
void report_work(const sim::stream&, const sim::work&, sim::interval, const sim::moment_ptr& open,
                 const sim::graph_exec* = nullptr, const sim::graph_node* = nullptr);
void report_sync(std::uint32_t type, const sim::context&, const sim::stream*, const sim::gpu_event*,
                 std::uint64_t start_ns, CUresult result, bool query);
void report_memory(bool release, std::uint64_t address, std::uint64_t bytes, std::uint8_t kind, const sim::stream*);
CUgraphNodeType type_of(const sim::graph_node&);

/// Issues a work and notifies the tracer of it, or of the node that it became in a capture.
sim::machine::issued issue(sim::stream&, const sim::work&);
/// Blocks until a work is done. @throws failure once the context is lost
void block(const sim::machine::until&);
/// Whether it is done. @throws failure once the context is lost
CUresult ask(const sim::machine::until&);

// The path of every call
struct call_guard {
  call_guard(function&, standin_call&);
  ~call_guard();
  CUresult fault();  ///< CUDA_SUCCESS: carry it out

 private:
  function& function_;
  standin_call& call_;
  const standin_tracer* tracer_ = nullptr;
  standin_call* outer_;
};

template <class Body>
CUresult run(function& f, const void* params, const char* symbol, Body body) noexcept {
  CUresult result = CUDA_SUCCESS;
  standin_call call{};
  call.params = params;
  call.symbol = symbol;
  call.result = &result;
  call_guard guard(f, call);
  result = guard.fault();
  if (result != CUDA_SUCCESS) return result;
  try {
    result = body();
  } catch (const failure& e) {
    result = e.code;
  } catch (const std::bad_alloc&) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    result = CUDA_ERROR_UNKNOWN;
  }
  return result;
}

}  // namespace standin
