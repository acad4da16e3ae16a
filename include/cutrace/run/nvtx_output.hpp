// SPDX-License-Identifier: Apache-2.0
// Shows stages, spans and marks to another tool as NVTX ranges of the domain "cutrace", on the thread where they
// happen. Called through the C table by markers of all objects, while the gate stands at gate_notify.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cutrace/base/process_info.hpp>
#include <cutrace/collect/runtime_core.hpp>
#include <cutrace/collect/site_table.hpp>
#include <cutrace/nvtx/abi.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

// The program's side of NVTX 3: an instance of it, as NVIDIA's headers make one in each object, without those headers.
// A tool sets the functions that it wants to be called; the others stay null.

class nvtx_client {
 public:
  using attributes = nvtx::event_attributes;

  /// Brings in the tool that NVTX_INJECTION64_PATH names, once. Returns nullptr, or why there is none and what to do.
  CUTRACE_NOINLINE static const char* load() noexcept {
    static const char* const result = find_tool();
    return result;
  }

  static nvtx::handle create_domain(const char* name) noexcept {
    const auto f = function<nvtx::handle (*)(const char*)>(nvtx::core2::domain_create_a);
    return f != nullptr ? f(name) : nullptr;
  }
  static nvtx::handle register_string(nvtx::handle domain, const char* text) noexcept {
    const auto f = function<nvtx::handle (*)(nvtx::handle, const char*)>(nvtx::core2::domain_register_string_a);
    return f != nullptr ? f(domain, text) : nullptr;
  }
  static void push(nvtx::handle domain, const attributes& a) noexcept {
    if (const auto f = function<int (*)(nvtx::handle, const attributes*)>(nvtx::core2::domain_range_push_ex))
      f(domain, &a);
  }
  static void pop(nvtx::handle domain) noexcept {
    if (const auto f = function<int (*)(nvtx::handle)>(nvtx::core2::domain_range_pop)) f(domain);
  }
  static nvtx::range_id start(nvtx::handle domain, const attributes& a) noexcept {
    const auto f = function<nvtx::range_id (*)(nvtx::handle, const attributes*)>(nvtx::core2::domain_range_start_ex);
    return f != nullptr ? f(domain, &a) : 0;
  }
  static void end(nvtx::handle domain, nvtx::range_id id) noexcept {
    if (const auto f = function<void (*)(nvtx::handle, nvtx::range_id)>(nvtx::core2::domain_range_end)) f(domain, id);
  }
  static void mark(nvtx::handle domain, const attributes& a) noexcept {
    if (const auto f = function<void (*)(nvtx::handle, const attributes*)>(nvtx::core2::domain_mark_ex)) f(domain, &a);
  }

 private:
  /// All modules that NVTX has, since a tool may count on them; sizes as in NVIDIA's headers, ids from 1.
  static constexpr unsigned sizes[nvtx::module_count] = {0, nvtx::core::count, 9, 15, 7, nvtx::core2::count, 7};
  static constexpr unsigned largest = 16;

  struct instance {
    nvtx::any_function functions[nvtx::module_count][largest] = {};
    nvtx::any_function* slots[nvtx::module_count][largest + 1] = {};
    nvtx::callbacks_table callbacks{sizeof(nvtx::callbacks_table), &get_module};
    nvtx::version_table version{sizeof(nvtx::version_table), nvtx::version_3, 0, [](std::uint32_t) {}};
  };
  /// Never destroyed: the tool keeps pointers to it.
  static instance& own() noexcept {
    static instance* i = new instance();
    return *i;
  }

  template <class Function>
  static Function function(nvtx::core2::function which) noexcept {
    return reinterpret_cast<Function>(own().functions[nvtx::module_core2][which]);
  }

  static int get_module(std::uint32_t which, nvtx::any_function*** table, unsigned* size) {
    if (which == 0 || which >= nvtx::module_count) return 0;
    instance& i = own();
    for (unsigned id = 1; id < sizes[which]; ++id) i.slots[which][id] = &i.functions[which][id];
    if (table != nullptr) *table = i.slots[which];
    if (size != nullptr) *size = sizes[which];
    return 1;
  }
  static const void* get_table(std::uint32_t which) {
    if (which == nvtx::table_callbacks) return &own().callbacks;
    return which == nvtx::table_version ? &own().version : nullptr;
  }

  static const char* find_tool() noexcept {
    const char* path = environment("NVTX_INJECTION64_PATH");
    if (path == nullptr)
      return "stages are not shown as NVTX ranges: no tool listens (NVTX_INJECTION64_PATH is not set)";
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return "stages are not shown as NVTX ranges: NVTX_INJECTION64_PATH cannot be loaded";
    if (dlsym(library, "cutrace_injected_library") != nullptr)
      return "stages are not shown as NVTX ranges: NVTX_INJECTION64_PATH names cutrace itself, no other tool listens";
    const auto entry = reinterpret_cast<nvtx::initialize_injection>(dlsym(library, "InitializeInjectionNvtx2"));
    if (entry == nullptr)
      return "stages are not shown as NVTX ranges: what NVTX_INJECTION64_PATH names is no tool for NVTX 3";
    if (entry(&get_table) == 0) return "stages are not shown as NVTX ranges: the tool refused to begin";
    return nullptr;
  }
};

class nvtx_emitter {
 public:
  explicit nvtx_emitter(const site_table& sites) : sites_(sites) {}

  /// From here on what begins is shown. Returns nullptr, or why nothing can be. @throws std::bad_alloc
  CUTRACE_NOINLINE const char* open() {
    if (const char* why = nvtx_client::load()) return why;
    if (strings_ == nullptr) {
      strings_.reset(new std::atomic<nvtx::handle>[site_table::capacity]());
      domain_ = nvtx_client::create_domain("cutrace");
    }
    on_.store(true, std::memory_order_release);
    return nullptr;
  }

  /// From here on nothing new is shown. Scopes that were shown report their end themselves; spans may live on for ever.
  CUTRACE_NOINLINE void close() noexcept {
    if (!on_.exchange(false, std::memory_order_acq_rel)) return;
    std::lock_guard<std::mutex> hold(mutex_);
    for (const auto& span : spans_) nvtx_client::end(domain_, span.second);
    spans_.clear();
  }

  /// On the owning thread of the stage. `dynamic_name`: the stage's name where no site has it.
  void begins(stage_frame& f, const char* dynamic_name) noexcept {
    f.head &= ~head_flags(flag_shown);  // an adopted part starts with a copy of the head of its stage
    if (!on_.load(std::memory_order_acquire)) return;
    const nvtx_client::attributes a = describe(f, dynamic_name);
    if (!is_span(f))
      nvtx_client::push(domain_, a);
    else if (!start_span(f.id, a))
      return;
    f.head |= head_flags(flag_shown);
  }

  /// On the thread where the stage ends.
  void ended(const stage_frame& f) noexcept {
    if (!is_span(f)) return nvtx_client::pop(domain_);
    nvtx::range_id id = 0;
    {
      std::lock_guard<std::mutex> hold(mutex_);
      const auto found = spans_.find(f.id);
      if (found == spans_.end()) return;
      id = found->second;
      spans_.erase(found);
    }
    nvtx_client::end(domain_, id);
  }

  void passed(std::uint32_t site) noexcept {
    if (!on_.load(std::memory_order_acquire)) return;
    nvtx_client::attributes a = blank();
    name(a, site);
    nvtx_client::mark(domain_, a);
  }

 private:
  static constexpr std::size_t span_limit = 65536;

  static bool is_span(const stage_frame& f) noexcept {
    return (f.head & head_flags(flag_span | flag_adopted)) == head_flags(flag_span);
  }

  static nvtx_client::attributes blank() noexcept {
    nvtx_client::attributes a{};
    a.version = nvtx::version_3;
    a.size = sizeof(a);
    return a;
  }

  nvtx_client::attributes describe(const stage_frame& f, const char* dynamic_name) noexcept {
    nvtx_client::attributes a = blank();
    const auto form = static_cast<request_form>((f.head & head_form_mask) >> 16);
    if (form == request_form::id && f.naming_stage == f.id) {
      a.payload_kind = nvtx::payload_uint64;
      a.payload.unsigned_64 = f.request;
    }
    if ((f.head & head_flags(flag_dynamic)) == 0) {
      name(a, static_cast<std::uint32_t>(f.head >> 32));
    } else {  // an adopted part of such a stage does not know its name
      a.message_kind = nvtx::message_ascii;
      a.message.ascii = dynamic_name != nullptr ? dynamic_name : "(named at run time)";
    }
    return a;
  }

  /// By registered string: the tool gets each text once.
  void name(nvtx_client::attributes& a, std::uint32_t site) noexcept {
    if (site >= site_table::capacity) site = site_table::full_id;
    std::atomic<nvtx::handle>& known = strings_[site];
    nvtx::handle string = known.load(std::memory_order_acquire);
    const char* text = sites_.at(site).name.data;
    if (string == nullptr) {
      string = nvtx_client::register_string(domain_, text);
      known.store(string, std::memory_order_release);
    }
    a.message_kind = string != nullptr ? nvtx::message_registered : nvtx::message_ascii;
    if (string != nullptr)
      a.message.registered = string;
    else
      a.message.ascii = text;
  }

  bool start_span(std::uint64_t stage, const nvtx_client::attributes& a) noexcept {
    try {
      std::lock_guard<std::mutex> hold(mutex_);
      if (spans_.size() >= span_limit) return false;
      nvtx::range_id& id = spans_[stage];
      id = nvtx_client::start(domain_, a);
      return true;
    } catch (...) {  // out of memory: one span is not shown
      return false;
    }
  }

  const site_table& sites_;
  std::atomic<bool> on_{false};
  nvtx::handle domain_ = nullptr;
  std::unique_ptr<std::atomic<nvtx::handle>[]> strings_;  ///< by site
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, nvtx::range_id> spans_;  ///< by stage
};

/// The process's emitter. Never destroyed, since threads may use it until the very end.
inline nvtx_emitter& nvtx_output() {
  static nvtx_emitter* output = new nvtx_emitter(runtime_core::own().sites);
  return *output;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
