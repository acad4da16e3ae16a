// SPDX-License-Identifier: Apache-2.0
// The model: its sizes, and its weights as one array of floats that the CPU reference reads and the GPU receives.
// Decoder-only transformer: learned positions, RMS norm before each block, one fused q-k-v matrix, SiLU between the two
// matrices of the feed-forward block, untied output matrix. Matrices are stored [in][out].
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace server {

struct model_config {
  int vocabulary = 256;  ///< one token a byte
  int width = 128;
  int heads = 4;
  int layers = 4;
  int hidden = 512;  ///< of the feed-forward block
  int context = 64;  ///< most positions of one request, prompt and answer together
  std::uint64_t seed = 1;

  int head_width() const { return width / heads; }
  /// Floats of one request's cache: keys, then values, [context][width] each, layer after layer.
  std::size_t cache_size() const { return static_cast<std::size_t>(layers) * layer_cache_size(); }
  std::size_t layer_cache_size() const {
    return 2 * static_cast<std::size_t>(context) * static_cast<std::size_t>(width);
  }
};

/// Where each tensor begins in the array, in floats.
struct weight_layout {
  struct layer {
    std::size_t attention_gain, qkv, projection, feed_gain, up, down;
  };
  std::size_t tokens, positions, final_gain, output, total;
  std::vector<layer> layers;

  explicit weight_layout(const model_config& c) {
    const auto width = static_cast<std::size_t>(c.width);
    const auto hidden = static_cast<std::size_t>(c.hidden);
    std::size_t next = 0;
    const auto take = [&next](std::size_t n) {
      next += n;
      return next - n;
    };
    tokens = take(static_cast<std::size_t>(c.vocabulary) * width);
    positions = take(static_cast<std::size_t>(c.context) * width);
    for (int i = 0; i < c.layers; ++i) {
      layer l{};
      l.attention_gain = take(width);
      l.qkv = take(width * 3 * width);
      l.projection = take(width * width);
      l.feed_gain = take(width);
      l.up = take(width * hidden);
      l.down = take(hidden * width);
      layers.push_back(l);
    }
    final_gain = take(width);
    output = take(width * static_cast<std::size_t>(c.vocabulary));
    total = next;
  }
};

/// splitmix64 of Steele, Lea and Flood (2014): a well mixed 64-bit number for each input.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

struct model {
  model_config config;
  weight_layout layout;
  std::vector<float> weights;

  /// Uniform numbers in [-scale, scale), each a function of the seed and its place alone, so that the same model comes
  /// out everywhere. The scale sqrt(3 / inputs) keeps the variance of a row at one; gains are ones.
  explicit model(const model_config& c) : config(c), layout(c), weights(layout.total) {
    const auto width = static_cast<std::size_t>(c.width);
    const auto hidden = static_cast<std::size_t>(c.hidden);
    const auto vocabulary = static_cast<std::size_t>(c.vocabulary);
    fill(layout.tokens, vocabulary * width, 3);
    fill(layout.positions, static_cast<std::size_t>(c.context) * width, 3);
    for (const weight_layout::layer& l : layout.layers) {
      fill_ones(l.attention_gain, width);
      fill(l.qkv, width * 3 * width, width);
      fill(l.projection, width * width, width);
      fill_ones(l.feed_gain, width);
      fill(l.up, width * hidden, width);
      fill(l.down, hidden * width, hidden);
    }
    fill_ones(layout.final_gain, width);
    fill(layout.output, width * vocabulary, width);
  }

  const float* at(std::size_t offset) const { return weights.data() + offset; }

 private:
  void fill(std::size_t first, std::size_t n, std::size_t inputs) {
    const float scale = std::sqrt(3.0f / static_cast<float>(inputs));
    const std::uint64_t stream = mix(config.seed);
    for (std::size_t i = first; i < first + n; ++i) {
      const auto bits = static_cast<float>(mix(stream + i) >> 40);  // 24 bits: exact as float
      weights[i] = (bits / 8388608.0f - 1.0f) * scale;
    }
  }
  void fill_ones(std::size_t first, std::size_t n) {
    for (std::size_t i = first; i < first + n; ++i) weights[i] = 1.0f;
  }
};

}  // namespace server
