// SPDX-License-Identifier: Apache-2.0
// Definitions of the machine: graphs, their launch, and stream capture. Included by machine.hpp only.
#pragma once

#include <cutrace/sim/machine.hpp>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

inline graph* machine::create_graph() {
  const std::lock_guard<std::mutex> hold(lock_);
  auto g = std::make_unique<graph>(++last_graph_);
  graph* raw = g.get();
  graphs_.emplace(raw, std::move(g));
  return raw;
}

inline graph* machine::clone_graph(const graph* source) {
  const std::lock_guard<std::mutex> hold(lock_);
  auto g = source->clone(last_graph_);
  graph* raw = g.get();
  graphs_.emplace(raw, std::move(g));
  return raw;
}

inline bool machine::destroy_graph(graph* g) {
  const std::lock_guard<std::mutex> hold(lock_);
  return graphs_.erase(g) != 0;
}

inline graph_node* machine::add_node(graph* g, const work& w, const std::vector<graph_node*>& after) {
  const std::lock_guard<std::mutex> hold(lock_);
  work resolved = w;
  if (resolve(resolved) != status::ok) return nullptr;
  return g->add(resolved, after);
}

inline graph_node* machine::add_child(graph* g, const graph* child, const std::vector<graph_node*>& after) {
  const std::lock_guard<std::mutex> hold(lock_);
  graph_node* n = g != child ? g->add(work{}, after) : nullptr;
  if (n != nullptr) n->child = child->clone(last_graph_);
  return n;
}

inline graph_exec* machine::begin_instance(const graph* g) {
  const std::lock_guard<std::mutex> hold(lock_);
  auto e = std::make_unique<graph_exec>(*g, last_graph_);
  graph_exec* raw = e.get();
  execs_.emplace(raw, std::move(e));
  return raw;
}

inline graph_exec* machine::instantiate(const graph* g) {
  graph_exec* e = begin_instance(g);
  e->finish([](graph_node*, graph&) {});
  return e;
}

inline bool machine::destroy_exec(graph_exec* e) {
  const std::lock_guard<std::mutex> hold(lock_);
  return execs_.erase(e) != 0;
}

inline machine::launched machine::launch(graph_exec* e, stream* s) {
  launched r;
  std::vector<std::pair<const work*, movement>> moves;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    if (s->capturing != nullptr) {
      s->capturing->broken = true;
      r.what = status::capture_unsupported;  // the model does not capture graph launches
      return r;
    }
    if (s->kind == stream_kind::legacy && s->owner->blocking_captures != 0) {
      r.what = status::capture_implicit;
      return r;
    }
    for (const graph_node* n : e->order) {
      movement m;
      if ((r.what = look(n->what, m)) != status::ok) return r;
      moves.emplace_back(&n->what, std::move(m));
    }
    front f = front_of(*s);
    f.at_ns = std::max(f.at_ns, e->end_ns);
    if (e->open != nullptr) f.open.push_back(e->open);
    launch_nodes(*e, *s, f, moves, r);
  }
  for (const auto& m : moves) move(*m.first, m.second);
  return r;
}

/// Each node comes after its dependencies and after `f`, and the stream's next work after all nodes.
inline void machine::launch_nodes(graph_exec& e, stream& s, const front& f,
                                  std::vector<std::pair<const work*, movement>>& moves, launched& r) {
  movement none;
  job whole = job_of(s, work{}, f);
  const std::uint64_t ready = whole.ready_ns;
  whole.spans = true;
  if (!e.order.empty()) whole.after.clear();
  r.nodes.reserve(e.order.size());
  for (std::size_t i = 0; i < e.order.size(); ++i) {
    job j = job_of(s, e.order[i]->what, f, ready);
    ++s.sequence;
    j.latency_ns = options_.node_latency_ns;
    for (const std::uint32_t d : e.after[i]) {
      const node_run& before = r.nodes[d];
      if (before.open != nullptr)
        j.after.push_back(before.open);
      else
        j.ready_ns = std::max(j.ready_ns, before.time.end_ns + j.latency_ns);
    }
    const outcome o = run(std::move(j), moves[i].second);
    r.nodes.push_back({e.order[i], o.time, o.open});
    if (o.open != nullptr) {
      whole.after.push_back(o.open);
    } else {
      whole.ready_ns = std::max(whole.ready_ns, o.time.end_ns);
      whole.first_ns = std::min(whole.first_ns, o.time.start_ns);
    }
  }
  const outcome o = run(std::move(whole), none);
  r.time = o.time;
  r.open = e.open = o.open;
  e.end_ns = o.time.end_ns;
  take(s, o);
}

inline bool machine::break_captures() {
  const std::lock_guard<std::mutex> hold(lock_);
  bool any = false;
  for (const auto& entry : captures_) {
    any = any || entry.second->global;
    entry.second->broken = entry.second->broken || entry.second->global;
  }
  return any;
}

inline status machine::begin_capture(stream* s, bool global) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (s->kind == stream_kind::legacy) return status::capture_unsupported;
  if (s->capturing != nullptr) return status::capture_unsupported;
  auto g = std::make_unique<graph>(++last_graph_);
  auto c = std::make_unique<capture>();
  c->id = ++last_capture_;
  c->target = g.get();
  c->origin = s;
  c->global = global;
  c->members.push_back(s);
  s->capturing = c.get();
  s->tips.clear();
  if (s->kind != stream_kind::non_blocking) ++s->owner->blocking_captures;
  graphs_.emplace(g.get(), std::move(g));
  captures_.emplace(c.get(), std::move(c));
  return status::ok;
}

inline void machine::leave_capture(capture& c) {
  if (c.origin->kind != stream_kind::non_blocking) --c.origin->owner->blocking_captures;
  for (stream* member : c.members) {
    member->capturing = nullptr;
    member->tips.clear();
  }
}

inline status machine::end_capture(stream* s, graph*& result) {
  const std::lock_guard<std::mutex> hold(lock_);
  result = nullptr;
  if (s->capturing == nullptr) return status::invalid_value;
  capture& c = *s->capturing;
  if (c.origin != s) return status::capture_unmatched;
  status what = c.broken ? status::capture_invalidated : status::ok;
  for (const graph_node* leaf : c.target->leaves())
    if (what == status::ok && std::find(s->tips.begin(), s->tips.end(), leaf) == s->tips.end())
      what = status::capture_unjoined;
  if (what == status::ok)
    result = c.target;
  else
    graphs_.erase(c.target);
  leave_capture(c);
  captures_.erase(&c);
  return what;
}

}  // namespace sim
CUTRACE_END_NAMESPACE
