// SPDX-License-Identifier: Apache-2.0
// Activity buffers: asked of the client, filled by the threads that make driver calls, handed back when their records
// are complete. One current buffer a thread as CUPTI 13 has it by default, or one for all. No lock is held while client
// code runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cutrace/sim/moment.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "clock_map.hpp"
#include "record_types.hpp"

namespace standin {

/// When a GPU record gets its times. Records of host activities need none of it.
struct completion {
  std::uint64_t start_ns = 0;                                ///< simulation's clock
  std::uint64_t end_ns = 0;                                  ///< ~0: never
  cutrace::sim::moment_ptr open = nullptr;                   ///< instead of both, where they are not known yet
  std::shared_ptr<const cutrace::sim::loss> lost = nullptr;  ///< of its context
  std::uint64_t late_ns = 0;                                 ///< from the end until the record is available
  std::uint64_t early_ns = 0;                                ///< by which its times are too early
  bool zero_time = false;

  /// Whether a flush at `now_ns` finds the work done. In a lost context (H200, CUPTI 13.0) work that ends after the
  /// fault is never done; work that ended before is, if the flush comes no later than grace_ns after the fault.
  bool complete(std::uint64_t now_ns) {
    if (open != nullptr) {
      if (!open->known()) return false;
      start_ns = open->start_ns;
      end_ns = open->end_ns;
      open = nullptr;
    }
    if (end_ns > now_ns || end_ns + late_ns > now_ns) return false;
    if (lost == nullptr) return true;
    const std::uint64_t fault_ns = lost->at_ns;
    return end_ns <= fault_ns && (fault_ns > now_ns || now_ns - fault_ns <= grace_ns(lost->code));
  }
  /// By error code, measured on an H100: an illegal address, a misaligned one, else a trap or an assertion.
  static constexpr std::uint64_t grace_ns(std::int32_t code) {
    return code == 700 ? 60000000 : code == 716 ? 13000000 : 3500000;
  }
};

class buffers {
 public:
  explicit buffers(clock_map& clock) : clock_(clock) {}

  void set_callbacks(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
  bool has_callbacks() const { return request_.load() != nullptr; }

  /// Adds a record to the caller's buffer; `later` for GPU records. False when there was no room: the record is lost.
  bool append(const void* record, std::size_t size, const completion* later = nullptr);

  /// Hands over the buffers of each lane up to the first with an incomplete record, with `forced` all of them;
  /// `full_only`: leaves those that still have room. Returns the number of records.
  std::size_t flush(bool forced, bool full_only = false);

  void set_period(std::uint32_t ms);
  std::uint64_t take_dropped() { return dropped_.exchange(0); }
  void count_dropped(std::uint64_t n) { dropped_ += n; }

  std::atomic<bool> per_thread{true};
  std::atomic<bool> client_zeroes{false};
  std::atomic<bool> shuffle{false};
  std::atomic<bool> refusal_is_fatal{false};
  std::atomic<std::uint64_t> slow_ns{0}, slow_flush_ns{0};  ///< see slow_buffers and slow_flush in faults.hpp

 private:
  struct pending {
    std::size_t offset;
    completion when;
  };
  struct buffer {
    std::uint8_t* data = nullptr;
    std::size_t size = 0, used = 0, records = 0, limit = 0;
    std::vector<pending> incomplete;
    bool room_for(std::size_t n) const { return used + n <= size && (limit == 0 || records < limit); }
  };
  /// The buffers that one thread fills, or that all fill (`shared_`).
  struct lane {
    std::mutex lock;
    std::unique_ptr<buffer> current;
    std::vector<std::unique_ptr<buffer>> full;
  };

  lane& mine();
  std::unique_ptr<buffer> request(std::size_t least);
  void complete_records(buffer&, std::uint64_t until_ns);
  void deliver(buffer&);
  void one_is_full();
  void work();

  clock_map& clock_;
  std::atomic<CUpti_BuffersCallbackRequestFunc> request_{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete_{nullptr};
  std::atomic<std::uint64_t> dropped_{0};
  std::mutex lanes_lock_;
  std::list<std::shared_ptr<lane>> lanes_;
  std::shared_ptr<lane> shared_ = std::make_shared<lane>();
  std::atomic<std::uint32_t> period_ms_{0};
  std::mutex worker_lock_;
  std::condition_variable worker_wakes_;
  std::uint32_t full_waiting_ = 0;
  pid_t worker_of_ = 0;  ///< the process in which the thread of `work` was started
};

}  // namespace standin
