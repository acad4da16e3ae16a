// SPDX-License-Identifier: Apache-2.0
// The events of one row of the HTML report's timeline, packed as they come: about ten bytes each, numbers as LEB128
// (seven bits a byte, low ones first), signed ones in zigzag form, starts as distances from the one before. The page
// holds these bytes as they are, in base64; html_assets/model_js.hpp is their other reader.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace html {

/// What the timeline keeps of an event. Fields that are 0 take no room.
struct record {
  std::int64_t start_ns = 0;
  std::uint64_t length_ns = 0;
  std::uint32_t name = 0;
  std::uint32_t context = 0;  ///< stage and requests, an entry of the context table
  std::uint32_t detail = 0;   ///< GPU: an entry of the table of launch shapes; calls: the result
  std::uint32_t call = 0;     ///< name of the launching call
  std::int64_t delay_ns = 0;  ///< from the begin of that call to `start_ns`
  std::uint64_t bytes = 0;    ///< copied or set
  std::uint64_t joined = 0;   ///< events that this one stands for; 0: it is one
  std::uint64_t busy_ns = 0;  ///< of those, their own length without the gaps
  std::int64_t end_ns() const noexcept { return start_ns + static_cast<std::int64_t>(length_ns); }
};

class packed_records {
 public:
  void add(const record& r) {
    if (CUTRACE_UNLIKELY(bytes_.capacity() - bytes_.size() < longest)) grow();
    put(r.name);
    const unsigned flags = (r.context != 0 ? has_context : 0u) | (r.detail != 0 ? has_detail : 0u) |
                           (r.call != 0 ? has_call : 0u) | (r.bytes != 0 ? has_bytes : 0u) |
                           (r.joined != 0 ? is_joined : 0u);
    put(flags);
    put_signed(r.start_ns - last_start_ns_);
    put(r.length_ns);
    if (r.context != 0) put(r.context);
    if (r.detail != 0) put(r.detail);
    if (r.call != 0) put(r.call), put_signed(r.delay_ns);
    if (r.bytes != 0) put(r.bytes);
    if (r.joined != 0) put(r.joined), put(r.busy_ns);
    last_start_ns_ = r.start_ns;
    ++count_;
  }

  /// Calls `each(const record&)` in the order of `add`.
  template <class Each>
  void for_each(Each&& each) const {
    const unsigned char* at = bytes_.data();
    const unsigned char* const end = at + bytes_.size();
    std::int64_t start_ns = 0;
    while (at != end) {
      record r;
      r.name = static_cast<std::uint32_t>(get(at));
      const unsigned flags = static_cast<unsigned>(get(at));
      r.start_ns = start_ns += get_signed(at);
      r.length_ns = get(at);
      if (flags & has_context) r.context = static_cast<std::uint32_t>(get(at));
      if (flags & has_detail) r.detail = static_cast<std::uint32_t>(get(at));
      if (flags & has_call) {
        r.call = static_cast<std::uint32_t>(get(at));
        r.delay_ns = get_signed(at);
      }
      if (flags & has_bytes) r.bytes = get(at);
      if (flags & is_joined) {
        r.joined = get(at);
        r.busy_ns = get(at);
      }
      each(static_cast<const record&>(r));
    }
  }

  /// Joins neighbours shorter than `resolution_ns` as long as together they are no longer than that.
  CUTRACE_NOINLINE void join(std::int64_t resolution_ns) {
    packed_records coarser;
    record open;
    bool any = false;
    const auto flush = [&] {
      if (any) coarser.add(open);
      any = false;
    };
    for_each([&](const record& r) {
      const std::int64_t from = any ? std::min(open.start_ns, r.start_ns) : r.start_ns;
      const std::int64_t to = any ? std::max(open.end_ns(), r.end_ns()) : r.end_ns();
      if (to - from > resolution_ns || !any) {
        flush();
        open = r;
        any = true;
        if (r.end_ns() - r.start_ns >= resolution_ns) flush();
        return;
      }
      record sum;  // the context of the parts differs; the name is that of the longest
      sum.name = longest_of(r) > longest_of(open) ? r.name : open.name;
      sum.start_ns = from;
      sum.length_ns = static_cast<std::uint64_t>(to - from);
      sum.joined = std::max<std::uint64_t>(open.joined, 1) + std::max<std::uint64_t>(r.joined, 1);
      sum.busy_ns = std::min(sum.length_ns, longest_of(open) + longest_of(r));
      open = sum;
    });
    flush();
    coarser.bytes_.shrink_to_fit();
    *this = std::move(coarser);
  }

  std::uint64_t count() const noexcept { return count_; }
  std::size_t memory_bytes() const noexcept { return bytes_.capacity(); }
  const std::vector<unsigned char>& bytes() const noexcept { return bytes_; }

 private:
  enum : unsigned { has_context = 1, has_detail = 2, has_call = 4, has_bytes = 8, is_joined = 16 };
  static constexpr std::size_t longest = 10 * 10;

  static std::uint64_t longest_of(const record& r) noexcept { return r.joined != 0 ? r.busy_ns : r.length_ns; }

  /// By a quarter, not by two: what is not used counts against the limit.
  CUTRACE_NOINLINE void grow() {
    bytes_.reserve(bytes_.capacity() + std::max<std::size_t>(512, bytes_.capacity() / 4));
  }

  void put(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_.push_back(static_cast<unsigned char>(n | 0x80));
    bytes_.push_back(static_cast<unsigned char>(n));
  }
  void put_signed(std::int64_t n) {
    put(static_cast<std::uint64_t>(n) << 1 ^ (n < 0 ? ~std::uint64_t{0} : std::uint64_t{0}));
  }
  static std::uint64_t get(const unsigned char*& at) noexcept {
    std::uint64_t n = 0;
    unsigned shift = 0;
    for (;; shift += 7) {
      const unsigned char c = *at++;
      n |= static_cast<std::uint64_t>(c & 0x7fu) << shift;
      if (c < 0x80) return n;
    }
  }
  static std::int64_t get_signed(const unsigned char*& at) noexcept {
    const std::uint64_t n = get(at);
    return static_cast<std::int64_t>(n >> 1 ^ (~(n & 1) + 1));
  }

  std::vector<unsigned char> bytes_;
  std::int64_t last_start_ns_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace html
CUTRACE_END_NAMESPACE
