// SPDX-License-Identifier: Apache-2.0
// The BPF programs, loaded into the kernel: which processes they trace, which functions they are put on, and what they
// report. One thread. Everything is gone from the kernel when the process ends, however it does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "call_record.h"
#include "elf_file.hpp"
#include "uprobe_links.hpp"

struct bpf_link;
struct bpf_object;
struct bpf_program;
struct ring_buffer;

namespace cutrace_ebpf {

/// The kernel does not let this user set probes, or has no such probes. The text says what to do.
class refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct probe_options {
  std::uint64_t ring_bytes = std::uint64_t{32} << 20;  ///< a power of two, at least a page
  bool children = true;                                ///< of traced processes are traced, too
  std::string links;                                   ///< session, pair or single; empty: the best that there is
  bool measured = false;                               ///< `attach_empty` is wanted
  bool joined = false;                                 ///< `attach_joins` is wanted
};

class call_probes {
 public:
  struct known_function {
    std::string name;
    bool exported;  ///< a symbol of that name, else what cuGetProcAddress was asked for
  };

  /// @throws refused
  explicit call_probes(const probe_options& options);
  ~call_probes();
  call_probes(const call_probes&) = delete;
  call_probes& operator=(const call_probes&) = delete;

  link_kind links() const noexcept { return kind_; }
  /// For objects that are loaded beside this one: the descriptor of one of its maps, -1: no such map; and the settings.
  int map(const char* name) const;
  const cutrace_ebpf_settings& settings() const noexcept { return settings_; }

  /// Calls of the process, and of children that it makes from now on, are recorded. False: there are too many.
  bool trace(std::uint32_t process);
  /// Reads what was lost in a process and whether it has ended; false: the process is not traced.
  bool look_at(std::uint32_t process, cutrace_ebpf_target& to) const;
  void forget(std::uint32_t process);
  /// All that are traced, ended ones among them.
  std::vector<std::uint32_t> traced() const;

  /// Puts probes on all functions of a library, in every process or in one alone. Once for each file. Returns the
  /// number of functions, 0 for a file that was known. @throws refused; std::runtime_error for a file that is no
  /// library
  std::size_t attach(const opened_file& file, std::uint32_t only_process);
  bool is_attached(const opened_file& file) const { return files_.count(file.identity()) != 0; }
  /// Puts probes on a function without a symbol, at an offset of an attached library; false: the function has probes,
  /// or cannot have any. @throws refused
  bool attach_one(const opened_file& file, std::uint64_t offset, const std::string& name, std::uint32_t only_process);
  /// Puts a probe on cutrace_call_joins of our injected library, to which CUPTI's callbacks in the process pass the
  /// correlation id of each call. False: the library has no such function. @throws refused
  bool attach_joins(const opened_file& file, const char* symbol, std::uint32_t only_process);
  void detach();
  /// Puts programs that do nothing, instead of ours, at entry and return of all functions of a library, to measure what
  /// any probe costs. @throws refused
  uprobe_links attach_empty(const opened_file& file);

  /// The function with this number, from 1 on; null: there is none.
  const known_function* function(std::uint32_t number) const;
  /// Functions whose first instruction the kernel cannot probe: calls of them are not seen.
  const std::vector<std::string>& left_out() const noexcept { return left_out_; }
  /// Symbols at the same place as one that gives a function its name: "cuA is also cuB", a line each.
  const std::vector<std::string>& same_places() const noexcept { return same_places_; }

  /// A descriptor that is readable when many records wait. -1: there is none
  int wake_fd() const;
  /// Hands over each record that is there, until `take` returns false. Whole records of call_record.h.
  void consume(const std::function<bool(const void* record, std::size_t bytes)>& take);

 private:
  void load(link_kind kind, const probe_options& options);
  bpf_program* program(const char* name) const;
  int add_entries(uprobe_links& to, int file, const std::vector<probe_place>& places, std::uint32_t process) const;
  bool link(const opened_file& file, std::vector<probe_place> places, std::uint32_t only_process);
  int try_places(const opened_file& file, const std::vector<probe_place>& places);
  void sort_out(const opened_file& file, std::vector<probe_place>& places);
  int try_link();
  std::uint32_t number_of(const std::string& name, bool exported);

  bpf_object* object_ = nullptr;
  ring_buffer* ring_ = nullptr;
  int targets_ = -1, plans_ = -1;
  cutrace_ebpf_settings settings_ = {};
  link_kind kind_ = link_kind::session;
  uprobe_links probes_;
  std::vector<bpf_link*> tracepoints_;
  std::vector<known_function> functions_;
  std::map<std::string, std::uint32_t> numbers_;
  std::map<std::pair<dev_t, ino_t>, std::set<std::uint64_t>> files_;  ///< offsets with probes
  std::vector<std::string> same_places_, left_out_;
  const std::function<bool(const void*, std::size_t)>* take_ = nullptr;
  std::vector<char> kept_;  ///< a record that was taken out and not handed over
};

}  // namespace cutrace_ebpf
