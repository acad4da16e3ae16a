// SPDX-License-Identifier: Apache-2.0
// A traced program that has more rights than its caller: the caller's environment chooses nothing.
#include <doctest/doctest.h>

#include <fstream>

#include "rights_support.hpp"

using namespace rights;

namespace {

bool said(const test_support::finished_process& p, const char* words) {
  return p.errors.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a program with its caller's rights obeys the environment") {
  if (!is_root()) return;
  const ground g;
  const auto p = run_as_nobody(g, {g.copy(SUBJECT, nobody, 0755)},
                               {{"CUTRACE_SINKS", "jsonl:" + g.callers + "/t.jsonl"},
                                {"CUTRACE_BACKEND", "none"},
                                {"NVTX_INJECTION64_PATH", g.copy(LIBRARY, 0, 0755)}});
  CHECK(p.exit_status == 0);
  CHECK(std::filesystem::exists(g.callers + "/t.jsonl"));
  CHECK(said(p, "caller's library loaded"));
  CHECK_FALSE(said(p, "not obeyed"));
}

TEST_CASE("a setuid program lets the environment choose no file and no library, and says so once") {
  if (!is_root()) return;
  const ground g;
  if (!setuid_works(g)) return;
  const std::string program = g.copy(SUBJECT, owner, 04755), trace = g.owners + "/t.jsonl";
  const std::string library = g.copy(LIBRARY, 0, 0755);
  // Its code opens no sink, then it opens one.
  for (const bool by_code : {false, true}) {
    CAPTURE(by_code);
    std::vector<std::string> words{program};
    if (by_code) words.push_back("jsonl:" + g.owners + "/code.jsonl");
    const auto p = run_as_nobody(g, words,
                                 {{"CUTRACE_SINKS", "jsonl:" + trace},
                                  {"CUTRACE_BACKEND", "none"},
                                  {"CUTRACE_RUN", g.owners},
                                  {"CUTRACE_CUPTI_LIBRARY", library},
                                  {"NVTX_INJECTION64_PATH", library},
                                  {"CUTRACE_NVTX", "1"}});
    CHECK(p.exit_status == 0);
    CHECK_FALSE(std::filesystem::exists(trace));
    CHECK(std::filesystem::exists(g.owners + "/code.jsonl") == by_code);
    CHECK_FALSE(said(p, "library loaded"));
    CHECK(said(p, "of the environment are not obeyed"));
    CHECK(p.errors.find("not obeyed") == p.errors.rfind("not obeyed"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(g.owners), {}) == 1);
}

TEST_CASE("in a user namespace another user's file is not taken for root's, and root's /dev/stdout is") {
  if (!is_root()) return;
  const ground g;
  const std::string program = g.copy(SUBJECT, 0, 0755), shared = g.folder.file("shared"), file = shared + "/t.jsonl";
  std::filesystem::create_directory(shared);
  ::chmod(shared.c_str(), 01777);
  std::ofstream(file) << "theirs";
  REQUIRE(::chown(file.c_str(), owner, owner) == 0);
  ::chmod(file.c_str(), 0666);
  for (const char* own_number : {"-r", "-U"}) {
    CAPTURE(own_number);
    if (run_as_nobody(g, {"/usr/bin/unshare", own_number, "/bin/true"}).exit_status != 0) {
      MESSAGE("skipped: no user namespaces here");
      return;
    }
    const auto run = [&](const std::string& sinks) {
      return run_as_nobody(g, {"/bin/sh", "-c", "exec unshare $0 $1 >out.jsonl", own_number, program},
                           {{"CUTRACE_SINKS", sinks}, {"CUTRACE_BACKEND", "none"}});
    };
    CHECK_FALSE(said(run("jsonl:/dev/stdout"), "cannot"));
    CHECK(content_of(g.callers + "/out.jsonl").find("\"footer\"") != std::string::npos);
    if (own_number == std::string("-U")) continue;  // where this user, too, is nobody
    CHECK(said(run("jsonl:" + file), "it is a file of user"));
    CHECK(content_of(file) == "theirs");
    std::filesystem::remove(shared + "/link");
    std::filesystem::create_symlink(g.callers + "/new", shared + "/link");
    REQUIRE(::lchown((shared + "/link").c_str(), owner, owner) == 0);
    CHECK(said(run("jsonl:" + shared + "/link"), "a symbolic link in it was made by"));
    CHECK_FALSE(std::filesystem::exists(g.callers + "/new"));
  }
}

TEST_CASE("a program with file capabilities or setgid does not obey the environment either") {
  if (!is_root()) return;
  const ground g;
  if (!setuid_works(g)) return;
  const std::string trace = "jsonl:" + g.callers + "/t.jsonl";
  const std::string capable = g.copy(SUBJECT, 0, 0755), of_group = g.copy(SUBJECT, owner, 02755);
  std::vector<std::string> programs{of_group};
  if (test_support::run_process({"/usr/sbin/setcap", "cap_chown+ep", capable}, g.folder.path()).exit_status == 0)
    programs.push_back(capable);
  else
    MESSAGE("not looked at: file capabilities, since setcap cannot set them here");
  for (const std::string& program : programs) {
    CAPTURE(program);
    const auto p = run_as_nobody(g, {program}, {{"CUTRACE_SINKS", trace}, {"CUTRACE_BACKEND", "none"}});
    CHECK(p.exit_status == 0);
    CHECK_FALSE(std::filesystem::exists(g.callers + "/t.jsonl"));
    CHECK(said(p, "CUTRACE"));
  }
}
