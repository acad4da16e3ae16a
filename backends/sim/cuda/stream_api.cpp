// SPDX-License-Identifier: Apache-2.0
// Streams, stream capture and events.
#include "api.hpp"

namespace standin {
namespace {

sim::machine& gpu() { return driver::get().gpu(); }

template <class T, class V>
CUresult give(T* where, V value) {
  required(where) = static_cast<T>(value);
  return CUDA_SUCCESS;
}

CUresult create(CUstream* out, unsigned flags, int priority) {
  sim::context& c = current();
  required(out);
  if (flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const bool free_running = flags == CU_STREAM_NON_BLOCKING;
  sim::stream* s = gpu().create_stream(&c, free_running ? sim::stream_kind::non_blocking : sim::stream_kind::blocking,
                                       std::max(-5, std::min(0, priority)));
  *out = handle<CUstream>(s);
  report_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, &c, s, nullptr);
  if (const standin_tracer* t = driver::get().tracer()) {
    const standin_stream d{
        c.id, s->id, correlation(),
        free_running ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT,
        s->priority};
    t->stream(&d);
  }
  return CUDA_SUCCESS;
}

CUresult destroy(CUstream h) {
  sim::stream& s = stream_of(h, false);
  if (s.kind == sim::stream_kind::legacy) return CUDA_ERROR_INVALID_HANDLE;
  report_resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, s.owner, &s, nullptr);
  gpu().destroy_stream(&s);
  return CUDA_SUCCESS;
}

CUresult synchronize(sim::stream& s) {
  const std::uint64_t start = gpu().now();
  block(gpu().finish(&s));
  report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, *s.owner, &s, nullptr, start, CUDA_SUCCESS,
              false);
  return CUDA_SUCCESS;
}

CUresult query(sim::stream& s) {
  const std::uint64_t start = gpu().now();
  const CUresult result = ask(gpu().finish(&s));
  report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, *s.owner, &s, nullptr, start, result, true);
  return result;
}

CUresult wait(sim::stream& s, sim::gpu_event& e) {
  const std::uint64_t start = gpu().now();
  check(gpu().wait(&s, &e));
  report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, *s.owner, &s, &e, start, CUDA_SUCCESS, false);
  return CUDA_SUCCESS;
}

// Values in memory that streams wait for and write

CUresult value(sim::stream& s, CUdeviceptr address, std::uint64_t value, std::uint32_t bytes, bool write,
               unsigned flags) {
  if (s.capturing != nullptr) {
    gpu().break_capture(&s);  // nodes of such operations are not modelled
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const unsigned known = write ? 0 : CU_STREAM_WAIT_VALUE_NOR;
  if ((flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;  // a flush of remote writes: not modelled
  issue(s, sim::value_work{address, value, bytes, write, static_cast<sim::value_test>(flags)});
  return CUDA_SUCCESS;
}

CUresult values(sim::stream& s, unsigned count, const CUstreamBatchMemOpParams* all, unsigned flags) {
  if (count == 0 || count > 256 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  required(all);
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& p = all[i];
    const bool waits = p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    const bool wide = p.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    CUresult r = CUDA_SUCCESS;
    if (waits)
      r = value(s, p.waitValue.address, p.waitValue.value64, wide ? 8 : 4, false, p.waitValue.flags);
    else if (wide || p.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
      r = value(s, p.writeValue.address, p.writeValue.value64, wide ? 8 : 4, true, p.writeValue.flags);
    else if (p.operation != CU_STREAM_MEM_OP_BARRIER)
      r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

unsigned flags_of(const sim::stream& s) {
  return s.kind == sim::stream_kind::non_blocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
}

// A callback of cuStreamAddCallback, as a host function.
struct stream_callback {
  CUstreamCallback function;
  CUstream stream;
  void* user;
};
void run_callback(void* p) {
  const std::unique_ptr<stream_callback> c(static_cast<stream_callback*>(p));
  c->function(c->stream, CUDA_SUCCESS, c->user);
}
CUresult add_callback(CUstream h, sim::stream& s, CUstreamCallback f, void* user) {
  if (s.capturing != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  auto c = std::make_unique<stream_callback>(stream_callback{f, h, user});
  issue(s, sim::host_work{&run_callback, c.get()});
  c.release();  // the callback deletes it
  return CUDA_SUCCESS;
}

// Capture

CUresult begin_capture(sim::stream& s, CUstreamCaptureMode mode) {
  check(gpu().begin_capture(&s, mode == CU_STREAM_CAPTURE_MODE_GLOBAL));
  sim::graph* target = nullptr;
  gpu().inspect_capture(&s, [&](const sim::capture* c) { target = c != nullptr ? c->target : nullptr; });
  report_graph(CUPTI_CBID_RESOURCE_GRAPH_CREATED, handle<CUgraph>(target), nullptr, nullptr, nullptr, nullptr);
  return CUDA_SUCCESS;
}

CUresult end_capture(sim::stream& s, CUgraph* out) {
  sim::graph* g = nullptr;
  const sim::status what = gpu().end_capture(&s, g);
  if (out != nullptr) *out = handle<CUgraph>(g);
  return what == sim::status::invalid_value ? CUDA_ERROR_ILLEGAL_STATE : result_of(what);
}

CUresult is_capturing(sim::stream& s, CUstreamCaptureStatus* out) {
  required(out);
  // As cuStreamIsCapturing is documented: the legacy stream would have to wait for what is captured.
  if (s.kind == sim::stream_kind::legacy && s.owner->blocking_captures != 0) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  gpu().inspect_capture(&s, [&](const sim::capture* c) {
    *out = c == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
           : c->broken  ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                        : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  });
  return CUDA_SUCCESS;
}

CUresult capture_info(sim::stream& s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                      const CUgraphNode** nodes, size_t* count) {
  const CUresult what = is_capturing(s, status);
  if (what != CUDA_SUCCESS) return what;
  static thread_local std::vector<CUgraphNode> tips;  // valid until the thread's next call, as the header allows
  tips.clear();
  gpu().inspect_capture(&s, [&](const sim::capture* c) {
    for (sim::graph_node* n : s.tips) tips.push_back(handle<CUgraphNode>(n));
    if (id != nullptr) *id = c != nullptr ? c->id : 0;
    if (graph != nullptr) *graph = c != nullptr ? handle<CUgraph>(c->target) : nullptr;
  });
  if (nodes != nullptr) *nodes = tips.data();
  if (count != nullptr) *count = tips.size();
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
CUresult capture_info_3(sim::stream& s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                        const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) *edges = nullptr;  // all edges are plain ones
  return capture_info(s, status, id, graph, nodes, count);
}
#endif

CUstreamCaptureMode& mode_of_thread() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult exchange_mode(CUstreamCaptureMode* mode) {
  std::swap(required(mode), mode_of_thread());
  return CUDA_SUCCESS;
}

/// For calls that are unsafe during a capture. During a capture in global mode the call fails and invalidates the
/// capture, unless the calling thread has chosen the relaxed mode with cuThreadExchangeStreamCaptureMode.
void need_no_capture() {
  if (mode_of_thread() != CU_STREAM_CAPTURE_MODE_RELAXED && gpu().break_captures())
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

// Events

CUresult create_event(CUevent* out, unsigned flags) {
  current();
  required(out) = handle<CUevent>(gpu().create_event((flags & CU_EVENT_DISABLE_TIMING) == 0));
  return CUDA_SUCCESS;
}

CUresult record(sim::gpu_event& e, sim::stream& s) {
  check(gpu().record(&e, &s));
  const standin_tracer* t = driver::get().tracer();
  if (t != nullptr && e.captured == nullptr) {
    const standin_event r{correlation(), s.owner->device, s.owner->id, s.id, e.id, e.at_ns, e.open, e.lost};
    t->event(&r);
  }
  return CUDA_SUCCESS;
}

CUresult synchronize_event(sim::gpu_event& e) {
  need_no_capture();
  const std::uint64_t start = gpu().now();
  block(gpu().finish(&e));
  if (e.where != nullptr && gpu().alive(e.where))
    report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, *e.where->owner, nullptr, &e, start,
                CUDA_SUCCESS, false);
  return CUDA_SUCCESS;
}

CUresult query_event(sim::gpu_event& e) {
  need_no_capture();
  const std::uint64_t start = gpu().now();
  const CUresult result = ask(gpu().finish(&e));
  if (e.where != nullptr && gpu().alive(e.where))
    report_sync(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, *e.where->owner, nullptr, &e, start, result,
                true);
  return result;
}

CUresult elapsed(float* out, CUevent from, CUevent to) {
  double ms = 0;
  check(gpu().elapsed(&event_of(from), &event_of(to), ms));
  required(out) = static_cast<float>(ms);
  return CUDA_SUCCESS;
}

}  // namespace

STANDIN_API(cuStreamCreate, (CUstream * out, unsigned int flags), (out, flags), create(out, flags, 0))
STANDIN_API(cuStreamCreateWithPriority, (CUstream * out, unsigned int flags, int priority), (out, flags, priority),
            create(out, flags, priority))
STANDIN_API(cuStreamDestroy_v2, (CUstream s), (s), destroy(s))
STANDIN_TWIN(cuStreamSynchronize, _ptsz, (CUstream s), (s), synchronize(stream_of(s, ptds)))
STANDIN_TWIN(cuStreamQuery, _ptsz, (CUstream s), (s), query(stream_of(s, ptds)))
STANDIN_TWIN(cuStreamWaitEvent, _ptsz, (CUstream s, CUevent e, unsigned int flags), (s, e, flags),
             wait(stream_of(s, ptds), event_of(e)))
STANDIN_TWIN(cuStreamGetPriority, _ptsz, (CUstream s, int* out), (s, out), give(out, stream_of(s, ptds).priority))
STANDIN_TWIN(cuStreamGetFlags, _ptsz, (CUstream s, unsigned int* out), (s, out),
             give(out, flags_of(stream_of(s, ptds))))
STANDIN_TWIN(cuStreamGetCtx, _ptsz, (CUstream s, CUcontext* out), (s, out),
             (required(out) = handle<CUcontext>(stream_of(s, ptds).owner), CUDA_SUCCESS))
#if CUDA_VERSION >= 12000
STANDIN_TWIN(cuStreamGetId, _ptsz, (CUstream s, unsigned long long* out), (s, out), give(out, stream_of(s, ptds).id))
#endif
#if CUDA_VERSION >= 12080
STANDIN_TWIN(cuStreamGetDevice, _ptsz, (CUstream s, CUdevice* out), (s, out),
             give(out, stream_of(s, ptds).owner->device))
#endif
STANDIN_TWIN(cuStreamAddCallback, _ptsz, (CUstream s, CUstreamCallback f, void* user, unsigned int flags),
             (s, f, user, flags), add_callback(s, stream_of(s, ptds), f, user))
STANDIN_TWIN(cuLaunchHostFunc, _ptsz, (CUstream s, CUhostFn f, void* user), (s, f, user),
             (issue(stream_of(s, ptds), sim::host_work{f, user}), CUDA_SUCCESS))

#define STANDIN_VALUE(name, type, bytes, write)                                                        \
  STANDIN_TWIN(name, _ptsz, (CUstream s, CUdeviceptr p, type v, unsigned int flags), (s, p, v, flags), \
               value(stream_of(s, ptds), p, v, bytes, write, flags))
STANDIN_VALUE(cuStreamWaitValue32_v2, cuuint32_t, 4, false)
STANDIN_VALUE(cuStreamWaitValue64_v2, cuuint64_t, 8, false)
STANDIN_VALUE(cuStreamWriteValue32_v2, cuuint32_t, 4, true)
STANDIN_VALUE(cuStreamWriteValue64_v2, cuuint64_t, 8, true)
STANDIN_TWIN(cuStreamBatchMemOp_v2, _ptsz,
             (CUstream s, unsigned int n, CUstreamBatchMemOpParams* p, unsigned int flags), (s, n, p, flags),
             values(stream_of(s, ptds), n, p, flags))

STANDIN_TWIN(cuStreamBeginCapture_v2, _ptsz, (CUstream s, CUstreamCaptureMode mode), (s, mode),
             begin_capture(stream_of(s, ptds), mode))
STANDIN_TWIN(cuStreamEndCapture, _ptsz, (CUstream s, CUgraph* out), (s, out), end_capture(stream_of(s, ptds), out))
STANDIN_TWIN(cuStreamIsCapturing, _ptsz, (CUstream s, CUstreamCaptureStatus* out), (s, out),
             is_capturing(stream_of(s, ptds), out))
STANDIN_TWIN(cuStreamGetCaptureInfo_v2, _ptsz,
             (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
              size_t* count),
             (s, status, id, graph, nodes, count), capture_info(stream_of(s, ptds), status, id, graph, nodes, count))
#if CUDA_VERSION >= 12030
STANDIN_TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
             (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
              const CUgraphEdgeData** edges, size_t* count),
             (s, status, id, graph, nodes, edges, count),
             capture_info_3(stream_of(s, ptds), status, id, graph, nodes, edges, count))
#endif
STANDIN_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode), exchange_mode(mode))

STANDIN_API(cuEventCreate, (CUevent * out, unsigned int flags), (out, flags), create_event(out, flags))
STANDIN_API(cuEventDestroy_v2, (CUevent e), (e), (gpu().destroy_event(&event_of(e)), CUDA_SUCCESS))
STANDIN_TWIN(cuEventRecord, _ptsz, (CUevent e, CUstream s), (e, s), record(event_of(e), stream_of(s, ptds)))
STANDIN_TWIN(cuEventRecordWithFlags, _ptsz, (CUevent e, CUstream s, unsigned int flags), (e, s, flags),
             record(event_of(e), stream_of(s, ptds)))
STANDIN_API(cuEventQuery, (CUevent e), (e), query_event(event_of(e)))
STANDIN_API(cuEventSynchronize, (CUevent e), (e), synchronize_event(event_of(e)))
STANDIN_API(cuEventElapsedTime, (float* ms, CUevent from, CUevent to), (ms, from, to), elapsed(ms, from, to))
#if CUDA_VERSION >= 12080
STANDIN_API(cuEventElapsedTime_v2, (float* ms, CUevent from, CUevent to), (ms, from, to), elapsed(ms, from, to))
#endif

}  // namespace standin
