// SPDX-License-Identifier: Apache-2.0
// A Chrome JSON document in pieces: the fields of the document, and the elements of "traceEvents" one by one, so that
// memory is that of the largest piece. Pieces are only delimited here; the parser checks whether they are valid JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "trace/byte_window.hpp"
#include "trace/complaints.hpp"

namespace cutrace_reading {

class json_splitter {
 public:
  enum class piece : std::uint8_t {
    field,    ///< `key` and the text of its value
    element,  ///< of "traceEvents", or of a document that is an array
    end       ///< no further piece
  };
  static constexpr std::size_t piece_limit = std::size_t{16} << 20;

  json_splitter(byte_window& from, complaints& problems) : from_(from), problems_(problems) {}

  piece next();
  const std::string& key() const noexcept { return key_; }
  /// Valid until the next call.
  std::string_view text() const noexcept { return text_; }
  place at() const noexcept { return at_; }
  /// Whether the document had its end.
  bool whole() const noexcept { return state_ == state::ended; }

 private:
  enum class state : std::uint8_t { begin, fields, elements, ended, broken };

  bool fill(std::size_t wanted);
  char first_of(const char* skipped);
  void drop(std::size_t n);
  bool read_key();
  bool delimit(std::size_t& size);
  bool delimit_line(std::size_t& size);
  bool pass_over(std::size_t looked_at);
  bool recover();
  piece element();
  piece fail(const char* what);

  byte_window& from_;
  complaints& problems_;
  std::string key_;
  std::string_view text_;
  place at_;
  std::uint64_t line_ = 1;
  std::size_t taken_ = 0;                ///< size of the piece at the front, which the next call drops
  std::uint64_t no_newline_before_ = 0;  ///< offset up to which there is no line break
  std::uint64_t several_until_ = 0;      ///< offset before which no line is taken for one element
  std::uint64_t in_vain_ = 0;            ///< bytes searched without finding the end of an element
  state state_ = state::begin;
  bool bare_ = false;  ///< the document is an array
};

}  // namespace cutrace_reading
