// SPDX-License-Identifier: Apache-2.0
// Runs the tests, where the kernel takes BPF programs from this user.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "../run_command/run_support.hpp"

int main(int argc, char** argv) {
  const run_support::run tried({"--method", "ebpf", "--quiet", "--sink", "null"}, {"/bin/true"}, {});
  if (tried.ended.exit_status != 0) {
    std::printf("skipped: %s\n", tried.ended.errors.c_str());
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
