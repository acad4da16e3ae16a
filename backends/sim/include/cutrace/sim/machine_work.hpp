// SPDX-License-Identifier: Apache-2.0
// Definitions of the machine: contexts, streams, issue of work, events. Included by machine.hpp only.
#pragma once

#include <cstring>
#include <cutrace/sim/machine.hpp>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

inline context* machine::create_context(std::uint32_t device, bool primary, std::uint32_t flags) {
  const std::lock_guard<std::mutex> hold(lock_);
  auto c = std::make_unique<context>();
  c->id = ++last_context_;
  c->device = device;
  c->primary = primary;
  c->flags = flags;
  c->legacy = std::make_unique<stream>();
  c->legacy->owner = c.get();
  c->legacy->id = 7;  // what CUPTI reports for the default stream of every context on real hardware
  c->legacy->kind = stream_kind::legacy;
  live_streams_.insert(c->legacy.get());
  context* raw = c.get();
  contexts_.emplace(raw, std::move(c));
  return raw;
}

inline bool machine::destroy_context(context* c) {
  const std::lock_guard<std::mutex> hold(lock_);
  const auto it = contexts_.find(c);
  if (it == contexts_.end()) return false;
  live_streams_.erase(c->legacy.get());
  for (auto& s : c->streams) live_streams_.erase(s.get());
  contexts_.erase(it);
  return true;
}

inline stream* machine::create_stream(context* c, stream_kind kind, std::int32_t priority) {
  const std::lock_guard<std::mutex> hold(lock_);
  c->streams.push_back(std::make_unique<stream>());
  stream* s = c->streams.back().get();
  s->owner = c;
  s->id = c->next_stream_id++;
  s->kind = kind;
  s->priority = priority;
  live_streams_.insert(s);
  return s;
}

inline bool machine::destroy_stream(stream* s) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (live_streams_.count(s) == 0 || s->kind == stream_kind::legacy) return false;
  if (s->capturing != nullptr) {
    capture& c = *s->capturing;
    c.broken = true;
    c.members.erase(std::remove(c.members.begin(), c.members.end(), s), c.members.end());
  }
  for (const moment_ptr& m : s->open) s->owner->open.push_back({m, s->kind != stream_kind::non_blocking});
  live_streams_.erase(s);
  auto& all = s->owner->streams;
  all.erase(std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.get() == s; }));
  return true;
}

/// Fills in what the addresses of a copy or set say.
inline status machine::resolve(work& w) {
  if (w.kind == work_kind::kernel) {
    for (int i = 0; i < 3; ++i)
      if (w.kernel.grid[i] == 0 || w.kernel.block[i] == 0) return status::invalid_value;
    const std::uint64_t threads = std::uint64_t{w.kernel.block[0]} * w.kernel.block[1] * w.kernel.block[2];
    return threads > 1024 ? status::invalid_value : status::ok;
  }
  if (w.kind == work_kind::set) {
    w.set.kind = memory_.find(w.set.address).kind;
    return w.set.kind == memory_kind::unknown ? status::invalid_value : status::ok;
  }
  if (w.kind == work_kind::value) {
    const memory_kind kind = memory_.find(w.value.address).kind;
    const bool there = kind == memory_kind::device || kind == memory_kind::pinned;
    return there && w.value.address % w.value.bytes == 0 ? status::ok : status::invalid_value;
  }
  if (w.kind != work_kind::copy) return status::ok;
  const memory::location from = memory_.find(w.copy.source.address);
  const memory::location to = memory_.find(w.copy.destination.address);
  if (from.kind == memory_kind::unknown || to.kind == memory_kind::unknown) return status::invalid_value;
  const bool from_device = from.kind == memory_kind::device, to_device = to.kind == memory_kind::device;
  w.copy.source_kind = from.kind;
  w.copy.destination_kind = to.kind;
  w.copy.source_device = from_device ? from.device : to.device;
  w.copy.destination_device = to_device ? to.device : from.device;
  if (from_device && to_device)
    w.copy.direction = from.device == to.device ? copy_direction::device_to_device : copy_direction::peer;
  else if (from_device)
    w.copy.direction = copy_direction::device_to_host;
  else
    w.copy.direction = to_device ? copy_direction::host_to_device : copy_direction::host_to_host;
  return status::ok;
}

inline status machine::look(const work& w, movement& m) {
  if (w.kind == work_kind::copy && w.copy.bytes() != 0) {
    const copy_work& c = w.copy;
    m.to = memory_.look(c.destination.address, extent(c.width_bytes, c.height, c.depth, c.destination));
    m.from = memory_.look(c.source.address, extent(c.width_bytes, c.height, c.depth, c.source));
    if (m.to.data == nullptr || m.from.data == nullptr) return status::invalid_value;
  } else if (w.kind == work_kind::set && w.set.bytes() != 0) {
    const std::uint64_t row = w.set.width * w.set.element_bytes;
    m.to = memory_.look(w.set.address, (w.set.height - 1) * w.set.pitch_bytes + row);
    if (m.to.data == nullptr) return status::invalid_value;
  } else if (w.kind == work_kind::value) {
    m.to = memory_.look(w.value.address, w.value.bytes);
    if (m.to.data == nullptr) return status::invalid_value;
  }
  return status::ok;
}

inline void machine::move(const work& w, const movement& m) {
  if (m.to.data == nullptr || w.kind == work_kind::value) return;
  if (w.kind == work_kind::copy) {
    const copy_work& c = w.copy;
    for (std::uint64_t z = 0; z < c.depth; ++z)
      for (std::uint64_t y = 0; y < c.height; ++y)
        std::memmove(m.to.data + z * c.destination.slice + y * c.destination.pitch,
                     m.from.data + z * c.source.slice + y * c.source.pitch, c.width_bytes);
    return;
  }
  for (std::uint64_t y = 0; y < w.set.height; ++y)
    for (std::uint64_t x = 0; x < w.set.width; ++x)  // little-endian: the low bytes of the value come first
      std::memcpy(m.to.data + y * w.set.pitch_bytes + x * w.set.element_bytes, &w.set.value, w.set.element_bytes);
}

inline machine::issued machine::issue(stream* s, const work& w) {
  issued r;
  r.done = w;
  movement m;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    if ((r.what = resolve(r.done)) != status::ok) return r;
    if (s->capturing != nullptr) {
      if (s->capturing->broken)
        r.what = status::capture_invalidated;
      else
        s->tips.assign(1, r.node = s->capturing->target->add(r.done, s->tips));
      return r;
    }
    if (s->kind == stream_kind::legacy && s->owner->blocking_captures != 0) {
      r.what = status::capture_implicit;
      return r;
    }
    if ((r.what = look(r.done, m)) != status::ok) return r;
    const outcome o = run(job_of(*s, r.done, front_of(*s)), m);
    ++s->sequence;
    r.time = o.time;
    r.open = o.open;
    take(*s, o);
  }
  move(r.done, m);
  return r;
}

inline machine::until machine::finish(const stream* s) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (s->capturing != nullptr) {
    s->capturing->broken = true;
    return {status::capture_unsupported, 0, {}, nullptr};
  }
  front f = front_of(*s);
  return {status::ok, f.at_ns, std::move(f.open), s->owner->lost};
}

inline machine::until machine::finish(const context* c) {
  const std::lock_guard<std::mutex> hold(lock_);
  for (const auto& entry : captures_)
    if (entry.second->origin->owner == c) {
      entry.second->broken = true;
      return {status::capture_unsupported, 0, {}, nullptr};
    }
  until u{status::ok, c->end_ns, c->legacy->open, c->lost};
  for (const auto& s : c->streams) u.open.insert(u.open.end(), s->open.begin(), s->open.end());
  for (const context::left_over& l : c->open) u.open.push_back(l.when);
  return u;
}

inline gpu_event* machine::create_event(bool timing) {
  const std::lock_guard<std::mutex> hold(lock_);
  auto e = std::make_unique<gpu_event>();
  e->id = ++last_event_;
  e->timing = timing;
  gpu_event* raw = e.get();
  events_.emplace(raw, std::move(e));
  return raw;
}

inline bool machine::destroy_event(gpu_event* e) {
  const std::lock_guard<std::mutex> hold(lock_);
  return events_.erase(e) != 0;
}

inline status machine::record(gpu_event* e, stream* s) {
  const std::lock_guard<std::mutex> hold(lock_);
  e->where = s;
  if (s->capturing != nullptr) {
    if (s->capturing->broken) return status::capture_invalidated;
    e->captured = s->capturing;
    e->captured_id = s->capturing->id;
    e->tips = s->tips;
    return status::ok;
  }
  e->captured = nullptr;
  e->recorded = true;
  e->lost = s->owner->lost;
  movement none;
  const outcome o = run(job_of(*s, work{}, front_of(*s)), none);
  e->at_ns = o.time.end_ns;
  e->open = o.open;
  take(*s, o);
  return status::ok;
}

inline status machine::wait(stream* s, gpu_event* e) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (e->captured != nullptr) {
    const auto it = captures_.find(e->captured);
    if (it == captures_.end() || it->second->id != e->captured_id) return status::captured_event;
    capture& c = *it->second;
    if (s->capturing != nullptr && s->capturing != &c) return status::capture_invalidated;
    if (s->kind == stream_kind::legacy) return status::capture_implicit;
    if (s->capturing == nullptr) {
      s->capturing = &c;
      s->tips.clear();
      c.members.push_back(s);
    }
    for (graph_node* n : e->tips)
      if (std::find(s->tips.begin(), s->tips.end(), n) == s->tips.end()) s->tips.push_back(n);
    return status::ok;
  }
  if (s->capturing != nullptr) return e->recorded ? status::capture_unsupported : status::ok;
  if (!e->recorded) return status::ok;
  if (e->open != nullptr && !e->open->known())
    s->open.push_back(e->open);
  else
    advance(*s, end_of(*e));
  return status::ok;
}

inline machine::until machine::finish(const gpu_event* e) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (e->captured != nullptr) return {status::captured_event, 0, {}, nullptr};
  until u{status::ok, e->at_ns, {}, e->lost};
  if (e->open != nullptr) u.open.push_back(e->open);
  return u;
}

inline status machine::elapsed(const gpu_event* from, const gpu_event* to, double& ms) {
  if (!from->recorded || !to->recorded || !from->timing || !to->timing) return status::invalid_handle;
  if (query(from) != status::ok || query(to) != status::ok) return status::not_ready;
  ms = (static_cast<double>(end_of(*to)) - static_cast<double>(end_of(*from))) / 1e6;
  return status::ok;
}

}  // namespace sim
CUTRACE_END_NAMESPACE
