// SPDX-License-Identifier: Apache-2.0
// A file of a traced program that is compiled with CUTRACE_DISABLE: session and stage do nothing here.
#include <cutrace/cutrace.hpp>

void work_elsewhere() {
  cutrace::session inert;
  CUTRACE_STAGE("disabled", 2);
}
