// SPDX-License-Identifier: Apache-2.0
// A CUDA program on the stand-in driver that knows nothing of cutrace: threads that launch, calls in which other calls
// and ioctls are made, children, and the end that its arguments name.
//   subject threads COUNT CALLS | nested COUNT CALLS | children CALLS | exec CALLS | exit STATUS | signal NUMBER | none
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../support/gpu_program.hpp"
#include "../ioctl/words.hpp"

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

// In each launch: an ioctl that bears the launch's number as its object, and a call in which there is another one.
constexpr unsigned inner_bit = 1u << 30;
int device_file = -1;
thread_local unsigned launch = 0;

void make_ioctl(unsigned object) {
  alignas(8) unsigned char block[64] = {};
  std::memcpy(block, &subject::client, sizeof(unsigned));
  std::memcpy(block + 4, &object, sizeof(object));
  std::memcpy(block + 8, &subject::control_command, sizeof(unsigned));
  ::ioctl(device_file, subject::rm_control, block);
}

void in_call(const char* function) {
  if (launch == 0) return;
  if (std::strcmp(function, "cuCtxSynchronize") == 0) return make_ioctl(launch | inner_bit);
  if (std::strcmp(function, "cuLaunchKernel") != 0) return;
  make_ioctl(launch);
  DO(cuCtxSynchronize, );
}

void nested(int count, int calls) {
  device_file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  gpu_device device;
  const auto set_hook = reinterpret_cast<void (*)(void (*)(const char*))>(
      dlsym(test_support::cuda_library(), "cutrace_sim_set_call_hook"));
  set_hook(&in_call);
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([&device, i, calls] {
      device.use();
      for (int k = 1; k <= calls; ++k) {
        launch = static_cast<unsigned>(i * calls + k);
        DO(cuLaunchKernel, device.kernel, launch, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr);
        launch = 0;
      }
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
  if (what == "nested") nested(number(2), number(3));
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
