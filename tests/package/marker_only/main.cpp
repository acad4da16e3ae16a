// SPDX-License-Identifier: Apache-2.0
// Markers without a runtime: they do nothing, and need nothing.
#include <cutrace/mark.hpp>
#include <cutrace/stage.hpp>

int main(int argc, char**) {
  CUTRACE_STAGE("main", argc);
  CUTRACE_MARK("begin");
  CUTRACE_COUNT("runs", 1);
  return 0;
}
