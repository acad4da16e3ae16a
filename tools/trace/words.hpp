// SPDX-License-Identifier: Apache-2.0
// Parses the words of the formats into enum values; and a key of a text that a switch can use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/names.hpp>
#include <string_view>

namespace cutrace_reading {

inline bool starts_with(std::string_view s, std::string_view word) noexcept { return s.substr(0, word.size()) == word; }

/// First eight bytes, last eight bytes and size, mixed: texts up to 16 bytes collide only by chance of mixing.
constexpr std::uint64_t word_key(std::string_view s) noexcept {
  const std::size_t n = s.size(), half = n < 8 ? n : 8;
  std::uint64_t first = 0, last = 0;
  if (__builtin_is_constant_evaluated()) {
    for (std::size_t i = 0; i < half; ++i) {
      first |= std::uint64_t{static_cast<unsigned char>(s[i])} << 8 * i;
      last |= std::uint64_t{static_cast<unsigned char>(s[n - half + i])} << 8 * i;
    }
  } else if (n >= 8) {
    std::memcpy(&first, s.data(), 8);
    std::memcpy(&last, s.data() + n - 8, 8);
  } else {
    for (std::size_t i = 0; i < n; ++i) first |= std::uint64_t{static_cast<unsigned char>(s[i])} << 8 * i;
    last = first;
  }
  return (first * 0x9E3779B97F4A7C15u) ^ (last * 0xC2B2AE3D27D4EB4Fu) ^ (n * 0x165667B19E3779F9u);
}

/// Finds the one of the first `N` values of `Enum` whose to_string is `word`. @returns false where there is none
template <class Enum, std::size_t N>
bool value_of(std::string_view word, Enum& value) noexcept {
  for (std::size_t i = 0; i < N; ++i) {
    if (word == cutrace::to_string(static_cast<Enum>(i))) {
      value = static_cast<Enum>(i);
      return true;
    }
  }
  if constexpr (std::is_same_v<Enum, cutrace::loss_cause>) {
    value = cutrace::loss_cause::unpaired;
    return word == "incomplete";  // as files of the first versions call it
  }
  return false;
}
inline bool parse(std::string_view word, cutrace::attribution& v) noexcept {
  return value_of<cutrace::attribution, 6>(word, v);
}
inline bool parse(std::string_view word, cutrace::copy_direction& v) noexcept {
  return value_of<cutrace::copy_direction, 6>(word, v);
}
inline bool parse(std::string_view word, cutrace::memory_kind& v) noexcept {
  return value_of<cutrace::memory_kind, 8>(word, v);
}
inline bool parse(std::string_view word, cutrace::sync_kind& v) noexcept {
  return value_of<cutrace::sync_kind, 5>(word, v);
}
inline bool parse(std::string_view word, cutrace::memory_operation& v) noexcept {
  return value_of<cutrace::memory_operation, 2>(word, v);
}
inline bool parse(std::string_view word, cutrace::loss_cause& v) noexcept {
  return value_of<cutrace::loss_cause, cutrace::loss_cause_count>(word, v);
}
inline bool parse(std::string_view word, cutrace::ioctl_device& v) noexcept {
  return value_of<cutrace::ioctl_device, cutrace::ioctl_device_count>(word, v);
}
inline bool parse(std::string_view word, cutrace::stage_origin& v) noexcept {
  return value_of<cutrace::stage_origin, 2>(word, v);
}
inline bool parse(std::string_view word, cutrace::event_kind& v) noexcept {
  return value_of<cutrace::event_kind, cutrace::event_kind_count>(word, v);
}

}  // namespace cutrace_reading
