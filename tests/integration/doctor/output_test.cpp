// SPDX-License-Identifier: Apache-2.0
// What scripts and people read: the schema of --json, the text, exit codes, and the guide, which knows every finding.
#include <set>

#include "doctor_run.hpp"

namespace output_test {

using namespace doctor_run;  // NOLINT(google-build-using-namespace)

TEST_SUITE_BEGIN("doctor.output");

namespace {

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

}  // namespace

TEST_CASE("doctor: the schema of --json") {
  const outcome o = run(on_standin(), {"--try", COMMAND});
  CHECK(keys_of(o.report) == std::set<std::string>{"v", "type", "cutrace", "asked", "exit", "findings", "methods"});
  CHECK(o.report.at("v") == 1);
  CHECK(o.report.at("type") == "doctor");
  CHECK(o.report.at("asked") == json{"cupti"});
  std::set<std::string> ids;
  for (const json& f : o.report.at("findings")) {
    CAPTURE(f);
    CHECK(keys_of(f) == std::set<std::string>{"id", "state", "methods", "what", "remedy"});
    CHECK(std::set<std::string>{"ok", "limited", "broken", "unknown"}.count(f.at("state")) == 1);
    CHECK(ids.insert(f.at("id")).second);
    CHECK(f.at("methods").is_array());
  }
  CHECK(ids.size() > 25);
  REQUIRE(o.report.at("methods").size() == 4);
  for (const json& m : o.report.at("methods"))
    CHECK(keys_of(m) == std::set<std::string>{"name", "offered", "machine", "works", "because"});
}

TEST_CASE("doctor: the guide knows every finding") {
  const std::string guide = content_of(GUIDE);
  const outcome o = run(on_standin(), {"--try", COMMAND});
  for (const json& f : o.report.at("findings")) {
    const std::string id = f.at("id");
    CAPTURE(id);
    CHECK(guide.find("`" + id + "`") != std::string::npos);
  }
}

TEST_CASE("doctor: the text has a line for each finding, and no colours where nobody looks") {
  const environment env = on_standin({{"CUTRACE", "0"}});
  const outcome o = run(env);
  const auto text = run_text(env);
  CHECK(text.exit_status == 1);
  CHECK(text.errors.empty());
  CHECK(text.output.find('\033') == std::string::npos);
  for (const json& f : o.report.at("findings")) {
    const std::string id = f.at("id");
    CAPTURE(id);
    CHECK(text.output.find("  " + id + " ") != std::string::npos);
  }
  CHECK(text.output.find("!!  environment.cutrace") != std::string::npos);
  CHECK(text.output.find("> unset CUTRACE\n") != std::string::npos);
  CHECK(text.output.find("does not work because of environment.cutrace\n") != std::string::npos);
  CHECK((text.output.find("this build of cutrace has no method ebpf") != std::string::npos) == !WITH_EBPF);
}

TEST_CASE("doctor: what the machine says cannot steer a terminal") {
  made_machine m;
  m.file("/proc/sys/kernel/osrelease", "6.13\033[31mred");
  const auto text = run_text(on_standin({{"CUTRACE_DOCTOR_ROOT", m.root()}}));
  CHECK(text.output.find("6.13?[31mred") != std::string::npos);
  CHECK(text.output.find('\033') == std::string::npos);
}

TEST_CASE("doctor: --method asks for one, and decides the exit code") {
  const outcome cupti = run(on_standin(), {"--method", "cupti"});
  CHECK(cupti.process.exit_status == 0);
  CHECK(cupti.state("cupti.library") == "ok");
  CHECK(cupti.state("bpf.kernel") == "absent");
  CHECK(cupti.report.at("methods").size() == 1);
  const outcome ebpf = run(on_standin(), {"--method", "ebpf"});
  CHECK((ebpf.process.exit_status == 0) == ebpf.method("ebpf").at("works").get<bool>());
  CHECK(ebpf.state("bpf.kernel") != "absent");
  CHECK(ebpf.state("cupti.library") == "absent");
  CHECK(ebpf.method("ebpf").at("offered") == WITH_EBPF);
  const outcome all = run(on_standin(), {"--method", "all"});
  CHECK((all.process.exit_status == 0) == (!WITH_EBPF || all.method("ebpf").at("works").get<bool>()));
  CHECK(all.report.at("asked") ==
        (WITH_EBPF ? json{"cupti", "preload", "ebpf", "ioctl"} : json{"cupti", "preload", "ioctl"}));
  CHECK(all.report.at("methods").size() == 4);
}

TEST_CASE("doctor: wrong arguments are neither yes nor no") {
  for (const words& wrong :
       {words{"--method", "magic"}, words{"--patience", "0"}, words{"--colour"}, words{"a", "b"}}) {
    CAPTURE(wrong[0]);
    const auto p = run_text(on_standin(), wrong);
    CHECK(p.exit_status > 1);
    CHECK(p.output.empty());
    CHECK_FALSE(p.errors.empty());
  }
}

TEST_SUITE_END();

}  // namespace output_test
