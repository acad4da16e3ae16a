// SPDX-License-Identifier: Apache-2.0
// The main function of these tests: where no program was run, as with a filter that names a misspelt suite, it fails.
#define DOCTEST_CONFIG_IMPLEMENT
#include "faults_run.hpp"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || faults::run_count() != 0) return result;
  std::puts("no program was run: the filter matches no test that runs one");
  return 1;
}
