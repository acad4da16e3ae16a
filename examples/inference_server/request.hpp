// SPDX-License-Identifier: Apache-2.0
// A request on its way through the server, and where requests come from: texts and lengths drawn from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/cutrace.hpp>
#include <memory>
#include <string>
#include <vector>

#include "model.hpp"
#include "options.hpp"

namespace server {

struct request {
  std::uint64_t id = 0;
  std::string text;
  std::vector<int> prompt;     ///< tokens of `text`
  std::size_t new_tokens = 0;  ///< to generate; known from the start, so that no step depends on a token's value
  std::vector<int> output;

  /// The time in the queue is a stage too, but of no scope: it begins on the thread that submits and ends on the one
  /// that serves. So it is a span, which moves with the request.
  cutrace::span queue_wait;
};

using request_pointer = std::unique_ptr<request>;

/// Request `id` of a run: between half and all of the longest prompt and answer that the options allow.
inline request_pointer draw_request(std::uint64_t id, const options& o) {
  static constexpr const char* words[] = {"stream", "kernel", "tensor", "token", "batch", "cache", "queue", "layer"};
  std::uint64_t random = mix(mix(o.seed) + id);
  const auto draw = [&random](std::uint64_t most) {
    random = mix(random);
    const std::uint64_t least = (most + 1) / 2;
    return static_cast<std::size_t>(least + random % (most - least + 1));
  };
  auto r = std::make_unique<request>();
  r->id = id;
  const std::size_t length = draw(o.prompt_tokens);
  r->new_tokens = draw(o.new_tokens);
  while (r->text.size() < length) {
    random = mix(random);
    r->text += words[random % 8];
    r->text += ' ';
  }
  r->text.resize(length);
  return r;
}

}  // namespace server
