// SPDX-License-Identifier: Apache-2.0
// What stands in a chunk before the record that it belongs to: texts and words. Collector's thread only.
#pragma once

#include <cstdint>
#include <cstring>
#include <cutrace/detail/record.hpp>
#include <string>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct record_parts {
  std::string name, request;
  bool told_name = false, told_request = false;  ///< whether there was one, be it empty
  std::vector<std::uint64_t> words;
  std::uint32_t enclosing = 0;

  void read_text(const record& r) {
    text_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    (piece.slot == 0 ? name : request).append(piece.bytes, piece.size);
    (piece.slot == 0 ? told_name : told_request) = true;
    any_ = true;
  }
  void read_words(const record& r) {
    words_record piece;
    std::memcpy(&piece, &r, sizeof(piece));
    words.insert(words.end(), piece.words, piece.words + piece.size);
    enclosing = piece.enclosing;
    any_ = true;
  }
  void resize_words(std::size_t count) {
    words.resize(count);
    any_ = true;
  }
  void clear() noexcept {
    if (!any_) return;  // most records come alone
    any_ = false;
    name.clear();
    request.clear();
    told_name = told_request = false;
    words.clear();
    enclosing = 0;
  }

 private:
  bool any_ = false;  ///< something stands here
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
