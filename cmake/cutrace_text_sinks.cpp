// SPDX-License-Identifier: Apache-2.0
// The sinks for people, a source file of their own beside cutrace_runtime.cpp: compilers work on them at the same time.
#include <cutrace/config.hpp>
#if CUTRACE_ENABLED
#include <cutrace/sinks/make_text_sinks.hpp>
#endif
