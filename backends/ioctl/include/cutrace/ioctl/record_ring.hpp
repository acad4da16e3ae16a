// SPDX-License-Identifier: Apache-2.0
// Records on their way from the tracer to the command: one writer and one reader in two processes, in memory that both
// map. The writer never waits; what finds no room is counted.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cutrace/ioctl/trace_record.hpp>
#include <new>

CUTRACE_BEGIN_NAMESPACE
namespace ioctls {

class record_ring {
 public:
  static constexpr std::uint64_t default_records = 1u << 14;  ///< 5.5 MiB

  /// `records`: a power of two. Shared with processes that are forked afterwards.
  explicit record_ring(std::uint64_t records = default_records) : records_(records) {
    void* at = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    head_ = new (at) positions();
    slots_ = reinterpret_cast<trace_record*>(static_cast<char*>(at) + sizeof(positions));
  }
  ~record_ring() {
    if (head_ != nullptr) ::munmap(head_, bytes());
  }
  record_ring(const record_ring&) = delete;
  record_ring& operator=(const record_ring&) = delete;

  /// False: there was no memory for it.
  bool usable() const noexcept { return head_ != nullptr; }

  /// The writer's. False: full.
  bool push(const trace_record& r) noexcept {
    const std::uint64_t at = head_->written.load(std::memory_order_relaxed);
    if (at - head_->read.load(std::memory_order_acquire) >= records_) return false;
    slots_[at & (records_ - 1)] = r;
    head_->written.store(at + 1, std::memory_order_release);
    return true;
  }

  /// The reader's: the oldest record, or nullptr; `drop` removes it.
  const trace_record* front() const noexcept {
    const std::uint64_t at = head_->read.load(std::memory_order_relaxed);
    return at == head_->written.load(std::memory_order_acquire) ? nullptr : &slots_[at & (records_ - 1)];
  }
  void drop() noexcept {
    head_->read.store(head_->read.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Number of ioctls whose device is not known: the process hides its descriptors (PR_SET_DUMPABLE).
  std::atomic<std::uint64_t>& hidden() noexcept { return head_->hidden; }
  const std::atomic<std::uint64_t>& hidden() const noexcept { return head_->hidden; }

  /// Number of records that found no room and that no record counts yet: the reader counts what is left at the end.
  std::atomic<std::uint64_t>& lost() noexcept { return head_->lost; }
  /// The process of the last one of them, in whose trace they are counted.
  std::atomic<std::uint32_t>& lost_of() noexcept { return head_->lost_of; }

 private:
  struct positions {
    alignas(64) std::atomic<std::uint64_t> written{0};
    alignas(64) std::atomic<std::uint64_t> read{0};
    alignas(64) std::atomic<std::uint64_t> hidden{0};
    alignas(64) std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint32_t> lost_of{0};
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  std::size_t bytes() const noexcept {
    return sizeof(positions) + static_cast<std::size_t>(records_) * sizeof(trace_record);
  }

  std::uint64_t records_;
  positions* head_ = nullptr;
  trace_record* slots_ = nullptr;
};

}  // namespace ioctls
CUTRACE_END_NAMESPACE
