// SPDX-License-Identifier: Apache-2.0
// A byte is a token. Real tokenizers are slower; the stage is the same.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace server {

inline std::vector<int> tokenize(const std::string& text) {
  std::vector<int> tokens;
  tokens.reserve(text.size());
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

/// Text for a terminal: printable bytes as they are, others as \xNN.
inline std::string to_text(const std::vector<int>& tokens) {
  std::string text;
  for (int token : tokens) {
    const int byte = token & 0xff;
    if (byte >= 0x20 && byte < 0x7f && byte != '\\') {
      text += static_cast<char>(byte);
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned>(byte));
      text += escaped;
    }
  }
  return text;
}

}  // namespace server
