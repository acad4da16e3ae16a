// SPDX-License-Identifier: Apache-2.0
// A symbol whose name says what the archive was compiled for. An object file of its own, so that the test program of
// CutraceFit.cmake links nothing else of the archive.
#include <cutrace/compiled.hpp>

extern "C" {
__attribute__((weak, used, visibility("hidden"))) char CUTRACE_COMPILED_NAME = 1;
}
