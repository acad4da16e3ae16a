// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: activity buffers of any content must neither crash the decoder nor make it read outside of them.
// The first input byte chooses how carefully `next`, the fake cuptiActivityGetNextRecord, steps; the second CUPTI's
// version and how far its clock is off; names and details, which records point to, are replaced by good pointers,
// because a decoder cannot recognise a bad one. Details must be freed once or not at all. scripts/fuzz runs it for
// long; random_driver.cpp where there is no libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/cupti_clock.hpp>
#include <cutrace/cupti/decode.hpp>
#include <memory>
#include <set>
#include <string>

namespace {

using namespace cutrace;         // NOLINT(google-build-using-namespace)
using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)

/// Holds what must be true of every event, and keeps nothing.
class checking_emitter : public event_emitter {
 public:
  void emit(const event& e) override {
    ++emitted;
    if (e.name.data == nullptr || std::strlen(e.name.data) != e.name.size) std::abort();
    if (static_cast<std::size_t>(e.kind) >= event_kind_count) std::abort();
    if (e.kind == event_kind::memcpy && e.memcpy_.direction > copy_direction::peer) std::abort();
    if (e.kind == event_kind::memcpy && e.memcpy_.source > memory_kind::managed_static) std::abort();
    if (e.kind == event_kind::sync && e.sync.what > sync_kind::context) std::abort();
  }
  text intern(const char* s, std::size_t size) override {
    const std::string& kept = *names_.emplace(s, size).first;  // for good, as the collector does
    return {kept.c_str(), static_cast<std::uint32_t>(kept.size())};
  }
  text demangle(text mangled) override { return mangled; }
  void count_loss(loss_cause, std::uint64_t n) override { lost += n; }
  void count_quality(std::uint32_t index) override {
    if (index >= quality_count) std::abort();
  }

  std::uint64_t emitted = 0;
  std::uint64_t lost = 0;

 private:
  std::set<std::string> names_;
};

constexpr char name[] = "_Z4fuzzv";
unsigned step_mode = 0;

/// Details that overhead records point to. CUPTI allocates one for each record; ours are never freed twice, and what
/// the decoder does not take is freed here.
std::set<void*>& details() {
  static std::set<void*> all;
  return all;
}
void free_details_once(void* data) {
  if (details().erase(data) == 0) std::abort();
  std::free(data);
}

/// Sizes of CUPTI 13.0's records: what a library of that release steps by. 0: stops at this kind.
std::size_t step_of(std::uint32_t kind) {
  switch (static_cast<record_kind>(kind)) {
    case record_kind::kernel:
    case record_kind::concurrent_kernel:
      return 216;
    case record_kind::memcpy:
    case record_kind::memcpy_peer:
      return 96;
    case record_kind::memset:
      return 88;
    case record_kind::device:
      return 184;
    case record_kind::memory2:
      return 128;
    case record_kind::unified_memory:
      return 104;
    case record_kind::memory:
    case record_kind::memory_pool:
      return 80;
    case record_kind::jit:
      return 72;
    case record_kind::synchronization:
    case record_kind::cuda_event:
    case record_kind::overhead:
    case record_kind::graph_trace:
      return 56;
    case record_kind::environment:
    case record_kind::driver:
    case record_kind::runtime:
    case record_kind::internal_launch_api:
      return 40;
    case record_kind::name:
    case record_kind::context:
      return 32;
    case record_kind::stream:
    case record_kind::external_correlation:
      return 24;
  }
  return step_mode % 2 == 0 ? 0 : 16;
}

/// Replaces a pointer of the record at `at` by a good one, or by none, where the member lies within the buffer.
void replace(std::uint8_t* buffer, std::size_t valid, std::size_t at, std::size_t offset, const void* good) {
  if (at + offset + sizeof(void*) > valid) return;
  const std::uint8_t* old = buffer + at + offset;
  const void* p = (*old & 1) != 0 ? good : nullptr;
  std::memcpy(buffer + at + offset, &p, sizeof(p));
}

void replace_pointers(std::uint8_t* buffer, std::size_t valid, std::size_t at) {
  std::uint32_t kind = 0;
  if (at + sizeof(kind) > valid) return;
  std::memcpy(&kind, buffer + at, sizeof(kind));
  switch (static_cast<record_kind>(kind)) {
    case record_kind::kernel:
    case record_kind::concurrent_kernel:
      return replace(buffer, valid, at, offsetof(kernel_record, name), name);
    case record_kind::device:
      return replace(buffer, valid, at, offsetof(device_record, name), name);
    case record_kind::name:
      return replace(buffer, valid, at, offsetof(name_record, name), name);
    case record_kind::overhead: {
      void* data = std::malloc(8);
      details().insert(data);
      return replace(buffer, valid, at, offsetof(overhead3_record, data), data);
    }
    default:
      return;
  }
}

CUptiResult next(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** r) {
  std::size_t at = 0;
  if (*r != nullptr) {
    const std::size_t last = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(*r) - buffer);
    std::uint32_t kind = 0;
    std::memcpy(&kind, *r, sizeof(kind));
    const std::size_t step = step_of(kind);
    if (step == 0) return CUPTI_ERROR_INVALID_KIND;
    at = step_mode >= 128 ? last + (kind * 2654435761u) % 300 : last + step;  // wild: 0 to 299 bytes
  }
  // A careful library stops here; a careless one returns a record beyond the end.
  if (at >= valid && step_mode % 4 < 2) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  replace_pointers(buffer, valid, at);
  *r = reinterpret_cast<CUpti_Activity*>(reinterpret_cast<std::uintptr_t>(buffer) + at);
  return CUPTI_SUCCESS;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  // 11.8, every number of CUDA 12, 13.0 and its update, 13.2, a future one, and 0: cuptiGetVersion failed.
  constexpr std::uint32_t versions[] = {18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 130000, 130001, 130200, 999999, 0};
  constexpr std::int64_t distances[] = {0, 1234567890, INT64_MAX, INT64_MIN};
  if (size < 2) return 0;
  step_mode = input[0];
  const std::size_t valid = size - 2;
  const std::unique_ptr<void, void (*)(void*)> data(std::malloc(valid == 0 ? 1 : valid), &std::free);
  std::memcpy(data.get(), input + 2, valid);

  decode_context context;
  context.cupti_version = versions[input[1] % 16];
  context.free_data = &free_details_once;
  checking_emitter emitter;
  shifting_emitter shifted(emitter, distances[input[1] / 16 % 4]);
  event_emitter& to = input[1] >= 128 ? static_cast<event_emitter&>(shifted) : emitter;
  const walk_result r = walk_buffer(&next, data.get(), valid, context, to);
  for (void* d : details()) std::free(d);
  details().clear();
  if (!r.complete && emitter.lost == 0) std::abort();
  if (emitter.emitted > 2 * r.records + 1) std::abort();
  if (r.records > valid / sizeof(CUpti_Activity) + 1) std::abort();
  return 0;
}
