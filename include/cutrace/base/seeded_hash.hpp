// SPDX-License-Identifier: Apache-2.0
// Hash tables of what a trace names: with a seed that differs from process to process, so that nobody can write a file
// whose numbers or names all fall into one place of a table.
#pragma once

#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/config.hpp>
#include <functional>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// 16 random bytes that the kernel gives to each process (getauxval(3), AT_RANDOM).
struct hash_seed {
  std::uint64_t first = 0x243F6A8885A308D3u, second = 0x13198A2E03707344u;

  static const hash_seed& of_process() noexcept {
    static const hash_seed seed = [] {
      hash_seed s;
      if (const auto* const bytes = reinterpret_cast<const unsigned char*>(::getauxval(AT_RANDOM))) {
        std::memcpy(&s.first, bytes, sizeof(s.first));
        std::memcpy(&s.second, bytes + sizeof(s.first), sizeof(s.second));
      }
      s.second |= 1;
      return s;
    }();
    return seed;
  }
};

/// Both halves of the product of 128 bits, as wyhash mixes.
inline std::uint64_t mix_words(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide_number = unsigned __int128;
  const wide_number product = static_cast<wide_number>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_number(std::uint64_t n) noexcept {
  const hash_seed& seed = hash_seed::of_process();
  return mix_words(n ^ seed.first, seed.second);
}
inline std::uint64_t hash_bytes(const char* at, std::size_t size) noexcept {
  const hash_seed& seed = hash_seed::of_process();
  std::uint64_t sum = seed.first ^ size, word = 0;
  for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
    std::memcpy(&word, at, sizeof(word));
    sum = mix_words(sum ^ word, seed.second) + seed.first;
  }
  if (size == 0) return sum ^ sum >> 32;
  word = 0;
  std::memcpy(&word, at, size);
  sum = mix_words(sum ^ word, seed.second) + seed.first;
  return sum ^ sum >> 32;
}

/// Of numbers and of texts.
struct seeded_hash {
  template <class Key>
  std::size_t operator()(const Key& key) const noexcept {
    if constexpr (std::is_integral_v<Key>)
      return static_cast<std::size_t>(hash_number(static_cast<std::uint64_t>(key)));
    else
      return static_cast<std::size_t>(hash_bytes(std::string_view(key).data(), std::string_view(key).size()));
  }
};

// Their order is another one in each process: nothing that is written may depend on it.
template <class Key, class Value>
using seeded_map = std::unordered_map<Key, Value, seeded_hash>;
template <class Key>
using seeded_set = std::unordered_set<Key, seeded_hash>;

}  // namespace detail
CUTRACE_END_NAMESPACE
