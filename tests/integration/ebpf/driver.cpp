// SPDX-License-Identifier: Apache-2.0
// libcuda.so.1 of the tests of probes: functions whose calls can be distinguished. Built with frame pointers, so that
// each begins with an instruction that the kernel can probe; one does not.
#include "driver.hpp"

#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstring>

namespace {

// Behind cuGetProcAddress alone: no symbol.
std::uint64_t hidden(std::uint64_t a) { return a + 7; }

}  // namespace

extern "C" {

std::uint64_t cuLeaf(std::uint64_t v) { return v & 3; }
std::uint64_t cuLeafAgain(std::uint64_t v) __attribute__((alias("cuLeaf")));
// More names than the record of a note has room for.
__asm__(
    ".irp n, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29\n"
    ".globl cuLeafByName\\n\n.type cuLeafByName\\n, @function\n.set cuLeafByName\\n, cuLeaf\n.endr\n");
std::uint64_t cuNested(std::uint64_t v) { return cuLeaf(v) + cuMiddle(v); }
std::uint64_t cuMiddle(std::uint64_t v) { return cuLeaf(v) + 1; }
std::uint64_t cuDeep(std::uint64_t n) { return n <= 1 ? 0 : cuDeep(n - 1) + 1; }
int cuCallback(void (*call)(void*), void* with) {
  call(with);
  return 0;
}
int cuAsk(int device, unsigned request, void* block) { return ::ioctl(device, request, block); }
int cuAskNested(int device, unsigned request, void* block) {
  const int before = ::ioctl(device, request, block);
  const int inside = cuAsk(device, request, block);
  return before + inside + ::ioctl(device, request, block);
}
int cuSleep(unsigned us) { return ::usleep(us); }
int cuYield() { return ::sched_yield(); }
int cuWaitForEver() {
  if (::write(1, "waiting\n", 8) != 8) return 1;
  for (;;) ::pause();
}
// lock addq $0, (%rsp): the kernel probes no instruction with such a prefix.
__asm__(
    ".text\n.globl cuLocked\n.type cuLocked, @function\n"
    "cuLocked: lock; addq $0, (%rsp)\n mov $5, %eax\n ret\n.size cuLocked, .-cuLocked\n");

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = 1234567;
  *total = 7654321;
  return 0;
}
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (bytes == 0) return 2;  // CUDA_ERROR_OUT_OF_MEMORY
  *address = 0x7f0000001000;
  return 0;
}
int cuMemcpy2D_v2(const void*) { return 0; }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  return 0;
}
int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int* status) {
  *function = nullptr;
  if (std::strcmp(name, "cuHidden") == 0) *function = reinterpret_cast<void*>(&hidden);
  if (std::strcmp(name, "cuLeaf") == 0) *function = reinterpret_cast<void*>(&cuLeaf);
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? 0 : 500;
}
}
