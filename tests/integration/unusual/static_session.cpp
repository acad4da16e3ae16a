// SPDX-License-Identifier: Apache-2.0
// A library with a session of its own in a static object, which takes its time to be loaded (see unusual.cpp).
#include <unistd.h>

#include <cstdio>
#include <cutrace/cutrace.hpp>

namespace {

struct pause {
  pause() { ::usleep(400000); }
} const long_enough;
cutrace::session own;  // the loader's lock is held meanwhile
struct announcement {
  announcement() {
    std::puts("the library's session is open");
    CUTRACE_STAGE("step");
  }
} const open;

}  // namespace
