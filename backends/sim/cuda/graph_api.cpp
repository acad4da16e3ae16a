// SPDX-License-Identifier: Apache-2.0
// Graphs: built by hand or by capture (stream_api.cpp), instantiated and launched.
#include "copy_params.hpp"
#include "kernel_params.hpp"

namespace standin {
namespace {

sim::machine& gpu() { return driver::get().gpu(); }

void created(sim::graph* g) {
  report_graph(CUPTI_CBID_RESOURCE_GRAPH_CREATED, handle<CUgraph>(g), nullptr, nullptr, nullptr, nullptr);
}

CUresult create(CUgraph* out, unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  sim::graph* g = gpu().create_graph();
  required(out) = handle<CUgraph>(g);
  created(g);
  return CUDA_SUCCESS;
}

void notify_end(sim::graph& g) {
  CUgraph h = handle<CUgraph>(&g);
  report_graph(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING, h, nullptr, nullptr, nullptr, nullptr);
  for (const auto& n : g.nodes()) {
    if (n->child != nullptr) notify_end(*n->child);
    report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, h, nullptr, n.get(), nullptr, nullptr);
  }
}

CUresult destroy(CUgraph h) {
  sim::graph& g = graph_of(h);
  notify_end(g);
  gpu().destroy_graph(&g);
  return CUDA_SUCCESS;
}

/// The order of the real driver: each node is created, then reported as cloned; a child graph comes before its node.
void notify_clone(sim::graph& copy) {
  CUgraph to = handle<CUgraph>(&copy);
  created(&copy);
  for (const auto& n : copy.nodes()) {
    if (n->child != nullptr) notify_clone(*n->child);
    report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, to, nullptr, n.get(), nullptr, nullptr);
    report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, to, copy.origin(), n.get(), n->origin, nullptr);
  }
}

CUresult clone(CUgraph* out, CUgraph h) {
  const sim::graph& original = graph_of(h);
  sim::graph* copy = gpu().clone_graph(&original);
  required(out) = handle<CUgraph>(copy);
  notify_clone(*copy);
  report_graph(CUPTI_CBID_RESOURCE_GRAPH_CLONED, *out, &original, nullptr, nullptr, nullptr);
  return CUDA_SUCCESS;
}

// Nodes

std::vector<sim::graph_node*> list(const CUgraphNode* nodes, size_t n) {
  std::vector<sim::graph_node*> all;
  for (size_t i = 0; i < n; ++i) all.push_back(&node_of(nodes[i]));
  return all;
}

CUresult add(CUgraphNode* out, CUgraph h, const CUgraphNode* after, size_t n, const sim::work& w) {
  required(out);
  sim::graph_node* node = gpu().add_node(&graph_of(h), w, list(after, n));
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle<CUgraphNode>(node);
  report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, h, nullptr, node, nullptr, nullptr);
  return CUDA_SUCCESS;
}

CUresult add_child(CUgraphNode* out, CUgraph h, const CUgraphNode* after, size_t n, CUgraph child) {
  required(out);
  sim::graph_node* node = gpu().add_child(&graph_of(h), &graph_of(child), list(after, n));
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle<CUgraphNode>(node);
  notify_clone(*node->child);
  report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, h, nullptr, node, nullptr, nullptr);
  return CUDA_SUCCESS;
}

template <class Params>
sim::work kernel_node(const Params& p, const void* function) {
  return kernel(kernel_of(function), p.gridDimX, p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
                p.sharedMemBytes);
}
#if CUDA_VERSION >= 12000
sim::work kernel_node(const CUDA_KERNEL_NODE_PARAMS_v2& p) {
  return kernel_node(p, p.func != nullptr ? static_cast<const void*>(p.func) : p.kern);
}
#endif

sim::work set_node(const CUDA_MEMSET_NODE_PARAMS& p) {
  sim::set_work s;
  s.address = p.dst;
  s.value = p.value;
  s.element_bytes = p.elementSize;
  s.width = p.width;
  s.height = p.height;
  s.pitch_bytes = p.pitch;
  if (s.element_bytes != 1 && s.element_bytes != 2 && s.element_bytes != 4) fail(CUDA_ERROR_INVALID_VALUE);
  return s;
}

/// CUDA's convention for lists: without an array only the count is returned; with one, unused places are emptied.
CUresult give_list(const std::vector<sim::graph_node*>& all, CUgraphNode* out, size_t* count) {
  required(count);
  if (out != nullptr)
    for (size_t i = 0; i < *count; ++i) out[i] = i < all.size() ? handle<CUgraphNode>(all[i]) : nullptr;
  *count = out != nullptr ? std::min(*count, all.size()) : all.size();
  return CUDA_SUCCESS;
}

CUresult nodes(CUgraph h, CUgraphNode* out, size_t* count, bool roots_only) {
  std::vector<sim::graph_node*> all;
  for (const auto& n : graph_of(h).nodes())
    if (!roots_only || n->after.empty()) all.push_back(n.get());
  return give_list(all, out, count);
}

CUresult dependents(CUgraphNode h, CUgraphNode* out, size_t* count) {
  sim::graph_node& node = node_of(h);
  std::vector<sim::graph_node*> all;
  for (const auto& n : node.owner->nodes())
    if (std::find(n->after.begin(), n->after.end(), &node) != n->after.end()) all.push_back(n.get());
  return give_list(all, out, count);
}

CUresult edges(CUgraph h, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  std::vector<sim::graph_node*> first, second;
  for (const auto& n : graph_of(h).nodes())
    for (sim::graph_node* d : n->after) {
      first.push_back(d);
      second.push_back(n.get());
    }
  size_t n = required(count);
  give_list(first, from, &n);
  return give_list(second, to, count);
}

CUresult add_edges(CUgraph h, const CUgraphNode* from, const CUgraphNode* to, size_t n) {
  sim::graph& g = graph_of(h);
  for (size_t i = 0; i < n; ++i)
    if (!g.add_edge(&node_of(from[i]), &node_of(to[i]))) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult destroy_node(CUgraphNode h) {
  sim::graph_node& n = node_of(h);
  report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, handle<CUgraph>(n.owner), nullptr, &n, nullptr, nullptr);
  return n.owner->remove(&n) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

template <class T, class V>
CUresult give(T* where, V value) {
  required(where) = static_cast<T>(value);
  return CUDA_SUCCESS;
}

// Instances

CUresult instantiate(CUgraphExec* out, CUgraph h, unsigned long long flags) {
  sim::graph& g = graph_of(h);
  required(out);
  sim::graph_exec* e = gpu().begin_instance(&g);
  e->flags = flags;
  if (const standin_tracer* t = driver::get().tracer()) e->made_traced = t->traces_graphs();
  notify_clone(*e->instance);
  report_graph(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, h, nullptr, nullptr, nullptr, e);
  // As in the driver, the nodes of a child graph replace the node that holds it. The end of that node (`holder`) is
  // reported, then that of the child graph (`holder` is null).
  e->finish([](sim::graph_node* holder, sim::graph& child) {
    if (holder != nullptr)
      report_graph(CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, handle<CUgraph>(holder->owner), nullptr, holder,
                   nullptr, nullptr);
    else
      report_graph(CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING, handle<CUgraph>(&child), nullptr, nullptr, nullptr,
                   nullptr);
  });
  report_graph(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, h, nullptr, nullptr, nullptr, e);
  *out = handle<CUgraphExec>(e);
  return CUDA_SUCCESS;
}

CUresult instantiate_with(CUgraphExec* out, CUgraph h, CUDA_GRAPH_INSTANTIATE_PARAMS* p) {
  const CUresult r = instantiate(out, h, required(p).flags);
  p->hErrNode_out = nullptr;
  p->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return r;
}

CUresult destroy_exec(CUgraphExec h) {
  sim::graph_exec& e = exec_of(h);
  report_graph(CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING, nullptr, nullptr, nullptr, nullptr, &e);
  notify_end(*e.instance);
  gpu().destroy_exec(&e);
  return CUDA_SUCCESS;
}

CUresult launch(sim::graph_exec& e, sim::stream& s) {
  const sim::machine::launched r = gpu().launch(&e, &s);
  check(r.what);
  report_work(s, sim::work{}, r.time, r.open, &e);  // the whole, for graph-level tracing
  for (const sim::machine::node_run& n : r.nodes) report_work(s, n.node->what, n.time, n.open, &e, n.node);
  return CUDA_SUCCESS;
}

/// Takes over the parameters of another graph of the same shape.
CUresult update(sim::graph_exec& e, const sim::graph& g, CUgraphExecUpdateResultInfo* info) {
  const std::vector<sim::graph_node*> fresh = g.ordered();
  bool same = fresh.size() == e.order.size();
  for (size_t i = 0; same && i < fresh.size(); ++i)
    same = fresh[i]->what.kind == e.order[i]->what.kind && fresh[i]->after.size() == e.order[i]->after.size();
  CUgraphExecUpdateResultInfo answer{};
  answer.result = same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (info != nullptr) *info = answer;
  for (size_t i = 0; same && i < fresh.size(); ++i) e.order[i]->what = fresh[i]->what;
  return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

}  // namespace

STANDIN_API(cuGraphCreate, (CUgraph * out, unsigned int flags), (out, flags), create(out, flags))
STANDIN_API(cuGraphDestroy, (CUgraph g), (g), destroy(g))
STANDIN_API(cuGraphClone, (CUgraph * out, CUgraph g), (out, g), clone(out, g))

#define STANDIN_NODE_PARAMS CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n
STANDIN_API(cuGraphAddKernelNode, (STANDIN_NODE_PARAMS, const CUDA_KERNEL_NODE_PARAMS_v1* p), (out, g, after, n, p),
            add(out, g, after, n, kernel_node(required(p), p->func)))
#if CUDA_VERSION >= 12000
STANDIN_API(cuGraphAddKernelNode_v2, (STANDIN_NODE_PARAMS, const CUDA_KERNEL_NODE_PARAMS_v2* p), (out, g, after, n, p),
            add(out, g, after, n, kernel_node(required(p))))
#endif
STANDIN_API(cuGraphAddMemcpyNode, (STANDIN_NODE_PARAMS, const CUDA_MEMCPY3D* p, CUcontext c), (out, g, after, n, p, c),
            add(out, g, after, n, copied_box(required(p))))
STANDIN_API(cuGraphAddMemsetNode, (STANDIN_NODE_PARAMS, const CUDA_MEMSET_NODE_PARAMS* p, CUcontext c),
            (out, g, after, n, p, c), add(out, g, after, n, set_node(required(p))))
STANDIN_API(cuGraphAddHostNode, (STANDIN_NODE_PARAMS, const CUDA_HOST_NODE_PARAMS* p), (out, g, after, n, p),
            add(out, g, after, n, sim::host_work{required(p).fn, p->userData}))
STANDIN_API(cuGraphAddEmptyNode, (STANDIN_NODE_PARAMS), (out, g, after, n), add(out, g, after, n, sim::work{}))

STANDIN_API(cuGraphAddChildGraphNode, (STANDIN_NODE_PARAMS, CUgraph child), (out, g, after, n, child),
            add_child(out, g, after, n, child))

STANDIN_API(cuGraphGetNodes, (CUgraph g, CUgraphNode* out, size_t* n), (g, out, n), nodes(g, out, n, false))
STANDIN_API(cuGraphGetRootNodes, (CUgraph g, CUgraphNode* out, size_t* n), (g, out, n), nodes(g, out, n, true))
STANDIN_API(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* out), (node, out),
            give(out, type_of(node_of(node))))
STANDIN_API(cuGraphGetEdges, (CUgraph g, CUgraphNode* from, CUgraphNode* to, size_t* n), (g, from, to, n),
            edges(g, from, to, n))
STANDIN_API(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode* out, size_t* n), (node, out, n),
            give_list(node_of(node).after, out, n))
STANDIN_API(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode* out, size_t* n), (node, out, n),
            dependents(node, out, n))
STANDIN_API(cuGraphAddDependencies, (CUgraph g, const CUgraphNode* from, const CUgraphNode* to, size_t n),
            (g, from, to, n), add_edges(g, from, to, n))
#if CUDA_VERSION >= 12030
STANDIN_API(cuGraphGetEdges_v2, (CUgraph g, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* n),
            (g, from, to, data, n), edges(g, from, to, n))
STANDIN_API(cuGraphNodeGetDependencies_v2, (CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* n),
            (node, out, data, n), give_list(node_of(node).after, out, n))
STANDIN_API(cuGraphNodeGetDependentNodes_v2, (CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* n),
            (node, out, data, n), dependents(node, out, n))
STANDIN_API(cuGraphAddDependencies_v2,
            (CUgraph g, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data, size_t n),
            (g, from, to, data, n), add_edges(g, from, to, n))
#endif
STANDIN_API(cuGraphDestroyNode, (CUgraphNode node), (node), destroy_node(node))

STANDIN_API(cuGraphInstantiate_v2, (CUgraphExec * out, CUgraph g, CUgraphNode* error, char* log, size_t size),
            (out, g, error, log, size), instantiate(out, g, 0))
STANDIN_API(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph g, unsigned long long flags), (out, g, flags),
            instantiate(out, g, flags))
#if CUDA_VERSION >= 12000
STANDIN_TWIN(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * out, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS* p),
             (out, g, p), (static_cast<void>(ptds), instantiate_with(out, g, p)))
STANDIN_API(cuGraphExecGetFlags, (CUgraphExec e, cuuint64_t* out), (e, out), give(out, exec_of(e).flags))
STANDIN_API(cuGraphExecUpdate_v2, (CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo* info), (e, g, info),
            update(exec_of(e), graph_of(g), info))
#endif
STANDIN_API(cuGraphExecDestroy, (CUgraphExec e), (e), destroy_exec(e))
STANDIN_TWIN(cuGraphLaunch, _ptsz, (CUgraphExec e, CUstream s), (e, s), launch(exec_of(e), stream_of(s, ptds)))
STANDIN_TWIN(cuGraphUpload, _ptsz, (CUgraphExec e, CUstream s), (e, s), (exec_of(e), stream_of(s, ptds), CUDA_SUCCESS))

}  // namespace standin
