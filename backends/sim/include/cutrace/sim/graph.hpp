// SPDX-License-Identifier: Apache-2.0
// Graphs: nodes with dependencies, cloned when they are instantiated. Not thread-safe; the machine's lock guards them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cutrace/sim/work.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

class graph;

struct graph_node {
  graph* owner = nullptr;
  std::uint64_t id = 0;  ///< the graph's id in the upper half, a number from 1 on in the lower
  work what;
  std::vector<graph_node*> after;      ///< dependencies
  const graph_node* origin = nullptr;  ///< of a clone
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
    n.id = std::uint64_t{id_} << 32 | ++last_node_;
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

  std::unique_ptr<graph> clone(std::uint32_t id) const {
    auto copy = std::make_unique<graph>(id);
    copy->origin_ = this;
    std::unordered_map<const graph_node*, graph_node*> twin;
    for (graph_node* n : ordered()) {
      std::vector<graph_node*> after;
      for (const graph_node* d : n->after) after.push_back(twin[d]);
      graph_node* c = copy->add(n->what, after);
      c->origin = n;
      twin[n] = c;
    }
    return copy;
  }

 private:
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
  std::uint32_t last_node_ = 0;
  const graph* origin_ = nullptr;
  std::vector<std::unique_ptr<graph_node>> nodes_;
};

/// An instantiated graph: the clone that launches run, its nodes in launch order.
struct graph_exec {
  std::unique_ptr<graph> instance;
  std::vector<graph_node*> order;
  std::vector<std::vector<std::uint32_t>> after;  ///< of each node in `order`, the positions of its dependencies there
  std::uint64_t end_ns = 0;                       ///< of the last launch: launches of one instance never overlap
  std::uint64_t flags = 0;
  std::uint64_t user = 0;  ///< free for the face

  graph_exec(const graph& source, std::uint32_t id) : instance(source.clone(id)), order(instance->ordered()) {
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
