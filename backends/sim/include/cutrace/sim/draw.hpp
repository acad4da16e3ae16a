// SPDX-License-Identifier: Apache-2.0
// Durations of kernels that nobody gave one: drawn from a seed, so that a run can be repeated.
#pragma once

#include <cstdint>
#include <cutrace/sim/options.hpp>
#include <cutrace/sim/work.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
inline std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// FNV-1a of a NUL-terminated text.
inline std::uint64_t hash_text(const char* text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (; *text != '\0'; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
  return h;
}

/// 1.5 us, and 2 us for each wave of blocks over the multiprocessors (two resident blocks each), times 0.8 to 1.3.
/// `stream_id` and `sequence` (the number of works issued to the stream before) make the draw independent of how
/// threads interleave, as long as each stream is fed by one thread.
inline std::uint64_t draw_duration_ns(const options& o, const kernel_work& k, std::uint64_t stream_id,
                                      std::uint64_t sequence) noexcept {
  if (k.duration_ns != 0) return k.duration_ns;
  if (o.kernel_duration_ns != 0) return o.kernel_duration_ns;
  const std::uint64_t blocks = std::uint64_t{k.grid[0]} * k.grid[1] * k.grid[2];
  const std::uint64_t wave = std::uint64_t{o.multiprocessors} * 2;
  const std::uint64_t waves = (blocks + wave - 1) / wave;
  const std::uint64_t random = mix(mix(o.seed ^ hash_text(k.name)) ^ mix(stream_id << 32 ^ sequence));
  const double factor = 0.8 + 0.5 * static_cast<double>(random >> 11) / 9007199254740992.0;  // 2^53
  return static_cast<std::uint64_t>(static_cast<double>(1500 + 2000 * waves) * factor);
}

}  // namespace sim
CUTRACE_END_NAMESPACE
