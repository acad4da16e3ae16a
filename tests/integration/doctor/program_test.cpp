// SPDX-License-Identifier: Apache-2.0
// Programs that were named: those into which no library can be injected or preloaded are reported before they run.
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "doctor_run.hpp"

namespace program_test {

using namespace doctor_run;  // NOLINT(google-build-using-namespace)

TEST_SUITE_BEGIN("doctor.program");

namespace {

const std::string own = COMMAND;

/// An ELF executable of no code: header and one program header, and what that names.
void write_elf(const std::string& path, unsigned char elf_class, std::uint16_t machine, std::uint32_t segment,
               const std::string& named = {}) {
  Elf64_Ehdr h{};
  std::memcpy(h.e_ident, ELFMAG, SELFMAG);
  h.e_ident[EI_CLASS] = elf_class;
  h.e_ident[EI_DATA] = ELFDATA2LSB;
  h.e_machine = machine;
  h.e_phoff = sizeof(h);
  h.e_phentsize = sizeof(Elf64_Phdr);
  h.e_phnum = 1;
  Elf64_Phdr p{};
  p.p_type = segment;
  p.p_offset = sizeof(h) + sizeof(p);
  p.p_filesz = named.empty() ? 0 : named.size() + 1;
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&h), sizeof(h)).write(reinterpret_cast<const char*>(&p), sizeof(p));
  out.write(named.c_str(), static_cast<std::streamsize>(p.p_filesz));
  out.close();
  ::chmod(path.c_str(), 0755);
}

std::uint16_t machine_of(const std::string& path) {
  Elf64_Ehdr h;
  std::memcpy(&h, content_of(path).data(), sizeof(h));
  return h.e_machine;
}

}  // namespace

TEST_CASE("doctor: programs that can be traced") {
  const outcome o = run(on_standin(), {own});
  for (const char* id : {"program", "program.inject", "program.preload"}) CHECK(o.state(id) == "ok");
  CHECK(o.process.exit_status == 0);
  CHECK(run(on_standin(), {"sh"}).what("program").find("/sh") != std::string::npos);
  CHECK(run(on_standin()).state("program") == "absent");
}

TEST_CASE("doctor: static programs") {
  const temporary_folder folder;
  write_elf(folder.file("static"), ELFCLASS64, machine_of(own), PT_LOAD);
  const outcome o = run(on_standin(), {folder.file("static")});
  CHECK(o.state("program") == "ok");
  CHECK(o.state("program.preload") == "broken");
  CHECK(o.reported("program.preload", "static"));
  CHECK(o.state("program.inject") == "limited");
  CHECK(o.because("preload", "program.preload"));
  CHECK(o.process.exit_status == 0);
  write_elf(folder.file("dynamic"), ELFCLASS64, machine_of(own), PT_INTERP);
  CHECK(run(on_standin(), {folder.file("dynamic")}).state("program.preload") == "ok");
}

TEST_CASE("doctor: programs of another C library") {
  const temporary_folder folder;
  write_elf(folder.file("musl"), ELFCLASS64, machine_of(own), PT_INTERP, "/lib/ld-musl-x86_64.so.1");
  const outcome o = run(on_standin(), {folder.file("musl")});
  CHECK(o.state("program.preload") == "broken");
  CHECK(o.reported("program.preload", "/lib/ld-musl-x86_64.so.1"));
  write_elf(folder.file("glibc"), ELFCLASS64, machine_of(own), PT_INTERP, "/nix/glibc/lib/ld-linux-x86-64.so.2");
  CHECK(run(on_standin(), {folder.file("glibc")}).state("program.preload") == "ok");
}

TEST_CASE("doctor: programs for other machines, and what is no program") {
  const temporary_folder folder;
  write_elf(folder.file("small"), ELFCLASS32, EM_386, PT_INTERP);
  write_elf(folder.file("other"), ELFCLASS64, EM_RISCV, PT_INTERP);
  write_elf(folder.file("closed"), ELFCLASS64, machine_of(own), PT_INTERP);
  ::chmod(folder.file("closed").c_str(), 0644);
  std::ofstream(folder.file("picture")) << std::string("\x89PNG\r\n\x1a\n\0\0", 10);
  ::chmod(folder.file("picture").c_str(), 0755);
  const std::pair<std::string, const char*> cases[] = {
      {folder.file("small"), "32-bit"},
      {folder.file("other"), "another processor"},
      {folder.file("closed"), "may not be executed"},
      {folder.file("picture"), "neither an ELF executable nor a script"},
      {folder.path(), "is not a file"},
      {folder.file("absent"), "No such file"},
      {"no-such-program-anywhere", "not found along PATH"}};
  for (const auto& [program, part] : cases) {
    const std::string which = program;
    CAPTURE(which);
    const outcome o = run(on_standin(), {program});
    CHECK(o.state("program") == "broken");
    CHECK(o.reported("program", part));
    CHECK(o.process.exit_status == 1);
  }
}

TEST_CASE("doctor: scripts are judged by what interprets them") {
  const temporary_folder folder;
  const auto script = [&](const char* name, const std::string& first) {
    std::ofstream(folder.file(name)) << "#!" << first << "\nexit\n";
    ::chmod(folder.file(name).c_str(), 0755);
    return folder.file(name);
  };
  const outcome direct = run(on_standin(), {script("direct", " " + own + " -x")});
  CHECK(direct.state("program") == "ok");
  CHECK(direct.reported("program", "is a script for " + own));
  CHECK(run(on_standin(), {script("by_env", "/usr/bin/env sh")}).reported("program", "/sh"));
  CHECK(run(on_standin(), {script("split", "/usr/bin/env -S sh -e")}).state("program") == "ok");
  for (const char* words : {"OMP_NUM_THREADS=1 sh -e", "-i -u HOME -C / A=b C=d sh"}) {
    CAPTURE(std::string(words));
    const outcome o = run(on_standin(), {script("set", std::string("/usr/bin/env -S ") + words)});
    CHECK(o.state("program") == "ok");
    CHECK(o.reported("program", "/sh"));
  }
  for (const char* form : {"-vS sh -e", "-ivS A=b sh", "-Ssh", "--split-string=sh -e", "--split-string=-i sh"}) {
    CAPTURE(std::string(form));
    const outcome o = run(on_standin(), {script("form", std::string("/usr/bin/env ") + form)});
    CHECK(o.state("program") == "ok");
    CHECK(o.reported("program", "/sh"));
  }
  CHECK(run(on_standin(), {script("lost", "/nonexistent/python3")})
            .reported("program", "/nonexistent/python3: No such file"));
  // As shells and execvp start them: the kernel itself refuses a file that names no interpreter.
  for (const char* text : {"exit\n", "# no interpreter\nexit\n", "#!\nexit\n", "#! \nexit\n", ""}) {
    CAPTURE(std::string(text));
    std::ofstream(folder.file("unnamed")) << text;
    ::chmod(folder.file("unnamed").c_str(), 0755);
    REQUIRE(std::system(folder.file("unnamed").c_str()) == 0);
    const outcome o = run(on_standin(), {folder.file("unnamed")});
    CHECK(o.state("program") == "ok");
    CHECK(o.reported("program", "unnamed is a script for /bin/sh"));
    CHECK(o.process.exit_status == 0);
  }
  write_elf(folder.file("static"), ELFCLASS64, machine_of(own), PT_LOAD);
  CHECK(run(on_standin(), {script("to_static", folder.file("static"))}).state("program.preload") == "broken");
}

TEST_CASE("doctor: programs that become another user") {
  const temporary_folder folder;
  const std::string file = folder.file("setuid");
  write_elf(file, ELFCLASS64, machine_of(own), PT_INTERP);
  // A setuid program that belongs to the user who runs it gets no other rights.
  ::chmod(file.c_str(), 04755);
  CHECK(run(on_standin(), {file}).state("program.preload") == "ok");
  if (::getuid() != 0) {
    MESSAGE("not root: no program of another user can be made");
    return;
  }
  REQUIRE(::chown(file.c_str(), 65534, 65534) == 0);
  REQUIRE(::chmod(file.c_str(), 04755) == 0);
  const outcome o = run(on_standin(), {file});
  CHECK(o.state("program.preload") == "broken");
  CHECK(o.reported("program.preload", "setuid"));
  CHECK(o.state("program.rights") == (::geteuid() == 0 ? "ok" : "broken"));
  CHECK(o.state("program.inject") == "unknown");
  CHECK(o.method("cupti").at("machine") == o.unknown_at_worst());
}

TEST_SUITE_END();

}  // namespace program_test
