// SPDX-License-Identifier: Apache-2.0
// Are the GPU's tokens right? The CPU reference follows the GPU's own choice at each step, so that one step at which
// two tokens are nearly equally likely does not make all later ones look wrong.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu_reference.hpp"

namespace server {

/// Logits have a variance near one, and both sides differ by rounding alone (about 1e-6): a choice whose logit is
/// within this distance of the largest one is accepted and counted.
constexpr float near_tie = 1e-4f;

struct check_result {
  int wrong_at = -1;  ///< first step whose token is not the reference's, -1: none
  int wanted = -1;    ///< the reference's token there
  int near_ties = 0;  ///< steps whose two best logits of the reference lie within `near_tie`
  bool right() const { return wrong_at < 0; }
};

inline check_result check_tokens(const model& m, const std::vector<int>& prompt, const std::vector<int>& tokens) {
  check_result result;
  cpu_reference reference(m);
  std::vector<float> logits;
  for (int token : prompt) logits = reference.step(token);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const int best = argmax(logits);
    const float top = logits[static_cast<std::size_t>(best)];
    const bool tie = std::count_if(logits.begin(), logits.end(), [&](float v) { return v >= top - near_tie; }) > 1;
    if (tie) ++result.near_ties;
    const int token = tokens[i];
    const bool valid = token >= 0 && token < m.config.vocabulary;
    if (!valid || logits[static_cast<std::size_t>(token)] < top - (tie ? near_tie : 0.0f)) {
      result.wrong_at = static_cast<int>(i);
      result.wanted = best;
      return result;
    }
    if (i + 1 < tokens.size()) logits = reference.step(token);
  }
  return result;
}

}  // namespace server
