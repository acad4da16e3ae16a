// SPDX-License-Identifier: Apache-2.0
// The only place where the version is written; CMake and the tool read it from here.
#pragma once

#define CUTRACE_VERSION_MAJOR 0
#define CUTRACE_VERSION_MINOR 1
#define CUTRACE_VERSION_PATCH 0

#define CUTRACE_VERSION_TEXT_2(a, b, c) #a "." #b "." #c
#define CUTRACE_VERSION_TEXT_1(a, b, c) CUTRACE_VERSION_TEXT_2(a, b, c)
/// "major.minor.patch" as a string literal.
#define CUTRACE_VERSION_STRING \
  CUTRACE_VERSION_TEXT_1(CUTRACE_VERSION_MAJOR, CUTRACE_VERSION_MINOR, CUTRACE_VERSION_PATCH)
