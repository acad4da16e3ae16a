// SPDX-License-Identifier: Apache-2.0
// Preloaded, it makes a machine that is short of threads: a process gets all but the one that REFUSED_THREAD numbers.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread, const pthread_attr_t* how,
                                                                     void* (*function)(void*), void* argument) {
  using create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const create real = reinterpret_cast<create>(dlsym(RTLD_NEXT, "pthread_create"));
  static pid_t process = 0;
  static int count = 0;
  if (process != ::getpid()) count = 0;
  process = ::getpid();
  const char* const refused = std::getenv("REFUSED_THREAD");
  return refused != nullptr && std::atoi(refused) == ++count ? EAGAIN : real(thread, how, function, argument);
}
