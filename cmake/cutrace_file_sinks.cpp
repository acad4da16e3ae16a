// SPDX-License-Identifier: Apache-2.0
// The sinks for programs, a source file of their own beside cutrace_runtime.cpp: compilers work on them at the same
// time.
#include <cutrace/config.hpp>
#if CUTRACE_ENABLED
#include <cutrace/sinks/make_file_sinks.hpp>
#endif
