// SPDX-License-Identifier: Apache-2.0
// The backend of hooked calls: hands the hooks their writer, and reports what they saw at the end. GPU time it has only
// where calls are measured by CUDA events.
#pragma once

#include <cstdio>
#include <cutrace/backend.hpp>
#include <cutrace/run/settings.hpp>
#include <memory>
#include <optional>
#include <string>

#include "calls.hpp"
#include "event_harvest.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace preload CUTRACE_LOCAL {

class preload_backend final : public backend {
 public:
  const char* name() const noexcept override { return "preload"; }

  backend_status start(event_writer& w) override {
    process& p = process::own();
    writer_ = &w;
    p.use_counter = w.scale().use_counter;
    name_results(w);
    // No call has asked for a session yet: the program begins this one itself, and the first call must not open
    // another.
    int expected = process::not_asked;
    p.session.compare_exchange_strong(expected, process::settled);
    if (p.session.load(std::memory_order_acquire) == process::being_opened)
      p.waiting_writer.store(&w, std::memory_order_release);
    else
      p.record_to(w);
    std::string gpu_time = "no GPU time by this method unless CUTRACE_GPU_EVENTS=1 is set";
    backend_status status{};
    // No exception may leave this function: where the program has a runtime of its own, that cannot catch it.
    const char* const wanted = detail::environment("CUTRACE_GPU_EVENTS");
    const std::optional<bool> measured = wanted != nullptr ? detail::switch_value(wanted) : false;
    if (!measured) {
      gpu_time =
          "CUTRACE_GPU_EVENTS=\"" + std::string(wanted) + "\" cannot be used; accepted: 0 (off, the default), 1 (on)";
    } else if (*measured) {
      if (p.driver.present() && !p.events.usable()) {
        gpu_time = "no GPU time by CUDA events: the driver lacks functions of CUDA 12.0";
      } else {
        p.events.set_learns(true);  // names of kernels, by their handles
        harvest_.reset(new event_harvest(p.events, w));
        p.measures.store(true, std::memory_order_relaxed);
        status.active = true;
        gpu_time = "GPU time by CUDA events";
      }
    }
    std::snprintf(status.detail, sizeof(status.detail), "driver calls by hooks, %s; %s",
                  p.driver.present() ? (std::to_string(p.driver.exported()) + " functions of the driver").c_str()
                                     : "libcuda is not loaded yet",
                  gpu_time.c_str());
    return status;
  }

  bool flush(std::uint32_t deadline_ms) noexcept override {
    // A library that hands out its functions in its constructors is used without a dlsym, at which it would be found.
    slots::scan_apart(process::own());
    return harvest_ == nullptr || harvest_->flush(deadline_ms);
  }

  bool stop(std::uint32_t deadline_ms) noexcept override {
    if (writer_ == nullptr) return true;
    process& p = process::own();
    if (harvest_ != nullptr) harvest_->stop(deadline_ms);
    if (thread_calls* t = thread_calls::existing()) calls::thread_ends(*t);
    p.waiting_writer.store(nullptr, std::memory_order_release);
    p.writer.store(nullptr, std::memory_order_release);
    if (harvest_ != nullptr) {  // no call is recorded any more that could be missing in the account
      p.measures.store(false, std::memory_order_relaxed);
      report_measured(p);
      harvest_.reset();
    }
    // Calls made while the session was being opened: there was no chunk for their records yet.
    if (const std::uint64_t missed = p.missed.exchange(0)) writer_->count_loss(loss_cause::chunk_full, missed);
    report_unexported(p);
    writer_ = nullptr;
    return true;
  }

 private:
  /// Functions that the program asked for, called or not, and that the driver does not export: tracers by symbol do not
  /// see them.
  void report_unexported(const process& p) noexcept {
    try {
      std::string names;
      for (std::uint32_t i = 1; i < p.hooks.count(); ++i)
        if (!p.hooks.at(i).exported) names += std::string(names.empty() ? "" : ", ") + p.hooks.at(i).symbol;
      if (!names.empty()) writer_->note("preload", ("looked up, but not exported by the driver: " + names).c_str());
    } catch (...) {  // out of memory: the note is left out
    }
    if (p.hooks.refused() != 0)
      writer_->report("preload", "there were more than 4,095 functions: calls of the others are not seen");
  }

  /// Notes how many times were measured, why others are missing, and by how much the times may be wrong.
  void report_measured(process& p) noexcept {
    try {
      const std::int64_t error_ns = harvest_->error_ns();
      std::string line = "GPU times are those of CUDA events around each call, not the GPU's own: " +
                         std::to_string(harvest_->measured()) + " measured";
      if (harvest_->measured() != 0)
        line += ", placed to within " + std::to_string((error_ns + 999) / 1000) +
                " us, each at least as long as the work was";
      std::string missing;
      for (std::size_t i = 0; i < untimed_count; ++i)
        if (const std::uint64_t n = p.events.take_count(static_cast<untimed>(i)))
          missing += (missing.empty() ? "; not measured: " : ", ") + std::to_string(n) + " " + untimed_names[i];
      writer_->note("preload", (line + missing).c_str());
    } catch (...) {  // out of memory: the note is left out
    }
  }

  std::unique_ptr<event_harvest> harvest_;
  event_writer* writer_ = nullptr;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
