// SPDX-License-Identifier: Apache-2.0
// Runs one fixed scenario through the driver API and prints the activity records that CUPTI makes of it, one JSON
// object a line, with everything that may differ from run to run (times, addresses, ids) taken out or numbered by first
// appearance. Run on a real GPU it writes tests/data/records_h200.jsonl; run on the stand-in it must print the same, so
// that the fake cannot drift.
#include <cuda.h>
#include <cupti.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "../support/cupti_recorder.hpp"

namespace {

using test_support::cupti_recorder;

void check(int r, const char* what) {
  if (r == 0) return;
  std::fprintf(stderr, "%s failed (%d)\n", what, r);
  std::exit(2);
}
#define DO(name, ...) check(static_cast<int>(CU(name)(__VA_ARGS__)), #name)
#define TRACE(name, ...) check(static_cast<int>(CUPTI(name)(__VA_ARGS__)), #name)

/// Ids by order of appearance: "s0", "s1", ...
class numbering {
 public:
  explicit numbering(const char* prefix) : prefix_(prefix) {}
  std::string of(std::uint64_t id) {
    const auto found = known_.emplace(id, known_.size());
    return prefix_ + std::to_string(found.first->second);
  }

 private:
  std::string prefix_;
  std::map<std::uint64_t, std::size_t> known_;
};

struct line {
  std::uint64_t start;
  std::string text;
};

void scenario() {
  CUdevice device = 0;
  CUcontext context{};
  CUmodule module{};
  CUfunction kernel{};
  CUstream stream{}, other{};
  CUevent event{};
  CUdeviceptr a = 0, b = 0;
  void* pinned = nullptr;
  static char pageable[65536];
  static const char image[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry scenario_kernel() { ret; }\n";
  DO(cuDeviceGet, &device, 0);
  DO(cuDevicePrimaryCtxRetain, &context, device);
  DO(cuCtxSetCurrent, context);
  DO(cuModuleLoadData, &module, image);
  DO(cuModuleGetFunction, &kernel, module, "scenario_kernel");
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  DO(cuStreamCreateWithPriority, &other, CU_STREAM_DEFAULT, -1);
  DO(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  DO(cuMemAlloc, &a, sizeof(pageable));
  DO(cuMemAlloc, &b, sizeof(pageable));
  DO(cuMemHostAlloc, &pinned, sizeof(pageable), 0);

  DO(cuLaunchKernel, kernel, 3, 2, 1, 64, 2, 1, 1024, stream, nullptr, nullptr);
  DO(cuStreamSynchronize, stream);
  DO(cuMemcpyHtoD, a, pageable, 65536);
  DO(cuMemcpyHtoDAsync, a, pinned, 8192, stream);
  DO(cuMemcpyDtoHAsync, pinned, a, 8192, stream);
  DO(cuMemcpyDtoDAsync, b, a, 8192, stream);
  DO(cuStreamSynchronize, stream);
  DO(cuMemcpyDtoH, pageable, a, 65536);
  DO(cuMemsetD8Async, a, 7, 4096, stream);
  DO(cuMemsetD32Async, a, 9, 1024, stream);
  DO(cuStreamSynchronize, stream);
  DO(cuEventRecord, event, stream);
  DO(cuStreamWaitEvent, other, event, 0);
  DO(cuLaunchKernel, kernel, 1, 1, 1, 32, 1, 1, 0, other, nullptr, nullptr);
  DO(cuEventSynchronize, event);
  DO(cuStreamSynchronize, other);

  CUgraph graph{};
  CUgraphExec replay{};
  DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  DO(cuLaunchKernel, kernel, 2, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  DO(cuMemsetD8Async, b, 1, 2048, stream);
  DO(cuMemcpyDtoDAsync, a, b, 2048, stream);
  DO(cuStreamEndCapture, stream, &graph);
  DO(cuGraphInstantiateWithFlags, &replay, graph, 0);
  for (int i = 0; i < 2; ++i) {
    DO(cuGraphLaunch, replay, stream);
    DO(cuStreamSynchronize, stream);
  }
  check(CU(cuCtxSynchronize)(), "cuCtxSynchronize");
}

std::string json(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out = "{";
  for (const auto& f : fields) out += (out.size() > 1 ? "," : "") + ("\"" + f.first + "\":") + f.second;
  return out + "}";
}
std::string quoted(const std::string& s) { return "\"" + s + "\""; }
template <class Integer>
std::string number(Integer v) {
  return std::to_string(static_cast<long long>(v));
}

}  // namespace

int main() {
  cupti_recorder& seen = cupti_recorder::get();
  CUpti_SubscriberHandle subscriber{};
  TRACE(cuptiSubscribe, &subscriber, &cupti_recorder::on_callback, nullptr);
  TRACE(cuptiActivityRegisterCallbacks, &cupti_recorder::on_request, &cupti_recorder::on_complete);
  for (const CUpti_ActivityKind k :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, CUPTI_ACTIVITY_KIND_CONTEXT,
        CUPTI_ACTIVITY_KIND_STREAM, CUPTI_ACTIVITY_KIND_DEVICE})
    TRACE(cuptiActivityEnable, k);
  TRACE(cuptiEnableDomain, 1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  DO(cuInit, 0);
  scenario();
  TRACE(cuptiActivityFlushAll, 1);

  std::map<std::uint32_t, std::string> call_of;
  for (const auto& c : seen.calls)
    if (c.site == CUPTI_API_ENTER) call_of[c.correlation] = c.name;
  const auto call = [&](std::uint32_t id) { return quoted(call_of.count(id) != 0 ? call_of[id] : "unknown"); };
  numbering streams("s"), contexts("c"), graphs("g"), nodes("n");
  const auto graph = [&](std::uint32_t id) { return id == 0 ? std::string("null") : quoted(graphs.of(id)); };
  const auto node = [&](std::uint64_t id) { return id == 0 ? std::string("null") : quoted(nodes.of(id)); };
  const auto stream = [&](std::uint32_t id) {
    return id == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? std::string("null") : quoted(streams.of(id));
  };

  // First by time, so that ids are numbered in the order of the scenario.
  struct item {
    std::uint64_t start;
    std::uint32_t kind;
    std::size_t index;
  };
  const auto kernels = seen.of<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  const auto copies = seen.of<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY);
  const auto peers = seen.of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
  const auto sets = seen.of<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  const auto syncs = seen.of<CUpti_ActivitySynchronization>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  std::vector<item> order;
  for (std::size_t i = 0; i < kernels.size(); ++i) order.push_back({kernels[i].start, 0, i});
  for (std::size_t i = 0; i < copies.size(); ++i) order.push_back({copies[i].start, 1, i});
  for (std::size_t i = 0; i < sets.size(); ++i) order.push_back({sets[i].start, 2, i});
  std::sort(order.begin(), order.end(), [](const item& x, const item& y) { return x.start < y.start; });
  for (const item& at : order) {
    if (at.kind == 0) {
      const auto& k = kernels[at.index];
      std::puts(json({{"record", quoted("kernel")},
                      {"call", call(k.correlationId)},
                      {"name", quoted(k.name)},
                      {"stream", stream(k.streamId)},
                      {"context", quoted(contexts.of(k.contextId))},
                      {"device", number(k.deviceId)},
                      {"grid", "[" + number(k.gridX) + "," + number(k.gridY) + "," + number(k.gridZ) + "]"},
                      {"block", "[" + number(k.blockX) + "," + number(k.blockY) + "," + number(k.blockZ) + "]"},
                      {"static_shared", number(k.staticSharedMemory)},
                      {"dynamic_shared", number(k.dynamicSharedMemory)},
                      {"local_per_thread", number(k.localMemoryPerThread)},
                      {"launch_type", number(k.launchType)},
                      {"queued", number(k.queued)},
                      {"submitted", number(k.submitted)},
                      {"timed", k.end >= k.start && k.start != 0 ? "true" : "false"},
                      {"graph", graph(k.graphId)},
                      {"node", node(k.graphNodeId)},
                      {"cluster", "[" + number(k.clusterX) + "," + number(k.clusterY) + "," + number(k.clusterZ) + "]"},
                      {"channel_type", number(k.channelType)}})
                    .c_str());
    } else if (at.kind == 1) {
      const auto& c = copies[at.index];
      std::puts(json({{"record", quoted("memcpy")},
                      {"call", call(c.correlationId)},
                      {"copy_kind", number(c.copyKind)},
                      {"source", number(c.srcKind)},
                      {"destination", number(c.dstKind)},
                      {"flags", number(c.flags)},
                      {"bytes", number(c.bytes)},
                      {"stream", stream(c.streamId)},
                      {"context", quoted(contexts.of(c.contextId))},
                      {"device", number(c.deviceId)},
                      {"graph", graph(c.graphId)},
                      {"node", node(c.graphNodeId)},
                      {"timed", c.end >= c.start && c.start != 0 ? "true" : "false"}})
                    .c_str());
    } else {
      const auto& m = sets[at.index];
      std::puts(json({{"record", quoted("memset")},
                      {"call", call(m.correlationId)},
                      {"bytes", number(m.bytes)},
                      {"value", m.graphNodeId == 0 ? number(m.value) : "null"},  // in graphs CUPTI gives an earlier one
                      {"memory", number(m.memoryKind)},
                      {"flags", number(m.flags)},
                      {"stream", stream(m.streamId)},
                      {"context", quoted(contexts.of(m.contextId))},
                      {"device", number(m.deviceId)},
                      {"graph", graph(m.graphId)},
                      {"node", node(m.graphNodeId)}})
                    .c_str());
    }
  }
  // Synchronisations are records of the host: their place among the others differs between runs, their order does not.
  std::vector<item> waits;
  for (std::size_t i = 0; i < syncs.size(); ++i) waits.push_back({syncs[i].start, 3, i});
  std::sort(waits.begin(), waits.end(), [](const item& x, const item& y) { return x.start < y.start; });
  for (const item& at : waits) {
    const auto& s = syncs[at.index];
    std::puts(json({{"record", quoted("sync")},
                    {"call", call(s.correlationId)},
                    {"type", number(s.type)},
                    {"stream", stream(s.streamId)},
                    {"context", quoted(contexts.of(s.contextId))},
                    {"event", s.cudaEventId == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? "null" : "\"e\""}})
                  .c_str());
  }
  std::printf("{\"record\":\"counts\",\"peer_copies\":%zu,\"context_records\":%s}\n", peers.size(),
              seen.of<CUpti_ActivityContext>(CUPTI_ACTIVITY_KIND_CONTEXT).empty() ? "false" : "true");
  return 0;
}
