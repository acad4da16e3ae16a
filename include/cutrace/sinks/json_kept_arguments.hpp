// SPDX-License-Identifier: Apache-2.0
// Arguments of calls as JSON, as arguments_object of json_event.hpp writes them. The same stream, kernel and size come
// again and again: the text of the last ones is kept. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <cutrace/detail/kept_slot.hpp>
#include <cutrace/detail/text_digits.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/json_event.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

class kept_arguments {
 public:
  /// Forgets all: interned names live as long as their session.
  void clear() noexcept {
    for (kept& k : kept_) k = kept();
  }

  /// As put_arguments, in the same room.
  char* put(char* to, const argument* arguments, std::uint32_t count) {
    *to++ = '{';
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i != 0) *to++ = ',';
      const argument& a = arguments[i];
      kept& k = kept_[slot_of(a)];
      if (CUTRACE_LIKELY(k.is_of(a))) {
        std::memcpy(to, k.text, sizeof(k.text));
        to += k.size;
      } else {
        char* const end = put_argument(to, a, i);
        k.keep(a, to, static_cast<std::size_t>(end - to));
        to = end;
      }
    }
    *to++ = '}';
    return to;
  }

 private:
  struct alignas(64) kept {
    const char* name = nullptr;
    std::uint64_t value = 0;
    std::uint32_t name_size = 0;
    argument_kind kind = argument_kind::word;
    std::uint8_t size = 0;  ///< 0: nothing stands here
    char text[38];

    /// Names and texts are interned: equal addresses are equal texts.
    bool is_of(const argument& a) const noexcept {
      return size != 0 && value == a.value && name == a.name.data && name_size == a.name.size && kind == a.kind;
    }
    void keep(const argument& a, const char* written, std::size_t n) noexcept {
      if (n > sizeof(text) || a.name.size == 0) return;  // without a name it is called by its place
      name = a.name.data;
      value = a.value;
      name_size = a.name.size;
      kind = a.kind;
      size = static_cast<std::uint8_t>(n);
      std::memcpy(text, written, n);
    }
  };
  static_assert(sizeof(kept) == 64, "one cache line");
  static constexpr std::size_t slots = 128;

  static std::size_t slot_of(const argument& a) noexcept {
    return kept_slot<slots>(a.value + reinterpret_cast<std::uintptr_t>(a.name.data));
  }

  kept kept_[slots] = {};
};

}  // namespace detail
CUTRACE_END_NAMESPACE
