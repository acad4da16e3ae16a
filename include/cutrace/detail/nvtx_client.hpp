// SPDX-License-Identifier: Apache-2.0
// The program's side of NVTX 3: an instance of it, as NVIDIA's headers make one in each object, without those headers.
// A tool sets the functions that it wants to be called; the others stay null.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cutrace/nvtx/abi.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

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
  /// All modules that NVTX has, since a tool may count on them; size as there, ids from 1.
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
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    if (path == nullptr || *path == '\0')
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

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
