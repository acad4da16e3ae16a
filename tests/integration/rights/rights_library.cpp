// SPDX-License-Identifier: Apache-2.0
// What a caller would like to have loaded by a program or a command with more rights: says as whom it runs.
#include <unistd.h>

#include <cstdio>

__attribute__((constructor)) static void loaded() {
  std::fprintf(stderr, "caller's library loaded, user %u\n", static_cast<unsigned>(::geteuid()));
}
