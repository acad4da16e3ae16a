// SPDX-License-Identifier: Apache-2.0
// The least that a CUPTI client can do: the twin that our cost is measured against. Records are thrown away, callbacks
// are empty; the kinds of records are those that CUTRACE_KINDS and CUTRACE_GRAPHS ask of cutrace, the callbacks, where
// they are wanted, are on the same functions as ours.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/library.hpp>
#include <cutrace/cupti/options.hpp>

#include "raw_spans.hpp"

namespace bench {

class CUTRACE_LOCAL raw_cupti {
 public:
  enum class form {
    records,  ///< the kinds of the options alone
    twin,     ///< also what cutrace always has on: descriptions (below), and an empty callback at ENTER and EXIT
    spans     ///< a twin that does the least of a tracer's task: see raw_spans
  };

  /// Before CUDA starts, or while it does (injection). False with a line when CUPTI is not usable. `works`: bits of the
  /// function_work that a twin has callbacks on.
  bool start(form f, std::uint32_t works = ~std::uint32_t{0}) {
    if (!open()) return false;
    if (!good(api().cuptiSubscribe(&subscriber_, f == form::spans ? &raw_spans::on_callback : &on_callback,
                                   &raw_spans::all()),
              "cuptiSubscribe"))
      return false;
    std::uint8_t zeroed = 1;
    std::size_t size = sizeof(zeroed);
    api().cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed);
    if (!set_attribute()) return false;
    if (!good(api().cuptiActivityRegisterCallbacks(&requested, &completed), "cuptiActivityRegisterCallbacks"))
      return false;
    form_ = f;
    with_spans() = f == form::spans;
    works_ = works;
    return record(true);
  }

  /// Sets what RAW_CUPTI_ATTRIBUTE asks for and nothing else, for another client.
  bool prepare() { return std::getenv("RAW_CUPTI_ATTRIBUTE") == nullptr || (open() && set_attribute()); }

  /// Switches all kinds and callbacks on or off; the subscription stays. Any thread, one at a time.
  bool record(bool on) {
    if (on == on_) return true;
    on_ = on;
    if (!turn_kinds(cutrace::cupti::options::from_environment(), on)) return false;
    if (form_ != form::records) turn_callbacks(on);
    if (!on) api().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    return true;
  }

  /// Makes room for another client.
  bool leave() { return record(false) && good(api().cuptiUnsubscribe(subscriber_), "cuptiUnsubscribe"); }

  struct counts {
    std::uint64_t records;  ///< kernels and whole graphs
    std::uint64_t dropped;  ///< by CUPTI
  };
  /// Flushes, and returns what came since the last call, to all objects of this class.
  static counts finish() {
    api().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t dropped = 0;
    api().cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
    return {seen().exchange(0), dropped};
  }

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
  using group = cutrace::cupti::record_group;

  struct kind {
    CUpti_ActivityKind id;
    unsigned groups;  ///< bits, 0: a description (of a device, context or stream)
  };
  // clang-format off
  static constexpr kind kinds[] = {
      {CUPTI_ACTIVITY_KIND_DEVICE, 0},
      {CUPTI_ACTIVITY_KIND_CONTEXT, 0},
      {CUPTI_ACTIVITY_KIND_STREAM, 0},
      {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, group_bit(group::kernel)},
      {CUPTI_ACTIVITY_KIND_MEMCPY, group_bit(group::memcpy)},
      {CUPTI_ACTIVITY_KIND_MEMCPY2, group_bit(group::memcpy)},
      {CUPTI_ACTIVITY_KIND_MEMSET, group_bit(group::memset)},
      {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, group_bit(group::sync)},
      {CUPTI_ACTIVITY_KIND_OVERHEAD, group_bit(group::overhead)},
      {CUPTI_ACTIVITY_KIND_MEMORY2, group_bit(group::memory)},
      {CUPTI_ACTIVITY_KIND_MEMORY_POOL, group_bit(group::memory)},
      {CUPTI_ACTIVITY_KIND_JIT, group_bit(group::jit)},
      {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, group_bit(group::kernel)},
  };
  // clang-format on

  static cutrace::cupti::functions& api() {
    static cutrace::cupti::functions f;
    return f;
  }
  static std::atomic<std::uint64_t>& seen() {
    static std::atomic<std::uint64_t> n{0};
    return n;
  }
  static bool good(CUptiResult r, const char* what) {
    if (r != CUPTI_SUCCESS) std::fprintf(stderr, "raw CUPTI: %s: %s\n", what, api().explain(r).c_str());
    return r == CUPTI_SUCCESS;
  }

  bool open() {
    std::string why;
    const int driver = cutrace::cupti::driver_version(why);
    const std::string found = library_.open(driver / 1000);
    if (library_.opened() != nullptr && api().load(library_.opened()) == nullptr) return true;
    std::fprintf(stderr, "raw CUPTI: %s\n", found.c_str());
    return false;
  }

  /// RAW_CUPTI_ATTRIBUTE=NUMBER:VALUE, as CUpti_ActivityAttribute numbers them.
  bool set_attribute() const {
    const char* const wanted = std::getenv("RAW_CUPTI_ATTRIBUTE");
    unsigned number = 0;
    std::size_t value = 0, size = sizeof(value);
    if (wanted == nullptr || std::sscanf(wanted, "%u:%zu", &number, &value) != 2) return true;
    std::uint8_t flag = value != 0;
    const bool is_flag = number == 5 || number == 8 || number == 9;
    if (is_flag) size = sizeof(flag);
    return good(api().cuptiActivitySetAttribute(static_cast<CUpti_ActivityAttribute>(number), &size,
                                                is_flag ? static_cast<void*>(&flag) : &value),
                "cuptiActivitySetAttribute");
  }
  bool turn_kinds(const cutrace::cupti::options& wanted, bool on) const {
    unsigned known = 0;
    for (const kind& k : kinds) {
      known |= k.groups;
      if (k.groups == 0 ? form_ == form::records : (k.groups & wanted.groups) == 0) continue;
      if (k.id == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && wanted.graphs != cutrace::cupti::graph_level::graph) continue;
      if (!good(on ? api().cuptiActivityEnable(k.id) : api().cuptiActivityDisable(k.id), "a kind cannot be switched"))
        return false;
    }
    if ((wanted.groups & ~known) == 0) return true;
    // Else the twin would record less than the cutrace that is compared with it.
    std::fprintf(stderr, "raw CUPTI: a group of CUTRACE_KINDS is not in the table of raw_cupti.hpp\n");
    return false;
  }
  void turn_callbacks(bool on) const {
    if (!on) api().cuptiEnableDomain(0, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API);
    for (std::uint32_t id = 1; on && id < 1024; ++id) {
      const cutrace::cupti::function_entry* f = cutrace::cupti::find_driver(id);
      // CUPTI refuses functions that it does not have. That is no error, here as in cutrace's backend.
      if (f != nullptr && !f->query && (works_ >> static_cast<unsigned>(f->work) & 1u) != 0)
        api().cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, id);
    }
  }
  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

  static std::atomic<bool>& with_spans() {
    static std::atomic<bool> with{false};
    return with;
  }
  static void CUPTIAPI requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *buffer = static_cast<std::uint8_t*>(std::calloc(1, buffer_bytes));
    *size = buffer_bytes;
    *records = 0;
  }
  static void CUPTIAPI completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
    CUpti_Activity* record = nullptr;
    std::uint64_t n = 0;
    while (api().cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      n += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
      if (with_spans() && record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) raw_spans::all().join(*record);
    }
    if (with_spans()) raw_spans::all().read();
    seen().fetch_add(n);
    std::free(buffer);
  }

  cutrace::cupti::library library_;
  CUpti_SubscriberHandle subscriber_{};
  form form_ = form::records;
  std::uint32_t works_ = 0;
  bool on_ = false;
};

}  // namespace bench
