// SPDX-License-Identifier: Apache-2.0
// The CUPTI backend. Every driver function gives a span by callback, with result and arguments; activity records give
// the work of the GPU on its own timestamps. The functions are enumerated at run time.
//
// Off by default is one class of functions: those that only ask ("query" in the generated table: cuCtxGetCurrent,
// cuFuncGetAttribute, cuStreamIsCapturing and their like). In an eager PyTorch loop they outnumber the calls that make
// work; CUTRACE_CUPTI_QUERIES=1 brings them back. While off, their failures are not recorded, except an error that
// loses the context where cuStreamQuery or cuEventQuery returns it.
//
// CUPTI is never finalised: doing so while another thread calls CUDA destroys the program (measured on CUPTI 13.0).
#pragma once

#include <cupti.h>
#include <unistd.h>  // getpid, usleep

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cutrace/backend.hpp>
#include <cutrace/cupti/call_hooks.hpp>
#include <cutrace/cupti/call_joins.hpp>
#include <cutrace/cupti/callbacks.hpp>
#include <cutrace/cupti/complain.hpp>
#include <cutrace/cupti/describe_devices.hpp>
#include <cutrace/cupti/flushing.hpp>
#include <cutrace/cupti/graph_twin.hpp>
#include <cutrace/cupti/kinds.hpp>
#include <cutrace/cupti/library.hpp>
#include <cutrace/cupti/managed_memory.hpp>
#include <cutrace/cupti/options.hpp>
#include <cutrace/cupti/process_state.hpp>
#include <cutrace/cupti/recording_switch.hpp>
#include <cutrace/cupti/refusals.hpp>
#include <string>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace cupti CUTRACE_LOCAL {

class cupti_backend final : public backend {
 public:
  /// Takes its options from the environment (options.hpp).
  cupti_backend() = default;
  /// As above. `on_call`: callbacks::on_call for the class of every writer that `start` will get.
  explicit cupti_backend(CUpti_CallbackFunc on_call) : on_call_(on_call) {}
  explicit cupti_backend(const options& o) : options_(o), given_(true) {}

  const char* name() const noexcept override { return "cupti"; }

  /// @throws config_error for a variable of the environment that cannot be used.
  backend_status start(event_writer& w) override {
    writer_ = &w;
    if (!given_) options_ = options::from_environment();
    backend_status status{};
    std::string detail;
    status.active = begin(detail);
    std::snprintf(status.detail, sizeof(status.detail), "%s", detail.c_str());
    return status;
  }

  bool flush(std::uint32_t) noexcept override {
    if (active_ && managed_waits_) begin_managed_memory();
    if (active_ && recording_.any_kind()) flushing_.plain(), flushing_.wait_for_others();
    return true;
  }

  bool flush_unfinished(std::uint32_t deadline_ms) noexcept override {
    if (active_ && lets_go_ && recording_.any_kind()) {
      // A call that was under way when the kinds were switched off may have a buffer that CUPTI does not know of yet.
      process_state& p = process_state::get();
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
      for (flushing_.force(); p.buffers.at_cupti_bytes() + p.completing.load() != 0; flushing_.force()) {
        if (std::chrono::steady_clock::now() >= until) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      recording_.forget_kinds();
      return true;
    }
    if (!active_ || !recording_.any_kind()) return flush(deadline_ms);
    flushing_.force();
    return true;
  }

  bool poll(std::uint32_t period_ms, std::uint32_t) noexcept override {
    if (!active_) return true;
    if (managed_waits_) begin_managed_memory();
    if (lets_go_) return true;
    flushing_.turn(std::uint64_t{period_ms} * 2000000);
    return true;
  }

  bool stop(std::uint32_t) noexcept override {
    if (!active_) return true;
    active_ = false;
    if (managed_waits_) complain(managed_memory_missed, CUPTI_ERROR_NOT_INITIALIZED);
    process_state& p = process_state::get();
    {
      std::lock_guard<std::mutex> hold(p.switching);  // no twin (a graph's second instance) is being launched
      p.whole_graphs.store(false, std::memory_order_release);
      p.node_windows.store(false, std::memory_order_release);
    }
    // The records are fetched, complete or not. Callbacks go off last, when no buffer comes to the trace any more: work
    // whose call was not seen would count as the trace's, while that of calls after the trace's end is left out.
    if (recording_.any_kind()) flushing_.force();
    disable_kinds(p);
    if (recording_.any_kind()) flushing_.force();
    wait_for_buffers(p);
    p.writer.store(nullptr, std::memory_order_release);
    p.api.cuptiEnableDomain(0, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API);  // where this fails, unsubscribing ends them
    p.api.cuptiEnableDomain(0, subscriber_, CUPTI_CB_DOMAIN_RESOURCE);
    runtime_calls::end(p);
    if (options_.has(record_group::runtime)) p.api.cuptiEnableDomain(0, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API);
    if (!lets_go_) leave_details(p);
    complain("cuptiUnsubscribe, CUPTI stays taken and a later session will be refused",
             p.api.cuptiUnsubscribe(subscriber_));
    writer_->offer(static_cast<const activity_buffers*>(nullptr));
    return true;
  }

  /// A flush does not wait for a buffer that another thread is handing back: its records would be lost. Older libraries
  /// keep buffers, so the wait ends when none has come back for ten milliseconds, and after a quarter of a second in
  /// any case: threads that go on launching may ask for buffers for ever, and no later session would get CUPTI.
  static void wait_for_buffers(process_state& p) noexcept {
    std::size_t before = ~std::size_t{0};
    for (int quiet = 0, turns = 0; quiet < 10 && turns < 250; ++quiet, ++turns) {
      const std::size_t now = p.buffers.at_cupti_bytes() + p.completing.load();
      if (now == 0) return;
      if (now != before) quiet = 0;
      before = now;
      ::usleep(1000);
    }
  }

  /// A client that registers buffers gets CUPTI as it was but for the clock: such a client does not zero its buffers
  /// and has not asked for our kinds. Kinds go off first, then CUPTI gets no buffer of ours any more, and the flush
  /// that follows brings back all that CUPTI holds.
  bool meets_client(bool records) noexcept override {
    if (!active_ || (records && lets_go_)) return false;
    if (!records) return true;
    process_state& p = process_state::get();
    std::lock_guard<std::mutex> hold(p.switching);
    p.whole_graphs.store(false, std::memory_order_release);
    p.node_windows.store(false, std::memory_order_release);
    p.kernels_on.store(false, std::memory_order_release);
    disable_kinds(p);
    managed_waits_ = false;
    leave_details(p);
    if (options_.has(record_group::sync) && p.api.cuptiActivityEnableAllSyncRecords != nullptr)
      p.api.cuptiActivityEnableAllSyncRecords(1);
    p.buffers.close();
    lets_go_ = true;
    std::uint8_t off = 0;
    std::size_t size = sizeof(off);
    complain("cuptiActivitySetAttribute(ZEROED_OUT_ACTIVITY_BUFFER), the program's own records may hold garbage",
             p.api.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &off));
    return true;
  }

  void suspend() noexcept override { switch_recording(false); }
  void restart() noexcept override { switch_recording(true); }

 private:
  /// In the order that CUPTI demands: subscribe before any other call, attributes and clock before buffers, buffers
  /// before kinds.
  bool begin(std::string& detail) {
    process_state& p = process_state::get();
    p.process = ::getpid();
    if (!open_library(p, detail) || !subscribe(p, detail)) return false;
    if (!mismatch_.empty()) writer_->report("cupti", mismatch_.c_str());
    active_ = true;  // from here on there is something to stop
    recording_.clear();
    lets_go_ = false;
    managed_waits_ = false;
    p.fatal.store(false, std::memory_order_relaxed);
    flushing_.begin(p, *writer_);
    decoder_ = {};
    set_attributes(p);
    take_clock(p);
    p.buffers.allow(writer_->buffer_budget_bytes());
    writer_->offer(&p.buffers);
    if (p.kernels_left_on) discard_records(p);
    p.refused.store(0, std::memory_order_relaxed);
    p.overflow_wait_us.store(writer_->overflow_wait_us(), std::memory_order_relaxed);
    decoder_.cupti_version = p.version;
    const bool late = cuda_is_running();
    p.places_wait_since_ns.store(0, std::memory_order_relaxed);
    p.decoder.store(&decoder_, std::memory_order_release);
    p.writer.store(writer_, std::memory_order_release);
    p.last_writer.store(writer_, std::memory_order_release);
    p.call_joins.store(find_call_joins(), std::memory_order_relaxed);
    name_results(*writer_);
    if (late) describe_devices(*writer_);  // CUPTI did so when CUDA began; no callback is on yet to record its calls
    // Calls first: in a process whose threads use CUDA already, no GPU work is recorded whose call was not seen.
    const bool whole_graphs = may_trace_whole_graphs();
    call_hooks hooks(p, *writer_, subscriber_, recording_, whole_graphs && graph_twin::possible(p.version), options_);
    const std::uint32_t hooked = hooks.enable_driver(options_.queries);
    if (hooked != 0) hooks.enable_graphs();
    if (hooked != 0 && options_.has(record_group::runtime)) hooks.enable_runtime(options_.queries);
    // Libraries before 12.4 know no such callback: then a fatal error shows in the calls that fail.
    p.api.cuptiEnableCallback(1, subscriber_, state_domain, state_fatal_error);
    const std::string no_records = enable_kinds(p, whole_graphs);
    offer_twins(p);
    if (!no_records.empty())
      detail = no_records + ": no GPU time";
    else
      detail += ", " + std::to_string(hooked) + " driver functions";
    return no_records.empty();
  }

  /// Why no kind of record can be had at all; empty when at least one can.
  std::string enable_kinds(process_state& p, bool whole_graphs) {
    const CUptiResult registered =
        p.api.cuptiActivityRegisterCallbacks(&callbacks::buffer_requested, &callbacks::buffer_completed);
    if (registered != CUPTI_SUCCESS) return "cuptiActivityRegisterCallbacks: " + p.api.explain(registered);
    std::string missing;
    CUptiResult why = CUPTI_SUCCESS;
    bool any = false;  // other than descriptions
    for (const kind& k : kinds) {
      if (k.group != kind::always && !options_.has(static_cast<record_group>(k.group))) continue;
      if (k.id == CUPTI_ACTIVITY_KIND_GRAPH_TRACE && !whole_graphs) continue;
      const CUptiResult r = enable(p, k);
      if (r == CUPTI_SUCCESS) {
        recording_.add_kind(k);
        any = any || k.group != kind::always;
        continue;
      }
      if (is_managed_memory(k) && is_too_early(r)) {
        managed_waits_ = true;
        continue;
      }
      why = r;
      missing += std::string(missing.empty() ? "" : ", ") + k.name;
    }
    if (!missing.empty() && !any) return "cuptiActivityEnable: " + p.api.explain(why);
    if (!missing.empty()) complain(("cuptiActivityEnable, no records of " + missing).c_str(), why);
    set_details(p);
    return {};
  }

  /// Not by cuptiActivityEnableAndDump, which would describe what exists already: it waits for a lock of the driver
  /// that four threads which launch all the time never let it have (CUPTI 13.0, H200), and the session would never
  /// begin.
  CUptiResult enable(process_state& p, const kind& k) const {
    const CUptiResult ready = is_managed_memory(k) ? configure_managed_memory(p.api) : CUPTI_SUCCESS;
    if (ready != CUPTI_SUCCESS) return ready;
    return p.api.cuptiActivityEnable(k.id);
  }

  /// Where a session begins before CUDA does, managed memory is asked for again at each flush and each poll.
  void begin_managed_memory() noexcept {
    process_state& p = process_state::get();
    std::lock_guard<std::mutex> hold(p.switching);
    if (lets_go_) return;  // meanwhile
    const kind& k = *std::find_if(std::begin(kinds), std::end(kinds), is_managed_memory);
    const CUptiResult r = enable(p, k);
    managed_waits_ = is_too_early(r);
    if (managed_waits_) return;
    if (r == CUPTI_SUCCESS) recording_.add_kind(k);
    complain("cuptiActivityEnable, no records of UNIFIED_MEMORY_COUNTER", r);
  }

  /// Changes CUPTI's defaults: no records of queries, and the details that the options ask for.
  void set_details(process_state& p) const {
    // Else a program that polls with cuStreamQuery or cuEventQuery would get a record each time the work is unfinished.
    if (options_.has(record_group::sync) && p.api.cuptiActivityEnableAllSyncRecords != nullptr)
      complain("cuptiActivityEnableAllSyncRecords, queries of streams are recorded, too",
               p.api.cuptiActivityEnableAllSyncRecords(0));
    if (options_.has(record_group::event)) {
      const char* effect = "cuptiActivityEnableCudaEventDeviceTimestamps, CUDA events are not recorded";
      if (p.api.cuptiActivityEnableCudaEventDeviceTimestamps == nullptr)
        writer_->report("cupti", "this libcupti has no times of CUDA events: none are recorded (CUDA 12.8 has them)");
      else
        complain(effect, p.api.cuptiActivityEnableCudaEventDeviceTimestamps(1));
    }
    if (options_.has(record_group::latency) && p.api.cuptiActivityEnableLatencyTimestamps != nullptr)
      complain(
          "cuptiActivityEnableLatencyTimestamps, kernels are recorded without the times of queueing and submission",
          p.api.cuptiActivityEnableLatencyTimestamps(1));
  }
  /// Switches off the costly details: CUPTI would keep them on after its client has left.
  void leave_details(const process_state& p) const {
    if (options_.has(record_group::event) && p.api.cuptiActivityEnableCudaEventDeviceTimestamps != nullptr)
      p.api.cuptiActivityEnableCudaEventDeviceTimestamps(0);
    if (options_.has(record_group::latency) && p.api.cuptiActivityEnableLatencyTimestamps != nullptr)
      p.api.cuptiActivityEnableLatencyTimestamps(0);
  }

  /// Problem: replaying a graph that was instantiated before GRAPH_TRACE was switched on ends the program (SIGSEGV in
  /// CUPTI 13.0). Solution: GRAPH_TRACE is switched on only where no graph can exist yet.
  bool may_trace_whole_graphs() const {
    if (options_.graphs != graph_level::graph) return false;
    if (!cuda_is_running()) return true;
    writer_->report(
        "cupti",
        "CUTRACE_GRAPHS=graph came too late, CUDA runs already: graphs are recorded node by node, since CUPTI "
        "would end the program at the next replay of an older graph; begin the session before CUDA");
    return false;
  }

  /// Lets cutrace::graph_exec choose between the two instances of a graph (graph_twin.hpp).
  void offer_twins(process_state& p) const noexcept {
    if (!graph_twin::possible(p.version)) return;
    const bool whole = recording_.is_on(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    p.kernels_on.store(recording_.is_on(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), std::memory_order_release);
    p.node_windows.store(!whole && writer_->in_windows(), std::memory_order_release);
    p.whole_graphs.store(whole, std::memory_order_release);
    writer_->offer(&graph_twin::choose);
  }

  void disable_kinds(process_state& p) noexcept {
    // Once CUPTI's own exit handlers have run, switching kinds off would end the program (CUPTI 13.0, H200), and
    // nothing is left that they could slow down.
    if (p.exiting.load(std::memory_order_acquire)) return;
    complain("cuptiActivityDisable, CUPTI goes on recording and slows the program down", recording_.end(p));
  }

  void switch_recording(bool on) noexcept {
    process_state& p = process_state::get();
    std::lock_guard<std::mutex> hold(p.switching);
    if (!active_ || p.exiting.load(std::memory_order_acquire)) return;
    complain(on ? "CUPTI cannot be switched on for a window, which lacks something"
                : "CUPTI cannot be switched off between windows and slows the program down",
             recording_.set(p, subscriber_, on, !lets_go_));
    if (on || lets_go_ || p.version >= 130001) return;
    writer_->report("cupti",
                    "kernels are recorded between windows, too, and cost their time, since switching them off can "
                    "deadlock in this CUPTI; 13.0 Update 1 has no such fault");
  }

  /// CUPTI went on recording between two sessions: those records belong to neither. While there is no writer, hand_back
  /// throws away the records of a buffer.
  void discard_records(process_state& p) noexcept {
    p.api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t n = 0;
    p.api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &n);
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
      // Registered after the library's own exit handlers, so that it runs before them.
      std::atexit([] { process_state::get().begin_exit(); });
    }
    const CUptiResult asked = p.api.cuptiGetVersion(&p.version);
    if (asked != CUPTI_SUCCESS)
      complain("cuptiGetVersion, records are read in their oldest form", asked);
    else
      mismatch_ = explain_mismatch(p.lib, p.version, driver / 1000);
    detail = "CUPTI " + (asked == CUPTI_SUCCESS ? std::to_string(p.version) : "of unknown version") + ", driver " +
             std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
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
      r = p.api.cuptiSubscribe_v2(&subscriber_, on_call_, nullptr, &params);
    } else
#endif
      r = p.api.cuptiSubscribe(&subscriber_, on_call_, nullptr);
    if (r == CUPTI_SUCCESS) return true;
    holder[sizeof(holder) - 1] = '\0';
    detail = explain_refusal(p.api, r, holder);
    return false;
  }

  /// Buffers on the device keep CUPTI's own size and limit (3.2 MB, 250 a context): its memory stayed flat over 30
  /// million graph kernels (CUPTI 13.0, H200). With a limit of 8 buffers, kernels lost their times (parcagpu#23).
  /// tests/gpu/soak watches the memory.
  void set_attributes(process_state& p) {
    std::uint8_t on = 1;
    std::size_t size = sizeof(on);
    const CUptiResult zeroed =
        p.api.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &on);
    complain("cuptiActivitySetAttribute(ZEROED_OUT_ACTIVITY_BUFFER), CUPTI clears buffers on the program's threads",
             zeroed);
    constexpr auto buffer_a_thread = static_cast<CUpti_ActivityAttribute>(9);  // also where the headers are older
#if CUPTI_API_VERSION >= 21
    static_assert(buffer_a_thread == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, "renumbered");
#endif
    // A kernel without end holds back its own thread's buffer alone. Before CUDA 12.3 all threads share one.
    size = sizeof(on);
    if (p.version >= 21 && zeroed == CUPTI_SUCCESS) {
      const CUptiResult r = p.api.cuptiActivitySetAttribute(buffer_a_thread, &size, &on);
      p.buffer_a_thread = r == CUPTI_SUCCESS;
      complain("cuptiActivitySetAttribute(PER_THREAD_ACTIVITY_BUFFER), a long kernel holds back all threads' records",
               r);
    }
    if (p.api.cuptiSetThreadIdType != nullptr)
      complain("cuptiSetThreadIdType", p.api.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM));
  }

  /// Registers our clock, once in a process: each further registration spoils a record (pytorch#192021). The scale is
  /// that of the process (tick_scale), so it fits later sessions, too.
  void take_clock(process_state& p) {
    if (p.clock_registered) return;
    std::string why = "this libcupti has no cuptiActivityRegisterTimestampCallback";
    if (p.api.cuptiActivityRegisterTimestampCallback != nullptr) {
      p.scale = writer_->scale();
      const CUptiResult r = p.api.cuptiActivityRegisterTimestampCallback(&callbacks::timestamp);
      p.clock_registered = r == CUPTI_SUCCESS;
      if (p.clock_registered) return;
      why = "cuptiActivityRegisterTimestampCallback: " + p.api.explain(r);
    }
    const bool comparable = p.clock.compare(*writer_, p.api.cuptiGetTimestamp);
    const char* effect = comparable
                             ? ": GPU times come from CUPTI's own clock and are brought to ours by comparing both"
                             : ": GPU times are of another clock and do not fit those of the host";
    writer_->report("cupti", (why + effect).c_str());
  }

  void complain(const char* what, CUptiResult r) const noexcept { cupti::complain(*writer_, what, r); }

  const CUpti_CallbackFunc on_call_ = &callbacks::on_call<event_writer>;
  options options_;
  bool given_ = false;  ///< options_ are the program's, not the environment's
  event_writer* writer_ = nullptr;
  decode_context decoder_;
  CUpti_SubscriberHandle subscriber_{};
  recording_switch recording_;
  std::string mismatch_;  ///< warning that library and driver are of different CUDA major versions; else empty
  bool active_ = false;
  std::atomic<bool> lets_go_{false};        ///< a client of the program takes the records
  std::atomic<bool> managed_waits_{false};  ///< managed memory waits for CUDA to be initialised
  flushing flushing_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
