// SPDX-License-Identifier: Apache-2.0
// Says what the archive was compiled for. An object of its own, so that a small program can ask (cutraceConfig.cmake).
#include <cutrace/compiled.hpp>

extern "C" {
__attribute__((weak, used, visibility("hidden"))) char CUTRACE_COMPILED_NAME = 1;
}
