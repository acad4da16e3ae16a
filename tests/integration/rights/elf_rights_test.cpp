// SPDX-License-Identifier: Apache-2.0
// ELF files that are not root's are parsed by a process without rights.
#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <fstream>

#include "elf_file.hpp"
#include "rights_support.hpp"

using namespace rights;

namespace {

/// Whether a child of this process has ended and was waited for, since the last time: its page faults are counted.
bool had_child() {
  static long before = 0;
  rusage of_children{};
  ::getrusage(RUSAGE_CHILDREN, &of_children);
  const bool had = of_children.ru_minflt != before;
  before = of_children.ru_minflt;
  return had;
}

std::vector<std::string> functions_of(const std::string& path) {
  const cutrace_ebpf::opened_file file(path);
  std::vector<std::string> all;
  cutrace_ebpf::elf_file(file, true).all_functions([&](const char* name, std::uint64_t at) {
    all.push_back(name + std::string(" ") + std::to_string(at));
  });
  return all;
}

}  // namespace

TEST_CASE("what parses another user's file is nobody, without capabilities, and hands over what it found") {
  const temporary_folder folder;
  const std::string secret = folder.file("secret");
  std::ofstream(secret) << "secret";
  ::chmod(secret.c_str(), 0600);
  cutrace_ebpf::found_facts facts = cutrace_ebpf::parse_without_rights("file", [&](cutrace_ebpf::found_facts& to) {
    to.add('u', ::geteuid(), ::getegid(), {});
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {};
    ::syscall(SYS_capget, &head, sets);
    to.add('c', sets[0].permitted | sets[0].effective, sets[1].permitted | sets[1].effective, {});
    to.add('o', ::open(secret.c_str(), O_RDONLY) < 0 ? 0 : 1, 0, std::string(70000, 'x'));
    to.add('n', static_cast<std::uint64_t>(::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)), 0, {});
  });
  std::string kinds;
  facts.for_each([&](char kind, std::uint64_t a, std::uint64_t b, const char* text) {
    kinds += kind;
    if (kind == 'u' && ::geteuid() == 0) CHECK((a == nobody && b == nobody));
    if (kind == 'c') CHECK((a | b) == 0);
    if (kind == 'o' && ::geteuid() == 0) CHECK(a == 0);
    if (kind == 'o') CHECK(std::string(text).size() == 70000);
    if (kind == 'n') CHECK(a == 1);
  });
  CHECK(kinds == "ucon");
  CHECK_THROWS_WITH(cutrace_ebpf::parse_without_rights(
                        "file", [](cutrace_ebpf::found_facts&) { throw std::runtime_error("no library"); }),
                    "no library");
  CHECK_THROWS_WITH(cutrace_ebpf::parse_without_rights("file", [](cutrace_ebpf::found_facts&) { ::abort(); }),
                    "file: cannot be read: the process that parses it ended early");
  // A hostile file may take over the process that parses it: what that hands over is checked like the file.
  facts.bytes() = std::string("f\1\2", 3);
  facts.for_each([](char, std::uint64_t, std::uint64_t, const char*) { FAIL("not whole"); });
  facts.bytes() = std::string(30, 'f');
  facts.for_each([](char, std::uint64_t, std::uint64_t, const char*) { FAIL("a text without an end"); });
}

TEST_CASE("root's ELF files are parsed here, those of others elsewhere, with the same functions") {
  if (!is_root()) return;
  const ground g;
  const std::string roots = g.copy(LIBRARY, 0, 0755), others = g.copy(LIBRARY, owner, 0700);
  static_cast<void>(had_child());
  const std::vector<std::string> here = functions_of(roots);
  CHECK_FALSE(had_child());
  const std::vector<std::string> elsewhere = functions_of(others);
  CHECK(had_child());
  CHECK(here.size() > 3);
  CHECK(here == elsewhere);
  std::ofstream(others, std::ios::trunc) << "no ELF file";
  CHECK_THROWS_WITH(functions_of(others), (others + ": no library of this machine").c_str());
}
