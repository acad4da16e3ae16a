// SPDX-License-Identifier: Apache-2.0
// A marker that is linked in and switched off: the test follows the machine code of `marked` past a closed gate
// (the variable that says whether markers record).
#include <cutrace/stage.hpp>

void body();

extern "C" void marked() {
  CUTRACE_STAGE("marked");
  body();
}

extern "C" void marked_request(unsigned long long request) {
  CUTRACE_STAGE("marked", request);
  body();
}

extern "C" void bare() { body(); }
