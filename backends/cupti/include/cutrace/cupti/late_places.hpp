// SPDX-License-Identifier: Apache-2.0
// Contexts and streams that are older than the session: CUPTI described them when they were made, and having it do so
// again could hold the session up for ever (cupti_backend::enable). So each is described by the first work seen in it.
#pragma once

#include <cstdint>
#include <cutrace/cupti/forwarding_emitter.hpp>
#include <unordered_set>

CUTRACE_BEGIN_NAMESPACE
namespace cupti {

/// Those that a session knows of. Collector's thread, but for `wanted`, which is set before the first record.
struct known_places {
  static constexpr std::size_t limit = 8192;  ///< as many descriptions as the collector keeps
  bool wanted = false;                        ///< the session began later than CUDA
  std::uint64_t newest = 0;                   ///< of the work seen last: nearly always that of the next
  std::unordered_set<std::uint64_t> keys;

  static std::uint64_t key_of(std::uint32_t context, std::uint64_t stream) noexcept {
    return std::uint64_t{context} << 32 | (stream & 0xffffffffu);
  }
  /// False for what is known already, or cannot be kept. 0 for `stream`: the context itself.
  bool add(std::uint32_t context, std::uint64_t stream) {
    return keys.size() < limit && keys.insert(key_of(context, stream)).second;
  }
};

/// Hands all events on; before the first work of a context or stream that CUPTI has not described goes a description
/// of as much as that work tells: the ids, marked as derived. One buffer's life, collector's thread.
class CUTRACE_LOCAL place_deriver final : public forwarding_emitter {
 public:
  place_deriver(event_emitter& to, known_places& known) : forwarding_emitter(to), known_(known) {}

  void emit(const event& e) override {
    if (e.is_gpu_work() && e.context != 0)
      derive(e);
    else if (e.kind == event_kind::context)
      known_.add(e.context, 0);
    else if (e.kind == event_kind::stream)
      known_.add(e.context, e.stream);
    to_.emit(e);
  }

 private:
  void derive(const event& work) {
    const std::uint64_t key = known_places::key_of(work.context, work.stream);
    if (key == known_.newest) return;
    known_.newest = key;
    event e;
    e.device = work.device;
    e.context = work.context;
    if (known_.add(work.context, 0)) {
      e.kind = event_kind::context;
      e.context_.derived = true;
      to_.emit(e);
    }
    if (work.stream == 0 || !known_.add(work.context, work.stream)) return;
    e.kind = event_kind::stream;
    e.stream = work.stream;
    e.stream_ = stream_data{0, 0, true};
    to_.emit(e);
  }

  known_places& known_;
};

}  // namespace cupti
CUTRACE_END_NAMESPACE
