// SPDX-License-Identifier: Apache-2.0
// A plug-in. Compiled several times: PLUGIN_NAME and PLUGIN_REQUEST distinguish the copies, PLUGIN_OWNS_SESSION makes
// one that links the runtime and opens a session.
#include "shared_markers.hpp"

namespace {

const char run_time_name[] = PLUGIN_NAME "_run_time_name";  // gone with the plug-in

void work(launch_function launch) {
  CUTRACE_STAGE(PLUGIN_NAME "_work", PLUGIN_REQUEST);
  launch("kernel_in_" PLUGIN_NAME);
  {
    CUTRACE_STAGE_DYNAMIC(run_time_name, PLUGIN_NAME "_text");
    launch("kernel_in_run_time_name");
  }
  shared_inline_step(launch);
  shared_template_step(PLUGIN_REQUEST);
}

void mark() { CUTRACE_MARK(PLUGIN_NAME "_mark"); }

#ifdef PLUGIN_OWNS_SESSION
cutrace::session* session = nullptr;

bool open(const char* sinks) {
  cutrace::session_options o;
  o.sinks = sinks;
  session = new cutrace::session(o);
  return true;
}
void close() {
  delete session;
  session = nullptr;
}
#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) plugin_functions plugin_entry() {
#ifdef PLUGIN_OWNS_SESSION
  return {work, mark, open, close};
#else
  return {work, mark, nullptr, nullptr};
#endif
}
