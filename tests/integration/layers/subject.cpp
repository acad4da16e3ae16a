// SPDX-License-Identifier: Apache-2.0
// A CUDA program on the stand-in driver that knows nothing of cutrace: threads that launch, make ioctls in between on a
// file of its own, have children and end as they are told.
//   subject threads COUNT CALLS | children CALLS | exec CALLS | exit STATUS | signal NUMBER | none
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"

namespace {

using test_support::gpu_device;

void work(int launches) {
  static gpu_device device;
  device.launch(nullptr, launches);
  DO(cuStreamSynchronize, nullptr);
}

void threads(int count, int calls) {
  gpu_device device;
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([&device, calls] {
      device.use();
      device.launch(nullptr, calls);
    });
  for (std::thread& t : all) t.join();
  DO(cuStreamSynchronize, nullptr);
}

int children(char* self, int calls) {
  work(calls);
  bool good = true;
  for (int i = 1; i <= 2; ++i) {
    const std::string more = std::to_string(calls + i);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl(self, self, "work", more.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    int status = 0;
    good = ::waitpid(child, &status, 0) == child && status == 0 && good;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoi(argv[i]) : 0; };
  if (what == "threads") threads(number(2), number(3));
  if (what == "work") work(number(2));
  if (what == "children") return children(argv[0], number(2));
  if (what == "exec") {
    work(number(2));
    ::execl(argv[0], argv[0], "work", argv[2], static_cast<char*>(nullptr));
    return 1;
  }
  if (what == "exit" || what == "signal") work(5);
  std::printf("done\n");
  std::fflush(stdout);
  if (what == "exit") return number(2);
  if (what == "signal") ::raise(number(2));
  return 0;
}
