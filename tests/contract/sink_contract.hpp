// SPDX-License-Identifier: Apache-2.0
// What holds for each sink, as one suite: call `check_sink_contract` in a TEST_CASE of its own for each sink.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cutrace/error.hpp>
#include <cutrace/sink.hpp>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace sink_contract {

using events = std::vector<cutrace::event>;

struct subject {
  /// A sink that writes to `path`; sinks without files ignore it.
  std::function<std::unique_ptr<cutrace::sink>(const std::string& path)> make;
  /// Checks what the sink made of the events, with a reader that is not the sink's own.
  std::function<void(cutrace::sink&, const std::string& path, const events&)> check;
  bool has_file = true;
  std::string extension = {};  ///< of its file's name
};

/// Hands events over as the collector does: requests and arguments are gone as soon as write has returned.
inline void write_shortlived(cutrace::sink& to, events batch) {
  std::vector<std::unique_ptr<cutrace::request_ref[]>> requests;
  std::vector<std::unique_ptr<cutrace::argument[]>> arguments;
  for (cutrace::event& e : batch) {
    if (e.request_count != 0) {
      requests.emplace_back(new cutrace::request_ref[e.request_count]);
      std::copy(e.requests, e.requests + e.request_count, requests.back().get());
      e.requests = requests.back().get();
    }
    const auto move_arguments = [&](const cutrace::argument*& from, std::uint32_t count) {
      if (count == 0) return;
      arguments.emplace_back(new cutrace::argument[count]);
      std::copy(from, from + count, arguments.back().get());
      from = arguments.back().get();
    };
    if (e.kind == cutrace::event_kind::api) move_arguments(e.api.arguments, e.api.argument_count);
    if (e.kind == cutrace::event_kind::system) move_arguments(e.system.arguments, e.system.argument_count);
  }
  to.write(sample::view(batch));
  for (auto& r : requests) r[0] = sample::request_id(666);
  for (auto& a : arguments) a[0] = sample::argument_of("gone", cutrace::argument_kind::word, 666);
}

/// A whole life of a sink, `batch` events at a time with a flush after each.
inline void run(const subject& s, const events& all, std::size_t batch) {
  const temporary_folder folder;
  const std::string path = folder.file("out" + s.extension);
  const std::unique_ptr<cutrace::sink> sink = s.make(path);
  sink->open(sample::info());
  for (std::size_t at = 0; at < all.size(); at += batch) {
    const std::size_t end = std::min(all.size(), at + batch);
    write_shortlived(
        *sink, events(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(end)));
    sink->flush();
  }
  sink->close(sample::summary(all.size()));
  s.check(*sink, path, all);
}

/// Opens and uses a sink on a path where that must fail; @returns the message of the cutrace::error, which must come.
inline std::string failure_of(const subject& s, const std::string& path, bool write_much) {
  const std::unique_ptr<cutrace::sink> sink = s.make(path);
  std::string message;
  try {
    sink->open(sample::info());
    const events all = sample::server_run();
    for (int i = 0; i < (write_much ? 200 : 1); ++i) sink->write(sample::view(all));
    sink->flush();
    sink->close(sample::summary(all.size()));
  } catch (const cutrace::error& e) {
    message = e.what();
  }
  // A collector may still close a sink that has failed; that must do no harm.
  try {
    sink->close(sample::summary(0));
  } catch (const cutrace::error&) {
  }
  return message;
}

inline void check_failures(const subject& s) {
  const temporary_folder folder;
  SUBCASE("full disk, small and large traces") {
    // The extension asks for compression, and /dev/full has none: a link that has the extension points to it.
    const std::string path = s.extension.empty() ? "/dev/full" : folder.file("dev-full" + s.extension);
    if (!s.extension.empty()) REQUIRE(::symlink("/dev/full", path.c_str()) == 0);
    for (const bool much : {false, true}) {
      const std::string message = failure_of(s, path, much);
      CHECK(message.find(path) != std::string::npos);
      CHECK(message.find("No space left on device") != std::string::npos);
    }
  }
  SUBCASE("pipe whose reader has gone") {
    const std::string path = folder.file("pipe" + s.extension);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(reader >= 0);
    const std::unique_ptr<cutrace::sink> sink = s.make(path);
    sink->open(sample::info());
    ::close(reader);
    const events all = sample::server_run();
    bool failed = false;
    try {
      sink->write(sample::view(all));
      sink->flush();
      sink->close(sample::summary(all.size()));
    } catch (const cutrace::error& e) {
      failed = std::string(e.what()).find("Broken pipe") != std::string::npos;
    }
    CHECK(failed);
  }
  SUBCASE("pipe that nobody reads") {
    const std::string path = folder.file("pipe" + s.extension);
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    CHECK(failure_of(s, path, false).find(path) != std::string::npos);
  }
  SUBCASE("directory instead of a file") {
    const std::string path = folder.file("folder" + s.extension);
    REQUIRE(::mkdir(path.c_str(), 0700) == 0);
    const std::string message = failure_of(s, path, false);
    CHECK(message.find(path) != std::string::npos);
    CHECK(message.find("directory") != std::string::npos);
  }
  SUBCASE("directory that does not exist") {
    const std::string path = folder.file("missing/file" + s.extension);
    const std::string message = failure_of(s, path, false);
    CHECK(message.find(path) != std::string::npos);
    CHECK(message.find("No such file or directory") != std::string::npos);
  }
}

inline void check_file(const subject& s) {
  SUBCASE("the file is for its owner only, and its name may be a pattern") {
    const temporary_folder folder;
    const mode_t before = ::umask(0);
    const std::unique_ptr<cutrace::sink> sink = s.make(folder.file("t-%p-%%" + s.extension));
    sink->open(sample::info());
    sink->close(sample::summary(0));
    ::umask(before);
    struct stat status {};
    REQUIRE(::stat(folder.file("t-" + std::to_string(::getpid()) + "-%" + s.extension).c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
  }
  SUBCASE("an older and longer file is replaced") {
    const temporary_folder folder;
    const std::string path = folder.file("out" + s.extension);
    std::ofstream(path) << std::string(1000000, '}');
    const events all = sample::server_run();
    const std::unique_ptr<cutrace::sink> sink = s.make(path);
    sink->open(sample::info());
    sink->write(sample::view(all));
    sink->close(sample::summary(all.size()));
    s.check(*sink, path, all);
  }
  check_failures(s);
}

/// The suite. Each part is a SUBCASE.
inline void check_sink_contract(const subject& s) {
  SUBCASE("has a name") { CHECK(std::string(s.make("unused")->name()).size() > 0); }
  SUBCASE("created and never opened") { s.make("unused"); }
  SUBCASE("a server's run, in one batch and one by one") {
    run(s, sample::server_run(), 1000);
    run(s, sample::server_run(), 1);
  }
  SUBCASE("no event at all") { run(s, {}, 1); }
  SUBCASE("a clock that goes backwards") {
    events all = sample::server_run();
    std::reverse(all.begin(), all.end());
    run(s, all, 3);
  }
  SUBCASE("nothing but losses") {
    run(s,
        {sample::loss(cutrace::loss_cause::cupti_dropped, 3, 10), sample::loss(cutrace::loss_cause::unpaired, 1, 20)},
        1);
  }
  SUBCASE("names that break formats") { run(s, hostile::named_events(), 7); }
  SUBCASE("times and numbers at their limits") { run(s, hostile::extreme_events(), 5); }
  if (s.has_file) check_file(s);
}

}  // namespace sink_contract
