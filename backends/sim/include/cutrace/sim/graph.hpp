// SPDX-License-Identifier: Apache-2.0
// Graphs: nodes with dependencies, cloned when they are instantiated. Not thread-safe; the machine's lock guards them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/sim/moment.hpp>
#include <cutrace/sim/work.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class graph;

struct graph_node {
  graph* owner = nullptr;
  std::uint64_t id = 0;  ///< the graph's id in the upper half, a number from 0 on in the lower
  work what;
  std::vector<graph_node*> after;      ///< dependencies
  const graph_node* origin = nullptr;  ///< of a clone
  std::unique_ptr<graph> child;        ///< a whole graph in the place of this node; then `what` is empty

  graph_node();
  ~graph_node();
};

class graph {
 public:
  explicit graph(std::uint32_t id) : id_(id) {}
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  std::uint32_t id() const { return id_; }
  const graph* origin() const { return origin_; }
  const std::vector<std::unique_ptr<graph_node>>& nodes() const { return nodes_; }

  bool owns(const graph_node* n) const { return n != nullptr && n->owner == this; }

  /// A node after the given ones; null when one of them is of another graph.
  graph_node* add(const work& w, const std::vector<graph_node*>& after) {
    for (const graph_node* n : after)
      if (!owns(n)) return nullptr;
    nodes_.push_back(std::make_unique<graph_node>());
    graph_node& n = *nodes_.back();
    n.owner = this;
    n.id = next_node_id();
    n.what = w;
    n.after = after;
    return &n;
  }

  bool add_edge(graph_node* from, graph_node* to) {
    if (!owns(from) || !owns(to) || from == to || reaches(to, from)) return false;
    if (std::find(to->after.begin(), to->after.end(), from) == to->after.end()) to->after.push_back(from);
    return true;
  }

  bool remove(graph_node* node) {
    if (!owns(node)) return false;
    for (auto& n : nodes_) n->after.erase(std::remove(n->after.begin(), n->after.end(), node), n->after.end());
    nodes_.erase(std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.get() == node; }));
    return true;
  }

  std::vector<graph_node*> leaves() const {
    std::vector<graph_node*> all;
    for (const auto& n : nodes_) {
      const bool used = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& m) {
        return std::find(m->after.begin(), m->after.end(), n.get()) != m->after.end();
      });
      if (!used) all.push_back(n.get());
    }
    return all;
  }

  /// Nodes, each after its dependencies, otherwise in the order in which they were added.
  std::vector<graph_node*> ordered() const {
    std::vector<graph_node*> result;
    std::unordered_map<const graph_node*, int> state;  // 1: being visited, 2: placed
    std::vector<graph_node*> stack;
    for (const auto& root : nodes_) {
      stack.push_back(root.get());
      while (!stack.empty()) {
        graph_node* n = stack.back();
        int& s = state[n];
        if (s == 0) {
          s = 1;
          for (auto it = n->after.rbegin(); it != n->after.rend(); ++it)
            if (state[*it] == 0) stack.push_back(*it);
          continue;
        }
        if (s == 1) {
          s = 2;
          result.push_back(n);
        }
        stack.pop_back();
      }
    }
    return result;
  }

  /// `last_id`: of the graphs so far; the clone gets the next one, those of its child graphs follow.
  std::unique_ptr<graph> clone(std::uint32_t& last_id) const {
    auto copy = std::make_unique<graph>(++last_id);
    copy->origin_ = this;
    std::unordered_map<const graph_node*, graph_node*> twin;
    for (graph_node* n : ordered()) {
      std::vector<graph_node*> after;
      for (const graph_node* d : n->after) after.push_back(twin[d]);
      graph_node* c = copy->add(n->what, after);
      c->origin = n;
      if (n->child != nullptr) c->child = n->child->clone(last_id);
      twin[n] = c;
    }
    return copy;
  }

  /// Puts the nodes of child graphs in the place of the nodes that hold them, as the driver does while it instantiates:
  /// they get new ids. Calls `dissolving(node, graph&)` before a node that holds a child graph goes, and
  /// `dissolving(nullptr, graph&)` before this child graph goes, when its nodes have their new owner and ids.
  template <class Dissolving>
  void inline_children(Dissolving dissolving) {
    for (std::size_t i = 0; i < nodes_.size();) {
      if (nodes_[i]->child == nullptr) {
        ++i;
        continue;
      }
      graph_node& holder = *nodes_[i];
      dissolving(&holder, *holder.child);
      const std::unique_ptr<graph> child = std::move(holder.child);
      const std::vector<graph_node*> last = child->leaves();
      for (const auto& n : nodes_) {
        const auto at = std::find(n->after.begin(), n->after.end(), &holder);
        if (at == n->after.end()) continue;
        n->after.erase(at);
        n->after.insert(n->after.end(), last.begin(), last.end());
      }
      std::vector<graph_node*> moved;
      for (const auto& n : child->nodes_) moved.push_back(n.get());
      for (graph_node* n : moved) {
        if (n->after.empty()) n->after = holder.after;
        n->owner = this;
        n->id = next_node_id();
      }
      dissolving(nullptr, *child);
      nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(i));
      for (auto& n : child->nodes_) nodes_.push_back(std::move(n));
      child->nodes_.clear();
    }
  }

 private:
  std::uint64_t next_node_id() { return std::uint64_t{id_} << 32 | next_node_++; }

  static bool reaches(const graph_node* from, const graph_node* to) {  // is `from` before `to`?
    std::vector<const graph_node*> stack{to};
    std::unordered_map<const graph_node*, bool> seen;
    while (!stack.empty()) {
      const graph_node* n = stack.back();
      stack.pop_back();
      if (n == from) return true;
      for (const graph_node* d : n->after)
        if (!seen[d]) {
          seen[d] = true;
          stack.push_back(d);
        }
    }
    return false;
  }

  std::uint32_t id_;
  std::uint32_t next_node_ = 0;
  const graph* origin_ = nullptr;
  std::vector<std::unique_ptr<graph_node>> nodes_;
};

inline graph_node::graph_node() = default;
inline graph_node::~graph_node() = default;

/// An instantiated graph: the clone that launches run, its nodes in launch order once `finish` was called.
struct graph_exec {
  std::unique_ptr<graph> instance;
  std::vector<graph_node*> order;
  std::vector<std::vector<std::uint32_t>> after;  ///< of each node in `order`, the positions of its dependencies there
  std::uint64_t end_ns = 0;                       ///< of the last launch: launches of one instance never overlap
  moment_ptr open;                                ///< instead of `end_ns`, where that could not be computed
  std::uint64_t flags = 0;
  std::uint32_t made_traced = 0;  ///< standin_tracer::traces_graphs at its instantiation; for the stand-in libcuda

  graph_exec(const graph& source, std::uint32_t& last_id) : instance(source.clone(last_id)) {}

  /// See graph::inline_children.
  template <class Dissolving>
  void finish(Dissolving dissolving) {
    instance->inline_children(dissolving);
    order = instance->ordered();
    std::unordered_map<const graph_node*, std::uint32_t> position;
    for (graph_node* n : order) {
      after.emplace_back();
      for (const graph_node* d : n->after) after.back().push_back(position[d]);
      const auto index = static_cast<std::uint32_t>(position.size());
      position[n] = index;
    }
  }
  std::uint32_t id() const { return instance->id(); }
};

}  // namespace sim
CUTRACE_END_NAMESPACE
