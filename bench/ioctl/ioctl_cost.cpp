// SPDX-License-Identifier: Apache-2.0
// What an ioctl costs under `cutrace run --method ioctl`, beside a bare one and, where strace exists, one under it: on
// a device that is taken for NVIDIA's, on another one, with a command word (request code) that the seccomp filter lets
// through, and of a system call that is no ioctl. The three ways take turns; medians of the runs, and their ratio to
// the bare ones of the same turn.
//   ioctl_cost [TURNS] [CALLS]
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr const char* what[] = {"ioctl, NVIDIA's device", "ioctl, another device", "ioctl, word of a terminal",
                                "getppid"};
constexpr std::size_t kinds = 4;
constexpr unsigned long rm_control = 0xc020462a, of_terminals = 0x5401;

template <class Call>
double ns_each(int calls, Call call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / calls;
}

/// The measured program: a line of four numbers.
int measure(int calls) {
  unsigned char block[64] = {};
  const int theirs = ::open("/dev/null", O_RDWR | O_CLOEXEC), other = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  double ns[kinds] = {};
  for (int warm = 0; warm < 2; ++warm) {
    const int n = warm == 0 ? calls / 10 + 1 : calls;
    ns[0] = ns_each(n, [&] { ::ioctl(theirs, rm_control, block); });
    ns[1] = ns_each(n, [&] { ::ioctl(other, rm_control, block); });
    ns[2] = ns_each(n, [&] { ::ioctl(other, of_terminals, block); });
    ns[3] = ns_each(n, [] { ::syscall(SYS_getppid); });
  }
  std::printf("%.1f %.1f %.1f %.1f\n", ns[0], ns[1], ns[2], ns[3]);
  return 0;
}

/// Runs it and reads its line; false where it cannot be run.
bool run(const std::vector<std::string>& words, double (&ns)[kinds]) {
  int ends[2];
  if (::pipe(ends) != 0) return false;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ::setenv("CUTRACE_IOCTL_DEVICES", "control=1:3", 1);
    std::vector<char*> arguments;
    for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  char part[256];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof(part))) > 0;) text.append(part, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 &&
         std::sscanf(text.c_str(), "%lf %lf %lf %lf", &ns[0], &ns[1], &ns[2], &ns[3]) == static_cast<int>(kinds);
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  const std::size_t half = all.size() / 2;
  return all.size() % 2 == 1 ? all[half] : (all[half - 1] + all[half]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--measured") == 0) return measure(std::atoi(argv[2]));
  const int turns = argc > 1 ? std::atoi(argv[1]) : 10;
  const std::string calls = argc > 2 ? argv[2] : "20000";
  char self[4096] = "";
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) return 1;
  const std::vector<std::string> measured{self, "--measured", calls};
  std::vector<std::vector<std::string>> ways{
      {},
      {CUTRACE_COMMAND, "run", "--method", "ioctl", "--quiet", "--sink", "null", "--"},
      {"strace", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "--seccomp-bpf"}};
  const char* names[] = {"bare", "cutrace", "strace"};
  std::vector<double> taken[3][kinds], ratio[3][kinds];
  for (int turn = 0; turn < turns; ++turn) {
    double bare[kinds] = {};
    for (std::size_t w = 0; w < ways.size(); ++w) {
      std::vector<std::string> words = ways[w];
      words.insert(words.end(), measured.begin(), measured.end());
      double ns[kinds] = {};
      if (!run(words, ns)) continue;
      if (w == 0) std::copy(ns, ns + kinds, bare);
      for (std::size_t k = 0; k < kinds; ++k) {
        taken[w][k].push_back(ns[k]);
        ratio[w][k].push_back(ns[k] / bare[k]);
      }
    }
  }
  std::printf("%-28s", "median ns a call");
  for (const char* n : names) std::printf("%12s%8s", n, "ratio");
  std::printf("\n");
  for (std::size_t k = 0; k < kinds; ++k) {
    std::printf("%-28s", what[k]);
    for (std::size_t w = 0; w < ways.size(); ++w)
      taken[w][k].empty() ? static_cast<void>(std::printf("%12s%8s", "none", ""))
                          : static_cast<void>(std::printf("%12.0f%8.2f", median(taken[w][k]), median(ratio[w][k])));
    std::printf("\n");
  }
  return 0;
}
