// SPDX-License-Identifier: Apache-2.0
// The model on the CPU, one request at a time: what the GPU's tokens are compared with. It shares the weights and one
// scalar function with the kernels and nothing else. Sums run in the kernels' order, so that with products that are
// not fused into sums (-ffp-contract=off here, -fmad=false there) both sides round alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "exponential.hpp"
#include "model.hpp"

namespace server {

/// Index of the largest element, the first one of equals. `v` must not be empty.
inline int argmax(const std::vector<float>& v) {
  return static_cast<int>(std::max_element(v.begin(), v.end()) - v.begin());
}

class cpu_reference {
 public:
  explicit cpu_reference(const model& m) : model_(m), cache_(m.config.cache_size()) {}

  /// Appends one token to the request and returns the logits of the next one. At most `config.context` calls.
  std::vector<float> step(int token) {
    const model_config& c = model_.config;
    std::vector<float> x(size(c.width));
    const float* word = model_.at(model_.layout.tokens) + size(token) * x.size();
    const float* place = model_.at(model_.layout.positions) + size(position_) * x.size();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = word[i] + place[i];
    for (int layer = 0; layer < c.layers; ++layer) {
      attention_block(layer, x);
      feed_forward_block(layer, x);
    }
    ++position_;
    return multiply(norm(x, model_.at(model_.layout.final_gain)), model_.layout.output, c.vocabulary);
  }

  int position() const { return position_; }  ///< tokens so far

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  /// x / sqrt(mean(x^2) + 1e-5) * gain. Source: Zhang and Sennrich, Root Mean Square Layer Normalization (2019).
  static std::vector<float> norm(const std::vector<float>& x, const float* gain) {
    float sum = 0;
    for (float v : x) sum += v * v;
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(x.size()) + 1e-5f);
    std::vector<float> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * gain[i];
    return y;
  }

  /// Row vector times matrix [in][out]. The loop over inputs is outermost: each output still sums in their order, and
  /// compilers can work on several outputs at once.
  std::vector<float> multiply(const std::vector<float>& x, std::size_t matrix, int outputs) const {
    std::vector<float> y(size(outputs), 0.0f);
    const float* row = model_.at(matrix);
    for (float v : x) {
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += v * row[o];
      row += y.size();
    }
    return y;
  }

  static void add(std::vector<float>& x, const std::vector<float>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  void attention_block(int layer, std::vector<float>& x) {
    const model_config& c = model_.config;
    const weight_layout::layer& w = model_.layout.layers[size(layer)];
    const std::vector<float> qkv = multiply(norm(x, model_.at(w.attention_gain)), w.qkv, 3 * c.width);
    float* keys = cache_.data() + size(layer) * c.layer_cache_size();
    float* values = keys + size(c.context) * size(c.width);
    const std::size_t here = size(position_) * size(c.width);
    std::copy_n(qkv.begin() + c.width, c.width, keys + here);
    std::copy_n(qkv.begin() + 2 * c.width, c.width, values + here);
    std::vector<float> mixed(size(c.width));
    for (int head = 0; head < c.heads; ++head) {
      const std::size_t first = size(head * c.head_width());
      attend(qkv.data() + first, keys + first, values + first, mixed.data() + first);
    }
    add(x, multiply(mixed, w.projection, c.width));
  }

  /// softmax(q k / sqrt(head width)) v over all positions so far. Source: Vaswani et al., Attention Is All You Need.
  void attend(const float* q, const float* keys, const float* values, float* out) const {
    const model_config& c = model_.config;
    const std::size_t stride = size(c.width);
    const float scale = 1.0f / std::sqrt(static_cast<float>(c.head_width()));
    std::vector<float> p(size(position_) + 1);
    for (std::size_t t = 0; t < p.size(); ++t) {
      float dot = 0;
      for (std::size_t i = 0; i < size(c.head_width()); ++i) dot += q[i] * keys[t * stride + i];
      p[t] = dot * scale;
    }
    const float largest = *std::max_element(p.begin(), p.end());
    float sum = 0;
    for (float& v : p) sum += v = exponential(v - largest);
    for (float& v : p) v /= sum;
    for (std::size_t i = 0; i < size(c.head_width()); ++i) {
      float value = 0;
      for (std::size_t t = 0; t < p.size(); ++t) value += p[t] * values[t * stride + i];
      out[i] = value;
    }
  }

  void feed_forward_block(int layer, std::vector<float>& x) const {
    const weight_layout::layer& w = model_.layout.layers[size(layer)];
    std::vector<float> h = multiply(norm(x, model_.at(w.feed_gain)), w.up, model_.config.hidden);
    for (float& v : h) v = v / (1.0f + exponential(-v));  // SiLU
    add(x, multiply(h, w.down, model_.config.width));
  }

  const model& model_;
  std::vector<float> cache_;
  int position_ = 0;
};

/// Greedy decoding: the `new_tokens` most likely tokens after a prompt of at least one token.
inline std::vector<int> decode_greedily(const model& m, const std::vector<int>& prompt, std::size_t new_tokens) {
  cpu_reference reference(m);
  std::vector<float> logits;
  for (int token : prompt) logits = reference.step(token);
  std::vector<int> out;
  while (out.size() < new_tokens) {
    out.push_back(argmax(logits));
    if (out.size() < new_tokens) logits = reference.step(out.back());
  }
  return out;
}

}  // namespace server
