// SPDX-License-Identifier: Apache-2.0
// Markers in inline functions and templates that the program and its plug-ins all compile.
#pragma once

#include <cutrace/cutrace.hpp>

using launch_function = void (*)(const char* kernel);

inline void shared_inline_step(launch_function launch) {
  CUTRACE_STAGE("shared_inline", 77);
  CUTRACE_COUNT("shared_count", 1);
  launch("kernel_in_shared_inline");
}

template <class Number>
void shared_template_step(Number request) {
  CUTRACE_STAGE("shared_template", request);
  CUTRACE_MARK("shared_mark");
}

/// What a plug-in exports. `work` opens stages and launches kernels through `launch`; `mark` sets one mark.
struct plugin_functions {
  void (*work)(launch_function launch);
  void (*mark)();
  bool (*open)(const char* sinks);  ///< null, like `close`, in plug-ins that hold markers only
  void (*close)();
};
