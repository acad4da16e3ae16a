// SPDX-License-Identifier: Apache-2.0
// Each piece of a graph's work carries the stage of its launch and the stage in which its node was captured or added:
// across clones, instances, child graphs, updates, threads, and after the graph itself is gone. Runs on the stand-in
// driver in each test run and on a real one in tests/gpu/run.
//
//   gpu_graph_stages node|graph    the value of CUTRACE_GRAPHS, which the caller has set
#include <cuda.h>

#include <cstdio>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../support/gpu_program.hpp"

namespace {

int failed = 0;

CUcontext context{};
CUstream stream{};
CUdeviceptr memory = 0;
CUfunction first{}, second{}, third{};

void start_cuda() {
  static const char image[] =
      ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry first() { ret; }\n"
      ".visible .entry second() { ret; }\n.visible .entry third() { ret; }\n";
  CUdevice device = 0;
  CUmodule module{};
  DO(cuInit, 0);
  DO(cuDeviceGet, &device, 0);
  DO(cuDevicePrimaryCtxRetain, &context, device);
  DO(cuCtxSetCurrent, context);
  DO(cuModuleLoadData, &module, image);
  DO(cuModuleGetFunction, &first, module, "first");
  DO(cuModuleGetFunction, &second, module, "second");
  DO(cuModuleGetFunction, &third, module, "third");
  DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  DO(cuMemAlloc, &memory, 4096);
}

void launch(CUfunction f) { DO(cuLaunchKernel, f, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr); }

/// first, second and a memset.
CUgraph captured(bool in_two_stages = false) {
  CUgraph g{};
  DO(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  launch(first);
  if (in_two_stages) {
    CUTRACE_STAGE("second part");
    launch(second);
  } else {
    launch(second);
  }
  DO(cuMemsetD8Async, memory, 1, 64, stream);
  DO(cuStreamEndCapture, stream, &g);
  return g;
}

CUgraphExec instance_of(CUgraph g) {
  CUgraphExec e{};
  DO(cuGraphInstantiateWithFlags, &e, g, 0);
  return e;
}

/// `name` becomes the stage of the launch; the trace is searched by it.
void replay(CUgraphExec e, const char* name, int times = 1) {
  CUTRACE_STAGE_DYNAMIC(name);
  for (int i = 0; i < times; ++i) DO(cuGraphLaunch, e, stream);
  DO(cuStreamSynchronize, stream);
}

CUgraphNode add_kernel(CUgraph g, CUfunction f, std::vector<CUgraphNode> after = {}) {
  CUDA_KERNEL_NODE_PARAMS p{};
  p.func = f;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  CUgraphNode n{};
  DO(cuGraphAddKernelNode, &n, g, after.data(), after.size(), &p);
  return n;
}

void simple_and_clone() {
  CUgraph g{}, copy{};
  {
    CUTRACE_STAGE("capture one");
    g = captured();
  }
  CUgraphExec e{}, of_copy{};
  {
    CUTRACE_STAGE("instantiate");
    e = instance_of(g);
    DO(cuGraphClone, &copy, g);
    of_copy = instance_of(copy);
  }
  DO(cuGraphDestroy, g);
  DO(cuGraphDestroy, copy);
  replay(e, "replay simple", 3);
  replay(of_copy, "replay clone");
  DO(cuGraphExecDestroy, e);
  DO(cuGraphExecDestroy, of_copy);
}

void by_hand_and_children() {
  CUgraph inner{}, middle{}, outer{};
  CUgraphNode n{};
  DO(cuGraphCreate, &inner, 0);
  {
    CUTRACE_STAGE("by hand");
    n = add_kernel(inner, first);
  }
  {
    CUTRACE_STAGE("by hand later");
    n = add_kernel(inner, second, {n});
  }
  CUgraphExec e = instance_of(inner);
  replay(e, "replay by hand");
  {
    CUTRACE_STAGE("around");
    DO(cuGraphCreate, &middle, 0);
    DO(cuGraphAddChildGraphNode, &n, middle, nullptr, 0, inner);
    add_kernel(middle, third, {n});
  }
  CUgraphExec with_child = instance_of(middle);
  replay(with_child, "replay child");
  DO(cuGraphCreate, &outer, 0);
  DO(cuGraphAddChildGraphNode, &n, outer, nullptr, 0, middle);
  CUgraphExec with_both = instance_of(outer);
  replay(with_both, "replay grandchild");
  for (CUgraph g : {inner, middle, outer}) DO(cuGraphDestroy, g);
  for (CUgraphExec x : {e, with_child, with_both}) DO(cuGraphExecDestroy, x);
}

void update() {
  CUgraph g{}, newer{};
  {
    CUTRACE_STAGE("capture one");
    g = captured();
  }
  CUgraphExec e = instance_of(g);
  replay(e, "replay before update");
  {
    CUTRACE_STAGE("capture two");
    newer = captured();
  }
  CUgraphExecUpdateResultInfo info{};
  DO(cuGraphExecUpdate, e, newer, &info);
  DO(cuGraphDestroy, newer);
  DO(cuGraphDestroy, g);
  replay(e, "replay after update", 2);
  DO(cuGraphExecDestroy, e);
}

void in_two_stages_and_outside() {
  CUgraph g{};
  {
    CUTRACE_STAGE("capture parts");
    g = captured(true);
  }
  CUgraphExec e = instance_of(g);
  replay(e, "replay parts");
  CUgraph bare = captured();
  CUgraphExec of_bare = instance_of(bare);
  replay(of_bare, "replay bare");
}

void threads() {
  CUgraph g{};
  CUgraphExec e{};
  const auto elsewhere = [](auto work) {
    std::thread t([&] {
      DO(cuCtxSetCurrent, context);
      work();
    });
    t.join();
  };
  elsewhere([&] {
    CUTRACE_STAGE("capture elsewhere");
    g = captured();
  });
  elsewhere([&] { e = instance_of(g); });
  elsewhere([&] { replay(e, "replay elsewhere"); });
}

struct expected {
  const char* launched_in;
  const char* kernel;  ///< name, "" for the memset, "graph" for the whole
  const char* captured_in;
  int count;
};

void look(const cutrace::memory_sink& seen, const std::vector<expected>& all) {
  for (const expected& x : all) {
    int found = 0;
    std::uint64_t id = 0;
    for (const cutrace::event& e : seen.events()) {
      const bool kind = std::string(x.kernel).empty()      ? e.kind == cutrace::event_kind::memset
                        : std::string(x.kernel) == "graph" ? e.kind == cutrace::event_kind::graph_launch
                                                           : e.kind == cutrace::event_kind::kernel &&
                                                                 std::string(e.name.data, e.name.size) == x.kernel;
      if (!kind || std::string(e.stage_name.data, e.stage_name.size) != x.launched_in) continue;
      const std::string captured(e.capture_stage_name.data, e.capture_stage_name.size);
      const bool same_instance = id == 0 || id == e.capture_stage_id;
      id = e.capture_stage_id;
      if (captured == x.captured_in && same_instance && (e.capture_stage_id != 0) == !captured.empty()) {
        ++found;
        continue;
      }
      ++failed;
      std::printf("FAILED: %s in %s was captured in \"%s\"%s, expected \"%s\"\n", x.kernel, x.launched_in,
                  captured.c_str(), same_instance ? "" : " (of another run)", x.captured_in);
    }
    if (found != x.count) {
      ++failed;
      std::printf("FAILED: %s in %s: %d found, expected %d\n", x.kernel, x.launched_in, found, x.count);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool whole = argc > 1 && std::string(argv[1]) == "graph";
  cutrace::session_options o;
  o.backend = "cupti";
  cutrace::session trace(o);
  cutrace::memory_sink& seen = trace.emplace_sink<cutrace::memory_sink>();
  start_cuda();
  simple_and_clone();
  by_hand_and_children();
  update();
  in_two_stages_and_outside();
  threads();
  trace.stop();
  if (whole)
    look(seen, {{"replay simple", "graph", "capture one", 3},
                {"replay clone", "graph", "capture one", 1},
                {"replay by hand", "graph", "", 1},  // two stages
                {"replay before update", "graph", "capture one", 1},
                {"replay after update", "graph", "capture two", 2},
                {"replay parts", "graph", "", 1},
                {"replay bare", "graph", "", 1},
                {"replay elsewhere", "graph", "capture elsewhere", 1}});
  else
    look(seen, {{"replay simple", "first", "capture one", 3},
                {"replay simple", "second", "capture one", 3},
                {"replay simple", "", "capture one", 3},
                {"replay clone", "first", "capture one", 1},
                {"replay by hand", "first", "by hand", 1},
                {"replay by hand", "second", "by hand later", 1},
                {"replay child", "first", "by hand", 1},
                {"replay child", "second", "by hand later", 1},
                {"replay child", "third", "around", 1},
                {"replay grandchild", "first", "by hand", 1},
                {"replay grandchild", "third", "around", 1},
                {"replay before update", "first", "capture one", 1},
                {"replay after update", "first", "capture two", 2},
                {"replay after update", "", "capture two", 2},
                {"replay parts", "first", "capture parts", 1},
                {"replay parts", "second", "second part", 1},
                {"replay bare", "first", "", 1},
                {"replay elsewhere", "second", "capture elsewhere", 1}});
  const cutrace::stats s = trace.stats();
  std::printf("stages of capture by %s: %d failed, %llu lost\n", whole ? "graph" : "node", failed,
              static_cast<unsigned long long>(s.lost_total()));
  return failed == 0 && s.lost_total() == 0 ? 0 : 1;
}
