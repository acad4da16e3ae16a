// SPDX-License-Identifier: Apache-2.0
// A byte is a token. Real tokenizers are slower; the stage is the same.
#pragma once

#include <string>
#include <vector>

namespace server {

inline std::vector<int> tokenize(const std::string& text) {
  std::vector<int> tokens;
  tokens.reserve(text.size());
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

/// The tokens as numbers: with random weights they form no words.
inline std::string to_text(const std::vector<int>& tokens) {
  std::string text;
  for (int token : tokens) text += (text.empty() ? "" : " ") + std::to_string(token);
  return text;
}

}  // namespace server
