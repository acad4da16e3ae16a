// SPDX-License-Identifier: Apache-2.0
// The main function of these tests: a filter that matches nothing, as a misspelt suite, is a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include "faults_run.hpp"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || faults::run_count() != 0) return result;
  std::puts("no program was run: no test matches");
  return 1;
}
