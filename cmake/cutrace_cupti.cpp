// SPDX-License-Identifier: Apache-2.0
// The CUPTI backend and its registration: the archive of cutrace::cupti, or a source file beside cutrace_runtime.cpp.
#include <cutrace/compiled.hpp>

#if CUTRACE_ENABLED
#include <cutrace/cupti/register.hpp>
CUTRACE_ANCHOR(cupti)
#endif
