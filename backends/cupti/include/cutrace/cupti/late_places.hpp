// SPDX-License-Identifier: Apache-2.0
// Contexts and streams that GPU work names before CUPTI has described them, or that CUPTI does not describe at all. A
// description stands in the buffer of the thread that made the context or stream; that buffer may come after the buffer
// of a thread that used it. Contexts and streams that are older than the session were described when they were made,
// and having CUPTI describe them again could hold the session up for ever (cupti_backend::enable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/cupti/forwarding_emitter.hpp>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// The places of a session: its contexts and streams. Collector's thread.
struct known_places {
  static constexpr std::size_t limit = 8192;  ///< as many descriptions as the collector keeps
  struct place {
    std::uint32_t device = 0;
    bool described = false;
  };
  struct awaited_place {
    std::uint32_t device, context;
    std::uint64_t stream;  ///< 0: the context itself
  };

  std::unordered_map<std::uint64_t, place> all;
  std::vector<awaited_place> awaited;  ///< named by work, not described yet; a context before its streams
  std::vector<event> streams;          ///< descriptions of streams whose context, hence device, is not known yet
  std::uint64_t newest[16] = {};       ///< keys of recent work: the next work nearly always has one of them

  static std::uint64_t key_of(std::uint32_t context, std::uint64_t stream) noexcept {
    return std::uint64_t{context} << 32 | (stream & 0xffffffffu);
  }
  std::uint64_t& newest_of(std::uint64_t key) noexcept { return newest[(key * 0x9e3779b97f4a7c15u) >> 60]; }

  /// Null where the limit is reached. 0 for `stream`: the context itself.
  place* find_or_add(std::uint32_t context, std::uint64_t stream, std::uint32_t device, bool& added) {
    const std::uint64_t key = key_of(context, stream);
    const auto found = all.find(key);
    added = found == all.end() && all.size() < limit;
    if (found != all.end()) return &found->second;
    return added ? &all.emplace(key, place{device, false}).first->second : nullptr;
  }
};

/// Hands all events on. Each context and stream that GPU work names is described once: by CUPTI's record, completed by
/// the device where a stream's record lacks it; or, where no record came until `settle`, by the ids in the work's
/// record, marked as derived. Lives while one buffer is decoded, on the collector's thread.
class CUTRACE_LOCAL place_deriver final : public forwarding_emitter {
 public:
  place_deriver(event_emitter& to, known_places& known) : forwarding_emitter(to), known_(known) {}

  void emit(const event& e) override {
    if (e.kind == event_kind::context) return describe_context(e);
    if (e.kind == event_kind::stream) return describe_stream(e);
    if (e.is_gpu_work() && e.context != 0) note(e);
    to_.emit(e);
  }

  /// All of CUPTI's descriptions for the work so far have been emitted: describes the places that still lack one.
  void settle() {
    std::vector<known_places::awaited_place> now;
    now.swap(known_.awaited);
    for (const known_places::awaited_place& a : now) {
      event e;
      e.device = a.device;
      e.context = a.context;
      e.stream = a.stream;
      e.kind = a.stream == 0 ? event_kind::context : event_kind::stream;
      if (a.stream == 0)
        e.context_.derived = true;
      else
        e.stream_ = stream_data{0, 0, true};
      if (a.stream == 0)
        describe_context(e);
      else
        describe_stream(e);
    }
  }

 private:
  void note(const event& work) {
    const std::uint64_t key = known_places::key_of(work.context, work.stream);
    std::uint64_t& newest = known_.newest_of(key);
    if (key == newest) return;
    newest = key;
    await(work, 0);
    if (work.stream != 0) await(work, work.stream);
  }
  void await(const event& work, std::uint64_t stream) {
    bool added = false;
    known_.find_or_add(work.context, stream, work.device, added);
    if (added) known_.awaited.push_back({work.device, work.context, stream});
  }

  void describe_context(const event& e) {
    bool added = false;
    known_places::place* p = known_.find_or_add(e.context, 0, e.device, added);
    if (p != nullptr) {
      if (p->described) return;
      *p = {e.device, true};
    }
    to_.emit(e);
    release_streams(e.context);
  }

  void describe_stream(const event& e) {
    const auto context = known_.all.find(known_places::key_of(e.context, 0));
    const bool located = context != known_.all.end() && context->second.described;
    if (!located && !e.stream_.derived && known_.streams.size() < known_places::limit)
      return known_.streams.push_back(e);
    event copy = e;
    if (located) copy.device = context->second.device;
    bool added = false;
    known_places::place* p = known_.find_or_add(e.context, e.stream, copy.device, added);
    if (p != nullptr) {
      if (p->described) return;
      p->described = true;
    }
    to_.emit(copy);
  }

  void release_streams(std::uint32_t context) {
    std::vector<event> waiting;
    waiting.swap(known_.streams);
    for (const event& e : waiting) {
      if (e.context == context)
        describe_stream(e);
      else
        known_.streams.push_back(e);
    }
  }

  known_places& known_;
};

}  // namespace cupti
CUTRACE_END_NAMESPACE
