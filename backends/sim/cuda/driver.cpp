// SPDX-License-Identifier: Apache-2.0
// The stand-in driver's state, start-up and handles.
#include "driver.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "missing_symbols.hpp"

namespace standin {

namespace {

function* g_functions = nullptr;  // built by static constructors of this library, before main

/// Functions that need the context and not only its handle.
bool touches(const char* name) {
  for (const char* prefix : {"cuStream", "cuEvent", "cuMem", "cuLaunch", "cuGraphLaunch", "cuGraphUpload", "cuModule",
                             "cuLibrary", "cuCtxSynchronize"})
    if (std::strncmp(name, prefix, std::strlen(prefix)) == 0) return true;
  return false;
}

std::uint64_t environment_number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*end == '\0') return value;
  std::fprintf(stderr, "cutrace stand-in: %s=\"%s\" is not a number and is ignored\n", name, text);
  return otherwise;
}

sim::options options_from_environment() {
  sim::options o;
  o.devices = static_cast<std::uint32_t>(environment_number("CUTRACE_SIM_DEVICES", o.devices));
  o.seed = environment_number("CUTRACE_SIM_SEED", o.seed);
  o.memory_bytes = environment_number("CUTRACE_SIM_MEMORY", o.memory_bytes);
  o.kernel_duration_ns = environment_number("CUTRACE_SIM_KERNEL_NS", o.kernel_duration_ns);
  o.launch_latency_ns = environment_number("CUTRACE_SIM_LAUNCH_NS", o.launch_latency_ns);
  return o;
}

/// What the real driver does at the end of cuInit for tools.
void load_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return;
  void* library = dlopen(path, RTLD_NOW);
  void* entry = library != nullptr ? dlsym(library, "InitializeInjection") : nullptr;
  if (entry == nullptr) {
    std::fprintf(stderr, "cutrace stand-in: CUDA_INJECTION64_PATH: %s\n", dlerror());
    return;
  }
  reinterpret_cast<int (*)()>(entry)();
}

}  // namespace

function::function(const char* the_name, std::uint32_t the_cbid, void* the_address, bool early)
    : name(the_name),
      cbid(the_cbid),
      address(the_address),
      before_init(early),
      touches_context(touches(the_name)),
      next(g_functions) {
  g_functions = this;
}
function* function::first() { return g_functions; }
function* function::find(const char* name) {
  for (function* f = g_functions; f != nullptr; f = f->next)
    if (std::strcmp(f->name, name) == 0) return f;
  return nullptr;
}

driver& driver::get() {
  static driver* d = new driver;  // never destroyed: threads of the program may outlive static destruction
  return *d;
}

driver::driver() = default;

CUresult driver::initialise() {
  {
    const std::lock_guard<std::mutex> hold(init_lock_);
    if (init_result_ != CUDA_ERROR_NOT_INITIALIZED) return init_result_;
    const sim::options o = options_from_environment();
    if (faults().no_device || o.devices == 0) return CUDA_ERROR_NO_DEVICE;
    machine_ = std::make_unique<sim::machine>(o);
    break_kernels(faults());
    primaries.resize(o.devices);
    init_result_ = CUDA_SUCCESS;
    ready_.store(true, std::memory_order_release);
  }
  load_injection();  // outside of the lock: it may call cuInit
  if (const standin_tracer* t = tracer())
    for (std::uint32_t i = 0; i < devices(); ++i) {
      const standin_device d = describe(i);
      t->device(&d);
    }
  return CUDA_SUCCESS;
}

standin_device driver::describe(std::uint32_t device) const {
  const sim::options& o = machine_->settings();
  standin_device d{};
  d.id = device;
  d.name = "cutrace simulated GPU";
  std::memcpy(d.uuid, "cutrace-sim-gpu", 15);
  d.uuid[15] = static_cast<unsigned char>(device);
  d.memory_bytes = o.memory_bytes;
  d.bandwidth_bytes_per_s = std::uint64_t{3201000000} * 2 * 6144 / 8;  // as the attributes of clock and bus say
  d.multiprocessors = o.multiprocessors;
  d.major = 9;
  d.minor = 0;
  d.core_clock_khz = 1980000;
  d.l2_bytes = 50u << 20;
  return d;
}

bool driver::set_faults(const char* text) {
  fault_set parsed;
  bool good = parse_faults(text, parsed);
  for (function* f = function::first(); f != nullptr; f = f->next) {
    f->fault = 0;
    f->fault_at = 0;
    f->calls = 0;
  }
  for (const function_fault& one : parsed.functions) {
    if (one.name.compare(0, 5, "cupti") == 0) continue;  // libcupti's own
    function* f = function::find(one.name.c_str());
    if (f == nullptr) {
      std::fprintf(stderr, "cutrace stand-in: fault names \"%s\", which the stand-in libcuda does not have\n",
                   one.name.c_str());
      good = false;
      continue;
    }
    f->fault = one.code;
    f->fault_at = one.at;
  }
  if (parsed.sets_correlation) last_correlation.store(parsed.correlation - 1, std::memory_order_relaxed);
  {
    const std::lock_guard<std::mutex> hold(fault_lock_);
    fault_text_ = text != nullptr ? text : "";
    faults_ = parsed;
  }
  if (ready()) break_kernels(parsed);
  if (const standin_tracer* t = tracer()) t->faults(text);
  return good;
}

void driver::break_kernels(const fault_set& f) {
  std::vector<sim::kernel_fault> all;
  for (const function_fault& k : f.kernels)
    all.push_back({k.name, k.code == fault_hangs ? 0 : k.code, k.at != 0 ? k.at : 1});
  machine_->set_kernel_faults(std::move(all), f.fault_report_ns);
}

std::string driver::fault_text() {
  const std::lock_guard<std::mutex> hold(fault_lock_);
  return fault_text_;
}

fault_set driver::faults() {
  const std::lock_guard<std::mutex> hold(fault_lock_);
  return faults_;
}

void driver::attach(const standin_tracer* t) {
  if (t == nullptr || t->version != CUTRACE_STANDIN_ABI) {
    std::fprintf(stderr, "cutrace stand-in: libcuda and libcupti come from different builds; no tracing\n");
    return;
  }
  tracer_.store(t, std::memory_order_release);
}

thread_state& this_thread() {
  static thread_local thread_state state;
  return state;
}

// Handles

void fail(CUresult code) { throw failure{code}; }

CUresult result_of(sim::status s) {
  switch (s) {
    case sim::status::ok:
      return CUDA_SUCCESS;
    case sim::status::out_of_memory:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case sim::status::invalid_value:
      return CUDA_ERROR_INVALID_VALUE;
    case sim::status::invalid_handle:
      return CUDA_ERROR_INVALID_HANDLE;
    case sim::status::invalid_device:
      return CUDA_ERROR_INVALID_DEVICE;
    case sim::status::not_ready:
      return CUDA_ERROR_NOT_READY;
    case sim::status::already_registered:
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    case sim::status::not_registered:
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    case sim::status::capture_unsupported:
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    case sim::status::capture_invalidated:
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    case sim::status::capture_unmatched:
      return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    case sim::status::capture_unjoined:
      return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    case sim::status::capture_implicit:
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    case sim::status::captured_event:
      return CUDA_ERROR_CAPTURED_EVENT;
    case sim::status::context_lost:
      break;  // not seen here: result_of in calls.cpp fails before, with the code of the loss
  }
  return CUDA_ERROR_UNKNOWN;
}

void check(sim::status s) {
  if (s != sim::status::ok) fail(result_of(s));
}

sim::context* current_or_null() {
  const auto& stack = this_thread().stack;
  return stack.empty() ? nullptr : stack.back();
}

sim::context& current() {
  sim::context* c = current_or_null();
  if (c == nullptr) fail(CUDA_ERROR_INVALID_CONTEXT);
  if (!driver::get().gpu().alive(c)) fail(CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return *c;
}

sim::context& context_of(CUcontext h) {
  auto* c = reinterpret_cast<sim::context*>(h);
  if (c == nullptr || !driver::get().gpu().alive(c)) fail(CUDA_ERROR_INVALID_CONTEXT);
  return *c;
}

namespace {
sim::stream& per_thread_stream(sim::context& c) {
  sim::stream*& s = this_thread().default_streams[c.id];
  if (s == nullptr) s = driver::get().gpu().create_stream(&c, sim::stream_kind::per_thread, 0);
  return *s;
}
}  // namespace

sim::stream& stream_of(CUstream h, bool per_thread) {
  if (h == nullptr) h = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (h == CU_STREAM_LEGACY) return *current().legacy;
  if (h == CU_STREAM_PER_THREAD) return per_thread_stream(current());
  auto* s = reinterpret_cast<sim::stream*>(h);
  if (!driver::get().gpu().alive(s)) fail(CUDA_ERROR_INVALID_HANDLE);
  return *s;
}

namespace {
template <class T, class Handle>
T& checked(Handle h) {
  auto* object = reinterpret_cast<T*>(h);
  if (object == nullptr || !driver::get().gpu().alive(object)) fail(CUDA_ERROR_INVALID_HANDLE);
  return *object;
}
}  // namespace

sim::gpu_event& event_of(CUevent h) { return checked<sim::gpu_event>(h); }
sim::graph& graph_of(CUgraph h) { return checked<sim::graph>(h); }
sim::graph_exec& exec_of(CUgraphExec h) { return checked<sim::graph_exec>(h); }
sim::graph_node& node_of(CUgraphNode h) { return required(reinterpret_cast<sim::graph_node*>(h)); }

kernel_handle& kernel_of(const void* f) {
  driver& d = driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  const auto it = d.kernels.find(f);
  if (it == d.kernels.end()) fail(CUDA_ERROR_INVALID_HANDLE);
  return *it->second;
}

std::uint32_t device_of(CUdevice d) {
  if (d < 0 || static_cast<std::uint32_t>(d) >= driver::get().devices()) fail(CUDA_ERROR_INVALID_DEVICE);
  return static_cast<std::uint32_t>(d);
}

}  // namespace standin

namespace {

// Runs when the library is loaded: a program that looks for a function right after dlopen must not find a hidden one.
__attribute__((constructor)) void read_faults() {
  const char* text = std::getenv("CUTRACE_SIM_FAULTS");
  if (text == nullptr) return;
  standin::driver::get().set_faults(text);
  standin::hide_symbols(reinterpret_cast<void*>(&read_faults), standin::driver::get().faults().missing_symbols);
}

}  // namespace

extern "C" {

/// Replaces all faults (see faults.hpp). 0 when every word was understood, else -1 and a line on stderr.
__attribute__((visibility("default"))) int cutrace_sim_set_faults(const char* text) {
  return standin::driver::get().set_faults(text) ? 0 : -1;
}

/// Duration of each later launch of kernels with this name; 0: the simulation's default again (draw.hpp).
__attribute__((visibility("default"))) void cutrace_sim_set_kernel_duration(const char* name, unsigned long long ns) {
  standin::driver& d = standin::driver::get();
  const std::lock_guard<std::mutex> hold(d.lock);
  d.durations[name] = ns;
  for (auto& k : d.kernels)
    if (k.second->name == name) k.second->duration_ns = ns;
}

}  // extern "C"
