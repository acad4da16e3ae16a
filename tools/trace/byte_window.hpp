// SPDX-License-Identifier: Apache-2.0
// The part of an input that a reader looks at: it grows at its end and is dropped from its front. Behind the end there
// is readable padding, as simdjson requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "trace/input.hpp"
#include "trace/memory_budget.hpp"

namespace cutrace_reading {

class byte_window {
 public:
  static constexpr std::size_t padding = 128;
  static constexpr std::size_t block = std::size_t{1} << 20;

  /// @param on_block called before each block is read, for progress
  explicit byte_window(input& from, std::function<void()> on_block = {}) : from_(from), on_block_(std::move(on_block)) {
    // A small file needs no large window.
    if (from.size() != 0 && !from.compressed() && from.size() < block)
      block_ = static_cast<std::size_t>(from.size()) + 1;
    reserve(4 * block_);
  }

  const char* data() const noexcept { return bytes_.get() + begin_; }
  std::size_t size() const noexcept { return end_ - begin_; }
  /// Position of data() in the input, in bytes.
  std::uint64_t offset() const noexcept { return offset_; }
  void drop(std::size_t n) noexcept {
    begin_ += n;
    offset_ += n;
  }
  /// Appends a block to the window; data() may change. @returns false at the end of the input
  bool more() {
    if (on_block_) on_block_();
    if (end_ + block_ > room_) {
      if (begin_ >= room_ / 2 || size() + block_ <= room_ / 2) {
        std::memmove(bytes_.get(), data(), size());
        end_ -= begin_;
        begin_ = 0;
      } else {
        reserve(2 * room_);
      }
    }
    const std::size_t n = from_.read(bytes_.get() + end_, block_);
    end_ += n;
    if (offset_ == 0 && !looked_ && size() >= 3) {
      looked_ = true;
      if (std::memcmp(data(), "\xef\xbb\xbf", 3) == 0) drop(3);  // UTF-8 byte order mark
    }
    std::memset(bytes_.get() + end_, 0, padding);  // simdjson may read the padding: zeros
    return n != 0;
  }
  void start_at(std::uint64_t offset) noexcept {
    begin_ = end_ = 0;
    offset_ = offset;
  }
  input& source() noexcept { return from_; }

 private:
  void reserve(std::size_t room) {
    if (bytes_ != nullptr) memory_.add(room);  // the first buffer, which every file has, is not counted
    std::unique_ptr<char[]> larger(new char[room + padding]);
    if (bytes_ != nullptr) std::memcpy(larger.get(), data(), size());
    end_ -= begin_;
    begin_ = 0;
    if (counted_ != 0) memory_.remove(counted_);
    counted_ = bytes_ != nullptr ? room : 0;
    bytes_ = std::move(larger);
    room_ = room;
  }

  bool looked_ = false;  ///< for a byte order mark at the beginning
  input& from_;
  std::function<void()> on_block_;
  counted_bytes memory_;
  std::size_t counted_ = 0;  ///< part of `memory_` for the present buffer
  std::unique_ptr<char[]> bytes_;
  std::size_t block_ = block, room_ = 0, begin_ = 0, end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace cutrace_reading
