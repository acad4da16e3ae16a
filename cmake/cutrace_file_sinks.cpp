// SPDX-License-Identifier: Apache-2.0
// The sinks whose output programs read (chrome, jsonl, ...). A source file of their own beside cutrace_runtime.cpp, so
// that both are compiled at the same time.
#include <cutrace/config.hpp>
#if CUTRACE_ENABLED
#include <cutrace/sinks/make_file_sinks.hpp>
#endif
