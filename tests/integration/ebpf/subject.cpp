// SPDX-License-Identifier: Apache-2.0
// A program that calls the driver of these tests and knows nothing of cutrace. It opens the library at run time, as
// CUDA's runtime does: by its name, or by the path in SUBJECT_LIBRARY.
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "driver.hpp"
#include "mine.hpp"

namespace {

void must(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(99);
}

void* library() {
  static void* opened = [] {
    const char* path = std::getenv("SUBJECT_LIBRARY");
    return ::dlopen(path != nullptr ? path : "libcuda.so.1", RTLD_NOW);
  }();
  must(opened != nullptr, "libcuda.so.1 cannot be opened");
  return opened;
}
#define CU(name)                                                                          \
  ([]() -> decltype(&name) {                                                              \
    static const auto found = reinterpret_cast<decltype(&name)>(dlsym(library(), #name)); \
    must(found != nullptr, #name);                                                        \
    return found;                                                                         \
  }())

void leaves(long n) {
  for (long i = 0; i < n; ++i)
    must(CU(cuLeaf)(static_cast<std::uint64_t>(i)) == (static_cast<std::uint64_t>(i) & 3), "a result");
}

void threads(long count, long n) {
  library();
  std::vector<std::thread> all;
  for (long i = 0; i < count; ++i) all.emplace_back([n] { leaves(n); });
  for (std::thread& t : all) t.join();
}

void values() {
  std::size_t free = 0, total = 0;
  must(CU(cuMemGetInfo_v2)(&free, &total) == 0 && free == 1234567 && total == 7654321, "sizes");
  std::uint64_t address = 0;
  must(CU(cuMemAlloc_v2)(&address, 4096) == 0 && address == 0x7f0000001000, "an address");
  must(CU(cuMemAlloc_v2)(&address, 0) == 2, "an error");
  std::uint64_t copy[16] = {};
  copy[14] = 300;  // WidthInBytes
  copy[15] = 20;   // Height
  must(CU(cuMemcpy2D_v2)(copy) == 0, "a copy");
  const auto p = [](unsigned long v) { return reinterpret_cast<void*>(v); };
  must(CU(cuLaunchKernel)(p(0xabc), 1, 2, 3, 4, 5, 6, 7, p(0xdef), nullptr, nullptr) == 0, "a launch");
}

/// Waits until the kernel has put a breakpoint on the function's first instruction.
void await_probe(const void* function) {
  const auto probed = [function] {
#if defined(__x86_64__)
    return *static_cast<const volatile unsigned char*>(function) == 0xcc;
#else  // aarch64: brk
    return (*static_cast<const volatile std::uint32_t*>(function) & 0xffe0001fu) == 0xd4200000u;
#endif
  };
  ::usleep(500000);  // breakpoints of an earlier command are gone by then
  for (int patience = 0; patience < 60000 && !probed(); ++patience) ::usleep(1000);
  ::usleep(100000);  // and another one for its return, where a function has two
}

/// NV_ESC_RM_CONTROL of a subdevice, as the driver's libraries fill it, and the same wrapped in NV_ESC_IOCTL_XFER_CMD.
constexpr unsigned rm_control = 0xc020462a, transfer = 0xc01046d3;
struct asked {
  alignas(8) unsigned char control[32] = {}, wrap[16] = {};
  int fd;
  explicit asked(const char* device) : fd(::open(device, O_RDWR | O_CLOEXEC)) {
    must(fd >= 0, device);
    const unsigned words[] = {0xc1d00001, 0x5c000002, 0x20800102};
    std::memcpy(control, words, sizeof(words));
    const unsigned head[] = {0x2a, 32};
    const void* at = control;
    std::memcpy(wrap, head, sizeof(head));
    std::memcpy(wrap + 8, &at, sizeof(at));
  }
  ~asked() { ::close(fd); }
};
/// Each round: one in cuAsk, three in and below cuAskNested, one that is wrapped, outside of any call, and one on a
/// device that is not traced.
void ioctls(const char* device, long count, long n) {
  library();
  std::vector<std::thread> all;
  for (long t = 0; t < count; ++t)
    all.emplace_back([device, n] {
      asked a(device), other("/dev/full");
      for (long i = 0; i < n; ++i) {
        must(CU(cuAsk)(a.fd, rm_control, a.control) == -1 && errno == ENOTTY, "an ioctl");
        must(CU(cuAskNested)(a.fd, rm_control, a.control) == -3, "nested ioctls");
        must(::ioctl(a.fd, transfer, a.wrap) == -1, "an ioctl outside");
        must(::ioctl(other.fd, rm_control, a.control) == -1, "an ioctl elsewhere");
      }
    });
  for (std::thread& t : all) t.join();
}

/// Touches what the BPF programs take for managed memory, a mapping of the device, and then other memory.
void touch(const char* device, long pages) {
  leaves(1);
  const int fd = ::open(device, O_RDWR | O_CLOEXEC);
  const auto bytes = static_cast<std::size_t>(pages) * 4096;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  must(at != MAP_FAILED, "a mapping");
  ::madvise(at, bytes, MADV_NOHUGEPAGE);
  for (long i = 0; i < pages; ++i) static_cast<volatile char*>(at)[i * 4096] = 1;
  void* const other = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 0; i < pages; ++i) static_cast<volatile char*>(other)[i * 4096] = 1;
}

jmp_buf place;
void left(long n) {
  for (volatile long i = 0; i < n; i = i + 1)
    if (setjmp(place) == 0) CU(cuCallback)([](void*) { longjmp(place, 1); }, nullptr);
  leaves(1);
}

/// What is done after a call that was left is not done in it.
void left_and_asks(const char* device) {
  asked a(device);
  if (setjmp(place) == 0) CU(cuCallback)([](void*) { longjmp(place, 1); }, nullptr);
  ::ioctl(a.fd, rm_control, a.control);
  ::usleep(20000);
  leaves(1);
}

/// Computes, or calls `yields`, for 150 ms on a processor that a child, which does not call the driver, wants as well.
void shares_a_processor(int (*yields)()) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  must(::sched_setaffinity(0, sizeof(one), &one) == 0, "one processor");
  leaves(1);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(150);
  const pid_t child = ::fork();
  while (std::chrono::steady_clock::now() < until)
    if (yields != nullptr && child != 0) yields();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  ::usleep(20000);
  leaves(1);
}

/// Writes each number through to the disk, so that the disk makes interrupts.
void write_through(long n) {
  leaves(1);
  const int fd = ::open("written", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (long i = 0; i < n; ++i) must(::pwrite(fd, &i, sizeof(i), 4096 * i) > 0 && ::fsync(fd) == 0, "a write");
  leaves(1);
}

/// Functions of a library of the user, inside of calls of the driver and outside; system calls, too.
void mine(long n) {
  must(mine_add(-1, 5) == 4, "a sum");
  ::syscall(SYS_getppid);
  for (long i = 0; i < n; ++i) CU(cuCallback)
  (
      [](void* number) {
        must(mine_add(*static_cast<long*>(number), 2) == *static_cast<long*>(number) + 2, "a sum");
        ::syscall(SYS_getppid);
      },
      &i);
}

void mine_left(long n) {
  for (volatile long i = 0; i < n; i = i + 1)
    if (setjmp(place) == 0) mine_calls([] { longjmp(place, 1); });
  must(mine_add(1, 1) == 2, "a sum");
}

void mine_threads(long count, long n) {
  std::vector<std::thread> all;
  for (long i = 0; i < count; ++i)
    all.emplace_back([n] {
      for (long k = 0; k < n; ++k) must(mine_add(k, k) == 2 * k, "a sum");
    });
  for (std::thread& t : all) t.join();
}

void children(long n) {
  leaves(n);
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      leaves(n + 1 + i);
      ::_exit(0);
    }
    int status = -1;
    must(::waitpid(child, &status, 0) == child && status == 0, "a child's end");
  }
}

/// Children that have the driver mapped and do not call it, as those that load data for a training. Prints how often
/// the command, which is this process's parent, has the driver's library open meanwhile.
void idle_children(long n) {
  leaves(1);
  int held[2];
  must(::pipe(held) == 0, "a pipe");
  for (long i = 0; i < n; ++i) {
    if (::fork() != 0) continue;
    ::close(held[1]);
    char byte = 0;
    must(::read(held[0], &byte, 1) == 0, "the end");
    ::_exit(0);
  }
  ::usleep(1000000);  // the command looks at each of them
  long open = 0;
  std::error_code none;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(::getppid()) + "/fd"))
    if (std::filesystem::read_symlink(fd.path(), none).string().find("libcuda.so") != std::string::npos) ++open;
  std::printf("%ld\n", open);
  ::close(held[1]);
  while (::wait(nullptr) > 0) {
  }
}

/// Children of as many different numbers, one after the other, that end at once, while the command is stopped. Where
/// other programs start processes, too, numbers come back before there have been so many.
void crowd(long n) {
  ::kill(::getppid(), SIGSTOP);
  std::set<pid_t> seen;
  for (long patience = 8 * n; seen.size() < static_cast<std::size_t>(n); --patience) {
    must(patience > 0, "kernel.pid_max: there are too few numbers of processes");
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    must(::waitpid(child, nullptr, 0) == child, "a child's end");
    seen.insert(child);
  }
}

/// Another thread than the main one executes this program again: that thread goes on as the main one.
void thread_executes(char* self) {
  char what[] = "exit", status[] = "0";
  char* words[] = {self, what, status, nullptr};
  std::thread([&] {
    leaves(1);
    ::execv(self, words);
  }).join();
  must(false, "exec");
}

void hidden(long n) {
  void* f = nullptr;
  must(CU(cuGetProcAddress_v2)("cuLeaf", &f, 13000, 0, nullptr) == 0, "a function with a symbol");
  reinterpret_cast<decltype(&cuLeaf)>(f)(1);
  must(CU(cuGetProcAddress_v2)("cuHidden", &f, 13000, 0, nullptr) == 0, "a function without a symbol");
  await_probe(f);  // which comes after cuGetProcAddress has returned the function
  for (long i = 0; i < n; ++i)
    must(reinterpret_cast<decltype(&cuLeaf)>(f)(static_cast<std::uint64_t>(i)) == static_cast<std::uint64_t>(i) + 7,
         "its result");
}

void rights() {
  std::ifstream in("/proc/self/status");
  std::string line, effective;
  while (std::getline(in, line))
    if (line.compare(0, 7, "CapEff:") == 0) effective = line.substr(8);
  std::printf("uid %d %d gid %d %d capabilities %s home %s\n", static_cast<int>(::getuid()),
              static_cast<int>(::geteuid()), static_cast<int>(::getgid()), static_cast<int>(::getegid()),
              effective.c_str(), std::getenv("HOME") != nullptr ? std::getenv("HOME") : "");
  leaves(3);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atol(argv[i]) : 0; };
  if (what == "threads") threads(number(2), number(3));
  if (what == "nested")
    for (long i = 0; i < number(2); ++i) CU(cuNested)(static_cast<std::uint64_t>(i));
  if (what == "deep") CU(cuDeep)(static_cast<std::uint64_t>(number(2)));
  if (what == "values") values();
  if (what == "ioctls") ioctls(argv[2], number(3), number(4));
  if (what == "left_and_asks") left_and_asks(argv[2]);
  if (what == "touch") touch(argv[2], number(3));
  if (what == "write") write_through(number(2));
  if (what == "computes") shares_a_processor(nullptr);
  if (what == "yields") shares_a_processor(&::sched_yield);
  if (what == "yields_in_a_call") shares_a_processor(CU(cuYield));
  if (what == "sleep") {
    for (long i = 0; i < number(2); ++i) CU(cuSleep)(20000);
    ::usleep(50000);
  }
  if (what == "mine_doubles")
    for (long i = 0; i < number(2); ++i) must(mine_doubles(i) == 2 * i && mine_doubles_too(i) == 2 * i, "a double");
  if (what == "left") left(number(2));
  if (what == "children") children(number(2));
  if (what == "idle_children") idle_children(number(2));
  if (what == "thread_executes") thread_executes(argv[0]);
  if (what == "hidden") hidden(number(2));
  if (what == "locked") must(CU(cuLocked)() == 5, "a locked one"), CU(cuLeafAgain)(1);
  if (what == "rights") rights();
  if (what == "mine") mine(number(2));
  if (what == "mine_left") mine_left(number(2));
  if (what == "mine_threads") mine_threads(number(2), number(3));
  if (what == "mine_deep") must(mine_deep(number(2)) == number(2), "a depth");
  if (what == "mine_exit") mine_calls([] { std::exit(7); });
  if (what == "crowd") {
    std::printf("%d\n", static_cast<int>(::getpid()));
    std::fflush(nullptr);
    crowd(number(2));
  }
  if (what == "late") {  // the library lies where nobody looks for it
    leaves(1);
    await_probe(reinterpret_cast<const void*>(CU(cuLeaf)));
    leaves(number(2));
  }
  if (what == "exit" || what == "signal") leaves(5);
  if (what == "for_ever") {
    std::printf("%d\n", static_cast<int>(::getpid()));
    std::fflush(nullptr);
    leaves(10);
    CU(cuWaitForEver)();
  }
  if (what == "until") {  // until a file is there
    const std::string go = argv[2];
    library();
    std::printf("%d\n", static_cast<int>(::getpid()));
    std::fflush(nullptr);
    long calls = 0;
    while (::access(go.c_str(), F_OK) != 0) {
      leaves(1);
      if (argc > 3) {
        asked a(argv[3]);
        CU(cuAsk)(a.fd, rm_control, a.control);
      }
      mine_add(1, 1);
      ++calls;
      ::usleep(1000);
    }
    std::printf("%ld calls\n", calls);
    return 23;
  }
  if (what == "later") {  // the library is loaded after a file is there
    std::printf("%d\n", static_cast<int>(::getpid()));
    std::fflush(nullptr);
    while (::access(argv[2], F_OK) != 0) ::usleep(1000);
    await_probe(reinterpret_cast<const void*>(CU(cuLeaf)));
    leaves(30);
  }
  std::printf("done\n");
  std::fflush(nullptr);
  if (what == "exit") return static_cast<int>(number(2));
  if (what == "signal") ::raise(static_cast<int>(number(2)));
  return 0;
}
