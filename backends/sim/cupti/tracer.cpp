// SPDX-License-Identifier: Apache-2.0
// The stand-in libcupti's state, start-up, faults, and callbacks to the subscriber.
#include "tracer.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "../cuda/missing_symbols.hpp"

namespace standin {

namespace {
entry* g_entries = nullptr;  // built by static constructors of this library

const standin_tracer table = {
    CUTRACE_STANDIN_ABI,
    [](standin_call* c) { tracer::get().enter(c); },
    [](standin_call* c) { tracer::get().exit(c); },
    [](standin_call* c, bool exits) { tracer::get().runtime(c, exits); },
    [](std::uint32_t cbid, CUcontext c, CUstream s, void* d) { tracer::get().resource(cbid, c, s, d); },
    [](const standin_work* w) { tracer::get().work(*w); },
    [](const standin_sync* s) { tracer::get().sync(*s); },
    [](const standin_memory* m) { tracer::get().memory(*m); },
    [](const standin_event* e) { tracer::get().event(*e); },
    [](const standin_stream* s) { tracer::get().stream(*s); },
    [](const standin_context* c) { tracer::get().context(*c); },
    [](const standin_device* d) { tracer::get().device(*d); },
    [] { return std::uint32_t{tracer::get().on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)}; },
    [](const char* text) { tracer::get().set_faults(text); },
};
}  // namespace

entry::entry(const char* the_name) : name(the_name), next(g_entries) { g_entries = this; }

tracer& tracer::get() {
  static tracer* t = new tracer;  // never destroyed: driver calls may come as late as in exit handlers
  return *t;
}

bool tracer::attach() {
  if (driver() != nullptr) return true;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen("libcuda.so.1", RTLD_NOW);  // NVIDIA's libcupti loads libcuda, too
  void* symbol = library != nullptr ? dlsym(library, CUTRACE_STANDIN_DRIVER_SYMBOL) : nullptr;
  if (symbol == nullptr) return false;
  const auto* d = static_cast<const standin_driver*>(symbol);
  if (d->version != CUTRACE_STANDIN_ABI) {
    std::fprintf(stderr, "cutrace stand-in: libcuda and libcupti come from different builds; no tracing\n");
    return false;
  }
  const std::lock_guard<std::mutex> hold(lock);
  if (driver() != nullptr) return true;
  clock.advance();
  const std::string faults = d->fault_text();
  if (!faults.empty()) set_faults(faults.c_str());
  driver_.store(d, std::memory_order_release);
  d->attach(&table);
  return true;
}

void tracer::set_faults(const char* text) {
  fault_set f;
  parse_faults(text, f, driver() == nullptr);  // a driver that is there reports unknown words itself
  for (entry* e = g_entries; e != nullptr; e = e->next) {
    e->fault = 0;
    e->fault_at = 0;
    e->calls = 0;
  }
  for (const function_fault& one : f.functions) {
    if (one.name.compare(0, 5, "cupti") != 0) continue;
    entry* found = nullptr;
    for (entry* e = g_entries; e != nullptr; e = e->next)
      if (one.name == e->name) found = e;
    if (found == nullptr) {
      std::fprintf(stderr, "cutrace stand-in: fault names \"%s\", which the stand-in libcupti does not have\n",
                   one.name.c_str());
      continue;
    }
    found->fault = one.code;
    found->fault_at = one.at;
  }
  drop_ = f.drop;
  incomplete_ = f.incomplete;
  zero_time_ = f.zero_time;
  unknown_ = f.unknown;
  unified_ = f.unified;
  fatal_in_ = f.cupti_fatal;
  late_ns_ = f.late_ns;
  early_ns_ = f.early_ns;
  records.refusal_is_fatal = f.version != 0 && f.version < 27;
  records.shuffle = f.shuffle;
  records.slow_ns = f.slow_buffers_ns;
  records.slow_flush_ns = f.slow_flush_ns;
  graph_trace_crash_ = f.graph_trace_crash;
  const std::lock_guard<std::mutex> hold(fault_lock_);
  faults_ = f;
}

std::vector<std::string> tracer::missing_symbols() {
  const std::lock_guard<std::mutex> hold(fault_lock_);
  return faults_.missing_symbols;
}

std::uint32_t tracer::version() {
  const std::lock_guard<std::mutex> hold(fault_lock_);
  return faults_.version != 0 ? faults_.version : CUPTI_API_VERSION;
}

CUptiResult call_fault(entry& e) {
  tracer::get().attach();
  // What needs no state of CUPTI's goes on: names of results, steps through a buffer.
  const bool stateless =
      std::strcmp(e.name, "cuptiGetResultString") == 0 || std::strcmp(e.name, "cuptiActivityGetNextRecord") == 0;
  if (tracer::get().dead.load(std::memory_order_relaxed) && !stateless) return CUPTI_ERROR_NOT_INITIALIZED;
  const std::int32_t code = e.fault.load(std::memory_order_relaxed);
  if (code == 0) return CUPTI_SUCCESS;
  const std::uint64_t n = e.calls.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t at = e.fault_at.load(std::memory_order_relaxed);
  if ((at == 0 || at == n) && code == fault_hangs)
    for (;;) pause();
  return at == 0 || at == n ? static_cast<CUptiResult>(code) : CUPTI_SUCCESS;
}

CUptiResult& last_error() {
  static thread_local CUptiResult last = CUPTI_SUCCESS;
  return last;
}

std::vector<std::uint64_t>& external_ids(std::size_t kind) {
  static thread_local std::vector<std::uint64_t> ids[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];
  return ids[kind];
}

// Callbacks

namespace {

void call_back(tracer& t, CUpti_CallbackDomain domain, const standin_call& c, CUpti_ApiCallbackSite site,
               std::uint64_t* slot) {
  CUpti_Subscriber_st* s = t.listening.load(std::memory_order_acquire);
  if (s == nullptr || !t.enabled[domain][c.cbid].load(std::memory_order_relaxed)) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = c.name;
  data.functionParams = c.params;
  data.functionReturnValue = site == CUPTI_API_EXIT ? c.result : nullptr;
  data.symbolName = c.symbol;
  data.context = c.context;
  data.contextUid = c.context_id;
  data.correlationData = slot;
  data.correlationId = c.correlation;
  s->callback(s->user, domain, c.cbid, &data);
}

}  // namespace

std::uint32_t thread_id(bool system) {
  return system ? static_cast<std::uint32_t>(syscall(SYS_gettid)) : static_cast<std::uint32_t>(pthread_self());
}

bool tracer::api_wanted(std::uint32_t cbid) const {
  const std::uint8_t choice = api_choice[cbid].load(std::memory_order_relaxed);
  return choice == 1 || (choice == 0 && on(CUPTI_ACTIVITY_KIND_DRIVER));
}

void tracer::external_correlation(std::uint32_t correlation) {
  for (std::size_t kind = 0; kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; ++kind) {
    const auto& ids = external_ids(kind);
    if (ids.empty()) continue;
    external_record r{};
    r.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    r.externalKind = static_cast<CUpti_ExternalCorrelationKind>(kind);
    r.externalId = ids.back();
    r.correlationId = correlation;
    records.append(&r, sizeof r);
  }
}

void tracer::fatal_error() {
  if (CUpti_Subscriber_st* s = listening.load(std::memory_order_acquire)) {
    CUpti_StateData data{};
    data.notification.result = CUPTI_ERROR_HARDWARE;
    data.notification.message = "an error that the stand-in was asked to meet";
    if (enabled[CUPTI_CB_DOMAIN_STATE][CUPTI_CBID_STATE_FATAL_ERROR])
      s->callback(s->user, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR, &data);
  }
  listening = nullptr;
  for (auto& kind : kinds_) kind = false;
  dead = true;
}

void tracer::enter(standin_call* c) {
  if (fatal_in_.load(std::memory_order_relaxed) != 0 && fatal_in_.fetch_sub(1) == 1) fatal_error();
  // As in CUPTI, external ids are recorded only beside API records.
  if (api_wanted(c->cbid) && on(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) external_correlation(c->correlation);
  call_back(*this, CUPTI_CB_DOMAIN_DRIVER_API, *c, CUPTI_API_ENTER, &c->data);
  if (api_wanted(c->cbid)) c->enter_time = clock.now();
}

void tracer::exit(standin_call* c) {
  if (c->enter_time != 0 && api_wanted(c->cbid)) {
    api_record r{};
    r.kind = CUPTI_ACTIVITY_KIND_DRIVER;
    r.cbid = c->cbid;
    r.start = c->enter_time;
    r.end = clock.now();
    r.processId = static_cast<std::uint32_t>(getpid());
    r.threadId = thread_id(system_thread_ids);
    r.correlationId = c->correlation;
    r.returnValue = static_cast<std::uint32_t>(*c->result);
    records.append(&r, sizeof r);
  }
  call_back(*this, CUPTI_CB_DOMAIN_DRIVER_API, *c, CUPTI_API_EXIT, &c->data);
}

/// Callbacks only: the stand-in makes no records of the runtime API.
void tracer::runtime(standin_call* c, bool exits) {
  call_back(*this, CUPTI_CB_DOMAIN_RUNTIME_API, *c, exits ? CUPTI_API_EXIT : CUPTI_API_ENTER, &c->data);
}

void tracer::resource(std::uint32_t cbid, CUcontext c, CUstream s, void* descriptor) {
  CUpti_Subscriber_st* to = listening.load(std::memory_order_acquire);
  if (to == nullptr || !enabled[CUPTI_CB_DOMAIN_RESOURCE][cbid].load(std::memory_order_relaxed)) return;
  CUpti_ResourceData data{};
  data.context = c;
  data.resourceHandle.stream = s;
  data.resourceDescriptor = descriptor;
  to->callback(to->user, CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

CUptiResult tracer::enable(CUpti_ActivityKind kind, bool on) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) return CUPTI_ERROR_INVALID_KIND;
  kinds_[kind] = on;
  return CUPTI_SUCCESS;
}

}  // namespace standin

namespace {

__attribute__((constructor)) void read_faults() {
  const char* text = std::getenv("CUTRACE_SIM_FAULTS");
  if (text == nullptr) return;
  standin::tracer::get().set_faults(text);
  standin::hide_symbols(reinterpret_cast<void*>(&read_faults), standin::tracer::get().missing_symbols());
}

}  // namespace
