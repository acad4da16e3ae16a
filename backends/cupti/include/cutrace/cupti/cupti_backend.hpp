// SPDX-License-Identifier: Apache-2.0
// The CUPTI backend. Every driver function gives a span by callback, with result and arguments; activity records give
// the work of the GPU on its own timestamps. The functions are enumerated at run time.
//
// Off by default is one class of functions: those that only ask ("query" in the generated table: cuCtxGetCurrent,
// cuFuncGetAttribute, cuStreamIsCapturing and their like). In an eager PyTorch loop they outnumber the calls that make
// work; CUTRACE_CUPTI_QUERIES=1 brings them back. Failures of them are then invisible, too.
//
// CUPTI is never finalised: doing so while another thread calls CUDA destroys the program (measured on CUPTI 13.0).
#pragma once

#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/buffers.hpp>
#include <cutrace/cupti/decode.hpp>
#include <cutrace/cupti/functions.hpp>
#include <cutrace/cupti/library.hpp>
#include <mutex>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

/// What CUPTI keeps for the life of the process, and so do we: the library, the buffers, the registered callbacks.
struct process_state {
  static constexpr std::uint32_t function_limit = 4096;

  library lib;
  functions api;
  buffer_pool buffers;
  std::uint32_t version = 0;
  std::atomic<event_writer*> writer{nullptr};     ///< null between sessions; the object itself lives on
  std::atomic<decode_context*> decoder{nullptr};  ///< of the running session
  std::atomic<std::uint64_t> refused{0};          ///< buffer requests that found none
  tick_scale scale;                               ///< for timestamps, the process's
  bool clock_registered = false;
  std::uint8_t makes_work[function_limit] = {};

  static process_state& get() {
    static process_state* state = new process_state();
    return *state;
  }
};

class cupti_backend final : public backend {
 public:
  const char* name() const noexcept override { return "cupti"; }

  backend_status start(event_writer& w) override {
    writer_ = &w;
    backend_status status{};
    std::string detail;
    status.active = begin(detail);
    std::snprintf(status.detail, sizeof(status.detail), "%s", detail.c_str());
    return status;
  }

  bool flush(std::uint32_t) noexcept override {
    if (!active_) return true;
    process_state& p = process_state::get();
    complain("cuptiActivityFlushAll", p.api.cuptiActivityFlushAll(0));
    count_dropped();
    return true;
  }

  bool stop(std::uint32_t) noexcept override {
    if (!active_) return true;
    active_ = false;
    process_state& p = process_state::get();
    // Callbacks first: from here on no new call is recorded. Then what was recorded, incomplete or not.
    p.api.cuptiEnableDomain(0, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API);
    complain("cuptiActivityFlushAll", p.api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    count_dropped();
    for (const kind& k : kinds)
      if (k.enabled(enabled_)) p.api.cuptiActivityDisable(k.id);
    p.api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    p.api.cuptiUnsubscribe(subscriber_);
    p.writer.store(nullptr, std::memory_order_release);
    return true;
  }

 private:
  struct kind {
    CUpti_ActivityKind id;
    const char* name;
    unsigned bit;
    bool enabled(unsigned bits) const noexcept { return (bits >> bit & 1u) != 0; }
  };
  static constexpr kind kinds[] = {
      {CUPTI_ACTIVITY_KIND_DEVICE, "DEVICE", 0},     {CUPTI_ACTIVITY_KIND_CONTEXT, "CONTEXT", 1},
      {CUPTI_ACTIVITY_KIND_STREAM, "STREAM", 2},     {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL", 3},
      {CUPTI_ACTIVITY_KIND_MEMCPY, "MEMCPY", 4},     {CUPTI_ACTIVITY_KIND_MEMCPY2, "MEMCPY2", 5},
      {CUPTI_ACTIVITY_KIND_MEMSET, "MEMSET", 6},     {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "SYNCHRONIZATION", 7},
      {CUPTI_ACTIVITY_KIND_OVERHEAD, "OVERHEAD", 8},
  };

  /// In the order that CUPTI demands: subscribe before any other call, attributes and clock before buffers, buffers
  /// before kinds.
  bool begin(std::string& detail) {
    process_state& p = process_state::get();
    if (!open_library(p, detail) || !subscribe(p, detail)) return false;
    set_attributes(p);
    p.buffers.allow(writer_->buffer_budget_bytes());
    decoder_.cupti_version = p.version;
    p.decoder.store(&decoder_, std::memory_order_release);
    p.writer.store(writer_, std::memory_order_release);
    const CUptiResult registered = p.api.cuptiActivityRegisterCallbacks(&buffer_requested, &buffer_completed);
    complain("cuptiActivityRegisterCallbacks", registered);
    if (registered == CUPTI_SUCCESS) {
      for (const kind& k : kinds) {
        const CUptiResult r = p.api.cuptiActivityEnable(k.id);
        if (r == CUPTI_SUCCESS)
          enabled_ |= 1u << k.bit;
        else
          complain((std::string("cuptiActivityEnable(") + k.name + "), such records are missing").c_str(), r);
      }
    }
    const std::uint32_t hooked = enable_callbacks(p);
    active_ = true;
    detail += ", " + std::to_string(hooked) + " driver functions";
    const unsigned work = 1u << 3;
    if ((enabled_ & work) == 0) detail += "; kernels cannot be recorded";
    return enabled_ != 0;
  }

  bool open_library(process_state& p, std::string& detail) {
    std::string why;
    const int driver = driver_version(why);
    if (driver == 0) {
      detail = why + ": host stages only, no GPU time";
      return false;
    }
    if (p.lib.opened() == nullptr) {
      const std::string found = p.lib.open(driver / 1000);
      if (p.lib.opened() == nullptr) {
        detail = found + ": no GPU time";
        return false;
      }
      if (const char* missing = p.api.load(p.lib.opened())) {
        detail = found + " has no function " + missing + ": it is no usable libcupti; no GPU time";
        p.lib = library();
        return false;
      }
      path_ = found;
    }
    const CUptiResult asked = p.api.cuptiGetVersion(&p.version);
    if (asked != CUPTI_SUCCESS) complain("cuptiGetVersion", asked);
    const int major = cuda_major_of(p.version);
    if (major != driver / 1000) {
      const std::string line = "libcupti is of CUDA " + std::to_string(major) + ", the driver of CUDA " +
                               std::to_string(driver / 1000) +
                               ": records may be missing; name a matching library in CUTRACE_CUPTI_LIBRARY";
      writer_->report("cupti", line.c_str());
    }
    detail = "CUPTI " + std::to_string(p.version) + ", driver " + std::to_string(driver / 1000) + "." +
             std::to_string(driver % 1000 / 10);
    return true;
  }

  bool subscribe(process_state& p, std::string& detail) {
    char holder[128] = {};
    CUptiResult r = CUPTI_ERROR_UNKNOWN;
#if CUPTI_API_VERSION >= 130000
    if (p.api.cuptiSubscribe_v2 != nullptr) {
      CUpti_SubscriberParams params{};
      params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
      params.subscriberName = "cutrace";
      params.oldSubscriberName = holder;
      params.oldSubscriberSize = sizeof(holder);
      r = p.api.cuptiSubscribe_v2(&subscriber_, &on_callback, nullptr, &params);
    } else
#endif
      r = p.api.cuptiSubscribe(&subscriber_, &on_callback, nullptr);
    if (r == CUPTI_SUCCESS) return true;
    detail = "CUPTI refused to be used, " + p.api.explain(r);
    if (r == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || r == CUPTI_ERROR_MAX_LIMIT_REACHED) {
      holder[sizeof(holder) - 1] = '\0';
      detail += std::string("; it is taken by ") + (holder[0] != '\0' ? holder : "another tool of this process");
    } else if (r == CUPTI_ERROR_NOT_INITIALIZED) {
      detail += "; the driver may be older than this libcupti";
    } else if (r == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
      detail += "; the administrator can allow it with the module option NVreg_RestrictProfilingToAdminUsers=0";
    }
    detail += ": no GPU time";
    return false;
  }

  void set_attributes(process_state& p) {
    std::uint8_t on = 1;
    std::size_t size = sizeof(on);
    complain("cuptiActivitySetAttribute(ZEROED_OUT_ACTIVITY_BUFFER)",
             p.api.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &on));
    if (p.api.cuptiSetThreadIdType != nullptr)
      complain("cuptiSetThreadIdType", p.api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
    // Once in a process: each further registration spoils a record (pytorch#192021). The scale is the process's.
    if (p.clock_registered) return;
    if (p.api.cuptiActivityRegisterTimestampCallback != nullptr) {
      p.scale = writer_->scale();
      const CUptiResult r = p.api.cuptiActivityRegisterTimestampCallback(&timestamp);
      p.clock_registered = r == CUPTI_SUCCESS;
      complain("cuptiActivityRegisterTimestampCallback", r);
    }
    if (!p.clock_registered)
      writer_->report("cupti",
                      "CUPTI does not take our clock: GPU times are in its own and cannot be joined with host times");
  }

  /// Names and enables every driver function that the library knows. Returns how many.
  std::uint32_t enable_callbacks(process_state& p) {
    const char* wanted = std::getenv("CUTRACE_CUPTI_QUERIES");
    const bool queries = wanted != nullptr && std::strcmp(wanted, "1") == 0;
    std::uint32_t count = 0, unnamed = 0;
    CUptiResult failure = CUPTI_SUCCESS;
    for (std::uint32_t cbid = 1; cbid < process_state::function_limit && unnamed < 64; ++cbid) {
      const char* symbol = nullptr;
      if (p.api.cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &symbol) != CUPTI_SUCCESS || symbol == nullptr) {
        ++unnamed;  // numbers are given out without large holes: a run of unknown ones is the end
        continue;
      }
      unnamed = 0;
      const function_entry* known = find_driver(cbid);
      if (known != nullptr && known->query && !queries) continue;
      name(cbid, symbol, known);
      p.makes_work[cbid] = known == nullptr || known->work != function_work::none;  // sync records carry ids, too
      const CUptiResult r = p.api.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, cbid);
      if (r == CUPTI_SUCCESS)
        ++count;
      else
        failure = r;
    }
    complain("cuptiEnableCallback, some calls are missing", failure);
    return count;
  }

  void name(std::uint32_t cbid, const char* symbol, const function_entry* known) {
    function_info::parameter parameters[word_limit];
    function_info info{};
    if (known != nullptr) {
      info = describe(*known, parameters);
    } else {
      info.name = symbol;
      info.bytes_parameter = -1;
      info.makes_gpu_work = false;  // not known to: it would promise GPU records that may never come
    }
    writer_->name_function(cbid, false, info);
  }

  void complain(const char* what, CUptiResult r) const noexcept {
    if (r == CUPTI_SUCCESS) return;
    try {
      writer_->report("cupti", (std::string(what) + ": " + process_state::get().api.explain(r)).c_str());
    } catch (...) {  // out of memory: the line is lost
    }
  }

  void count_dropped() const noexcept {
    process_state& p = process_state::get();
    std::size_t n = 0;
    if (p.api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &n) != CUPTI_SUCCESS || n == 0) return;
    // Refusing a buffer makes CUPTI drop: then the limit is to blame.
    const bool ours = p.refused.exchange(0, std::memory_order_relaxed) != 0;
    writer_->count_loss(ours ? loss_cause::buffer_limit : loss_cause::cupti_dropped, n);
  }

  /// Raw-frame nanoseconds, for CUPTI. Any thread.
  static std::uint64_t CUPTIAPI timestamp() {
    static const tick_scale& scale = process_state::get().scale;
    return scale.now_ns();
  }

  static void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
    if (CUTRACE_UNLIKELY(domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid >= process_state::function_limit)) return;
    static process_state& p = process_state::get();
    event_writer* w = p.writer.load(std::memory_order_acquire);
    if (CUTRACE_UNLIKELY(w == nullptr)) return;
    const CUpti_CallbackData& call = *static_cast<const CUpti_CallbackData*>(data);
    if (call.callbackSite == CUPTI_API_ENTER) {
      const std::uint64_t begin = w->ticks();
      *call.correlationData = begin;
      w->enter(cbid, call.correlationId, begin, p.makes_work[cbid] != 0);
    } else {
      leave(*w, cbid, call);
    }
  }

  static void leave(event_writer& w, CUpti_CallbackId cbid, const CUpti_CallbackData& call) noexcept {
    api_call c{};
    c.begin_ticks = *call.correlationData;
    if (c.begin_ticks == 0) return;  // entered before the callbacks were on
    std::uint64_t words[word_limit];
    c.result = call.functionReturnValue != nullptr
                   ? static_cast<std::int32_t>(*static_cast<const CUresult*>(call.functionReturnValue))
                   : 0;
    const function_entry* f = find_driver(cbid);
    c.word_count = f != nullptr ? read_words(*f, call.functionParams, c.result == 0, words)
                                : read_raw_words(call.functionParams, words);
    c.words = words;
    c.function = cbid;
    c.correlation = call.correlationId;
    c.stage = api_call::stage_of_thread;
    c.end_ticks = w.ticks();
    w.exit(c);
  }

  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    process_state& p = process_state::get();
    *records = 0;  // as many as fit
    *buffer = p.buffers.take();
    *size = buffer_pool::buffer_bytes;
    if (*buffer != nullptr) return;
    p.refused.fetch_add(1, std::memory_order_relaxed);
    *size = 0;
    if (p.version >= 27)
      return;  // earlier releases crash on a refusal (CUDA 12.8 and older): they get one to throw away
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_pool::discard_bytes));
    if (*buffer == nullptr) return;
    std::memset(*buffer, 0, buffer_pool::discard_bytes);
    *size = buffer_pool::discard_bytes;
  }

  static void CUPTIAPI buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t size,
                                        std::size_t valid) {
    process_state& p = process_state::get();
    if (buffer == nullptr) return;
    event_writer* w = p.writer.load(std::memory_order_acquire);
    const bool discard = size == buffer_pool::discard_bytes;
    if (w != nullptr && valid != 0 && !discard) {
      const activity_buffer full{buffer, valid, p.decoder.load(std::memory_order_acquire), &decode, &release};
      if (w->submit(full)) return;
    }
    if (w != nullptr && valid != 0) w->count_loss(loss_cause::buffer_limit, count_records(p, buffer, valid));
    if (discard)
      std::free(buffer);
    else
      p.buffers.give(buffer, valid);
  }

  static std::uint64_t count_records(process_state& p, std::uint8_t* buffer, std::size_t valid) noexcept {
    std::uint64_t n = 0;
    CUpti_Activity* record = nullptr;
    while (p.api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) ++n;
    return n;
  }

  static void decode(const activity_buffer& b, event_emitter& to) {
    walk_buffer(process_state::get().api.cuptiActivityGetNextRecord, b.data, b.valid_bytes,
                *static_cast<decode_context*>(b.owner), to);
  }
  static void release(const activity_buffer& b) {
    process_state::get().buffers.give(static_cast<unsigned char*>(b.data), b.valid_bytes);
  }

  event_writer* writer_ = nullptr;
  decode_context decoder_;
  CUpti_SubscriberHandle subscriber_{};
  unsigned enabled_ = 0;
  bool active_ = false;
  std::string path_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
