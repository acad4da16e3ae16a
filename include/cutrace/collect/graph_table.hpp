// SPDX-License-Identifier: Apache-2.0
// From a node of a CUDA graph to the stage in which it was captured (or added by hand). Nodes of clones and of
// executable graphs refer to those they were made from; an update makes an executable graph's nodes refer to another
// graph from that time on. References are followed when an event asks, so threads may report in any order. Collector's
// thread only; lives as long as the process, since graphs outlive traces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

class graph_table {
 public:
  /// The stage in which a node was captured.
  struct capture {
    std::uint64_t stage;
    std::string name;
  };
  /// Beyond it further nodes have no stage of capture. 8 bytes a node.
  static constexpr std::size_t node_limit = std::size_t{1} << 20;
  /// Destroyed graphs are kept until they have this many nodes in all: records of their last launches may be under way.
  static constexpr std::size_t gone_limit = std::size_t{1} << 16;

  /// A node was added while `stage` ran. A later `copied` for the same node overrides this.
  CUTRACE_NOINLINE void added(std::uint64_t node, std::uint64_t stage, text name) {
    graph_ref g = at(graph_of(node));
    node_entry* n = g->entry(index_of(node));
    if (n != nullptr) *n = {0, 0, g->add_capture(stage, name.data, name.size)};
  }

  /// A node was made from another one.
  CUTRACE_NOINLINE void copied(std::uint64_t node, std::uint64_t from) {
    graph_ref source = at(graph_of(from));
    graph_ref g = at(graph_of(node));
    node_entry* n = g->entry(index_of(node));
    if (n == nullptr) return;
    *n = {};
    if (source == g || index_of(from) >= node_limit) return;
    if (g->primary == 0) g->primary = graph_of(from);
    // The index stays in the entry: an update finds the node's counterpart by it.
    n->from_index = index_of(from) | copy | (graph_of(from) != g->primary ? foreign : 0);
    if (const capture* c = resolve(*source, index_of(from), newest, 0))
      n->capture = g->add_capture(c->stage, c->name.data(), c->name.size());
    else  // reported later by another thread, or never
      n->from_graph = g->add_origin(source);
  }

  /// From `at_ns` (raw frame, clock.hpp) on, the nodes of `exec` refer to those of `from`.
  CUTRACE_NOINLINE void updated(std::uint32_t exec, std::uint32_t from, std::int64_t at_ns) {
    graph_ref g = at(exec), source = at(from);
    if (source == g) return;
    std::vector<update>& all = g->updates;
    const auto place = std::find_if(all.begin(), all.end(), [&](const update& u) { return u.at_ns > at_ns; });
    all.insert(place, {at_ns, std::move(source)});
    if (all.size() <= update_limit) return;
    all.erase(all.begin());
    g->history_cut = true;
  }

  CUTRACE_NOINLINE void gone(std::uint32_t graph) {
    const auto found = graphs_.find(graph);
    if (found == graphs_.end() || found->second->gone) return;
    found->second->gone = true;
    gone_.push_back(graph);
    gone_nodes_ += found->second->nodes.size();
    while (gone_nodes_ > gone_limit || gone_.size() > gone_limit) forget_oldest();
  }

  bool empty() const noexcept { return graphs_.empty(); }

  /// The stage of a node's capture for a launch at `at_ns` (raw frame), nullptr when it is not known or there is none.
  /// Valid until the table changes.
  const capture* find(std::uint64_t node, std::int64_t at_ns) const {
    const auto found = graphs_.find(graph_of(node));
    return found != graphs_.end() ? resolve(*found->second, index_of(node), at_ns, 0) : nullptr;
  }

  /// The stage in which all nodes of a graph were captured, nullptr when there are several or none.
  CUTRACE_NOINLINE const capture* find_common(std::uint32_t graph, std::int64_t at_ns) const {
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) return nullptr;
    const capture* common = nullptr;
    for (std::uint32_t i = 0; i < found->second->nodes.size(); ++i) {
      // Nodes that the driver adds to an executable graph (seen with memory nodes, CUDA 13.0) were captured nowhere.
      if (found->second->primary != 0 && (found->second->nodes[i].from_index & copy) == 0) continue;
      const capture* c = resolve(*found->second, i, at_ns, 0);
      if (c == nullptr) continue;
      if (common != nullptr && common->stage != c->stage) return nullptr;
      common = c;
    }
    return common;
  }

  std::uint64_t bytes() const noexcept { return nodes_ * sizeof(node_entry) + graphs_.size() * (sizeof(known) + 64); }

 private:
  static constexpr std::int64_t newest = INT64_MAX;
  static constexpr std::size_t update_limit = 64;  ///< of one executable graph that are remembered
  static constexpr unsigned depth_limit = 16;      ///< clones of clones whose origin is not known

  /// The node comes from a child graph. An update pairs the nodes of the outermost graphs, so it does not concern this
  /// one.
  static constexpr std::uint32_t foreign = 1u << 31;
  static constexpr std::uint32_t copy = 1u << 30;  ///< the node was made from another
  static constexpr std::uint32_t index_mask = copy - 1;

  struct node_entry {
    std::uint32_t from_index = 0;  ///< in the graph it was made from | foreign | copy
    std::uint16_t from_graph = 0;  ///< position in `origins`, from 1 on; 0: none
    std::uint16_t capture = 0;     ///< position in `captures`, from 1 on; 0: none
  };
  struct known;
  using graph_ref = std::shared_ptr<known>;
  struct update {
    std::int64_t at_ns;
    graph_ref from;
  };
  struct known {
    explicit known(std::size_t& n) : total(n) {}
    known(const known&) = delete;
    known& operator=(const known&) = delete;
    ~known() { total -= nodes.size(); }

    node_entry* entry(std::uint32_t index) {
      if (index < nodes.size()) return &nodes[index];
      if (index >= node_limit || total + (index + 1 - nodes.size()) > node_limit) return nullptr;
      total += index + 1 - nodes.size();
      nodes.resize(index + 1);
      return &nodes[index];
    }
    std::uint16_t add_capture(std::uint64_t stage, const char* name, std::size_t size) {
      for (std::size_t i = captures.size(); i-- > 0;)  // nearly always the last one
        if (captures[i].stage == stage) return static_cast<std::uint16_t>(i + 1);
      if (captures.size() >= UINT16_MAX) return 0;
      captures.push_back({stage, std::string(name, size)});
      return static_cast<std::uint16_t>(captures.size());
    }
    std::uint16_t add_origin(const graph_ref& g) {
      if (g->depth >= depth_limit) return 0;  // an endless chain of clones must not grow without bound
      depth = std::max(depth, g->depth + 1);
      for (std::size_t i = origins.size(); i-- > 0;)
        if (origins[i] == g) return static_cast<std::uint16_t>(i + 1);
      if (origins.size() >= UINT16_MAX) return 0;
      origins.push_back(g);
      return static_cast<std::uint16_t>(origins.size());
    }

    std::size_t& total;
    std::uint32_t primary = 0;  ///< graph that the first node was made from
    std::vector<node_entry> nodes;
    std::vector<graph_ref> origins;
    std::vector<capture> captures;
    std::vector<update> updates;  ///< by time
    unsigned depth = 0;
    bool gone = false;
    bool history_cut = false;  ///< older updates are forgotten
  };

  static std::uint32_t graph_of(std::uint64_t node) noexcept { return static_cast<std::uint32_t>(node >> 32); }
  static std::uint32_t index_of(std::uint64_t node) noexcept { return static_cast<std::uint32_t>(node); }

  graph_ref at(std::uint32_t graph) {
    const auto found = graphs_.find(graph);
    if (found != graphs_.end()) return found->second;
    return graphs_.emplace(graph, std::make_shared<known>(nodes_)).first->second;  // made first: no entry without one
  }

  static const capture* resolve(const known& g, std::uint32_t index, std::int64_t at_ns, unsigned depth) {
    if (depth > depth_limit || index >= g.nodes.size()) return nullptr;
    const node_entry& n = g.nodes[index];
    if (!g.updates.empty()) {
      const auto after =
          std::find_if(g.updates.begin(), g.updates.end(), [&](const update& u) { return u.at_ns > at_ns; });
      if (after != g.updates.begin())
        return (n.from_index & foreign) == 0
                   ? resolve(*std::prev(after)->from, n.from_index & index_mask, at_ns, depth + 1)
                   : nullptr;
      if (g.history_cut) return nullptr;
    }
    if (n.capture != 0) return &g.captures[n.capture - 1u];
    return n.from_graph != 0 ? resolve(*g.origins[n.from_graph - 1u], n.from_index & index_mask, at_ns, depth + 1)
                             : nullptr;
  }

  void forget_oldest() {
    const auto found = graphs_.find(gone_.front());
    gone_.pop_front();
    if (found == graphs_.end()) return;
    gone_nodes_ -= std::min(gone_nodes_, found->second->nodes.size());
    graphs_.erase(found);
  }

  std::size_t nodes_ = 0;  // outlives the graphs, which count in it
  std::unordered_map<std::uint32_t, graph_ref> graphs_;
  std::deque<std::uint32_t> gone_;
  std::size_t gone_nodes_ = 0;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
