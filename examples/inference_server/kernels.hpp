// SPDX-License-Identifier: Apache-2.0
// What the host knows of the kernels in kernels.cu: names and parameter types, in their order. A launch with other
// types does not compile. (The driver sees only an array of untyped pointers.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace server {

/// Address in device memory of elements of type T. Never dereferenced on the host.
template <class T>
struct device_pointer {
  std::uint64_t address = 0;
  device_pointer operator+(std::size_t elements) const { return {address + elements * sizeof(T)}; }
};

/// Stands for one kernel. `index` is its place in `kernel_names`.
template <class... Parameters>
struct kernel {
  std::uint32_t index;
};

constexpr const char* kernel_names[] = {
    "embed",         "rms_norm",     "matmul", "store_cache", "attention_scores", "attention_softmax",
    "attention_mix", "residual_add", "silu",   "argmax"};
constexpr std::uint32_t kernel_count = sizeof(kernel_names) / sizeof(kernel_names[0]);

namespace kernels {

using ints = device_pointer<int>;
using floats = device_pointer<float>;

// n: tokens of all sequences in the step. A slot holds keys and values of one sequence, `context` positions at most;
// `slots`: the slot of each token. `cache`: where this layer's part of slot 0 begins; the same part of slot i is
// `slot size` x i floats further on.

/// n, width, tokens, positions, token table, position table, x out [n][width]
constexpr kernel<int, int, ints, ints, floats, floats, floats> embed{0};
/// n, width, x [n][width], gain, y out
constexpr kernel<int, int, floats, floats, floats> rms_norm{1};
/// n, inputs, outputs, x [n][inputs], matrix [inputs][outputs], y out [n][outputs]
constexpr kernel<int, int, int, floats, floats, floats> matmul{2};
/// n, width, context, slot size in floats, slots, positions, q-k-v [n][3 width], cache out
constexpr kernel<int, int, int, int, ints, ints, floats, floats> store_cache{3};
/// n, heads, head width, context, slot size, scale, slots, positions, q-k-v, cache, scores out [n][heads][context]
constexpr kernel<int, int, int, int, int, float, ints, ints, floats, floats, floats> attention_scores{4};
/// n, heads, context, positions, scores in and out
constexpr kernel<int, int, int, ints, floats> attention_softmax{5};
/// n, heads, head width, context, slot size, slots, positions, scores, cache, mixed values out [n][width]
constexpr kernel<int, int, int, int, int, ints, ints, floats, floats, floats> attention_mix{6};
/// size, y, x in and out
constexpr kernel<int, floats, floats> residual_add{7};
/// size, x in and out
constexpr kernel<int, floats> silu{8};
/// n, vocabulary, logits [n][vocabulary], tokens out
constexpr kernel<int, int, floats, ints> argmax{9};

}  // namespace kernels
}  // namespace server
