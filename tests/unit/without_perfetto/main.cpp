// SPDX-License-Identifier: Apache-2.0
// A program that was built without protozero: its sinks work, and the name "perfetto" says what is missing.
#include <cstdio>
#include <cutrace/sinks/sink_specs.hpp>
#include <string>

int main() {
  if (cutrace::make_sinks("jsonl:a,chrome:b").size() != 2) return 1;
  try {
    cutrace::make_sinks("perfetto:t.pftrace");
  } catch (const cutrace::config_error& e) {
    const std::string message = e.what();
    std::puts(message.c_str());
    return message.find("\"perfetto:t.pftrace\": ") != std::string::npos &&
                   message.find("libprotozero-dev") != std::string::npos
               ? 0
               : 2;
  }
  return 3;
}
