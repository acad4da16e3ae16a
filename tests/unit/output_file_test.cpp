// SPDX-License-Identifier: Apache-2.0
// Output files: names, modes, failures as exceptions, and no signal for the host program.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cutrace/output/output_file.hpp>
#include <cutrace/output/trace_file.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.hpp"

namespace output_file_test {

namespace {

using cutrace::detail::expand_path;
using cutrace::detail::output_file;
using cutrace::detail::publish;

/// Reads until the other side closes, in small sips.
std::string read_all(int fd) {
  std::string all;
  char sip[1000];
  for (ssize_t n; (n = ::read(fd, sip, sizeof(sip))) > 0;) all.append(sip, static_cast<std::size_t>(n));
  return all;
}

/// While this lives, the process looks as if no launcher (mpirun, srun) had started it.
struct without_ranks {
  static constexpr const char* names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK", "LOCAL_RANK"};
  std::map<std::string, std::string> before;
  without_ranks() {
    for (const char* n : names) {
      if (const char* v = std::getenv(n)) before[n] = v;
      ::unsetenv(n);
    }
  }
  ~without_ranks() {
    for (const char* n : names) ::unsetenv(n);
    for (const auto& [name, value] : before) ::setenv(name.c_str(), value.c_str(), 1);
  }
};

int interruptions = 0;
void count_interruption(int) { ++interruptions; }

}  // namespace

TEST_CASE("output file: patterns in paths") {
  CHECK(expand_path("t-%p") == "t-" + std::to_string(::getpid()));
  CHECK(expand_path("100%%") == "100%");
  char host[256] = "";
  REQUIRE(::gethostname(host, sizeof(host) - 1) == 0);
  CHECK(expand_path("%h/%h") == std::string(host) + "/" + host);
  CHECK_THROWS_WITH_AS(expand_path("t-%d"), doctest::Contains("%"), cutrace::config_error);
  CHECK_THROWS_AS(expand_path("t%"), cutrace::config_error);
  const without_ranks none;
  CHECK(expand_path("a.%r.b") == "a.b");
  CHECK(expand_path("a-%r-%r") == "a");
  CHECK(expand_path("%rx%ry") == "xy");
  CHECK(expand_path("/%r") == "/");
  ::setenv("LOCAL_RANK", "2", 1);
  CHECK(expand_path("a.%r.b") == "a.2.b");
  ::setenv("RANK", "17", 1);  // rank in the whole job: goes before that on the machine
  CHECK(expand_path("a.%r.b") == "a.17.b");
  ::setenv("RANK", "x", 1);
  CHECK(expand_path("a.%r.b") == "a.2.b");
  CHECK(expand_path("a%u.b") == "a.b");
  CHECK(expand_path("a%u.b", 2) == "a-2.b");
  CHECK_THROWS_AS(expand_path(""), cutrace::config_error);
}

TEST_CASE("output file: mode 0600, closed in programs that are started") {
  const temporary_folder folder;
  const mode_t before = ::umask(0);
  output_file file;
  file.open(folder.file("t").c_str());
  ::umask(before);
  struct stat status {};
  REQUIRE(::stat(folder.file("t").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  bool found = false;
  for (int fd = 3; fd < 256; ++fd) {
    struct stat other {};
    if (::fstat(fd, &other) != 0 || other.st_ino != status.st_ino || other.st_dev != status.st_dev) continue;
    found = true;
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found);
}

TEST_CASE("output file: what is written, buffered or larger than the buffer, arrives in order") {
  const temporary_folder folder;
  output_file file;
  file.open(folder.file("t").c_str());
  std::string expected;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{70000}, std::size_t{0}, std::size_t{65536}, std::size_t{100}}) {
    const std::string part(size, static_cast<char>('a' + size % 26));
    file.write(part);
    expected += part;
  }
  file.close();
  CHECK(content_of(folder.file("t")) == expected);
  file.close();  // twice does no harm
}

TEST_CASE("output file: blocks end where the file's do, and what is left over comes next") {
  const temporary_folder folder;
  output_file file;
  file.open(folder.file("t").c_str());
  std::string expected;
  std::string left;
  file.write("head");
  expected += "head";
  for (const std::size_t size : {std::size_t{10}, output_file::block, std::size_t{0}, 3 * output_file::block + 5,
                                 output_file::block - 4, std::size_t{1}, 2 * output_file::block}) {
    const std::string part(size, static_cast<char>('a' + size % 26));
    expected += part;
    left += part;
    const std::size_t taken = file.write_blocks(left);
    REQUIRE(taken <= left.size());
    left.erase(0, taken);
    CHECK(left.size() < output_file::block);
    const auto written = std::filesystem::file_size(folder.file("t"));
    if (taken != 0) CHECK(written % output_file::block == 0);
    CHECK(written + left.size() == expected.size());
  }
  file.write(left);
  file.close();
  CHECK(content_of(folder.file("t")) == expected);
}

TEST_CASE("output file: whatever was asked for ahead, the file is as large as what was written, and keeps no more") {
  const temporary_folder folder;
  const std::string path = folder.file("large");
  output_file file;
  file.open(path.c_str());
  const std::string text(3 * output_file::block, 'x');
  constexpr std::size_t blocks = 48;
  std::size_t given = 0, kept_most = 0;
  struct stat now {};
  for (std::size_t i = 0; i < blocks; ++i) {
    given += file.write_blocks(text);
    REQUIRE(::stat(path.c_str(), &now) == 0);
    CHECK(static_cast<std::size_t>(now.st_size) == given);
    const std::size_t kept = static_cast<std::size_t>(now.st_blocks) * 512;
    kept_most = std::max(kept_most, kept > given ? kept - given : 0);
  }
  CHECK(given == blocks * text.size());
  CHECK(kept_most <= (std::size_t{8} << 20) + text.size());
  struct statfs system {};
  if (::statfs(path.c_str(), &system) == 0 && system.f_type == EXT4_SUPER_MAGIC) CHECK(kept_most > 4 * text.size());
  file.write("end");
  file.close();
  REQUIRE(::stat(path.c_str(), &now) == 0);
  CHECK(static_cast<std::size_t>(now.st_size) == given + 3);
  CHECK(static_cast<std::size_t>(now.st_blocks) * 512 <= given + (std::size_t{1} << 16));
  std::ifstream in(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  CHECK(all == std::string(given, 'x') + "end");
}

TEST_CASE("output file: one that is let go, not closed, keeps no more than what was written either") {
  const temporary_folder folder;
  const std::string path = folder.file("left");
  const std::string text(3 * output_file::block, 'x');
  std::size_t given = 0;
  {
    output_file file;
    file.open(path.c_str());
    for (std::size_t i = 0; i < 24; ++i) given += file.write_blocks(text);
  }
  struct stat now {};
  REQUIRE(::stat(path.c_str(), &now) == 0);
  CHECK(static_cast<std::size_t>(now.st_size) == given);
  CHECK(static_cast<std::size_t>(now.st_blocks) * 512 <= given + (std::size_t{1} << 16));
}

TEST_CASE("output file: an old file is emptied") {
  const temporary_folder folder;
  for (const char* content : {"a long first trace", "short", ""}) {
    output_file file;
    file.open(folder.file("t").c_str());
    file.write(content);
    file.close();
    CHECK(content_of(folder.file("t")) == content);
  }
}

TEST_CASE("output file: a unique name is the first that is free, whatever lies there") {
  const temporary_folder folder;
  const std::string pattern = folder.file("t%u.json");
  std::ofstream(folder.file("t.json")) << "older";
  std::ofstream(folder.file("t-2.json.tmp")) << "unfinished";
  output_file first, second;
  first.open(pattern.c_str(), publish::at_close);
  CHECK(first.path() == folder.file("t-3.json"));
  second.open(pattern.c_str(), publish::at_close);
  CHECK(second.path() == folder.file("t-4.json"));
  first.write("first");
  second.write("second");
  second.close();
  first.close();
  CHECK(content_of(folder.file("t-3.json")) == "first");
  CHECK(content_of(folder.file("t-4.json")) == "second");
  CHECK(content_of(folder.file("t.json")) == "older");
  CHECK(content_of(folder.file("t-2.json.tmp")) == "unfinished");
  output_file at_once;
  at_once.open(pattern.c_str());
  CHECK(at_once.path() == folder.file("t-2.json"));  // opened without .tmp, it needs only its own name free
}

/// Descriptors of this process that lead to a file.
std::vector<int> descriptors_of(const std::string& path) {
  struct stat wanted {};
  REQUIRE(::stat(path.c_str(), &wanted) == 0);
  std::vector<int> all;
  for (int fd = 0; fd < 256; ++fd) {
    struct stat known {};
    if (::fstat(fd, &known) == 0 && known.st_ino == wanted.st_ino && known.st_dev == wanted.st_dev) all.push_back(fd);
  }
  return all;
}

TEST_CASE("output file: the program closes its descriptor and takes the number for a file of its own") {
  const temporary_folder folder;
  for (const publish when : {publish::at_once, publish::at_close}) {
    const std::string path = folder.file("t"), opened_as = when == publish::at_once ? path : path + ".tmp";
    output_file file;
    file.open(path.c_str(), when);
    file.write("before ");
    file.flush();
    for (const int fd : descriptors_of(opened_as)) {
      const int own = ::open(folder.file("own").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      REQUIRE(::dup2(own, fd) == fd);
      ::close(own);
    }
    file.write("after");
    file.flush();
    CHECK(content_of(opened_as) == "before after");
    file.close();
    CHECK(content_of(path) == "before after");
    CHECK(content_of(folder.file("own")).empty());
    const std::vector<int> left = descriptors_of(folder.file("own"));
    CHECK(left.size() == 1);  // the program's descriptor stays open
    for (const int fd : left) ::close(fd);
    std::filesystem::remove(path);
  }
  output_file gone;
  gone.open(folder.file("gone").c_str());
  gone.write("x");
  gone.flush();
  for (const int fd : descriptors_of(folder.file("gone"))) ::close(fd);
  std::filesystem::remove(folder.file("gone"));
  gone.write("y");
  CHECK_THROWS_WITH_AS(gone.flush(), doctest::Contains("closed its descriptor"), cutrace::error);
  gone.close();
}

TEST_CASE("output file: published at close, or never") {
  const temporary_folder folder;
  const std::string path = folder.file("t");
  {
    output_file file;
    file.open(path.c_str(), publish::at_close);
    file.write("half");
    file.flush();
  }
  CHECK(!std::filesystem::exists(path));
  CHECK(content_of(path + ".tmp") == "half");
  output_file file;
  file.open(path.c_str(), publish::at_close);  // an older .tmp is overwritten
  file.write("x");
  file.close();
  CHECK(content_of(path) == "x");
  CHECK(!std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("output file: a link laid in the way of the temporary file is not followed") {
  const temporary_folder folder;
  std::ofstream(folder.file("precious")) << "precious";
  std::filesystem::create_symlink(folder.file("precious"), folder.file("t.tmp"));
  output_file file;
  CHECK_THROWS_AS(file.open(folder.file("t").c_str(), publish::at_close), cutrace::error);
  CHECK(content_of(folder.file("precious")) == "precious");
}

/// Files of these users, which only root can make.
constexpr uid_t writing_user = 65534, other_user = 65533;

static bool is_root() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: only root can make files of other users");
  return false;
}

/// While this lives, the process runs as `user`.
struct as_user {
  explicit as_user(uid_t user) { REQUIRE(::seteuid(user) == 0); }
  ~as_user() { CHECK(::seteuid(0) == 0); }
};

TEST_CASE("output file: no file is written through a link, or into a file, that another user made, and it is said") {
  if (!is_root()) return;
  const temporary_folder folder;
  ::chmod(folder.path().c_str(), 01777);
  const auto place = [&folder](const char* name) { return folder.file(name); };
  for (const uid_t we : {uid_t{0}, writing_user}) {
    CAPTURE(we);
    // The links and files below are another user's, who could read what we write or choose what we overwrite.
    for (const char* name : {"precious", "new"}) std::filesystem::remove(place(name));
    std::ofstream(place("precious")) << "precious";
    std::filesystem::create_directories(place("ours/deep"));
    REQUIRE(::chown(place("precious").c_str(), we, we) == 0);
    REQUIRE(::chown(place("ours").c_str(), we, we) == 0);
    REQUIRE(::chown(place("ours/deep").c_str(), we, we) == 0);
    const auto link = [&place](const char* to, const char* name) {
      std::filesystem::remove(place(name));
      std::filesystem::create_symlink(place(to), place(name));
      REQUIRE(::lchown(place(name).c_str(), other_user, other_user) == 0);
    };
    const auto file = [&place](const char* name) {
      std::filesystem::remove(place(name));
      std::ofstream(place(name)) << "theirs";
      REQUIRE(::chown(place(name).c_str(), other_user, other_user) == 0);
      ::chmod(place(name).c_str(), 0666);
    };
    link("precious", "link"), link("new", "dangling"), link("ours/deep", "to_folder"), link("precious", "b.tmp");
    file("file"), file("c.tmp");
    for (const char* name : {"link", "dangling", "to_folder/t", "to_folder/../t", "file"}) {
      CAPTURE(name);
      const as_user us(we);
      output_file out;
      CHECK_THROWS_WITH_AS(out.open(place(name).c_str()), doctest::Contains("user 65533"), cutrace::error);
    }
    for (const char* name : {"b", "c", "to_folder/t"}) {
      CAPTURE(name);
      const as_user us(we);
      output_file out;
      CHECK_THROWS_AS(out.open(place(name).c_str(), publish::at_close), cutrace::error);
    }
    CHECK(content_of(place("precious")) == "precious");
    CHECK(content_of(place("file")) == "theirs");
    CHECK(content_of(place("c.tmp")) == "theirs");
    CHECK(!std::filesystem::exists(place("new")));
    CHECK(std::filesystem::is_empty(place("ours/deep")));
    // What is renamed in the end takes the place of their file, with our owner and mode.
    {
      std::filesystem::remove(place("whole"));
      file("whole");
      ::chmod(folder.path().c_str(), 0777);
      const as_user us(we);
      output_file out;
      out.open(place("whole").c_str(), publish::at_close);
      out.write("ours");
      out.close();
      struct stat status {};
      REQUIRE(::stat(place("whole").c_str(), &status) == 0);
      CHECK(status.st_uid == we);
      CHECK((status.st_mode & 0777) == 0600);
    }
    ::chmod(folder.path().c_str(), 01777);
    for (const char* name : {"ours", "whole"}) std::filesystem::remove_all(place(name));
  }
}

TEST_CASE("output file: the next part of a trace is not written where another user waits for it") {
  if (!is_root()) return;
  const temporary_folder folder;
  cutrace::file_limits limits;
  limits.rotate_bytes = 1;
  cutrace::detail::trace_file file;
  file.open(folder.file("t.jsonl").c_str(), publish::at_once, limits);
  file.write("first");
  std::filesystem::create_symlink("precious", folder.file("t.0002.jsonl"));
  REQUIRE(::lchown(folder.file("t.0002.jsonl").c_str(), other_user, other_user) == 0);
  CHECK_THROWS_AS(file.next_part(), cutrace::error);
  CHECK(content_of(folder.file("t.0001.jsonl")) == "first");
  CHECK(!std::filesystem::exists(folder.file("precious")));
}

TEST_CASE("output file: a temporary file with another name is not written into") {
  const temporary_folder folder;
  std::ofstream(folder.file("precious")) << "precious";
  std::filesystem::create_hard_link(folder.file("precious"), folder.file("t.tmp"));
  output_file file;
  CHECK_THROWS_AS(file.open(folder.file("t").c_str(), publish::at_close), cutrace::error);
  CHECK(content_of(folder.file("precious")) == "precious");
}

TEST_CASE("output file: links of one's own and of root are followed, to files that exist and to new ones") {
  const temporary_folder folder;
  ::chmod(folder.path().c_str(), 0777);
  std::filesystem::create_directory(folder.file("data"));
  ::chmod(folder.file("data").c_str(), 0777);
  std::filesystem::create_directory_symlink("data", folder.file("a"));
  std::filesystem::create_directory_symlink(folder.file("a") + "/", folder.file("b"));
  std::filesystem::create_symlink("../data/t", folder.file("data/link"));
  for (const uid_t we : {::geteuid(), writing_user}) {
    if (we != ::geteuid() && !is_root()) return;
    CAPTURE(we);
    for (const char* content : {"first", "second one"}) {
      const as_user us(we);
      output_file file;
      file.open(folder.file("b//./link").c_str());
      file.write(content);
      file.close();
      CHECK(content_of(folder.file("data/t")) == content);
    }
    std::filesystem::remove(folder.file("data/t"));
  }
  std::filesystem::create_symlink("circle", folder.file("circle"));
  output_file file;
  CHECK_THROWS_WITH_AS(file.open(folder.file("circle").c_str()), doctest::Contains("errno 40"), cutrace::error);
  CHECK_THROWS_WITH_AS(file.open(folder.file("none/t").c_str()), doctest::Contains("directory must exist"),
                       cutrace::error);
}

TEST_CASE("output file: what descriptors name is written directly, whoever made it") {
  const temporary_folder folder;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  const int given = ::open(folder.file("given").c_str(), O_RDWR | O_CREAT, 0666);
  if (::geteuid() == 0) CHECK(::fchown(given, other_user, other_user) == 0);  // under sudo, the caller's shell made it
  for (const publish when : {publish::at_once, publish::at_close}) {
    for (const std::string& path : {"/dev/fd/" + std::to_string(ends[1]), "/proc/self/fd/" + std::to_string(given),
                                    fifo, "/dev/fd/" + std::to_string(given), std::string("/dev/null")}) {
      CAPTURE(path);
      output_file file;
      file.open(path.c_str(), when);
      file.write("text");
      file.close();
      CHECK(!std::filesystem::exists(path + ".tmp"));
    }
    char text[9] = {};
    CHECK(::read(ends[0], text, 8) == 4);
    CHECK(::read(reader, text + 4, 4) == 4);
    CHECK(std::string(text) == "texttext");
    CHECK(content_of(folder.file("given")) == (when == publish::at_once ? "texttext" : "texttexttexttext"));
  }
  for (const int fd : {ends[0], ends[1], reader, given}) ::close(fd);
}

TEST_CASE("output file: a file behind a descriptor of the program keeps what is in it, and what the program adds") {
  const temporary_folder folder;
  for (const int how : {O_TRUNC, O_APPEND}) {
    CAPTURE(how);
    std::ofstream(folder.file("log")) << "older\n";
    const int log = ::open(folder.file("log").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0600);
    REQUIRE(log >= 0);
    for (const publish when : {publish::at_once, publish::at_close}) {
      output_file file, other;
      const std::string again = "/proc/self/fd/" + std::to_string(log);
      CHECK(::write(log, "a\n", 2) == 2);
      file.open(("/dev/fd/" + std::to_string(log)).c_str(), when);
      CHECK_THROWS_AS(other.open(again.c_str(), when), cutrace::config_error);
      file.write("trace\n");
      file.flush();
      CHECK(::write(log, "b\n", 2) == 2);
      for (int fd = 3; fd < 64; ++fd)  // as a daemon does
        if (fd != log) ::close(fd);
      file.write("end\n");
      file.close();
      other.open(again.c_str(), when);
      other.write("report\n");
      other.close();
      CHECK(::write(log, "c\n", 2) == 2);
    }
    ::close(log);
    const std::string both = "a\ntrace\nb\nend\nreport\nc\na\ntrace\nb\nend\nreport\nc\n";
    CHECK(content_of(folder.file("log")) == (how == O_APPEND ? "older\n" : "") + both);
  }
}

TEST_CASE("output file: standard output keeps what is in it, whatever the path that leads there is called") {
  const temporary_folder folder;
  const std::string log = folder.file("log"), link = folder.file("link");
  std::filesystem::create_symlink("/dev/stdout", link);
  for (const std::string& path : {std::string("/dev/stdout"), link, log, std::string("/proc/%p/fd/1")}) {
    CAPTURE(path);
    std::ofstream(log) << "older\n";
    std::fflush(stdout);
    const int before = ::dup(STDOUT_FILENO), to = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    REQUIRE(to >= 0);
    ::dup2(to, STDOUT_FILENO);
    std::string failure;
    try {
      output_file file;
      file.open(path.c_str());
      file.write("trace\n");
      file.close();
    } catch (const std::exception& e) {
      failure = e.what();
    }
    ::dup2(before, STDOUT_FILENO);
    ::close(before);
    ::close(to);
    CHECK(failure == "");
    CHECK(content_of(log) == "older\ntrace\n");
  }
}

TEST_CASE("output file: leaving without close writes nothing that was not flushed") {
  const temporary_folder folder;
  {
    output_file file;
    file.open(folder.file("t").c_str());
    file.write("lost");
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("t")));  // nor leaves an empty file
  std::ofstream(folder.file("older")) << "an older trace";
  {
    output_file at_once, at_close;
    at_once.open(folder.file("older").c_str());
    at_once.write("lost");
  }
  {
    output_file at_close;
    at_close.open(folder.file("older").c_str(), publish::at_close);
    at_close.write("lost");
  }
  CHECK(content_of(folder.file("older")) == "an older trace");
  CHECK_FALSE(std::filesystem::exists(folder.file("older.tmp")));
  {
    output_file file;
    file.open(folder.file("older").c_str());
    file.write("new");
    file.flush();
  }
  CHECK(content_of(folder.file("older")) == "new");
}

TEST_CASE("output file: two names for one trace are refused, whichever comes first") {
  const temporary_folder folder;
  output_file first, second;
  for (const auto when : {publish::at_once, publish::at_close})
    for (const auto then : {publish::at_once, publish::at_close}) {
      first.open(folder.file("t").c_str(), when);
      CHECK_THROWS_WITH_AS(second.open(folder.file("t").c_str(), then), doctest::Contains("another sink or trace"),
                           cutrace::config_error);
      first.write("kept");
      first.close();
      CHECK(content_of(folder.file("t")) == "kept");
      first.release();
    }
}

TEST_CASE("output file: a forked child that lives on does not hold the file of a writer that is gone") {
  const temporary_folder folder;
  for (const bool killed : {true, false}) {
    CAPTURE(killed);
    const std::string path = folder.file(killed ? "killed" : "closed");
    int said[2];
    int held[2];
    REQUIRE((::pipe(said) == 0 && ::pipe(held) == 0));
    const pid_t writer = ::fork();
    if (writer == 0) {
      ::close(held[1]);
      output_file file;
      file.open(path.c_str());
      file.write("first");
      file.flush();
      if (::fork() == 0) {  // until the test lets it go
        char none = 'x';
        static_cast<void>(!::write(said[1], &none, 1));
        static_cast<void>(!::read(held[0], &none, 1));
        ::_exit(0);
      }
      if (killed) ::raise(SIGKILL);
      file.close();
      ::_exit(0);
    }
    ::waitpid(writer, nullptr, 0);
    char any = 0;
    REQUIRE(::read(said[0], &any, 1) == 1);
    output_file next;
    CHECK_NOTHROW(next.open(path.c_str()));
    for (const int fd : {said[0], said[1], held[0], held[1]}) ::close(fd);
  }
}

TEST_CASE("output file: a writer's lock outlives the children that it forks") {
  const temporary_folder folder;
  output_file file;
  file.open(folder.file("t").c_str());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  output_file second;
  CHECK_THROWS_AS(second.open(folder.file("t").c_str()), cutrace::config_error);
  file.write("kept");
  file.close();
  CHECK(content_of(folder.file("t")) == "kept");
}

TEST_CASE("output file: a program without standard streams does not write into its trace") {
  const temporary_folder folder;
  const pid_t child = fork();
  if (child == 0) {
    for (int fd : {0, 1, 2}) ::close(fd);
    output_file file;
    file.open(folder.file("t").c_str());
    file.write("trace");
    file.flush();
    const bool written = ::write(1, "program", 7) > 0 || ::write(2, "program", 7) > 0;
    ::_exit(written ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(content_of(folder.file("t")) == "trace");
}

TEST_CASE("output file: a rename that fails is reported") {
  const temporary_folder folder;
  output_file file;
  file.open(folder.file("t").c_str(), publish::at_close);
  file.write("x");
  std::filesystem::create_directory(folder.file("t"));
  CHECK_THROWS_WITH_AS(file.close(), doctest::Contains("cannot rename"), cutrace::error);
  CHECK(content_of(folder.file("t.tmp")) == "x");
}

TEST_CASE("output file: a full disk fails once with its reason, and stays failed") {
  output_file file;
  file.open("/dev/full");
  file.write("x");
  CHECK_THROWS_WITH_AS(file.flush(), doctest::Contains("errno 28"), cutrace::error);
  CHECK(!file.is_open());
  file.write("x");
  CHECK_THROWS_AS(file.flush(), cutrace::error);
}

TEST_CASE("output file: pipes and sockets whose reader is gone raise no signal, and leave the program's own") {
  for (const bool socket : {false, true}) {
    int ends[2];
    REQUIRE((socket ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : ::pipe(ends)) == 0);
    ::close(ends[0]);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      // The default action of SIGPIPE would end this process.
      ::signal(SIGPIPE, SIG_DFL);
      output_file file;
      file.adopt(ends[1], "broken");
      file.write("x");
      int code = 3;
      try {
        file.flush();
      } catch (const cutrace::error&) {
        sigset_t pending;
        ::sigpending(&pending);
        sigset_t blocked;
        ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        code = ::sigismember(&pending, SIGPIPE) == 0 && ::sigismember(&blocked, SIGPIPE) == 0 ? 0 : 4;
      }
      ::_exit(code);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    ::close(ends[1]);
  }
}

TEST_CASE("output file: a SIGPIPE that the program holds back stays its own") {
  sigset_t only;
  sigset_t before;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &only, &before);
  ::pthread_kill(::pthread_self(), SIGPIPE);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  output_file file;
  file.adopt(ends[1], "broken");
  file.write("x");
  CHECK_THROWS_AS(file.flush(), cutrace::error);
  sigset_t pending;
  ::sigpending(&pending);
  CHECK(::sigismember(&pending, SIGPIPE) == 1);
  const timespec none{0, 0};
  ::sigtimedwait(&only, nullptr, &none);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(ends[1]);
}

TEST_CASE("output file: short writes, interruptions and a descriptor that does not block") {
  for (const bool non_blocking : {false, true}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    if (non_blocking) ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = count_interruption;  // without SA_RESTART: write returns early
    ::sigaction(SIGUSR1, &action, &before);
    interruptions = 0;
    std::string expected;
    for (int i = 0; i < 100000; ++i) expected += std::to_string(i);
    const pthread_t writer = ::pthread_self();
    std::string got;
    std::thread reader([&] {
      for (int i = 0; i < 5; ++i) ::pthread_kill(writer, SIGUSR1);
      got = read_all(ends[0]);
    });
    output_file file;
    file.adopt(ends[1], "pipe");
    file.write(expected);
    file.flush();
    file.close();
    ::close(ends[1]);
    reader.join();
    ::close(ends[0]);
    ::sigaction(SIGUSR1, &before, nullptr);
    CHECK(got == expected);
    CHECK(interruptions > 0);
  }
}

TEST_CASE("messages: nothing in them steers a terminal, and text of any language stays") {
  const auto masked = [](std::string text) {
    cutrace::detail::mask_controls(&text[0], text.size());
    return text;
  };
  CHECK(masked("a\x1b[31mb\x07\tc\x7f\r") == "a?[31mb??c??");
  CHECK(masked("two\nlines") == "two\nlines");
  CHECK(masked("\xc2\x9b"
               "31m, \x9b"
               "31m, \xc2") == "??31m, ?31m, \xc2");
  CHECK(masked("\xe2\x9b\x9b\x9b") == "\xe2\x9b\x9b?");
  for (const char* text : {"gr\xc3\xb6\xc3\x9f"
                           "e",
                           "\xe6\xbc\xa2\xe5\xad\x97", "\xf0\x9f\x9a\x80", ""})
    CHECK(masked(text) == text);
}

}  // namespace output_file_test
