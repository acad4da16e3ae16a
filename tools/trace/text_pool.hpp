// SPDX-License-Identifier: Apache-2.0
// The texts of a trace, each once: equal texts have equal addresses, as sinks expect. They live as long as the pool,
// which takes at most a quarter of the readers' memory budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/event.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "trace/memory_budget.hpp"

namespace cutrace_reading {

class text_pool {
 public:
  explicit text_pool(std::size_t limit_bytes = memory_budget::of_process().limit() / 4) : limit_(limit_bytes) {
    table_.resize(4096);
  }

  /// The text of the pool that equals `s`, NUL-terminated. Beyond the limit, new texts become `overflow_text`.
  cutrace::text intern(std::string_view s) {
    if (s.empty()) return {};
    if (s.size() > 0xFFFFFFFFu) s = s.substr(0, 0xFFFFFFFFu);
    const std::uint64_t mixed = cutrace::detail::hash_bytes(s.data(), s.size());
    std::size_t at = mixed & (table_.size() - 1);
    while (table_[at].data != nullptr) {
      const entry& e = table_[at];
      if (e.hash == mixed && e.size == s.size() && std::memcmp(e.data, s.data(), s.size()) == 0) {
        return {e.data, e.size};
      }
      at = (at + 1) & (table_.size() - 1);
    }
    return add(s, mixed, at);
  }

  /// How often `overflow_text` was returned.
  std::uint64_t not_kept() const noexcept { return not_kept_; }
  static constexpr std::string_view overflow_text = "(too many names)";

 private:
  struct entry {
    const char* data = nullptr;
    std::uint32_t size = 0;
    std::uint64_t hash = 0;
  };

  cutrace::text add(std::string_view s, std::uint64_t mixed, std::size_t at) {
    if (bytes_ + s.size() + sizeof(entry) > limit_) {
      ++not_kept_;
      return {overflow_text.data(), static_cast<std::uint32_t>(overflow_text.size())};
    }
    bytes_ += s.size() + 1 + 2 * sizeof(entry);
    char* const copy = room(s.size() + 1);
    std::memcpy(copy, s.data(), s.size());
    copy[s.size()] = '\0';
    table_[at] = {copy, static_cast<std::uint32_t>(s.size()), mixed};
    if (++count_ * 2 > table_.size()) grow();
    return {copy, static_cast<std::uint32_t>(s.size())};
  }
  char* room(std::size_t n) {
    if (n > left_) {
      const bool is_long = n > block / 4;  // in a block of its own, so that the one in use goes on being filled
      const std::size_t size = is_long ? n : block;
      memory_.add(size);
      blocks_.emplace_back(new char[size]);
      if (is_long) return blocks_.back().get();
      next_ = blocks_.back().get();
      left_ = size;
    }
    char* const at = next_;
    next_ += n;
    left_ -= n;
    return at;
  }
  void grow() {
    counted_vector<entry> larger(table_.size() * 2);
    for (const entry& e : table_) {
      if (e.data == nullptr) continue;
      std::size_t at = e.hash & (larger.size() - 1);
      while (larger[at].data != nullptr) at = (at + 1) & (larger.size() - 1);
      larger[at] = e;
    }
    table_.swap(larger);
  }

  static constexpr std::size_t block = std::size_t{1} << 16;
  std::size_t limit_, bytes_ = 0, count_ = 0, left_ = 0;
  std::uint64_t not_kept_ = 0;
  char* next_ = nullptr;
  counted_vector<entry> table_;
  counted_bytes memory_;  ///< of the blocks
  std::vector<std::unique_ptr<char[]>> blocks_;
};

}  // namespace cutrace_reading
