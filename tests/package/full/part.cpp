// SPDX-License-Identifier: Apache-2.0
// The library's side: its markers join the session of the executable.
#include <cutrace/cutrace.hpp>

void work_in_library(unsigned long long request) { CUTRACE_STAGE("in library", request); }
