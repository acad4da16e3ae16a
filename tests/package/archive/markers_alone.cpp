// SPDX-License-Identifier: Apache-2.0
// A program with markers and without a session, which may be traced from outside.
#include <cutrace/mark.hpp>
#include <cutrace/stage.hpp>

int main() {
  CUTRACE_STAGE("alone", 1);
  CUTRACE_MARK("mark");
}
