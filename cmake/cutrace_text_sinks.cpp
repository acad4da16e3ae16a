// SPDX-License-Identifier: Apache-2.0
// The sinks whose output people read. A source file of their own beside cutrace_runtime.cpp, so that both are compiled
// at the same time.
#include <cutrace/config.hpp>
#if CUTRACE_ENABLED
#include <cutrace/sinks/make_text_sinks.hpp>
#endif
