// SPDX-License-Identifier: Apache-2.0
// The model's kernels: one thread an output, each sum in ascending order, no shared memory. Slow for a GPU and easy to
// hold against the CPU reference. All have a one-dimensional grid; `n` is the number of rows (tokens) of a step. Row r
// is token tokens[r] at positions[r] of the request whose cache is slots[r]. Parameters: see kernels.hpp.
#include "exponential.hpp"

namespace {

/// Element of the launch that the calling thread stands for.
__device__ __forceinline__ int element() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

}  // namespace

extern "C" {

__global__ void embed(int n, int width, const int* tokens, const int* positions, const float* token_table,
                      const float* position_table, float* x) {
  const int i = element();
  if (i >= n * width) return;
  const int row = i / width, column = i % width;
  x[i] = token_table[tokens[row] * width + column] + position_table[positions[row] * width + column];
}

__global__ void rms_norm(int n, int width, const float* x, const float* gain, float* y) {
  const int i = element();
  if (i >= n * width) return;
  const float* row = x + i / width * width;
  float sum = 0;
  for (int c = 0; c < width; ++c) sum += row[c] * row[c];
  const float scale = 1.0f / sqrtf(sum / static_cast<float>(width) + 1e-5f);
  y[i] = x[i] * scale * gain[i % width];
}

__global__ void matmul(int n, int inputs, int outputs, const float* x, const float* matrix, float* y) {
  const int i = element();
  if (i >= n * outputs) return;
  const float* row = x + i / outputs * inputs;
  const float* column = matrix + i % outputs;
  float sum = 0;
  for (int k = 0; k < inputs; ++k) sum += row[k] * column[k * outputs];
  y[i] = sum;
}

__global__ void store_cache(int n, int width, int context, int slot_size, const int* slots, const int* positions,
                            const float* qkv, float* cache) {
  const int i = element();
  if (i >= n * width) return;
  const int row = i / width, column = i % width;
  float* keys = cache + static_cast<long long>(slots[row]) * slot_size + positions[row] * width + column;
  keys[0] = qkv[row * 3 * width + width + column];
  keys[context * width] = qkv[row * 3 * width + 2 * width + column];
}

__global__ void attention_scores(int n, int heads, int head_width, int context, int slot_size, float scale,
                                 const int* slots, const int* positions, const float* qkv, const float* cache,
                                 float* scores) {
  const int i = element();
  if (i >= n * heads * context) return;
  const int t = i % context, head = i / context % heads, row = i / context / heads;
  if (t > positions[row]) return;
  const int width = heads * head_width;
  const float* q = qkv + row * 3 * width + head * head_width;
  const float* key = cache + static_cast<long long>(slots[row]) * slot_size + t * width + head * head_width;
  float dot = 0;
  for (int c = 0; c < head_width; ++c) dot += q[c] * key[c];
  scores[i] = dot * scale;
}

__global__ void attention_softmax(int n, int heads, int context, const int* positions, float* scores) {
  const int i = element();
  if (i >= n * heads) return;
  float* p = scores + i * context;
  const int last = positions[i / heads];
  float largest = p[0];
  for (int t = 1; t <= last; ++t) largest = p[t] > largest ? p[t] : largest;
  float sum = 0;
  for (int t = 0; t <= last; ++t) {
    p[t] = server::exponential(p[t] - largest);
    sum += p[t];
  }
  for (int t = 0; t <= last; ++t) p[t] /= sum;
}

__global__ void attention_mix(int n, int heads, int head_width, int context, int slot_size, const int* slots,
                              const int* positions, const float* scores, const float* cache, float* mixed) {
  const int i = element();
  const int width = heads * head_width;
  if (i >= n * width) return;
  const int row = i / width, column = i % width;
  const float* values = cache + static_cast<long long>(slots[row]) * slot_size + context * width + column;
  const float* p = scores + (row * heads + column / head_width) * context;
  float sum = 0;
  for (int t = 0; t <= positions[row]; ++t) sum += p[t] * values[t * width];
  mixed[i] = sum;
}

__global__ void residual_add(int size, const float* y, float* x) {
  const int i = element();
  if (i < size) x[i] += y[i];
}

__global__ void silu(int size, float* x) {
  const int i = element();
  if (i < size) x[i] = x[i] / (1.0f + server::exponential(-x[i]));
}

/// The first of equal maxima, as the reference does.
__global__ void argmax(int n, int vocabulary, const float* logits, int* tokens) {
  const int row = element();
  if (row >= n) return;
  const float* v = logits + row * vocabulary;
  int best = 0;
  for (int c = 1; c < vocabulary; ++c) best = v[c] > v[best] ? c : best;
  tokens[row] = best;
}

}  // extern "C"
