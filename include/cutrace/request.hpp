// SPDX-License-Identifier: Apache-2.0
// What a marker may name as its request: nothing, a 64-bit id, a text, or a batch of ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE

/// Says what a record's request word is (stage_frame::request, marker/table.hpp).
enum class request_form : std::uint8_t {
  none = 0,
  id = 1,     ///< the request's id
  text = 2,   ///< the FNV-1a hash of the text
  batch = 3,  ///< the number of ids
};

/// Argument of a marker. Holds a view: the marker copies text and ids before it returns.
class request {
 public:
  constexpr request() noexcept = default;

  template <class Id, std::enable_if_t<std::is_integral<Id>::value || std::is_enum<Id>::value, int> = 0>
  constexpr request(Id id) noexcept  // NOLINT(google-explicit-constructor): markers read better without a cast
      : word_(static_cast<std::uint64_t>(id)), form_(request_form::id) {}

  /// NUL-terminated text; a null pointer or an empty text means no request.
  request(const char* text) noexcept  // NOLINT(google-explicit-constructor)
      : data_(text),
        size_(text != nullptr ? __builtin_strlen(text) : 0),
        form_(size_ != 0 ? request_form::text : request_form::none) {}

  /// std::string, std::string_view and their like.
  template <class Text,
            std::enable_if_t<
                std::is_convertible<decltype(static_cast<const Text*>(nullptr)->data()), const char*>::value, int> = 0>
  request(const Text& text) noexcept  // NOLINT(google-explicit-constructor)
      : data_(text.data()), size_(text.size()), form_(size_ != 0 ? request_form::text : request_form::none) {}

  /// `n` ids of 64 bits each.
  template <class Id>
  static request batch(const Id* ids, std::size_t n) noexcept {
    static_assert(std::is_integral<Id>::value && sizeof(Id) == 8, "a batch is an array of 64-bit integer ids");
    request r;
    r.data_ = ids;
    r.size_ = n;
    r.word_ = n;
    r.form_ = request_form::batch;
    return r;
  }

  /// Makes a request from the results of the four functions below.
  static constexpr request from_parts(const void* data, std::size_t size, std::uint64_t word,
                                      request_form form) noexcept {
    request r;
    r.data_ = data;
    r.size_ = size;
    r.word_ = word;
    r.form_ = form;
    return r;
  }

  constexpr request_form form() const noexcept { return form_; }
  constexpr std::uint64_t word() const noexcept { return word_; }  ///< the id, the number of ids, 0 for text
  constexpr const void* data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }  ///< bytes of text, or ids of a batch

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t word_ = 0;
  request_form form_ = request_form::none;
};

CUTRACE_END_NAMESPACE
