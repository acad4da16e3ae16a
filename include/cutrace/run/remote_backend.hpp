// SPDX-License-Identifier: Apache-2.0
// A backend whose records come through a pipe, from the command that traces another process. A thread reads them and
// hands them to the collector, whose thread decodes them. Such a backend has no GPU times.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cutrace/backend.hpp>
#include <exception>
#include <future>
#include <string_view>
#include <thread>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

/// The derived class begins to read at the end of its `start`, and ends reading in its destructor, while the members
/// that the thread uses still exist.
class remote_backend : public backend {
 public:
  bool flush(std::uint32_t) noexcept override { return true; }
  /// Records have ended by then: the command has closed its side, or is gone. Else the trace could not begin, and
  /// nobody takes them.
  bool stop(std::uint32_t) noexcept override {
    over_.store(true, std::memory_order_relaxed);
    end_reading();
    return true;
  }

  /// Ready when the command has sent all, or nothing more will be read, also where the backend is gone by then; an
  /// exception where nothing could be read. To be called once.
  std::future<void> end() { return end_.get_future(); }

 protected:
  /// `records`: the pipe's end, open until the backend is destroyed.
  explicit remote_backend(int records) : records_(records) {}

  void begin_reading(event_writer& w) {
    writer_ = &w;
    try {
      reader_ = std::thread([this] { read_all(); });
    } catch (...) {  // the system has no thread to give
      end_.set_exception(std::current_exception());
      throw;
    }
  }
  void end_reading() noexcept {
    if (reader_.joinable()) reader_.join();
  }
  /// Nobody takes records any more.
  bool is_over() const noexcept { return over_.load(std::memory_order_relaxed); }

  /// Reads what is there and hands it over. False at the end. On the reader's thread; an exception is reported, and is
  /// the end.
  virtual bool read_batch() = 0;

  /// Reads at least one byte, `most` at most. 0 at the end.
  std::size_t read_some(void* to, std::size_t most) const noexcept {
    for (pollfd ready{records_, POLLIN, 0}; !is_over();) {
      const int count = ::poll(&ready, 1, 100);
      if (count == 0 || (count < 0 && errno == EINTR)) continue;
      const ssize_t n = ::read(records_, to, most);
      if (n >= 0 || errno != EINTR) return n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    return 0;
  }

  /// Waits for room: what feeds the pipe (with eBPF the kernel's ring) keeps records meanwhile, and counts lost ones.
  void submit(const activity_buffer& buffer) {
    while (!writer_->submit(buffer)) {
      if (is_over()) return buffer.release(buffer);
      wait_a_little();
    }
  }
  static void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  /// `at_ns`: of CLOCK_MONOTONIC.
  void describe_thread(std::uint32_t thread, std::string_view name, std::uint64_t at_ns) {
    event e;
    e.kind = event_kind::thread;
    e.thread_id = thread;
    e.name = {name.data(), static_cast<std::uint32_t>(name.size())};
    e.start_ns = e.end_ns = raw_ns(at_ns);
    writer_->describe(e);
  }

  /// Converts a time of the kernel, which is one of CLOCK_MONOTONIC, to raw time.
  std::int64_t raw_ns(std::uint64_t at_ns) const noexcept { return static_cast<std::int64_t>(writer_->raw_ns(at_ns)); }
  event_writer& writer() const noexcept { return *writer_; }

 private:
  void read_all() noexcept {
    try {
      while (read_batch()) {
      }
    } catch (const std::exception& e) {
      writer_->report(name(), e.what());
    }
    end_.set_value();
  }

  int records_;
  event_writer* writer_ = nullptr;
  std::thread reader_;
  std::atomic<bool> over_{false};
  std::promise<void> end_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
