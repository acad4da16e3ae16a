// SPDX-License-Identifier: Apache-2.0
// The least that a CUPTI client can do: the twin that our cost is measured against. Records are thrown away, callbacks
// are empty, and they are on the same functions as ours.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/library.hpp>

namespace bench {

class CUTRACE_LOCAL raw_cupti {
 public:
  /// Before CUDA starts. `callbacks`: also an empty one at ENTER and EXIT. False with a line when CUPTI is not
  /// usable.
  bool start(bool kernels, bool callbacks) {
    std::string why;
    const int driver = cutrace::cupti::driver_version(why);
    const std::string found = library_.open(driver / 1000);
    if (library_.opened() == nullptr || api().load(library_.opened()) != nullptr) {
      std::fprintf(stderr, "%s\n", found.c_str());
      return false;
    }
    if (api().cuptiSubscribe(&subscriber_, &on_callback, nullptr) != CUPTI_SUCCESS) return false;
    std::uint8_t zeroed = 1;
    std::size_t size = sizeof(zeroed);
    api().cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
    api().cuptiActivityRegisterCallbacks(&requested, &completed);
    if (kernels && api().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) return false;
    if (callbacks) enable_callbacks();
    return true;
  }
  /// Kernel records seen so far.
  static std::uint64_t finish() {
    api().cuptiActivityFlushAll(1);
    return seen().load();
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

  static cutrace::cupti::functions& api() {
    static cutrace::cupti::functions f;
    return f;
  }
  static std::atomic<std::uint64_t>& seen() {
    static std::atomic<std::uint64_t> n{0};
    return n;
  }
  void enable_callbacks() {
    for (std::uint32_t id = 1; id < 1024; ++id) {
      const cutrace::cupti::function_entry* f = cutrace::cupti::find_driver(id);
      if (f != nullptr && !f->query) api().cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
  }
  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}
  static void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *buffer = static_cast<std::uint8_t*>(std::calloc(1, buffer_bytes));
    *size = buffer_bytes;
    *records = 0;
  }
  static void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    std::uint64_t n = 0;
    while (api().cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
      n += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    seen().fetch_add(n);
    std::free(buffer);
  }

  cutrace::cupti::library library_;
  CUpti_SubscriberHandle subscriber_{};
};

}  // namespace bench
