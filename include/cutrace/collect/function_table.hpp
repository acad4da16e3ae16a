// SPDX-License-Identifier: Apache-2.0
// What the backends said of the functions whose calls they record. Written by any thread, read by the collector.
#pragma once

#include <atomic>
#include <cutrace/backend.hpp>
#include <cutrace/collect/stream_use.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

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

  /// The few large ones one after the other: a backend names some hundred codes, once.
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
