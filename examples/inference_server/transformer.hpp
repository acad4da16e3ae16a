// SPDX-License-Identifier: Apache-2.0
// One worker's forward pass on the GPU: buffers, the cache of its slots, and the sequence of copies and kernels.
// Prefill and decode are the same sequence over rows of (token, position, slot): in prefill all rows are one request's
// prompt, in decode each row is another request.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels.hpp"
#include "memory.hpp"
#include "model.hpp"
#include "stream.hpp"

namespace server {

class transformer {
 public:
  /// `weights` and `m` must outlive this; `max_rows` bounds the rows of a step, `slots` the requests in the cache.
  /// `naive`: pageable memory, and a copy and a synchronise for each row.
  transformer(gpu& g, stream& s, const model& m, device_pointer<float> weights, int slots, int max_rows, bool naive)
      : tokens(g, size(max_rows), kind(naive)),
        positions(g, size(max_rows), kind(naive)),
        slots_of_rows(g, size(max_rows), kind(naive)),
        chosen(g, size(max_rows), kind(naive)),
        stream_(s),
        naive_(naive),
        config_(m.config),
        layout_(m.layout),
        weights_(weights),
        max_rows_(size(max_rows)),
        inputs_(g, 3 * max_rows_),
        chosen_(g, max_rows_),
        x_(g, max_rows_ * size(config_.width)),
        last_(g, size(config_.width)),
        normed_(g, max_rows_ * size(config_.width)),
        qkv_(g, 3 * max_rows_ * size(config_.width)),
        scores_(g, max_rows_ * size(config_.heads) * size(config_.context)),
        mixed_(g, max_rows_ * size(config_.width)),
        hidden_(g, max_rows_ * size(config_.hidden)),
        logits_(g, max_rows_ * size(config_.vocabulary)),
        cache_(g, size(slots) * config_.cache_size()) {
    // Kernels read these indices: garbage in them must not be an address, whatever runs before the first upload.
    stream_.clear(inputs_.data(), inputs_.size());
    stream_.clear(chosen_.data(), chosen_.size());
  }

  // Rows of the next step: filled before `step`, left alone until the stream is synchronised.
  host_array<int> tokens, positions, slots_of_rows;
  /// The next token of each row, or of the last row alone, once the stream is synchronised.
  host_array<int> chosen;

  void clear_slot(int slot) { stream_.clear(cache_.data() + size(slot) * config_.cache_size(), config_.cache_size()); }

  /// Enqueues one step over `rows` rows. With `last_only` just the last row's next token is computed.
  void step(int rows, bool last_only) {
    upload(row_tokens(), tokens, size(rows));
    upload(row_positions(), positions, size(rows));
    upload(row_slots(), slots_of_rows, size(rows));
    stream_.launch(kernels::embed, rows * config_.width, rows, config_.width, row_tokens(), row_positions(),
                   weights_ + layout_.tokens, weights_ + layout_.positions, x_.data());
    for (int layer = 0; layer < config_.layers; ++layer) {
      attention_block(layer, rows);
      feed_forward_block(layer, rows);
    }
    choose(rows, last_only);
  }

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  static host_memory kind(bool naive) { return naive ? host_memory::pageable : host_memory::pinned; }

  void upload(device_pointer<int> to, const host_array<int>& from, std::size_t rows) {
    if (!naive_) return stream_.upload(to, from.data(), rows);
    for (std::size_t row = 0; row < rows; ++row) {
      stream_.upload(to + row, from.data() + row, 1);
      stream_.synchronize();
    }
  }
  void download(const host_array<int>& to, device_pointer<int> from, std::size_t rows) {
    if (!naive_) return stream_.download(to.data(), from, rows);
    for (std::size_t row = 0; row < rows; ++row) {
      stream_.download(to.data() + row, from + row, 1);
      stream_.synchronize();
    }
  }
  device_pointer<int> row_tokens() const { return inputs_.data(); }
  device_pointer<int> row_positions() const { return inputs_.data() + max_rows_; }
  device_pointer<int> row_slots() const { return inputs_.data() + 2 * max_rows_; }

  void norm(int rows, device_pointer<float> x, std::size_t gain) {
    stream_.launch(kernels::rms_norm, rows * config_.width, rows, config_.width, x, weights_ + gain, normed_.data());
  }
  void multiply(int rows, int inputs, int outputs, device_pointer<float> x, std::size_t matrix,
                device_pointer<float> y) {
    stream_.launch(kernels::matmul, rows * outputs, rows, inputs, outputs, x, weights_ + matrix, y);
  }
  /// x += y
  void add_to_x(int rows, device_pointer<float> y) {
    stream_.launch(kernels::residual_add, rows * config_.width, rows * config_.width, y, x_.data());
  }

  void attention_block(int layer, int rows) {
    const weight_layout::layer& w = layout_.layers[size(layer)];
    const int width = config_.width, heads = config_.heads, head_width = config_.head_width();
    const int context = config_.context, slot_size = static_cast<int>(config_.cache_size());
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
    const device_pointer<float> cache = cache_.data() + size(layer) * config_.layer_cache_size();
    norm(rows, x_.data(), w.attention_gain);
    multiply(rows, width, 3 * width, normed_.data(), w.qkv, qkv_.data());
    stream_.launch(kernels::store_cache, rows * width, rows, width, context, slot_size, row_slots(), row_positions(),
                   qkv_.data(), cache);
    // Sized for the longest context, so that a captured graph stays right while the requests grow.
    stream_.launch(kernels::attention_scores, rows * heads * context, rows, heads, head_width, context, slot_size,
                   scale, row_slots(), row_positions(), qkv_.data(), cache, scores_.data());
    stream_.launch(kernels::attention_softmax, rows * heads, rows, heads, context, row_positions(), scores_.data());
    stream_.launch(kernels::attention_mix, rows * width, rows, heads, head_width, context, slot_size, row_slots(),
                   row_positions(), scores_.data(), cache, mixed_.data());
    multiply(rows, width, width, mixed_.data(), w.projection, normed_.data());
    add_to_x(rows, normed_.data());
  }

  void feed_forward_block(int layer, int rows) {
    const weight_layout::layer& w = layout_.layers[size(layer)];
    norm(rows, x_.data(), w.feed_gain);
    multiply(rows, config_.width, config_.hidden, normed_.data(), w.up, hidden_.data());
    stream_.launch(kernels::silu, rows * config_.hidden, rows * config_.hidden, hidden_.data());
    multiply(rows, config_.hidden, config_.width, hidden_.data(), w.down, normed_.data());
    add_to_x(rows, normed_.data());
  }

  void choose(int rows, bool last_only) {
    const std::size_t width = size(config_.width);
    device_pointer<float> x = x_.data();
    if (last_only) {
      stream_.copy(last_.data(), x + (size(rows) - 1) * width, width);
      x = last_.data();
      rows = 1;
    }
    norm(rows, x, layout_.final_gain);
    multiply(rows, config_.width, config_.vocabulary, normed_.data(), layout_.output, logits_.data());
    stream_.launch(kernels::argmax, rows, rows, config_.vocabulary, logits_.data(), chosen_.data());
    download(chosen, chosen_.data(), size(rows));
  }

  stream& stream_;
  bool naive_;
  const model_config& config_;
  const weight_layout& layout_;
  device_pointer<float> weights_;
  std::size_t max_rows_;
  device_array<int> inputs_;  ///< tokens, positions and slots of the rows
  device_array<int> chosen_;
  device_array<float> x_, last_, normed_, qkv_, scores_, mixed_, hidden_, logits_;
  device_array<float> cache_;  ///< [slot][layer][keys, values][context][width]
};

}  // namespace server
