// SPDX-License-Identifier: Apache-2.0
// What events of the HTML report's timeline have in common, kept once and referred to by number: the stage with its
// requests, and the shape in which a kernel was launched. Number 0 says that nothing is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <cutrace/event.hpp>
#include <string>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

/// Texts with numbers from 1 on; those beyond `limit_bytes` are 0 and counted.
class text_numbers {
 public:
  explicit text_numbers(std::size_t limit_bytes) : bytes_left_(limit_bytes) {}

  std::uint32_t number(const std::string& text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const std::size_t cost = text.size() + 96;  // a node of the map and a pointer
    if (cost > bytes_left_) {
      ++refused_;
      return 0;
    }
    bytes_left_ -= cost;
    const auto added = numbers_.emplace(text, static_cast<std::uint32_t>(texts_.size() + 1)).first;
    texts_.push_back(&added->first);
    return added->second;
  }
  const std::vector<const std::string*>& texts() const noexcept { return texts_; }
  std::uint64_t refused() const noexcept { return refused_; }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> texts_;
  std::size_t bytes_left_;
  std::uint64_t refused_ = 0;
};

/// Stages with the requests they serve: text of the requests behind the four bytes of the stage's name.
class context_table {
 public:
  explicit context_table(std::size_t limit_bytes) : known_(limit_bytes) {}

  /// @param stage_name number of the name of e's stage
  std::uint32_t number(const event& e, std::uint32_t stage_name) {
    if (e.stage_id == 0) return 0;
    recent& r = recent_[(e.stage_id ^ e.stage_id >> 7) % recent_count];
    if (r.stage_id == e.stage_id && r.stage_name == stage_name && r.requests == e.request_total) return r.number;
    key_.assign(sizeof(stage_name), '\0');
    std::memcpy(&key_[0], &stage_name, sizeof(stage_name));
    append_requests(e);
    r = {e.stage_id, stage_name, e.request_total, known_.number(key_)};
    return r.number;
  }

  const std::vector<const std::string*>& entries() const noexcept { return known_.texts(); }
  static std::uint32_t stage_name(const std::string& entry) noexcept {
    std::uint32_t n = 0;
    std::memcpy(&n, entry.data(), sizeof(n));
    return n;
  }
  static std::string_view requests(const std::string& entry) noexcept {
    return std::string_view(entry).substr(sizeof(std::uint32_t));
  }
  std::uint64_t refused() const noexcept { return known_.refused(); }

 private:
  static constexpr std::size_t recent_count = 64;
  static constexpr std::uint32_t shown_requests = 16;
  struct recent {
    std::uint64_t stage_id = 0;
    std::uint32_t stage_name = 0;
    std::uint32_t requests = 0;
    std::uint32_t number = 0;
  };

  CUTRACE_NOINLINE void append_requests(const event& e) {
    const std::uint32_t shown = e.request_count < shown_requests ? e.request_count : shown_requests;
    for (std::uint32_t i = 0; i < shown; ++i) {
      if (i != 0) key_ += ", ";
      const request_ref& q = e.requests[i];
      if (q.name.size != 0)
        key_.append(q.name.data, q.name.size < 80 ? q.name.size : 80);
      else
        key_ += std::to_string(q.id);
    }
    const std::uint32_t all = e.request_total > e.request_count ? e.request_total : e.request_count;
    if (all > shown) key_ += " and " + std::to_string(all - shown) + " more";
  }

  text_numbers known_;
  recent recent_[recent_count];
  std::string key_;
};

/// grid, block, cluster, registers a thread, static and dynamic shared memory: the first members of kernel_data.
struct launch_shape {
  static constexpr std::size_t numbers = 12;
  std::uint32_t of[numbers];
};

class shape_table {
 public:
  explicit shape_table(std::size_t limit_bytes) : known_(limit_bytes) {}

  std::uint32_t number(const kernel_data& k) {
    launch_shape s;
    std::memcpy(s.of, k.grid, sizeof(k.grid));
    std::memcpy(s.of + 3, k.block, sizeof(k.block));
    std::memcpy(s.of + 6, k.cluster, sizeof(k.cluster));
    s.of[9] = k.registers_per_thread;
    s.of[10] = k.static_shared_bytes;
    s.of[11] = k.dynamic_shared_bytes;
    std::uint32_t mixed = 0;
    for (const std::uint32_t n : s.of) mixed = mixed * 31 + n;
    recent& r = recent_[(mixed * 0x9E3779B9u) >> 26];
    if (r.number == 0 || std::memcmp(&r.shape, &s, sizeof(s)) != 0)
      r = {s, known_.number(std::string(reinterpret_cast<const char*>(&s), sizeof(s)))};
    return r.number;
  }
  const std::vector<const std::string*>& entries() const noexcept { return known_.texts(); }
  static launch_shape shape(const std::string& entry) noexcept {
    launch_shape s;
    std::memcpy(&s, entry.data(), sizeof(s));
    return s;
  }

 private:
  struct recent {
    launch_shape shape = {};
    std::uint32_t number = 0;
  };
  text_numbers known_;
  recent recent_[64];
};

}  // namespace html
CUTRACE_END_NAMESPACE
