// SPDX-License-Identifier: Apache-2.0
// What the backends said of the functions whose calls they record. Written by any thread, read by the collector.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <cutrace/backend.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// What a call does to the order of a stream: found once for each function, by its name and the names of its parameters
/// as in cuda.h.
struct stream_use {
  enum class role : std::uint8_t {
    none,
    work,          ///< GPU records of it come: launch, copy, set
    graph,         ///< as `work`, for each node
    event_record,  ///< leaves no record, as all up to host_function
    wait_event,    ///< the stream waits
    wait_value,    ///< the stream waits, or may: a batch of memory operations
    write_value,
    host_function,  ///< also the older callback
    stream_wait,    ///< the host waits, as in the next two
    event_wait,
    context_wait,
    stream_created,
    stream_gone,
    event_gone,
    begins_capture,
    ends_capture
  };

  role what = role::none;
  std::int8_t stream_word = -1;  ///< index of the stream argument, -1: the default stream
  std::int8_t event_word = -1;
  std::int8_t flags_word = -1;  ///< of a stream that is made
  std::int8_t bytes_word = -1;  ///< of a copy or set

  bool per_thread = false;  ///< the default stream is that of the calling thread
  bool waits = false;       ///< work: the call returns when it is done, as a copy to the host does

  static stream_use of(const function_info& f) noexcept {
    stream_use use;
    for (std::uint32_t i = 0; i < f.parameter_count && i < 10; ++i) {
      const char* const name = f.parameters[i].name;
      if (std::strcmp(name, "hStream") == 0 || std::strcmp(name, "stream") == 0 || std::strcmp(name, "phStream") == 0)
        use.stream_word = static_cast<std::int8_t>(i);
      if (std::strcmp(name, "hEvent") == 0) use.event_word = static_cast<std::int8_t>(i);
      if (std::strcmp(name, "flags") == 0 || std::strcmp(name, "Flags") == 0)
        use.flags_word = static_cast<std::int8_t>(i);
    }
    use.what = role_of(f);
    use.per_thread = f.per_thread_stream;
    const auto begins = [&f](const char* with) { return std::strncmp(f.name, with, std::strlen(with)) == 0; };
    if (use.what == role::work && begins("cuMem")) use.bytes_word = static_cast<std::int8_t>(f.bytes_parameter);
    use.waits = use.what == role::work && use.stream_word < 0 && (begins("cuMemcpyDtoH") || begins("cuMemcpyAtoH"));
    return use;
  }

 private:
  static role role_of(const function_info& f) noexcept {
    if (f.name == nullptr) return role::none;
    const auto begins = [&f](const char* with) { return std::strncmp(f.name, with, std::strlen(with)) == 0; };
    if (f.makes_gpu_work) return begins("cuGraph") ? role::graph : role::work;
    struct known {
      const char* begin;
      role what;
    };
    static constexpr known all[] = {
        {"cuEventRecord", role::event_record},           {"cuStreamWaitEvent", role::wait_event},
        {"cuStreamWaitValue", role::wait_value},         {"cuStreamWriteValue", role::write_value},
        {"cuStreamBatchMemOp", role::wait_value},  // it may hold one
        {"cuLaunchHostFunc", role::host_function},       {"cuStreamAddCallback", role::host_function},
        {"cuStreamSynchronize", role::stream_wait},      {"cuEventSynchronize", role::event_wait},
        {"cuCtxSynchronize", role::context_wait},        {"cuStreamCreate", role::stream_created},
        {"cuStreamDestroy", role::stream_gone},          {"cuEventDestroy", role::event_gone},
        {"cuStreamBeginCapture", role::begins_capture},  {"cuStreamEndCapture", role::ends_capture},
        {"cuGreenCtxStreamCreate", role::stream_created}};
    for (const known& k : all)
      if (begins(k.begin)) return k.what;
    return role::none;
  }
};

struct known_function {
  text text_of_name() const noexcept { return {name.data(), static_cast<std::uint32_t>(name.size())}; }

  std::string name;
  std::vector<argument> parameters;  ///< without their values
  std::vector<std::string> parameter_names;
  copy_direction direction = copy_direction::unknown;
  std::int32_t bytes_parameter = -1;
  bool makes_gpu_work = false;
  stream_use use;
};

class function_table {
 public:
  static constexpr std::uint32_t limit = 4096;

  /// The first description of an id stays. Any thread.
  CUTRACE_NOINLINE void add(std::uint32_t id, bool runtime_api, const function_info& info) {
    if (id >= limit) return;
    std::lock_guard<std::mutex> hold(mutex_);
    std::atomic<known_function*>& place = functions_[runtime_api ? 1 : 0][id];
    if (place.load(std::memory_order_relaxed) != nullptr) return;
    std::unique_ptr<known_function> f(new known_function);
    f->name = info.name != nullptr ? info.name : "";
    for (std::uint32_t i = 0; i < info.parameter_count; ++i) f->parameter_names.push_back(info.parameters[i].name);
    for (std::uint32_t i = 0; i < info.parameter_count; ++i)
      f->parameters.push_back({text_of(&f->parameter_names[i]), info.parameters[i].kind, 0});
    f->direction = info.direction;
    f->bytes_parameter = info.bytes_parameter;
    f->makes_gpu_work = info.makes_gpu_work;
    f->use = stream_use::of(info);
    place.store(f.get(), std::memory_order_release);
    owned_.push_back(std::move(f));
  }

  const known_function* find(std::uint32_t id, bool runtime_api) const noexcept {
    return id < limit ? functions_[runtime_api ? 1 : 0][id].load(std::memory_order_acquire) : nullptr;
  }

  /// Empty where it is not known.
  text name_of(std::uint32_t id, bool runtime_api) const noexcept {
    const known_function* f = find(id, runtime_api);
    return f != nullptr ? f->text_of_name() : text{};
  }

  /// The first name of a code stays. Any thread.
  CUTRACE_NOINLINE void add_result(bool runtime_api, std::int32_t code, const char* name) {
    std::lock_guard<std::mutex> hold(mutex_);
    if (find_result(runtime_api, code) != nullptr) return;
    results_.emplace_back(new known_result{runtime_api, code, name});
    if (is_small(code))
      small_results_[runtime_api ? 1 : 0][code].store(&results_.back()->name, std::memory_order_release);
  }
  /// Name of a result code, empty when unknown. Stable address.
  text result(bool runtime_api, std::int32_t code) const {
    if (is_small(code)) {  // nearly every call: no lock
      return text_of(small_results_[runtime_api ? 1 : 0][code].load(std::memory_order_acquire));
    }
    std::lock_guard<std::mutex> hold(mutex_);
    return text_of(find_result(runtime_api, code));
  }

 private:
  struct known_result {
    bool runtime_api;
    std::int32_t code;
    std::string name;
  };

  /// Searches the few large codes one by one: a backend names some hundred codes, once.
  const std::string* find_result(bool runtime_api, std::int32_t code) const noexcept {
    if (is_small(code)) return small_results_[runtime_api ? 1 : 0][code].load(std::memory_order_relaxed);
    for (const std::unique_ptr<known_result>& r : results_)
      if (r->code == code && r->runtime_api == runtime_api) return &r->name;
    return nullptr;
  }

  static constexpr std::int32_t small_limit = 1024;  ///< all of CUresult, and cudaError_t but for one
  static bool is_small(std::int32_t code) noexcept { return code >= 0 && code < small_limit; }
  static text text_of(const std::string* s) noexcept {
    return s != nullptr ? text{s->data(), static_cast<std::uint32_t>(s->size())} : text{};
  }

  mutable std::mutex mutex_;
  std::atomic<known_function*> functions_[2][limit] = {};
  std::vector<std::unique_ptr<known_function>> owned_;
  std::vector<std::unique_ptr<known_result>> results_;
  std::atomic<const std::string*> small_results_[2][small_limit] = {};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
