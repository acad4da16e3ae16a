// SPDX-License-Identifier: Apache-2.0
// What a traced process reports to `cutrace run` while it works: a block of fixed layout in a file that both map. It is
// there after a process was killed, and says what was delivered by then. One writer, any number of readers.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cutrace/base/process_info.hpp>
#include <cutrace/base/write_all.hpp>
#include <cutrace/stats.hpp>
#include <mutex>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

enum class run_state : std::uint32_t {
  starting,  ///< a session begins
  tracing,
  ended,     ///< the sinks were closed
  untraced,  ///< there is no trace; `message` says why
};

/// Written by one process alone; counters are those of the last report of its collector (every 100 ms, and at the end).
/// Texts are complete before `state` says that there is something to read, and end with a zero.
struct status_block {
  static constexpr std::uint64_t right_magic = 0x31656361727475'63;  // "cutrace1", little end first
  static constexpr std::uint32_t path_bytes = 1024;

  struct sink_status {
    std::atomic<std::uint64_t> written, lost;
    std::atomic<std::uint32_t> failed;
    std::uint32_t reserved;
    char name[32];
    char path[path_bytes];  ///< where it writes; empty: nowhere in particular
    char failure[160];
  };

  std::uint64_t magic;
  std::uint32_t size;  ///< of this struct
  std::uint32_t process_id;
  std::int32_t rank;  ///< -1: none
  std::atomic<std::uint32_t> state;
  char program[64];
  char backend[256];  ///< its name, and what it says of itself
  char message[512];  ///< state untraced: why
  std::atomic<std::uint64_t> produced, delivered, pending;
  std::atomic<std::uint64_t> lost[16];  ///< by loss_cause
  std::atomic<std::uint64_t> stages, calls /* ioctls too */, launches_seen, gpu_records_seen;
  std::atomic<std::uint32_t> gpu_expected;  ///< a backend that records GPU work was started
  std::atomic<std::uint32_t> sink_count;
  sink_status sinks[sink_limit];

  std::uint64_t lost_total() const noexcept {
    std::uint64_t n = 0;
    for (const auto& one : lost) n += one.load(std::memory_order_relaxed);
    return n;
  }
  run_state state_now() const noexcept { return static_cast<run_state>(state.load(std::memory_order_acquire)); }
};
static_assert(loss_cause_count <= 16, "room for each cause");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

/// The block of this process. A program that has none (nobody asked, no room, no rights) works all the same.
class status_writer {
 public:
  status_writer() = default;
  status_writer(const status_writer&) = delete;
  status_writer& operator=(const status_writer&) = delete;

  /// Makes "<folder>/<pid>.<n>.status", n counting the programs that this process has executed. Any failure means no
  /// block. Never unmapped: the collector may outlive its trace. @returns 0 or errno
  CUTRACE_NOINLINE int open(const char* folder) noexcept {
    char path[4096];
    int fd = -1;
    for (unsigned image = 1; image <= 1000 && fd < 0; ++image) {
      const int n =
          std::snprintf(path, sizeof(path), "%s/%ld.%u.status", folder, static_cast<long>(traced_process_id()), image);
      if (n < 0 || static_cast<std::size_t>(n) >= sizeof(path)) return ENAMETOOLONG;
      fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
      if (fd < 0 && errno != EEXIST && errno != EINTR) return errno;
    }
    if (fd < 0) return EEXIST;
    // All of it now: a page without room behind it would end the program with SIGBUS.
    void* mapped = MAP_FAILED;
    const write_signal_guard guard;  // against SIGXFSZ, where the size of files is limited
    int failure = ::posix_fallocate(fd, 0, sizeof(status_block));
    if (failure == 0) {
      mapped = ::mmap(nullptr, sizeof(status_block), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
      failure = mapped == MAP_FAILED ? errno : 0;
    }
    ::close(fd);
    if (failure != 0) {
      ::unlink(path);
      return failure;
    }
    block_ = static_cast<status_block*>(mapped);
    block_->size = sizeof(status_block);
    block_->process_id = traced_process_id();
    block_->rank = -1;
    block_->magic = status_block::right_magic;
    return 0;
  }

  /// Whose sinks are added here and reported: other sessions of the process may add theirs before.
  void set_session(std::uint64_t session) noexcept { session_ = session; }
  std::uint64_t session() const noexcept { return session_; }

  /// nullptr: nobody looks.
  status_block* get() const noexcept { return block_; }

  void set_state(run_state s) noexcept {
    if (block_ != nullptr) block_->state.store(static_cast<std::uint32_t>(s), std::memory_order_release);
  }

  CUTRACE_NOINLINE void describe(const char* program, std::int32_t rank) noexcept {
    if (block_ == nullptr) return;
    copy(block_->program, sizeof(block_->program), program);
    block_->rank = rank;
  }
  /// `gpu_expected`: it records GPU work.
  CUTRACE_NOINLINE void describe_backend(const char* line, bool gpu_expected) noexcept {
    if (block_ == nullptr) return;
    copy(block_->backend, sizeof(block_->backend), line);
    block_->gpu_expected.store(gpu_expected ? 1 : 0, std::memory_order_relaxed);
  }

  CUTRACE_NOINLINE void untraced(const char* why) noexcept {
    if (block_ == nullptr) return;
    copy(block_->message, sizeof(block_->message), why);
    set_state(run_state::untraced);
  }

  /// Adds a sink that `cutrace run` asked for, in the order in which the trace opened them.
  CUTRACE_NOINLINE void add_sink(const char* name, const char* path) noexcept {
    if (block_ == nullptr) return;
    const std::uint32_t n = block_->sink_count.load(std::memory_order_relaxed);
    if (n >= sink_limit) return;
    copy(block_->sinks[n].name, sizeof(block_->sinks[n].name), name);
    copy(block_->sinks[n].path, sizeof(block_->sinks[n].path), path != nullptr ? path : "");
    block_->sink_count.store(n + 1, std::memory_order_release);
  }

  /// Adds a sink that `cutrace run` asked for and that could not be opened: without a name, behind the opened ones.
  CUTRACE_NOINLINE void add_refused_sink(const char* why) noexcept {
    if (block_ == nullptr) return;
    const std::uint32_t n = block_->sink_count.load(std::memory_order_relaxed);
    if (n >= sink_limit) return;
    ++refused_;
    copy(block_->sinks[n].failure, sizeof(block_->sinks[n].failure), why);
    block_->sinks[n].failed.store(1, std::memory_order_relaxed);
    block_->sink_count.store(n + 1, std::memory_order_release);
  }

  CUTRACE_NOINLINE void report(const stats& s) noexcept {
    if (block_ == nullptr) return;
    const auto set = [](std::atomic<std::uint64_t>& to, std::uint64_t v) { to.store(v, std::memory_order_relaxed); };
    set(block_->produced, s.produced);
    set(block_->delivered, s.delivered);
    set(block_->pending, s.pending);
    for (std::size_t i = 0; i < loss_cause_count; ++i) set(block_->lost[i], s.lost[i]);
    set(block_->stages, s.by_kind[static_cast<std::size_t>(event_kind::stage)]);
    set(block_->calls,
        s.by_kind[static_cast<std::size_t>(event_kind::api)] + s.by_kind[static_cast<std::size_t>(event_kind::ioctl)]);
    set(block_->launches_seen, s.launches_seen);
    set(block_->gpu_records_seen, s.gpu_records_seen);
    const std::uint32_t n = block_->sink_count.load(std::memory_order_relaxed) - refused_;
    for (std::uint32_t i = 0; i < s.sink_count && i < n; ++i) {
      status_block::sink_status& to = block_->sinks[i];
      set(to.written, s.sinks[i].written);
      set(to.lost, s.sinks[i].lost);
      if (!s.sinks[i].failed || to.failed.load(std::memory_order_relaxed) != 0) continue;
      copy(to.failure, sizeof(to.failure), s.sinks[i].failure);
      to.failed.store(1, std::memory_order_release);
    }
  }

  /// Cuts what is too long.
  static void copy(char* to, std::size_t bytes, const char* from) noexcept {
    const std::size_t n = ::strnlen(from, bytes - 1);
    std::memcpy(to, from, n);
    to[n] = '\0';
  }

 private:
  status_block* block_ = nullptr;
  std::uint64_t session_ = 0;
  std::uint32_t refused_ = 0;  ///< sinks of the block that were never opened
};

// The totals as others see them while the collector works: threads of this process, and `cutrace run`.

class published_stats {
 public:
  explicit published_stats(status_writer* command) : command_(command) {}

  /// Session of the sinks that `cutrace run` asked for; 0: none is known.
  std::uint64_t command_session() const noexcept { return command_ != nullptr ? command_->session() : 0; }

  /// Collector's thread. `of_command`: with the sinks of that session alone.
  CUTRACE_NOINLINE void publish(const stats& s, const stats& of_command) {
    if (command_ != nullptr) command_->report(of_command);
    std::lock_guard<std::mutex> hold(mutex_);
    last_ = s;
  }
  CUTRACE_NOINLINE stats snapshot() const {
    std::lock_guard<std::mutex> hold(mutex_);
    return last_;
  }

 private:
  status_writer* command_;
  mutable std::mutex mutex_;
  stats last_{};
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
