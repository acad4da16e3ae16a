// SPDX-License-Identifier: Apache-2.0
// The runtime half of cutrace: compiled into the archive of cutrace::cutrace, and in each program or library that links
// cutrace::header_only. Its sinks and the backends have source files of their own; it depends on none of them.
#define CUTRACE_RUNTIME_WITHOUT_SINKS
#include <cutrace/compiled.hpp>
#include <cutrace/runtime.hpp>

#if CUTRACE_ENABLED
CUTRACE_ANCHOR(runtime)
#endif
