// SPDX-License-Identifier: Apache-2.0
// The exported functions of the stand-in libcupti.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "names.hpp"
#include "tracer.hpp"

namespace standin {
namespace {

template <class T, class V>
CUptiResult give(T* where, V value) {
  if (where == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *where = static_cast<T>(value);
  return CUPTI_SUCCESS;
}
template <class T>
CUptiResult set(std::atomic<T>& where, T value) {
  where = value;
  return CUPTI_SUCCESS;
}

// Subscriber

CUptiResult subscribe(tracer& t, CUpti_SubscriberHandle* out, CUpti_CallbackFunc f, void* user, const char* name,
                      char* holder, std::size_t holder_size) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (!t.attach()) return CUPTI_ERROR_NOT_INITIALIZED;
  const std::lock_guard<std::mutex> hold(t.lock);
  if (t.subscriber != nullptr) {
    if (holder != nullptr && holder_size != 0) std::snprintf(holder, holder_size, "%s", t.subscriber->name.c_str());
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  t.subscriber = std::make_unique<CUpti_Subscriber_st>();
  t.subscriber->callback = f;
  t.subscriber->user = user;
  t.subscriber->name = name != nullptr ? std::string(name).substr(0, CUPTI_SUBSCRIBER_NAME_MAX_LEN) : "";
  if (f != nullptr) t.listening = t.subscriber.get();
  *out = t.subscriber.get();
  return CUPTI_SUCCESS;
}

CUptiResult subscribe_2(tracer& t, CUpti_SubscriberHandle* out, CUpti_CallbackFunc f, void* user,
                        CUpti_SubscriberParams* p) {
  if (p == nullptr || p->structSize == 0) return CUPTI_ERROR_INVALID_PARAMETER;
  if (p->oldSubscriberName != nullptr && p->oldSubscriberSize < CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN)
    return CUPTI_ERROR_INVALID_PARAMETER;
  return subscribe(t, out, f, user, p->subscriberName, p->oldSubscriberName, p->oldSubscriberSize);
}

bool ended = false;
/// The library's own exit handler.
struct library_end {
  ~library_end() { ended = true; }
};
const library_end end_of_library;

/// CUPTI 13.0 dies when the kind of kernels is disabled after its exit handlers have run (seen on an H200).
CUptiResult disable(tracer& t, CUpti_ActivityKind kind) {
  if (ended && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) std::abort();
  return t.enable(kind, false);
}

void stand_still(tracer& t) { std::this_thread::sleep_for(std::chrono::nanoseconds(t.records.slow_flush_ns.load())); }

CUptiResult unsubscribe(tracer& t, CUpti_SubscriberHandle s) {
  stand_still(t);
  const std::lock_guard<std::mutex> hold(t.lock);
  if (s == nullptr || t.subscriber.get() != s) return CUPTI_ERROR_INVALID_PARAMETER;
  t.listening = nullptr;
  for (auto& domain : t.enabled)
    for (auto& one : domain) one = false;
  t.former.push_back(std::move(t.subscriber));  // another thread may just be inside its callback
  return CUPTI_SUCCESS;
}

bool is_subscriber(tracer& t, CUpti_SubscriberHandle s) {
  const std::lock_guard<std::mutex> hold(t.lock);
  return s != nullptr && t.subscriber.get() == s;
}

CUptiResult enable_callback(tracer& t, std::uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d,
                            CUpti_CallbackId id) {
  if (!is_subscriber(t, s) || d <= CUPTI_CB_DOMAIN_INVALID || d >= CUPTI_CB_DOMAIN_SIZE || id == 0 ||
      id >= size_of_domain(d))
    return CUPTI_ERROR_INVALID_PARAMETER;
  return set(t.enabled[d][id], on != 0);
}

CUptiResult enable_domain(tracer& t, std::uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d) {
  if (!is_subscriber(t, s) || d <= CUPTI_CB_DOMAIN_INVALID || d >= CUPTI_CB_DOMAIN_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (auto& one : t.enabled[d]) one = on != 0;
  return CUPTI_SUCCESS;
}

CUptiResult enable_all(tracer& t, std::uint32_t on, CUpti_SubscriberHandle s) {
  for (int d = CUPTI_CB_DOMAIN_INVALID + 1; d < CUPTI_CB_DOMAIN_SIZE; ++d) {
    const CUptiResult r = enable_domain(t, on, s, static_cast<CUpti_CallbackDomain>(d));
    if (r != CUPTI_SUCCESS) return r;
  }
  return CUPTI_SUCCESS;
}

CUptiResult callback_state(tracer& t, std::uint32_t* out, CUpti_SubscriberHandle s, CUpti_CallbackDomain d,
                           CUpti_CallbackId id) {
  if (!is_subscriber(t, s) || d <= CUPTI_CB_DOMAIN_INVALID || d >= CUPTI_CB_DOMAIN_SIZE || id >= callbacks_in_domain)
    return CUPTI_ERROR_INVALID_PARAMETER;
  return give(out, t.enabled[d][id].load() ? 1 : 0);
}

CUptiResult supported_domains(std::size_t* count, CUpti_DomainTable* out) {
  static CUpti_CallbackDomain all[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API,
                                       CUPTI_CB_DOMAIN_RESOURCE,   CUPTI_CB_DOMAIN_SYNCHRONIZE,
                                       CUPTI_CB_DOMAIN_NVTX,       CUPTI_CB_DOMAIN_STATE};
  if (count == nullptr || out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *count = sizeof all / sizeof all[0];
  *out = all;
  return CUPTI_SUCCESS;
}

CUptiResult callback_name(CUpti_CallbackDomain d, std::uint32_t id, const char** out) {
  const char* name = name_of_callback(d, id);
  return name != nullptr ? give(out, name) : CUPTI_ERROR_INVALID_PARAMETER;
}

// Activities

CUptiResult enable_and_dump(tracer& t, CUpti_ActivityKind kind) {
  const CUptiResult r = t.enable(kind, true);
  if (r != CUPTI_SUCCESS || t.driver() == nullptr || !t.records.has_callbacks()) return r;
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) t.driver()->dump(0);
  if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) t.driver()->dump(1);
  if (kind == CUPTI_ACTIVITY_KIND_STREAM) t.driver()->dump(2);
  return r;
}

CUptiResult register_callbacks(tracer& t, CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc done) {
  if (request == nullptr || done == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  t.records.set_callbacks(request, done);
  return CUPTI_SUCCESS;
}

CUptiResult next_record(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* at = buffer;
  if (*record != nullptr) {
    const std::size_t size = record_size((*record)->kind);
    if (size == 0) return CUPTI_ERROR_INVALID_KIND;
    at = reinterpret_cast<std::uint8_t*>(*record) + size;
  }
  if (at >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* found = reinterpret_cast<CUpti_Activity*>(at);
  if (record_size(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

CUptiResult flush(tracer& t, std::uint32_t flag) {
  if (!t.records.has_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  stand_still(t);
  const std::uint64_t start = t.clock.now();
  const std::size_t records = t.records.flush((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  // A flush that delivers nothing but the record of the flush before makes none, or flushing would never end.
  if (records > 1 && t.on(CUPTI_ACTIVITY_KIND_OVERHEAD)) {
    overhead_record r{};
    r.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
    r.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
    r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    r.objectId.pt.processId = static_cast<std::uint32_t>(getpid());
    r.objectId.pt.threadId = thread_id(t.system_thread_ids);
    r.start = start;
    r.end = t.clock.now();
    t.records.append(&r, sizeof r);
  }
  return CUPTI_SUCCESS;
}

/// Sizes in bytes of the attributes' values; 0: not known.
std::size_t attribute_size(CUpti_ActivityAttribute a) {
  if (a < 0 || static_cast<std::size_t>(a) >= 16) return 0;
  return a == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER ||
                 a == CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED ||
                 a == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
             ? sizeof(std::uint8_t)
             : sizeof(std::size_t);
}

std::uint64_t default_attribute(CUpti_ActivityAttribute a) {  // from the text of cupti_activity.h
  switch (a) {
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE:
      return 3200000;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT:
      return 250;
    case CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE:
      return 3;
    case CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER:
      return 1;
    default:
      return 0;
  }
}

CUptiResult set_attribute(tracer& t, CUpti_ActivityAttribute a, const std::size_t* size, const void* value) {
  const std::size_t bytes = attribute_size(a);
  if (bytes == 0 || size == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size < bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  std::uint64_t v = 0;
  std::memcpy(&v, value, bytes);
  t.attributes[a] = v + 1;  // 0: never set
  if (a == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) t.records.per_thread = v != 0;
  if (a == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) t.records.client_zeroes = v != 0;
  return CUPTI_SUCCESS;
}

CUptiResult get_attribute(tracer& t, CUpti_ActivityAttribute a, std::size_t* size, void* value) {
  const std::size_t bytes = attribute_size(a);
  if (bytes == 0 || size == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size < bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  const std::uint64_t stored = t.attributes[a];
  const std::uint64_t v = stored != 0 ? stored - 1 : default_attribute(a);
  std::memcpy(value, &v, bytes);
  *size = bytes;
  return CUPTI_SUCCESS;
}

CUptiResult set_clock(tracer& t, CUpti_TimestampCallbackFunc f) {
  if (f == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  t.clock.use(f);
  return CUPTI_SUCCESS;
}

CUptiResult finalize(tracer& t) {
  for (int k = 1; k < CUPTI_ACTIVITY_KIND_COUNT; ++k) t.enable(static_cast<CUpti_ActivityKind>(k), false);
  CUpti_SubscriberHandle s = nullptr;
  {
    const std::lock_guard<std::mutex> hold(t.lock);
    s = t.subscriber.get();
  }
  return s != nullptr ? unsubscribe(t, s) : CUPTI_SUCCESS;
}

CUptiResult choose_api(tracer& t, CUpti_CallbackId id, bool on) {
  if (id == 0 || id >= size_of_domain(CUPTI_CB_DOMAIN_DRIVER_API)) return CUPTI_ERROR_INVALID_PARAMETER;
  return set(t.api_choice[id], static_cast<std::uint8_t>(on ? 1 : 2));
}

CUptiResult push_id(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  external_ids(static_cast<std::size_t>(kind)).push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult pop_id(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
    return CUPTI_ERROR_INVALID_PARAMETER;
  auto& ids = external_ids(static_cast<std::size_t>(kind));
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

/// As the text of cupti_activity.h says: after cuInit.
CUptiResult configure_unified(tracer& t, CUpti_ActivityUnifiedMemoryCounterConfig* c, std::uint32_t n) {
  if (c == nullptr || n == 0) return CUPTI_ERROR_INVALID_PARAMETER;
  if (t.driver() == nullptr || !t.driver()->initialised()) return CUPTI_ERROR_NOT_READY;  // as on an H200
  for (std::uint32_t i = 0; i < n; ++i) {
    if (c[i].kind <= CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_UNKNOWN ||
        c[i].kind >= CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_COUNT)
      return CUPTI_ERROR_INVALID_PARAMETER;
    t.unified_configured[c[i].kind] = c[i].enable != 0;
  }
  return CUPTI_SUCCESS;
}

// Ids

template <class T, class V>
CUptiResult give_id(T* out, V id, CUptiResult otherwise) {
  return id != 0 ? give(out, id) : otherwise;
}

CUptiResult device_id(tracer& t, CUcontext c, std::uint32_t* out) {
  if (out == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return t.driver() != nullptr && t.driver()->device_id(c, out) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult last(CUptiResult& e) {
  const CUptiResult r = e;
  e = CUPTI_SUCCESS;
  return r;
}

}  // namespace

STANDIN_CUPTI(cuptiGetVersion, (uint32_t * version), give(version, t.version()))
STANDIN_CUPTI(cuptiGetResultString, (CUptiResult r, const char** text), give(text, name_of_result(r)))
STANDIN_CUPTI(cuptiGetErrorMessage, (CUptiResult r, const char** text), give(text, name_of_result(r)))
STANDIN_CUPTI(cuptiGetLastError, (void), last(last_error()))

STANDIN_CUPTI(cuptiSubscribe, (CUpti_SubscriberHandle * out, CUpti_CallbackFunc f, void* user),
              subscribe(t, out, f, user, "", nullptr, 0))
STANDIN_CUPTI(cuptiSubscribe_v2,
              (CUpti_SubscriberHandle * out, CUpti_CallbackFunc f, void* user, CUpti_SubscriberParams* p),
              subscribe_2(t, out, f, user, p))
STANDIN_CUPTI(cuptiUnsubscribe, (CUpti_SubscriberHandle s), unsubscribe(t, s))
STANDIN_CUPTI(cuptiEnableCallback, (uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d, CUpti_CallbackId id),
              enable_callback(t, on, s, d, id))
STANDIN_CUPTI(cuptiEnableDomain, (uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d),
              enable_domain(t, on, s, d))
STANDIN_CUPTI(cuptiEnableAllDomains, (uint32_t on, CUpti_SubscriberHandle s), enable_all(t, on, s))
STANDIN_CUPTI(cuptiGetCallbackState,
              (uint32_t * on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d, CUpti_CallbackId id),
              callback_state(t, on, s, d, id))
STANDIN_CUPTI(cuptiGetCallbackName, (CUpti_CallbackDomain d, uint32_t id, const char** name),
              callback_name(d, id, name))
STANDIN_CUPTI(cuptiSupportedDomains, (size_t * n, CUpti_DomainTable* out), supported_domains(n, out))

STANDIN_CUPTI(cuptiActivityEnable, (CUpti_ActivityKind kind), t.enable(kind, true))
STANDIN_CUPTI(cuptiActivityDisable, (CUpti_ActivityKind kind), disable(t, kind))
STANDIN_CUPTI(cuptiActivityEnableAndDump, (CUpti_ActivityKind kind), enable_and_dump(t, kind))
STANDIN_CUPTI(cuptiActivityEnableDriverApi, (CUpti_CallbackId id, uint8_t on), choose_api(t, id, on != 0))
// The stand-in makes no records of the runtime API; the choice is accepted and means nothing.
STANDIN_CUPTI(cuptiActivityEnableRuntimeApi, (CUpti_CallbackId id, uint8_t),
              id < size_of_domain(CUPTI_CB_DOMAIN_RUNTIME_API) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER)
STANDIN_CUPTI(cuptiActivityRegisterCallbacks,
              (CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc done),
              register_callbacks(t, request, done))
STANDIN_CUPTI(cuptiActivityGetNextRecord, (uint8_t * buffer, size_t bytes, CUpti_Activity** record),
              next_record(buffer, bytes, record))
STANDIN_CUPTI(cuptiActivityGetNumDroppedRecords, (CUcontext, uint32_t, size_t* dropped),
              dropped == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : give(dropped, t.records.take_dropped()))
STANDIN_CUPTI(cuptiActivityFlushAll, (uint32_t flag), flush(t, flag))
STANDIN_CUPTI(cuptiActivityFlush, (CUcontext, uint32_t, uint32_t flag), flush(t, flag))
STANDIN_CUPTI(cuptiActivityFlushPeriod, (uint32_t ms), (t.records.set_period(ms), CUPTI_SUCCESS))
STANDIN_CUPTI(cuptiActivitySetAttribute, (CUpti_ActivityAttribute a, size_t* size, void* value),
              set_attribute(t, a, size, value))
STANDIN_CUPTI(cuptiActivityGetAttribute, (CUpti_ActivityAttribute a, size_t* size, void* value),
              get_attribute(t, a, size, value))
STANDIN_CUPTI(cuptiActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc f), set_clock(t, f))
STANDIN_CUPTI(cuptiGetTimestamp, (uint64_t * out), give(out, t.clock.now()))
STANDIN_CUPTI(cuptiSetThreadIdType, (CUpti_ActivityThreadIdType type),
              set(t.system_thread_ids, type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM))
STANDIN_CUPTI(cuptiGetThreadIdType, (CUpti_ActivityThreadIdType * type),
              give(type,
                   t.system_thread_ids ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT))
STANDIN_CUPTI(cuptiActivityEnableLatencyTimestamps, (uint8_t on), set(t.latency_timestamps, on != 0))
STANDIN_CUPTI(cuptiActivityEnableAllSyncRecords, (uint8_t on), set(t.all_sync_records, on != 0))
STANDIN_CUPTI(cuptiActivityEnableCudaEventDeviceTimestamps, (uint8_t on), set(t.event_timestamps, on != 0))
STANDIN_CUPTI(cuptiActivityConfigureUnifiedMemoryCounter, (CUpti_ActivityUnifiedMemoryCounterConfig * c, uint32_t n),
              configure_unified(t, c, n))
STANDIN_CUPTI(cuptiActivityPushExternalCorrelationId, (CUpti_ExternalCorrelationKind kind, uint64_t id),
              push_id(kind, id))
STANDIN_CUPTI(cuptiActivityPopExternalCorrelationId, (CUpti_ExternalCorrelationKind kind, uint64_t* last_id),
              pop_id(kind, last_id))
STANDIN_CUPTI(cuptiFinalize, (void), finalize(t))

STANDIN_CUPTI(cuptiGetContextId, (CUcontext c, uint32_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->context_id(c) : 0, CUPTI_ERROR_INVALID_CONTEXT))
STANDIN_CUPTI(cuptiGetStreamId, (CUcontext c, CUstream s, uint32_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->stream_id(c, s, false) : 0, CUPTI_ERROR_INVALID_STREAM))
STANDIN_CUPTI(cuptiGetStreamIdEx, (CUcontext c, CUstream s, uint8_t per_thread, uint32_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->stream_id(c, s, per_thread != 0) : 0,
                      CUPTI_ERROR_INVALID_STREAM))
STANDIN_CUPTI(cuptiGetDeviceId, (CUcontext c, uint32_t* id), device_id(t, c, id))
STANDIN_CUPTI(cuptiGetGraphNodeId, (CUgraphNode n, uint64_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->node_id(n) : 0, CUPTI_ERROR_INVALID_PARAMETER))
STANDIN_CUPTI(cuptiGetGraphId, (CUgraph g, uint32_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->graph_id(g) : 0, CUPTI_ERROR_INVALID_PARAMETER))
STANDIN_CUPTI(cuptiGetGraphExecId, (CUgraphExec e, uint32_t* id),
              give_id(id, t.driver() != nullptr ? t.driver()->exec_id(e) : 0, CUPTI_ERROR_INVALID_PARAMETER))

}  // namespace standin
