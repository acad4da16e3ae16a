// SPDX-License-Identifier: Apache-2.0
// Between probes in the kernel and the traces of processes: carries records to the processes that write them, puts
// probes on libraries and functions that turn up while the program runs, and counts what was lost. One thread.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "call_probes.hpp"
#include "driver_files.hpp"
#include "kernel_events.hpp"
#include "kernel_probes.hpp"
#include "user_probes.hpp"

namespace cutrace_tool {

class call_relay {
 public:
  /// `writer_variables`: of the environment of the processes that write traces. `only_process`: the process that probes
  /// are set in, 0: wherever the library is mapped.
  call_relay(cutrace_ebpf::call_probes& probes, std::map<std::string, std::string> writer_variables,
             std::uint32_t only_process);
  ~call_relay();
  call_relay(const call_relay&) = delete;
  call_relay& operator=(const call_relay&) = delete;

  /// Id and command line (words with a NUL between them) of the program, which may end before /proc can be read.
  void set_program(std::uint32_t process, std::string command_line) {
    program_ = process;
    command_line_ = std::move(command_line);
  }

  /// What the kernel does is recorded, too. `kernel` lives longer than this; `view` has what reading its records needs.
  void set_kernel(cutrace_ebpf::kernel_probes& kernel, cutrace_ebpf::kernel_view view) {
    kernel_ = &kernel;
    view_ = std::move(view);
  }
  /// The user's probes are recorded, too. `probes` lives longer than this.
  void set_probes(cutrace_ebpf::user_probes& probes) { user_probes_ = &probes; }

  /// Carries the records that have come, and looks for processes and libraries that are new. To be called often.
  void relay();
  /// Takes the probes off, carries the rest, closes the traces and waits for them. False: some records are in no trace.
  bool finish();
  /// What the user should know, a line each.
  const std::vector<std::string>& notes() const noexcept { return notes_; }

  /// Puts probes on libraries that the process has mapped and that have none. @returns how many functions got one
  /// @throws refused
  std::size_t attach_mapped(std::uint32_t process);
  /// Whether `relay` does the same for all processes while they run; a note reports it, as earlier calls are missing.
  void watch(bool on) noexcept { watching_ = on; }

 private:
  struct writer {
    std::uint32_t traced = 0;  ///< the process whose trace it is
    pid_t process = -1;
    int pipe = -1;
    std::vector<char> waiting;  ///< bytes that wait for room in the pipe
    std::size_t sent = 0;       ///< bytes of `waiting` that were sent
    std::bitset<CUTRACE_EBPF_FUNCTIONS> named;
    std::uint64_t lost[CUTRACE_EBPF_LOSSES] = {};
  };
  struct library {
    cutrace_ebpf::mapped_file where;
    std::shared_ptr<cutrace_ebpf::opened_file> file;
  };
  struct watched {
    bool ended = false;
    std::uint64_t pages = 0, next_ns = 0;
    std::vector<library> libraries;
    std::set<std::uint64_t> answered;  ///< addresses that cuGetProcAddress gave and that were looked at
  };

  bool take(const void* record, std::size_t bytes);
  void take_function(const cutrace_ebpf_function& f);
  writer& writer_of(std::uint32_t process, const std::string& name);
  template <class Record>
  void put(writer& w, const Record& r);
  void put_note(writer& w, const std::string& text);
  void note_once(const std::string& text);
  void put_kernel_notes(writer& w);
  void flush(writer& w);
  bool flush_all();
  void look_at_processes();
  void report_lost(std::uint32_t process, const cutrace_ebpf_target& t);
  void take_for_all(const char* record, std::size_t size);
  void report_lost_for_all();
  void close(writer& w);
  void look_for_libraries(std::uint64_t now_ns);
  std::size_t read_libraries(std::uint32_t process, watched& w, bool late);

  cutrace_ebpf::call_probes& probes_;
  cutrace_ebpf::kernel_probes* kernel_ = nullptr;
  cutrace_ebpf::kernel_view view_;
  cutrace_ebpf_totals totals_ = {};  ///< losses that have been reported
  cutrace_ebpf::user_probes* user_probes_ = nullptr;
  std::map<std::string, std::string> variables_;
  std::uint32_t only_process_, program_ = 0;
  std::string command_line_;
  std::uint64_t since_ns_, looked_ns_ = 0;
  bool watching_ = true, gave_up_ = false;
  std::map<std::uint32_t, writer> writers_;
  std::map<std::uint32_t, watched> watched_;
  /// Driver libraries that are held open: each once, however many processes have it mapped.
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<cutrace_ebpf::opened_file>> files_;
  std::vector<pid_t> ending_;       ///< writers whose pipe is closed
  std::size_t waiting_ = 0;         ///< bytes of all writers
  std::uint64_t carried_ = 0;       ///< bytes that pipes have taken
  std::vector<std::string> added_;  ///< functions without a symbol
  std::vector<std::string> notes_;
};

}  // namespace cutrace_tool
