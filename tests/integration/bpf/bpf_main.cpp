// SPDX-License-Identifier: Apache-2.0
// Runs the tests, where the kernel gives the types of its functions.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (::access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
    std::printf("skipped: this kernel gives no types of itself (/sys/kernel/btf/vmlinux)\n");
    return 77;
  }
  return doctest::Context(argc, argv).run();
}
