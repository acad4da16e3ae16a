// SPDX-License-Identifier: Apache-2.0
// A stage in a session of the plug-in's own.
#include <cutrace/cutrace.hpp>

extern "C" __attribute__((visibility("default"))) int run_plugin() {
  cutrace::session trace;
  const bool joined = trace.active();
  { CUTRACE_STAGE("in plug-in", 2); }
  return joined ? 1 : 0;
}
