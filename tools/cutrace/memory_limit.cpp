// SPDX-License-Identifier: Apache-2.0
#include "cutrace/memory_limit.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <cutrace/sinks/ascii/page.hpp>
#include <exception>
#include <new>
#include <string>

#include "cutrace/exit_status.hpp"
#include "cutrace/group_memory.hpp"
#include "trace/memory_budget.hpp"

namespace cutrace_tool {

namespace {

std::uint64_t chosen = 0;    ///< bytes; 0: by the machine
std::uint64_t in_force = 0;  ///< bytes; 0: none yet

/// Bytes of the machine, or what its control groups allow where that is less; 0 where the machine does not say.
std::uint64_t memory_of_machine() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || size <= 0) return 0;
  return std::min(static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(size), least_group_memory().bytes);
}

/// "512M", "8G" or bytes.
std::uint64_t parse_memory(const std::string& words) {
  char* end = nullptr;
  const unsigned long long n = std::strtoull(words.c_str(), &end, 10);
  static constexpr char units[] = "KMGT";
  const char* const unit = *end != '\0' ? std::strchr(units, *end & ~0x20) : nullptr;
  const unsigned shift = unit != nullptr ? 10 * (static_cast<unsigned>(unit - units) + 1) : 0;
  if (unit != nullptr) ++end;
  constexpr unsigned long long least = 64ull << 20, most = 1ull << 50;
  if (words.empty() || words[0] < '0' || words[0] > '9' || *end != '\0' || n > most >> shift || n << shift < least)
    throw usage_error("--memory-limit \"" + words +
                      "\" cannot be used; accepted: a number of bytes, or one with M, G or T behind it, from 64M on");
  return n << shift;
}

}  // namespace

void add_memory_option(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--memory-limit", [](const std::string& words) { chosen = parse_memory(words); },
          "Memory that may be used, 512M or 8G; half of the machine's")
      ->type_name("SIZE");
}

void limit_memory() {
  constexpr std::uint64_t least = std::uint64_t{1} << 30;
  in_force = chosen != 0 ? chosen : std::max(memory_of_machine() / 2, least);
  cutrace_reading::memory_budget& readers = cutrace_reading::memory_budget::of_process();
  readers.set_limit(chosen != 0 ? in_force / 2
                                : std::min<std::uint64_t>(in_force / 2, cutrace_reading::memory_budget::default_limit));
  // RLIMIT_DATA counts stacks of threads, and cutrace merge has a thread for each of hundreds of files.
  pthread_attr_t small;
  if (::pthread_attr_init(&small) == 0) {
    if (::pthread_attr_setstacksize(&small, std::size_t{1} << 20) == 0)
      static_cast<void>(::pthread_setattr_default_np(&small));
    ::pthread_attr_destroy(&small);
  }
  rlimit data{};
  if (::getrlimit(RLIMIT_DATA, &data) != 0) return;
  data.rlim_cur = std::min<rlim_t>({data.rlim_cur, data.rlim_max, in_force});
  static_cast<void>(::setrlimit(RLIMIT_DATA, &data));
}

std::string words_of_no_memory() {
  std::string words = "not enough memory";
  if (in_force != 0)
    words += " (the limit is " + std::string(cutrace::ascii::bytes(in_force).view()) +
             "); --memory-limit SIZE allows more, cutrace cut FILE --from TIME --to TIME -o OUTPUT writes a part that "
             "needs less";
  return words;
}

void end_in_words_without_memory() {
  std::set_terminate([] {
    try {
      if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
    } catch (const std::bad_alloc&) {
      static constexpr char words[] = "cutrace: not enough memory; --memory-limit SIZE allows more\n";
      const ssize_t written = ::write(STDERR_FILENO, words, sizeof(words) - 1);
      static_cast<void>(written);  // nothing is left to be done
      ::_exit(exit_command_failure);
    } catch (...) {
    }
    std::abort();
  });
}

}  // namespace cutrace_tool
