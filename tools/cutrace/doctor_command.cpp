// SPDX-License-Identifier: Apache-2.0
// The options of `cutrace doctor`, and the order of its checks.
#include "doctor_command.hpp"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "arguments.hpp"
#include "doctor/checks.hpp"
#include "doctor/report.hpp"

namespace cutrace_tool {

namespace {

struct doctor_arguments {
  doctor::setup setup;
  std::string method;  ///< empty: all are shown, the exit code is about the default one
  bool json = false;
};

doctor::findings all_findings(const doctor::setup& s) {
  using namespace doctor;  // NOLINT(google-build-using-namespace)
  const driver_facts driver = ask_driver(s);
  findings all;
  for (findings part : {check_driver(s, driver), check_device_nodes(s, driver), check_cupti(s, driver),
                        check_counters(s), check_environment(s), check_virtual(s, driver), check_cutrace_libraries(s),
                        check_build(), check_output(s), check_memory(s), check_clock(s), check_program(s), check_bpf(s),
                        check_ptrace(s), check_lockdown(s), check_try(s, driver)})
    for (finding& f : part) all.push_back(std::move(f));
  return all;
}

/// "all" means the methods that this build offers: the exit code must not be 1 for one that was left out of it.
doctor::method_set asked_for(const std::string& method) {
  doctor::method_set set = 0;
  for (const doctor::method& m : doctor::methods)
    if (method == m.name || (method == "all" && m.offered)) set |= m.bit;
  return set != 0 ? set : doctor::default_method;
}

doctor::report examine(const doctor_arguments& w) {
  doctor::report r;
  r.asked = asked_for(w.method);
  const bool everything = w.method.empty() || w.method == "all";
  for (doctor::finding& f : all_findings(w.setup))
    if (everything || f.methods == doctor::for_none || (f.methods & r.asked) != 0) r.found.push_back(std::move(f));
  for (const doctor::method& m : doctor::methods) {
    if (!everything && (m.bit & r.asked) == 0) continue;
    r.verdicts.push_back(doctor::judge(m, r.found));
    if ((m.bit & r.asked) != 0 && !r.verdicts.back().works()) r.exit_status = 1;
  }
  return r;
}

int run_doctor(const doctor_arguments& w) {
  ::signal(SIGXFSZ, SIG_IGN);  // what may not be written is a finding
  const doctor::report r = examine(w);
  const bool colour = ::isatty(STDOUT_FILENO) != 0 && doctor::variable("NO_COLOR").empty();
  const std::string text = w.json ? as_json(r) : as_text(r, colour);
  std::fputs(text.c_str(), stdout);
  return r.exit_status;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("doctor", "Say what will work on this machine, what will not, and what helps");
  const auto w = std::make_shared<doctor_arguments>();
  w->setup.root = doctor::variable("CUTRACE_DOCTOR_ROOT");  // for tests: machines made of files
  command->add_option("program", w->setup.program, "Check this program, too: static, setuid, 32 bits, script")
      ->type_name("");
  CLI::Option* method = command->add_option(
      "--method", w->method,
      "Check for this method of capture alone, which the exit code is about: cupti, preload, ebpf, ioctl, all");
  std::vector<std::string> names{"all"};
  for (const doctor::method& m : doctor::methods) names.push_back(m.name);
  method->type_name("METHOD")->check(CLI::IsMember(names).description(""));
  command->add_option("--out", w->setup.out, "Folder in which the files of a trace shall be")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("--try", w->setup.try_it, "Trace a fill and a copy of one byte, and look whether records arrive");
  command->add_flag("--json", w->json, "Print one JSON object, see docs/doctor.md");
  command->add_option("--patience", w->setup.patience_seconds, "Seconds that the driver may take to answer")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600).description(""));
  command->footer(
      "Exit code: 0 the method works here, maybe with limits; 1 it does not.\n"
      "Examples:\n"
      "  cutrace doctor\n"
      "  cutrace doctor --try ./server\n"
      "  cutrace doctor --json | jq '.findings[] | select(.state != \"ok\")'");
  command->callback([w, &exit_status] {
    // The program may also follow "--", as in `cutrace run -- PROGRAM`.
    if (w->setup.program.empty() && !arguments::program().empty()) w->setup.program = arguments::program().front();
    exit_status = run_doctor(*w);
  });
}

}  // namespace cutrace_tool
