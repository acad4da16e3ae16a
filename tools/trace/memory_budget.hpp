// SPDX-License-Identifier: Apache-2.0
// How much memory all readers of a process together may use for the traces that they read: names, tables of numbers,
// open operations, and the part of a file at hand. Every structure that grows with a file takes from this one budget,
// by counting_allocator or counted_bytes; beyond the budget reading ends with out_of_memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cutrace/analysis/names.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace/complaints.hpp"

namespace cutrace_reading {

/// A file needs more memory than the budget allows.
class out_of_memory : public reading_error {
 public:
  using reading_error::reading_error;
};

class memory_budget {
 public:
  static constexpr std::size_t default_limit = std::size_t{1} << 30;

  /// The budget of the process. From any thread.
  static memory_budget& of_process() noexcept {
    static memory_budget budget;
    return budget;
  }

  void set_limit(std::size_t bytes) noexcept { limit_.store(bytes, std::memory_order_relaxed); }
  std::size_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  /// Takes bytes from the budget. @throws out_of_memory
  void take(std::size_t bytes) {
    if (used_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit()) return;
    give(bytes);
    throw out_of_memory(
        "reading this needs more than " + std::to_string(limit() >> 20) +
        " MiB for names, tables and unfinished operations, more than traces of real programs; if you trust this file, "
        "--memory-limit gives more");
  }
  void give(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> limit_{default_limit}, used_{0};
};

/// Memory taken from the budget while this lives.
class counted_bytes {
 public:
  counted_bytes() = default;
  ~counted_bytes() { memory_budget::of_process().give(bytes_); }
  counted_bytes(const counted_bytes&) = delete;
  counted_bytes& operator=(const counted_bytes&) = delete;
  void add(std::size_t bytes) {
    memory_budget::of_process().take(bytes);
    bytes_ += bytes;
  }
  void remove(std::size_t bytes) noexcept {
    memory_budget::of_process().give(bytes);
    bytes_ -= bytes;
  }

 private:
  std::size_t bytes_ = 0;
};

template <class T>
struct counting_allocator {
  using value_type = T;
  using is_always_equal = std::true_type;

  counting_allocator() = default;
  template <class U>
  counting_allocator(const counting_allocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)

  T* allocate(std::size_t n) {
    memory_budget::of_process().take(n * sizeof(T));
    try {
      return std::allocator<T>().allocate(n);
    } catch (...) {
      memory_budget::of_process().give(n * sizeof(T));
      throw;
    }
  }
  void deallocate(T* at, std::size_t n) noexcept {
    std::allocator<T>().deallocate(at, n);
    memory_budget::of_process().give(n * sizeof(T));
  }
  friend bool operator==(const counting_allocator&, const counting_allocator&) noexcept { return true; }
  friend bool operator!=(const counting_allocator&, const counting_allocator&) noexcept { return false; }
};

template <class T>
using counted_vector = std::vector<T, counting_allocator<T>>;
using counted_string = std::basic_string<char, std::char_traits<char>, counting_allocator<char>>;
template <class Key, class Value>
using counted_map = std::unordered_map<Key, Value, cutrace::detail::seeded_hash, std::equal_to<Key>,
                                       counting_allocator<std::pair<const Key, Value>>>;

}  // namespace cutrace_reading
