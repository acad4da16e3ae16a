// SPDX-License-Identifier: Apache-2.0
// A program that is traced as its environment or, with an argument, as its code says; it is made setuid.
#include <cutrace/cutrace.hpp>

int main(int argc, char** argv) {
  cutrace::session_options options;
  if (argc > 1) options.sinks = argv[1];
  options.emit_nvtx = true;
  cutrace::session trace(options);
  CUTRACE_STAGE("step");
  return 0;
}
