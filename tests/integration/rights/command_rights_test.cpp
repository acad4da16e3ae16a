// SPDX-License-Identifier: Apache-2.0
// The command with more rights than who starts it: setuid it refuses to work, with file capabilities it takes nothing
// from its caller that would get them, and by sudo files and programs are the caller's.
#include <doctest/doctest.h>

#include <fstream>

#include "rights_support.hpp"

using namespace rights;

namespace {

const std::vector<std::vector<std::string>> commands{{"run", "--method", "ioctl", "--", "/usr/bin/id", "-u"},
                                                     {"run", "--method", "preload", "--", "/usr/bin/id", "-u"},
                                                     {"run", "--method", "ebpf", "--", "/usr/bin/id", "-u"},
                                                     {"attach", "1"},
                                                     {"bpf", "--list", "nv*"},
                                                     {"doctor"},
                                                     {"report", "secret.jsonl"},
                                                     {"convert", "secret.jsonl", "-o", "jsonl:-"},
                                                     {"completion", "bash"},
                                                     {"--version"}};

std::map<std::string, std::string> tempting(const std::string& library) {
  return {{"CUTRACE_PRELOAD_LIBRARY", library},
          {"CUTRACE_INJECT_LIBRARY", library},
          {"CUTRACE_WATCH_LIBRARY", library},
          {"CUTRACE_CUPTI_LIBRARY", library},
          {"LD_LIBRARY_PATH", ""}};
}

/// With its libraries beside it.
struct installed : ground {
  explicit installed(bool with_libraries = true) {
    if (!with_libraries) return;
    for (const char* library : {PRELOAD, WATCH})
      std::filesystem::copy_file(library, folder.file(std::filesystem::path(library).filename()));
  }
  /// Whether it was given them.
  bool give_capabilities(const std::string& file, const char* which) const {
    if (test_support::run_process({"/usr/sbin/setcap", which, file}, folder.path()).exit_status == 0) return true;
    MESSAGE("skipped: setcap is missing, or cannot give " << which);
    return false;
  }
};

}  // namespace

TEST_CASE("a setuid or setgid command refuses to do anything, and obeys no variable before") {
  if (!is_root()) return;
  const installed g;
  if (!setuid_works(g)) return;
  std::ofstream(g.owners + "/secret.jsonl") << "secret";
  REQUIRE(::chown((g.owners + "/secret.jsonl").c_str(), owner, owner) == 0);
  ::chmod((g.owners + "/secret.jsonl").c_str(), 0600);
  std::filesystem::create_symlink(g.owners + "/secret.jsonl", g.callers + "/secret.jsonl");
  const std::string library = g.copy(LIBRARY, 0, 0755);
  for (const auto& one : {std::pair{owner, 04755}, {uid_t{0}, 04755}, {owner, 02755}}) {
    const int mode = one.second;
    const std::string command = g.copy(CUTRACE_COMMAND, one.first, static_cast<mode_t>(mode));
    for (std::vector<std::string> words : commands) {
      words.insert(words.begin(), command);
      CAPTURE(words[1]);
      CAPTURE(mode);
      const auto p = run_as_nobody(g, words, tempting(library));
      CHECK(p.exit_status == 125);
      CHECK(p.output.empty());
      CHECK(p.errors.find("this file is setuid or setgid, which is not supported") != std::string::npos);
      CHECK(p.errors.find("library loaded") == std::string::npos);
    }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(g.callers), {}) == 1);
}

TEST_CASE("with file capabilities no library comes from the environment, and the program gets none of them") {
  if (!is_root()) return;
  const installed g;
  if (!setuid_works(g)) return;
  const std::string command = g.copy(CUTRACE_COMMAND, 0, 0755), library = g.copy(LIBRARY, 0, 0755);
  if (!g.give_capabilities(command, "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_override+ep")) return;
  const std::string none = "0000000000000000\n";
  for (const char* method : {"preload", "ioctl", "ebpf"}) {
    CAPTURE(method);
    const auto p = run_as_nobody(g,
                                 {command, "run", "--quiet", "--method", method, "--", "/bin/sh", "-c",
                                  "id -u; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2"},
                                 tempting(library));
    if (std::string(method) == "ebpf" && p.exit_status == 125) {
      MESSAGE("not looked at: probes, which this machine refuses: " << p.errors);
      continue;
    }
    CHECK_MESSAGE(p.exit_status == 0, p.errors);
    CHECK(p.output == "65534\n" + none + none + none + none);
    CHECK(p.errors.find("ignored, since this cutrace has file capabilities") != std::string::npos);
    CHECK(p.errors.find("CUTRACE_PRELOAD_LIBRARY, CUTRACE_INJECT_LIBRARY") != std::string::npos);
    CHECK(p.errors.find("library loaded") == std::string::npos);
  }
  // A capability beyond those of probes (cap_dac_override) does not let it write where the caller may not.
  const auto out = run_as_nobody(
      g, {command, "run", "--quiet", "--method", "preload", "--out", g.owners + "/out", "--", "/bin/true"});
  CHECK(out.exit_status == 125);
  CHECK(std::filesystem::is_empty(g.owners));
}

TEST_CASE("doctor with file capabilities loads libraries without them, and says who may start it") {
  if (!is_root()) return;
  const installed g;
  if (!setuid_works(g)) return;
  const std::string command = g.copy(CUTRACE_COMMAND, 0, 0755), library = g.copy(LIBRARY, 0, 0755);
  if (!g.give_capabilities(command, "cap_bpf,cap_perfmon,cap_sys_ptrace+ep")) return;
  const auto p = run_as_nobody(g, {command, "doctor"}, tempting(library));
  CHECK(p.errors.find("ignored, since") != std::string::npos);
  CHECK(p.errors.find("library loaded") == std::string::npos);
  CHECK(p.output.find(library) == std::string::npos);
  if (p.output.find("was loaded and taken back") != std::string::npos)
    CHECK(p.output.find("anybody may start it") != std::string::npos);
  const auto without = run_as_nobody(g, {g.copy(CUTRACE_COMMAND, 0, 0711), "doctor", "--method", "ebpf"});
  CHECK(without.output.find("never setuid") != std::string::npos);
}

TEST_CASE("by sudo, program and files of probes are the caller's") {
  if (!is_root()) return;
  const installed g;
  const std::string command = g.copy(CUTRACE_COMMAND, 0, 0755);
  const auto p = test_support::run_process(
      {command, "run", "--quiet", "--method", "ebpf", "--out", g.callers + "/out", "--", "/usr/bin/id", "-u"},
      g.folder.path(), {{"SUDO_UID", "65534"}, {"SUDO_GID", "65534"}});
  if (p.exit_status == 125) {
    MESSAGE("skipped: probes, which this machine refuses: " << p.errors);
    return;
  }
  CHECK(p.output == "65534\n");
}

TEST_CASE("root reads another user's trace with that user's rights, and says so") {
  if (!is_root()) return;
  const ground g;
  const auto trace_of = [&](const std::string& name, uid_t who) {
    const std::string file = g.folder.file(name);
    std::ofstream(file) << R"({"v":1,"type":"header","schema":"cutrace","process":"p"})"
                        << "\n"
                        << R"({"v":1,"type":"kernel","ts_ns":1,"dur_ns":1,"name":"k"})"
                        << "\n"
                        << R"({"v":1,"type":"footer"})"
                        << "\n";
    REQUIRE(::chown(file.c_str(), who, who) == 0);
    ::chmod(file.c_str(), 0600);
    return file;
  };
  const std::string others = trace_of("others.jsonl", owner), roots = trace_of("roots.jsonl", 0),
                    third = trace_of("third.jsonl", nobody), callers = trace_of("callers.jsonl", nobody);
  const auto command = [&](std::vector<std::string> words, const std::map<std::string, std::string>& environment = {}) {
    words.insert(words.begin(), CUTRACE_COMMAND);
    return test_support::run_process(words, g.folder.path(), environment);
  };
  const auto says = [](const auto& p) { return p.errors.find("root's rights are given up") != std::string::npos; };
  const auto owner_of = [](const std::string& file) {
    struct stat s {};
    REQUIRE(::stat(file.c_str(), &s) == 0);
    return s.st_uid;
  };

  auto p = command({"report", others});
  CHECK(p.exit_status == 0);
  CHECK(says(p));
  // Output belongs to that user, and none is written where that user may not write.
  p = command({"convert", others, "-o", g.owners + "/out.jsonl"});
  CHECK(p.exit_status == 0);
  CHECK(owner_of(g.owners + "/out.jsonl") == owner);
  p = command({"convert", others, "-o", g.folder.file("out.jsonl")});
  CHECK(p.exit_status == 125);
  CHECK_FALSE(std::filesystem::exists(g.folder.file("out.jsonl")));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"why", others},
                                                {"diff", roots, others},
                                                {"cut", others, "-o", g.owners + "/cut.jsonl", "--device", "0"},
                                                {"merge", others, others, "-o", g.owners + "/merged.jsonl"}}) {
    CAPTURE(words[0]);
    CHECK(says(command(words)));
  }
  // Traces of root, and of the user who called sudo, are read without giving up rights.
  p = command({"report", roots});
  CHECK(p.exit_status == 0);
  CHECK_FALSE(says(p));
  p = command({"report", callers}, {{"SUDO_UID", "65534"}, {"SUDO_GID", "65534"}});
  CHECK(p.exit_status == 0);
  CHECK_FALSE(says(p));
  p = command({"convert", others, third, "-o", "jsonl:-"});
  CHECK(p.exit_status == 125);
  CHECK(p.errors.find("belong to several users") != std::string::npos);
}
