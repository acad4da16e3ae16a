// SPDX-License-Identifier: Apache-2.0
// A program that was built without protozero and without the header of the HTML report's page: its other sinks work,
// and the names "perfetto" and "html" say what is missing.
#include <cstdio>
#include <cutrace/sinks/make_file_sinks.hpp>
#include <cutrace/sinks/make_text_sinks.hpp>
#include <cutrace/sinks/sink_registry.hpp>
#include <string>

namespace {

/// Is the word refused, with a message that names it and what helps?
bool refused(const std::string& word, const char* help) {
  try {
    cutrace::make_sinks(word.c_str());
  } catch (const cutrace::config_error& e) {
    const std::string message = e.what();
    std::puts(message.c_str());
    return message.find('"' + word + "\": ") != std::string::npos && message.find(help) != std::string::npos;
  }
  return false;
}

}  // namespace

int main() {
  if (cutrace::make_sinks("jsonl:a,chrome:b,ascii,calls:c").size() != 4) return 1;
  if (!refused("perfetto:t.pftrace", "libprotozero-dev")) return 2;
  return refused("html:t.html", "CUTRACE_WITHOUT_HTML") ? 0 : 3;
}
