// SPDX-License-Identifier: Apache-2.0
// cutrace::graph_exec for a script: decode.py replays PyTorch's graph by it.
#include <cuda.h>
#include <dlfcn.h>

#include <cutrace/graph_exec.hpp>

namespace {

template <class Function>
Function find(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
}

using pair = cutrace::graph_exec<CUgraphExec>;

}  // namespace

extern "C" {

/// `graph` is a cudaGraph_t. Null on failure. The result lives as long as the process.
void* graph_pair_make(void* graph, unsigned long long one_in) {
  const auto instantiate = find<CUresult (*)(CUgraphExec*, CUgraph, unsigned long long)>("cuGraphInstantiateWithFlags");
  if (instantiate == nullptr) return nullptr;
  bool good = true;
  pair* p = new pair(
      [&] {
        CUgraphExec exec{};
        good = good && instantiate(&exec, static_cast<CUgraph>(graph), 0) == CUDA_SUCCESS;
        return exec;
      },
      one_in);
  return good ? p : nullptr;
}

int graph_pair_has_second(void* p) { return static_cast<pair*>(p)->has_twin(); }

/// Returns a CUresult.
int graph_pair_launch(void* p, void* stream) {
  static const auto launch = find<CUresult (*)(CUgraphExec, CUstream)>("cuGraphLaunch");
  return static_cast<pair*>(p)->launch([&](CUgraphExec e) { return launch(e, static_cast<CUstream>(stream)); });
}
}
