// SPDX-License-Identifier: Apache-2.0
// A program that calls the functions of shapes.hpp (an invented driver's, one for each way in which the ABI passes
// arguments) in one of the ways in which programs reach a driver (chosen when it is built) and in
// one situation (its argument). Prints a digest of all results, then how often each function was entered; knows nothing
// of cutrace. Fails where a result is not what follows from the arguments.
//
//   DIRECT: linked with libcuda; otherwise opened at run time: by dlsym, or with BY_ADDRESS by cuGetProcAddress alone.
//   WEAK: by dlsym, and refers to a function of the driver by a weak name, too, which stays 0.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../../support/forked_leaks.hpp"
#include "shapes.hpp"
#if defined(WEAK)
#pragma weak cuLeaf
#endif

/// What a plug-in hands out while it is being loaded.
static std::uint64_t (*taken)(std::uint64_t) = nullptr;
extern "C" void subject_takes(std::uint64_t (*f)(std::uint64_t));
extern "C" void subject_takes(std::uint64_t (*f)(std::uint64_t)) { taken = f; }

namespace {

void must(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::_Exit(1);
}

#if defined(DIRECT)
#define CU(name) name
std::uint64_t entered(const char* name) { return shapes_calls(name); }
#else
void* library() {
  static void* opened = dlopen("libcuda.so.1", RTLD_NOW);
  must(opened != nullptr, "libcuda.so.1 cannot be opened");
  return opened;
}
void* address(const char* name) {
#if defined(BY_ADDRESS)
  if (std::string(name).rfind("cu", 0) == 0) {
    static const auto ask = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(dlsym(library(), "cuGetProcAddress_v2"));
    void* found = nullptr;
    int status = -1;
    const int version =
        std::string(name) == "cuGetProcAddress" ? 11030 : 13000;  // the version with a fifth argument has 13000
    must(ask(name, &found, version, 0, &status) == 0 && status == 0, name);
    return found;
  }
#endif
  void* found = dlsym(library(), name);
  must(found != nullptr, name);
  return found;
}
#define CU(name)                                                                 \
  ([]() -> decltype(&name) {                                                     \
    static const auto found = reinterpret_cast<decltype(&name)>(address(#name)); \
    return found;                                                                \
  }())
std::uint64_t entered(const char* name) {
  return reinterpret_cast<decltype(&shapes_calls)>(dlsym(library(), "shapes_calls"))(name);
}
#endif

shapes::block64 block_from(unsigned first) {
  shapes::block64 b;
  for (unsigned char& c : b.bytes) c = static_cast<unsigned char>(first++ * 7);
  return b;
}

std::uint64_t eleven(unsigned i) {
  const auto p = [i](unsigned n) { return reinterpret_cast<void*>(std::uintptr_t{0x1000} * n + i); };
  const std::uint64_t r =
      CU(cuEleven)(p(1), i, 2, 3, 4, 5, 6, 7, p(8), static_cast<void**>(p(9)), static_cast<void**>(p(10)));
  const auto w = [i](std::uint64_t n) { return 0x1000 * n + i; };
  must(r == shapes::all_of(w(1), std::uint64_t{i}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{4},
                           std::uint64_t{5}, std::uint64_t{6}, std::uint64_t{7}, w(8), w(9), w(10)),
       "eleven arguments");
  return r;
}
std::uint64_t sixteen(long i) {
  const shapes::block64 b = block_from(static_cast<unsigned>(i));
  const std::uint64_t r = CU(cuSixteenWords)(i, 2, 3, 4, 5, 6, b, 7, 8, 9, 10, 11, 12, 13, 14 + i);
  std::uint64_t sum = shapes::all_of(b);
  for (const long v : {i, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L, 11L, 12L, 13L, 14 + i})
    sum = shapes::mixed(sum, static_cast<std::uint64_t>(v));
  must(r == sum, "sixteen stack words");
  return r;
}
std::uint64_t floating(unsigned i) {
  const double x = 1.0 / (i + 3);
  const double r = CU(cuDouble)(1.5f, x, 3, x + 1, 5.25, x + 2, 7, 8, 9, 10, x + 3, 11);
  must(r == static_cast<double>(1.5f) * x + 3 * (x + 1) - 5.25 / (x + 2) + 7.0 * 8 - 9 + 10 * (x + 3) + 11,
       "numbers in registers and on the stack");
  const float f = CU(cuFloat)(static_cast<float>(i), 3.0f);
  must(f == static_cast<float>(i) / 3.0f, "a float");
  const shapes::two_doubles d = CU(cuTwoDoubles)(x);
  must(d.a == x / 3 && d.b == x * 3, "two doubles in registers");
  const shapes::word_and_double m = CU(cuWordAndDouble)(i, x);
  must(m.a == std::uint64_t{i} * 3 && m.b == x / 7, "a word and a double in registers");
  const std::uint64_t v = CU(cuVariadic)(5, x, std::uint64_t{i}, 2.5, std::uint64_t{7}, x + 1);
  must(v == shapes::all_of(x, std::uint64_t{i}, 2.5, std::uint64_t{7}, x + 1), "variable arguments");
  return shapes::all_of(r, static_cast<double>(f), d.a, d.b, m.a, m.b, v);
}
std::uint64_t by_value(unsigned i) {
  const shapes::block64 b = block_from(i);
  const std::uint64_t r = CU(cuBlock)(nullptr, b, i);
  must(r == shapes::all_of(std::uint64_t{0}, b, std::uint64_t{i}), "64 bytes by value");
  const shapes::block64 back = CU(cuReturnBlock)(static_cast<unsigned char>(i));
  must(back.bytes[0] == static_cast<unsigned char>(i) && back.bytes[63] == static_cast<unsigned char>(i + 63),
       "64 bytes returned");
  const shapes::two_words w = CU(cuTwoWords)(i);
  must(w.a == std::uint64_t{i} + 1 && w.b == ~std::uint64_t{i}, "two words in registers");
  return shapes::all_of(r, back, w.a, w.b);
}
std::uint64_t error_number(int i) {
  const auto seen_by_driver = [] { return CU(cuReadErrno)(); };
  seen_by_driver();  // finding a function, threads wait for each other, which may leave EAGAIN in errno
  errno = 1000 + i;
  must(seen_by_driver() == 1000 + i, "errno at the call");
  must(errno == 1000 + i, "errno after a call that leaves it");
  must(CU(cuSetErrno)(77 + i) == 0 && errno == 77 + i, "errno after a call that sets it");
  return static_cast<std::uint64_t>(errno);
}
std::uint64_t nested(unsigned i) {
  const std::uint64_t r = CU(cuNested)(i);
  must(r == shapes::all_of(std::uint64_t{i}) + shapes::all_of(std::uint64_t{i} + 1) + 1, "nested calls");
  return r;
}
std::uint64_t callback(unsigned i) {
  std::uint64_t seen = i;
  const auto back = [](void* data) {
    auto& v = *static_cast<std::uint64_t*>(data);
    v = CU(cuLeaf)(v);
  };
  must(CU(cuCallback)(back, &seen) == 0 && seen == shapes::all_of(std::uint64_t{i}), "a callback that calls");
  return seen;
}
/// The call is left in the middle, from a callback and from a callback in a callback.
std::uint64_t jump(unsigned i) {
  static thread_local jmp_buf place;
  volatile unsigned round = 0;
  const auto once = [](void*) { longjmp(place, 1); };
  const auto twice = [](void*) { CU(cuCallback)([](void*) { longjmp(place, 2); }, nullptr); };
  volatile std::uint64_t sum = 1;
  const int from = setjmp(place);
  if (from != 0) sum = shapes::mixed(std::uint64_t{sum}, static_cast<std::uint64_t>(from));
  round = round + 1;
  if (round == 1) CU(cuCallback)(once, nullptr);
  if (round == 2) CU(cuCallback)(twice, nullptr);
  return sum + CU(cuLeaf)(i);
}
std::uint64_t thrown(unsigned i) {
  std::uint64_t sum = 1;
  const auto fails = [](void* data) { throw std::runtime_error(std::to_string(*static_cast<unsigned*>(data))); };
  const auto deeper = [](void* data) {
    CU(cuCallback)([](void* d) { throw std::runtime_error(std::to_string(*static_cast<unsigned*>(d) + 1)); }, data);
  };
  for (const auto& f : {+fails, +deeper}) {
    try {
      CU(cuCallback)(f, &i);
      must(false, "an exception was swallowed");
    } catch (const std::runtime_error& e) {
      sum = shapes::mixed(sum, static_cast<std::uint64_t>(std::stoul(e.what())));
    }
  }
  must(sum == shapes::all_of(std::uint64_t{i}, std::uint64_t{i} + 1), "what was thrown");
  return sum + CU(cuLeaf)(i);
}
/// By both forms of cuGetProcAddress, found as the other functions are; the second one also through the first.
std::uint64_t by_address(unsigned i) {
  void* p = nullptr;
  must(CU(cuGetProcAddress)("cuHidden", &p, 11030, 0) == 0, "an address, version 1");
  std::uint64_t sum = reinterpret_cast<std::uint64_t (*)(std::uint64_t, double)>(p)(i, 0.5);
  must(sum == shapes::all_of(std::uint64_t{i}, 0.5), "a function without a symbol");
  void* ask = nullptr;
  must(CU(cuGetProcAddress)("cuGetProcAddress", &ask, 13000, 0) == 0, "the address of the asked function itself");
  const auto again = reinterpret_cast<decltype(&cuGetProcAddress_v2)>(ask);
  for (const std::uint64_t flags : {std::uint64_t{0}, std::uint64_t{2}}) {
    must(again("cuHiddenEither", &p, 13000, flags, nullptr) == 0, "an address, version 2, without a status");
    const int r = reinterpret_cast<int (*)(int)>(p)(static_cast<int>(i));
    must(r == static_cast<int>(i) + (flags == 2 ? 1000 : 2000), "the variant that was asked for");
    sum = shapes::mixed(sum, static_cast<std::uint64_t>(r));
  }
  int status = -1;
  must(again("cuNoSuchFunction", &p, 13000, 0, &status) == 500 && p == nullptr && status == 1, "an unknown name");
  return sum;
}
std::uint64_t everything(unsigned i) {
  return shapes::all_of(eleven(i), sixteen(i), floating(i), by_value(i), error_number(static_cast<int>(i)), nested(i),
                        callback(i), jump(i), thrown(i), by_address(i));
}

constexpr std::size_t stack_bytes = 65536;
unsigned char* stack_of_handlers = nullptr;

/// A handler that calls, on a stack of its own which lies above or below the thread's, while a call is open.
std::uint64_t handled(unsigned i) {
  static thread_local std::uint64_t seen;
  seen = i;
  stack_t other{}, before{};
  other.ss_sp = stack_of_handlers;
  other.ss_size = stack_bytes;
  must(sigaltstack(&other, &before) == 0, "sigaltstack");
  struct sigaction action {};
  action.sa_handler = [](int) { seen = CU(cuLeaf)(seen); };
  action.sa_flags = SA_ONSTACK;
  must(sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
  CU(cuCallback)([](void*) { raise(SIGUSR1); }, nullptr);
  must(seen == shapes::all_of(std::uint64_t{i}), "a handler that calls");
  sigaltstack(&before, nullptr);
  return seen;
}
/// Threads that end in the middle of a call, and after one that longjmp has left.
std::uint64_t ended(unsigned i) {
  void* (*const ways[])(void*) = {
      [](void*) -> void* {
        CU(cuLeaf)(1);
        CU(cuCallback)
        ([](void*) { CU(cuCallback)([](void*) { pthread_exit(nullptr); }, nullptr); }, nullptr);
        return nullptr;
      },
      [](void*) -> void* {
        static thread_local jmp_buf place;
        if (setjmp(place) == 0) CU(cuCallback)([](void*) { longjmp(place, 1); }, nullptr);
        return nullptr;
      }};
  for (const auto way : ways) {
    pthread_t thread;
    must(pthread_create(&thread, nullptr, way, nullptr) == 0 && pthread_join(thread, nullptr) == 0, "a thread");
  }
  return CU(cuLeaf)(i);
}
/// Four threads load a library that is linked with libcuda, call through it and drop it again; there are
/// three such libraries: linked with -z lazy, with -z now, and without a linkage table.
std::uint64_t plugins() {
  std::vector<std::thread> all;
  std::uint64_t sums[4] = {};
  for (unsigned t = 0; t < 4; ++t)
    all.emplace_back([&sums, t] {
      for (unsigned i = 0; i < 30; ++i) {
        const std::string name = "libshapes_plugin_" + std::to_string((t + i) % 3) + ".so";
        void* plugin = dlopen(name.c_str(), (t % 2 == 0 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
        must(plugin != nullptr, name.c_str());
        const auto calls = reinterpret_cast<std::uint64_t (*)(std::uint64_t)>(dlsym(plugin, "plugin_calls"));
        const auto table = static_cast<std::uint64_t (*const*)(std::uint64_t)>(dlsym(plugin, "plugin_table"));
        sums[t] = shapes::mixed(sums[t], shapes::all_of(calls(i), table[0](i), table[1](i)));
        must(dlclose(plugin) == 0, "dlclose");
      }
    });
  for (std::thread& t : all) t.join();
  for (const std::uint64_t sum : sums) must(sum == sums[0], "plugins see the same");
  return sums[0];
}

/// Calls through libraries from which nothing is looked up, some time after they were loaded.
std::uint64_t handed_out() {
  std::uint64_t sum = 1;
  for (const char* name : {"libshapes_plugin_0.so", "libshapes_plugin_1.so", "libshapes_plugin_2.so"}) {
    taken = nullptr;
    must(dlopen(name, RTLD_LAZY | RTLD_LOCAL) != nullptr && taken != nullptr, name);
    ::usleep(1000000);
    for (unsigned i = 0; i < 50; ++i) sum = shapes::mixed(sum, taken(i));
  }
  return sum;
}

#if !defined(DIRECT)
/// A function of a later driver, which the build of the preload library did not know.
std::uint64_t added(unsigned i) {
  static const auto found =
      reinterpret_cast<std::uint64_t (*)(std::uint64_t, std::uint64_t)>(address("cuAddedAfterwards"));
  const std::uint64_t r = found(i, 5);
  must(r == shapes::all_of(std::uint64_t{i}, std::uint64_t{5}), "a function that was added");
  return r;
}
/// Opens the driver, drops it, and asks for one of its functions while it is not loaded.
void reopened() {
  for (int round = 0; round < 2; ++round) {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    const auto init = reinterpret_cast<decltype(&cuInit)>(dlsym(driver, "cuInit"));
    must(init != nullptr && init(0) == 0, "cuInit");
    must(dlclose(driver) == 0, "dlclose");
    must(dlsym(RTLD_DEFAULT, "cuInit") == nullptr, "a function of a driver that is not loaded");
  }
}
#endif

#if defined(WEAK)
}  // namespace
/// How often anybody asked for the loaded objects.
static int asked = 0;
using visitor = int (*)(dl_phdr_info*, std::size_t, void*);
extern "C" int dl_iterate_phdr(visitor visit, void* data) {
  static int (*real)(visitor, void*) = nullptr;
  if (real == nullptr) real = reinterpret_cast<decltype(real)>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
  ++asked;
  return real(visit, data);
}
namespace {
/// Each dlsym looks whether objects have come or gone, and at no more.
void asks() {
  must(&cuLeaf == nullptr, "a weak name");
  address("cuLeaf"), address("cuLeaf");
  const int before = asked;
  for (int i = 0; i < 100; ++i) address("cuLeaf");
  std::printf("%d\n", asked - before);
}
#endif

void finish(std::uint64_t digest, const char* who) {
  std::printf("%s%d digest %016llx\n", who, static_cast<int>(getpid()), static_cast<unsigned long long>(digest));
#define PRINT(name, result, arguments)        \
  if (const std::uint64_t n = entered(#name)) \
    std::printf("%s%d called %s %llu\n", who, static_cast<int>(getpid()), #name, static_cast<unsigned long long>(n));
  SHAPES_EXPORTED(PRINT)
  SHAPES_HIDDEN(PRINT)
  std::fflush(stdout);
}

std::uint64_t repeated(std::uint64_t (*what)(unsigned)) {
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < 50; ++i) sum = shapes::mixed(sum, what(i));
  return sum;
}

/// Each begins with another kind of call, since the hooks do more in a thread's first call.
std::uint64_t threads() {
  std::uint64_t (*const first[8])(unsigned) = {
      eleven, floating, by_value,   nested,
      jump,   thrown,   by_address, [](unsigned i) { return error_number(static_cast<int>(i)); }};
  std::vector<std::thread> all;
  std::uint64_t sums[8] = {};
  for (unsigned t = 0; t < 8; ++t)
    all.emplace_back([&, t] {
      first[t](t);
      sums[t] = repeated(everything);
    });
  for (std::thread& t : all) t.join();
  for (const std::uint64_t sum : sums) must(sum == sums[0], "threads see the same");
  return sums[0];
}

/// A child of a process that has made calls goes on untraced; one that is forked earlier is a process like any other.
std::uint64_t fork_in_use() {
  const std::uint64_t first = repeated(everything);
  const pid_t child = fork();
  if (child == 0) {
    finish(repeated(everything), "untraced ");
    std::exit(0);
  }
  int status = -1;
  must(waitpid(child, &status, 0) == child && status == 0, "the child");
  return shapes::mixed(first, repeated(everything));
}
void fork_early() {
  const pid_t child = fork();
  must(CU(cuInit)(0) == 0, "cuInit");
  finish(repeated(everything), "");
  if (child == 0) std::exit(0);
  int status = -1;
  must(waitpid(child, &status, 0) == child && status == 0, "the child");
}

std::uint64_t execute(char** argv) {
  const std::uint64_t sum = repeated(everything);
  finish(sum, "");
  const pid_t child = fork();
  if (child == 0) {
    char plain[] = "plain";
    char* again[] = {argv[0], plain, nullptr};
    execv("/proc/self/exe", again);
    std::_Exit(127);
  }
  int status = -1;
  must(waitpid(child, &status, 0) == child && status == 0, "the executed child");
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "plain";
  std::uint64_t digest = 0;
  if (what == "idle") return 0;
  if (what == "fork early") {
    fork_early();
    return 0;
  }
#if !defined(DIRECT)
  if (what == "reopened") {
    reopened();
    return 0;
  }
#endif
#if defined(WEAK)
  if (what == "asks") {
    asks();
    return 0;
  }
#endif
  if (what == "threads at once") {  // eight threads make the process's first calls
    finish(threads(), "");
    return 0;
  }
  must(CU(cuInit)(0) == 0, "cuInit");
  if (what == "plain") digest = repeated([](unsigned i) { return CU(cuLeaf)(i); });
  if (what == "threads") digest = threads();
  if (what == "fork") digest = fork_in_use();
  if (what == "exec") {
    execute(argv);
    return 0;
  }
  if (what == "nested") digest = repeated(nested);
  if (what == "callback") digest = repeated(callback);
  if (what == "longjmp") digest = repeated(jump);
  if (what == "exception") digest = repeated(thrown);
  if (what == "eleven") digest = repeated(eleven) + repeated([](unsigned i) { return sixteen(i); });
  if (what == "floating") digest = repeated(floating);
  if (what == "struct") digest = repeated(by_value);
  if (what == "address") digest = repeated(by_address);
  if (what == "errno") digest = repeated([](unsigned i) { return error_number(static_cast<int>(i)); });
#if !defined(DIRECT)
  if (what == "added") digest = repeated(added);
#endif
  static unsigned char low[stack_bytes];
  unsigned char high[stack_bytes];  // above the stacks of all other threads
  stack_of_handlers = what == "handler" ? low : high;
  if (what == "handler") digest = repeated(handled);
  if (what == "handler in a thread") std::thread([&digest] { digest = repeated(handled); }).join();
  if (what == "caught") {  // says when
    try {
      CU(cuCallback)([](void*) { throw std::runtime_error("thrown"); }, nullptr);
    } catch (const std::runtime_error&) {
      timespec now{};
      clock_gettime(CLOCK_MONOTONIC, &now);
      std::printf("%lld\n", static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
      std::fflush(stdout);
    }
    CU(cuLeaf)(1);
    return 0;
  }
  if (what == "plugins") digest = plugins();
  if (what == "handed out") digest = handed_out();
  if (what == "threads that end") digest = repeated(ended);
  if (what == "everything") digest = repeated(everything);
  must(digest != 0, "no such situation");
  finish(digest, "");
  return 0;
}
