// SPDX-License-Identifier: Apache-2.0
// CUPTI's resource callbacks about CUDA graphs, passed on as changes of nodes, so that each kernel of a replay can
// carry the stage in which its node was captured. What the driver does (seen with CUPTI 13.0 on an H200):
//
//   - A node's id is the id of its graph << 32 | index; records of a replay carry ids of the executable graph.
//   - Each node of a clone or of an executable graph is created, then reported as cloned from its origin.
//   - While it instantiates, the driver dissolves child graphs: their nodes move into the executable graph and get new
//     ids without a callback. When the child graph's destruction begins, its nodes answer with the new ids.
//   - cuGraphExecUpdate makes no resource callback: the call itself shows it.
#pragma once

#include <cupti.h>

#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/library.hpp>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class graph_callbacks {
 public:
  static constexpr CUpti_CallbackIdResource wanted[] = {
      CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,          CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
      CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING, CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING,
      CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING,  CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED,
  };
  static bool possible(const functions& api) noexcept {
    return api.cuptiGetGraphNodeId != nullptr && api.cuptiGetGraphId != nullptr;
  }

  /// On the thread that changes the graph. `data` is what the resource callback got.
  static void on_resource(const functions& api, event_writer& w, std::uint32_t cbid, const void* data) noexcept {
    const void* descriptor = static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor;
    if (descriptor == nullptr || thread_is_ending()) return;
    const CUpti_GraphData& g = *static_cast<const CUpti_GraphData*>(descriptor);
    using action = graph_change::action;
    switch (cbid) {
      case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
        if (const std::uint64_t node = id_of(api, g.node)) w.graph({action::node_added, node, 0});
        break;
      case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED: {
        const std::uint64_t node = id_of(api, g.node), from = id_of(api, g.originalNode);
        if (node == 0 || from == 0) break;
        w.graph({action::node_copied, node, from});
        current_instantiation().remember(g.node, node);
        break;
      }
      case CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING:
        current_instantiation().forget(g.node);
        break;
      case CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING: {
        const std::uint32_t graph = id_of(api, g.graph);
        if (graph == 0) break;
        current_instantiation().dissolve(api, w, graph);
        w.graph({action::gone, std::uint64_t{graph} << 32, 0});
        break;
      }
      case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING:
        current_instantiation().begin(id_of(api, g.graphExec));
        break;
      case CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED:
        current_instantiation().end();
        break;
      default:
        break;
    }
  }

  /// After a successful cuGraphExecUpdate; `params` are its parameters as the driver callback shows them.
  static void on_update(const functions& api, event_writer& w, const void* params) noexcept {
    struct exec_and_graph {  // the first two members of cuGraphExecUpdate_params and cuGraphExecUpdate_v2_params
      CUgraphExec exec;
      CUgraph graph;
    };
    if (params == nullptr) return;
    const exec_and_graph& p = *static_cast<const exec_and_graph*>(params);
    const std::uint32_t exec = id_of(api, p.exec), graph = id_of(api, p.graph);
    if (exec == 0 || graph == 0) return;
    w.graph({graph_change::action::updated, std::uint64_t{exec} << 32, std::uint64_t{graph} << 32});
  }

 private:
  /// Clones that this thread has made, among them those of its running instantiation. Only the latter's handles are
  /// queried for an id again. They are valid: the same driver call made them, and those that it destroys are forgotten.
  class instantiation {
   public:
    ~instantiation() { thread_is_ending() = true; }
    void remember(CUgraphNode node, std::uint64_t id) noexcept {
      try {
        if (nodes_.size() >= limit) nodes_.clear();  // most are of clones outside of an instantiation
        nodes_[node] = id;
      } catch (...) {  // out of memory: nodes of child graphs stay without a stage of capture
      }
    }
    void begin(std::uint32_t exec) noexcept { exec_ = exec; }
    void end() noexcept {
      exec_ = 0;
      nodes_.clear();
    }
    void forget(CUgraphNode node) noexcept {
      if (exec_ != 0) nodes_.erase(node);
    }
    /// A child graph that was cloned for this executable graph hands over its nodes. (The clone's id is the greater
    /// one.)
    void dissolve(const functions& api, event_writer& w, std::uint32_t graph) noexcept {
      if (exec_ == 0 || graph <= exec_) return;
      for (auto& n : nodes_) {
        if (n.second >> 32 != graph) continue;
        const std::uint64_t now = id_of(api, n.first);
        if (now != 0 && now != n.second) w.graph({graph_change::action::node_copied, now, n.second});
        n.second = 0;
      }
    }

   private:
    static constexpr std::size_t limit = std::size_t{1} << 20;
    std::unordered_map<CUgraphNode, std::uint64_t> nodes_;
    std::uint32_t exec_ = 0;
  };

  static instantiation& current_instantiation() noexcept {
    static thread_local instantiation i;
    return i;
  }
  /// True once the state above is destroyed: what later destructors of thread-local objects do to graphs is not
  /// followed.
  static bool& thread_is_ending() noexcept {
    static thread_local bool value = false;
    return value;
  }

  static std::uint64_t id_of(const functions& api, CUgraphNode n) noexcept {
    std::uint64_t id = 0;
    return n != nullptr && api.cuptiGetGraphNodeId(n, &id) == CUPTI_SUCCESS ? id : 0;
  }
  static std::uint32_t id_of(const functions& api, CUgraph g) noexcept {
    std::uint32_t id = 0;
    return g != nullptr && api.cuptiGetGraphId(g, &id) == CUPTI_SUCCESS ? id : 0;
  }
  static std::uint32_t id_of(const functions& api, CUgraphExec e) noexcept {
    std::uint32_t id = 0;
    if (e == nullptr || api.cuptiGetGraphExecId == nullptr) return 0;
    return api.cuptiGetGraphExecId(e, &id) == CUPTI_SUCCESS ? id : 0;
  }
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
