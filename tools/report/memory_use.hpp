// SPDX-License-Identifier: Apache-2.0
// Device memory: live and peak bytes, by device and by the stage that allocated them, and what was never freed.
//
//   live(t) = sum of bytes of allocations made and not freed until t; peak = largest live; leak = live at the end
// From memory records where the trace has any, else from allocating and freeing calls whose arguments are known (the
// address as an output, the bytes as an argument). Only what the trace saw allocated is counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/category.hpp>
#include <cutrace/analysis/containers.hpp>
#include <cutrace/analysis/names.hpp>
#include <cutrace/analysis/trace_log.hpp>
#include <map>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace analysis {

struct memory_step {
  std::int64_t at_ns = 0;
  std::uint64_t live_bytes = 0;  ///< from `at_ns` on
};

struct memory_owner {
  std::string stage;  ///< empty: in no stage
  std::uint64_t allocations = 0, frees = 0, allocated_bytes = 0;
  std::uint64_t live_bytes = 0;  ///< at the end of the trace
  std::uint64_t live_allocations = 0;
  std::uint64_t peak_bytes = 0;
};

struct memory_report {
  bool from_records = false;  ///< else from calls
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t unknown_frees = 0;  ///< frees of memory that the trace did not see allocated
  std::uint64_t live_bytes = 0, live_allocations = 0, peak_bytes = 0;
  std::vector<memory_owner> stages;  ///< largest peak first
  /// By device, in order; those from calls, which do not name their device, are one list.
  std::map<std::uint32_t, std::vector<memory_step>> steps;
};

/// Takes events in the order of delivery.
class memory_use {
 public:
  void add(const event& e) {
    if (e.kind == event_kind::memory)
      add_record(e);
    else if (e.kind == event_kind::api && e.api.result == 0)
      add_call(e);
  }

  /// @param log sealed; finds the stages of calls that do not state theirs
  CUTRACE_ONE_COPY memory_report result(const trace_log& log) {
    const bool records = !from_records_.empty();
    ledger l;
    const chunked<change>& changes = records ? from_records_ : from_calls_;
    std::size_t hint = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const change& c = changes[i];
      if (!c.allocates) {
        release(l, c);
        continue;
      }
      std::uint32_t stage = c.stage, thread = c.thread;
      const auto made_in = c.placed ? calls_.end() : calls_.find(id_in_process(c.process, c.correlation));
      if (thread == 0 && made_in != calls_.end()) {
        thread = made_in->second.thread;
        stage = made_in->second.stage;
      }
      if (!c.placed && stage == 0) {
        const std::string& name = log.stage_of_call(c.process, thread, c.start_ns, hint);
        if (!name.empty()) stage = names_.number(text_of(name));
      }
      allocate(l, c, stage);
    }
    from_records_.clear();
    from_calls_.clear();
    calls_.clear();
    memory_report r;
    r.from_records = records;
    r.allocations = l.total.allocations;
    r.frees = l.total.frees;
    r.unknown_frees = l.unknown_frees;
    r.live_bytes = l.total.live_bytes;
    r.live_allocations = l.total.live_allocations;
    r.peak_bytes = l.total.peak_bytes;
    std::vector<ranked> order;
    for (std::uint32_t i = 0; i < l.stages.size(); ++i)
      if (l.stages[i].allocations > 0) order.push_back({static_cast<std::int64_t>(l.stages[i].peak_bytes >> 1), 0, i});
    rank(order);
    for (const ranked& o : order) {
      r.stages.push_back(l.stages[o.index]);
      if (o.index != 0) r.stages.back().stage = names_.name(o.index);
    }
    r.steps = l.steps;
    for (auto& d : r.steps)
      std::stable_sort(d.second.begin(), d.second.end(),
                       [](const memory_step& a, const memory_step& b) { return a.at_ns < b.at_ns; });
    return r;
  }

 private:
  struct block {
    std::uint64_t bytes = 0;
    std::uint32_t stage = 0;
    std::uint32_t device = 0;
  };
  struct ledger {
    detail::seeded_map<std::uint64_t, block> live;  ///< by address_in_process
    std::vector<memory_owner> stages;               ///< by name number
    memory_owner total;
    std::uint64_t unknown_frees = 0;
    std::map<std::uint32_t, std::uint64_t> live_on;
    std::map<std::uint32_t, std::vector<memory_step>> steps;
  };

  struct change {
    std::uint64_t address;  ///< address_in_process
    std::uint64_t bytes;
    std::int64_t start_ns, end_ns;
    std::uint32_t process, thread, device, stage, correlation;
    bool placed;  ///< the event says in which stage it was made; in some formats none does
    bool allocates;
  };

  void add_record(const event& e) {
    if (in_host_memory(e)) return;
    add_change(from_records_, e, e.memory.operation == memory_operation::allocate, e.memory.address, e.memory.bytes);
    if (!from_records_.empty()) from_calls_.clear();
  }
  void add_change(chunked<change>& to, const event& e, bool allocates, std::uint64_t address, std::uint64_t bytes) {
    if (address == 0 && !allocates) return;  // frees nothing
    const interval when = interval_of(e);
    const bool placed = e.stage_id != 0 || e.stage_name.size != 0;
    const std::uint32_t stage = e.stage_name.size == 0 ? 0 : names_.number(e.stage_name);
    to.push_back({address_in_process(e, address), bytes, when.start_ns, when.end_ns, e.process_id, e.thread_id,
                  e.device, stage, low_half(e.correlation_id), placed, allocates});
  }

  /// CUPTI's 32-bit id, without the count of its wraps, which records lack.
  static std::uint32_t low_half(std::uint64_t correlation) noexcept { return static_cast<std::uint32_t>(correlation); }
  static std::uint64_t id_in_process(std::uint32_t process, std::uint32_t correlation) noexcept {
    return std::uint64_t{process} << 32 | correlation;
  }

  void add_call(const event& e) {
    const kind is = kind_of(e.name);
    if (is == kind::other) return;
    if (is != kind::frees && e.correlation_id != 0)
      calls_[id_in_process(e.process_id, low_half(e.correlation_id))] = {
          e.thread_id, e.stage_name.size == 0 ? 0 : names_.number(e.stage_name)};
    if (!from_records_.empty()) return;
    for (std::uint32_t i = 0; i < e.api.argument_count; ++i) {
      const argument& a = e.api.arguments[i];
      if (is == kind::allocates && a.kind == argument_kind::output && e.api.bytes > 0 && a.value != 0)
        return add_change(from_calls_, e, true, a.value, e.api.bytes);
      if (is == kind::frees && a.kind == argument_kind::pointer) return add_change(from_calls_, e, false, a.value, 0);
    }
  }

  enum class kind : std::uint8_t { unseen, other, allocates, allocates_managed, frees };
  kind kind_of(text name) {
    const std::uint32_t n = functions_.number(name);
    if (n >= kinds_.size()) kinds_.resize(functions_.size(), kind::unseen);
    if (kinds_[n] == kind::unseen) {
      const std::string_view f(name.data, name.size);
      const auto has = [&](const char* part) { return f.find(part) != std::string_view::npos; };
      kinds_[n] = has("Host") || has("Array")            ? kind::other
                  : has("Managed")                       ? kind::allocates_managed
                  : has("MemAlloc") || has("cudaMalloc") ? kind::allocates
                  : has("MemFree") || has("cudaFree")    ? kind::frees
                                                         : kind::other;
    }
    return kinds_[n];
  }

  memory_owner& owner_of(ledger& l, std::uint32_t stage) {
    if (stage >= l.stages.size()) l.stages.resize(stage + 1);
    return l.stages[stage];
  }

  void allocate(ledger& l, const change& c, std::uint32_t stage) {
    const auto known = l.live.find(c.address);
    if (known != l.live.end()) forget(l, known, c.end_ns);  // reused address: the trace missed its free
    l.live[c.address] = {c.bytes, stage, c.device};
    for (memory_owner* o : {&l.total, &owner_of(l, stage)}) {
      ++o->allocations;
      ++o->live_allocations;
      o->allocated_bytes += c.bytes;
      o->live_bytes += c.bytes;
      o->peak_bytes = std::max(o->peak_bytes, o->live_bytes);
    }
    l.steps[c.device].push_back({c.end_ns, l.live_on[c.device] += c.bytes});
  }

  void release(ledger& l, const change& c) {
    const auto found = l.live.find(c.address);
    ++l.total.frees;
    if (found == l.live.end()) {
      ++l.unknown_frees;
      return;
    }
    ++owner_of(l, found->second.stage).frees;
    forget(l, found, c.end_ns);
  }

  void forget(ledger& l, detail::seeded_map<std::uint64_t, block>::iterator which, std::int64_t at_ns) {
    const block b = which->second;
    l.live.erase(which);
    for (memory_owner* o : {&l.total, &owner_of(l, b.stage)}) {
      o->live_bytes -= b.bytes;
      --o->live_allocations;
    }
    l.steps[b.device].push_back({at_ns, l.live_on[b.device] -= b.bytes});
  }

  /// Where a call that allocates was made: CUPTI's records of memory have the number of their call alone.
  struct place {
    std::uint32_t thread, stage;
  };

  name_table names_, functions_;
  std::vector<kind> kinds_;
  detail::seeded_map<std::uint64_t, place> calls_;  ///< by id_in_process
  chunked<change> from_records_, from_calls_;
};

}  // namespace analysis
CUTRACE_END_NAMESPACE
