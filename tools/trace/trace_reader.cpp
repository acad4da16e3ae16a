// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "trace/byte_window.hpp"
#include "trace/chrome_reader.hpp"
#include "trace/detect.hpp"
#include "trace/feed.hpp"
#include "trace/given_files.hpp"
#include "trace/input.hpp"
#include "trace/jsonl_reader.hpp"

#if CUTRACE_WITH_PERFETTO
#include "trace/perfetto_reader.hpp"
#endif

namespace cutrace_reading {

const char* to_string(format f) noexcept {
  switch (f) {
    case format::jsonl:
      return "JSONL";
    case format::chrome:
      return "Chrome JSON";
    case format::perfetto:
      return "Perfetto";
    case format::unknown:
      break;
  }
  return "unknown";
}

namespace {

constexpr const char* known_formats =
    "cutrace reads its JSONL, Chrome JSON (of cutrace and of PyTorch) and Perfetto files, plain or .gz";

/// All files of one trace.
class reading {
 public:
  reading(const std::vector<std::string>& files, cutrace::sink& to, const options& o)
      : files_(files), options_(o), feed_(to, result_.problems) {}

  outcome run() {
    std::uint64_t all = 0;
    bool sized = true;
    given_files given;
    for (const std::string& file : files_) {
      struct stat known {};
      if (!given.add(file, known))
        throw reading_error("\"" + file + "\" is given twice; each of its events would count twice");
      const std::uint64_t size = S_ISREG(known.st_mode) ? static_cast<std::uint64_t>(known.st_size) : 0;
      sized = sized && size != 0;
      all += size;
    }
    progress_.all_bytes = sized ? all : 0;
    for (const std::string& file : files_) {
      read_file(file);
      feed_.next_file();
    }
    if (jsonl_ != nullptr) jsonl_->finish();
    if (chrome_ != nullptr) chrome_->finish();
#if CUTRACE_WITH_PERFETTO
    if (perfetto_ != nullptr) perfetto_->finish();
#endif
    feed_.finish();
    result_.events = feed_.events();
    std::copy(std::begin(feed_.kinds()), std::end(feed_.kinds()), std::begin(result_.by_kind));
    result_.out_of_order = feed_.out_of_order();
    result_.whole = feed_.whole();
    return std::move(result_);
  }

 private:
  void read_file(const std::string& file) {
    input in(file);
    result_.problems.in_file(in.path());
    byte_window window(in, [&] { report_progress(in); });
    while (window.size() < byte_window::block && window.more()) {
    }
    const std::string_view beginning(window.data(), window.size());
    const format found = detect(beginning);
    if (found == format::unknown) refuse(in, beginning);
    if (result_.what != format::unknown && result_.what != found)
      throw reading_error("the files are of different formats; only the parts of one trace can be given together");
    result_.what = found;
    read_format(window, file);
    before_ += in.taken();
  }

  void read_format(byte_window& window, const std::string& path) {
    switch (result_.what) {
      case format::jsonl:
        if (jsonl_ == nullptr) jsonl_.reset(new jsonl_reader(feed_));
        return jsonl_->read(window);
      case format::perfetto:
#if CUTRACE_WITH_PERFETTO
        if (perfetto_ == nullptr) perfetto_.reset(new perfetto_reader(feed_));
        return perfetto_->read(window);
#else
        throw reading_error(
            "this cutrace was built without the reader of Perfetto files: the headers of protozero were missing "
            "(Debian: libprotozero-dev); install them and build again");
#endif
      case format::chrome:
        if (chrome_ == nullptr) chrome_.reset(new chrome_reader(feed_));
        return chrome_->read(window, window.source().size() != 0 ? path : std::string());
      case format::unknown:
        break;
    }
  }

  [[noreturn]] static void refuse(const input& in, std::string_view beginning) {
    const std::string name = "\"" + in.path() + "\"";
    if (in.broken() != nullptr && beginning.empty()) throw reading_error(name + ": " + in.broken());
    if (beginning.find_first_not_of(" \t\r\n") == std::string_view::npos)
      throw reading_error(name + " is empty: the program may have ended before its trace began");
    throw reading_error(name + " is no trace that can be read: " + known_formats);
  }

  void report_progress(const input& in) {
    if (!options_.on_progress) return;
    progress_.bytes = before_ + in.taken();
    progress_.events = feed_.events();
    options_.on_progress(progress_);
  }

  const std::vector<std::string>& files_;
  const options& options_;
  outcome result_;
  feed feed_;
  progress progress_{};
  std::uint64_t before_ = 0;  ///< bytes of the files before this one
  std::unique_ptr<jsonl_reader> jsonl_;
  std::unique_ptr<chrome_reader> chrome_;
#if CUTRACE_WITH_PERFETTO
  std::unique_ptr<perfetto_reader> perfetto_;
#endif
};

}  // namespace

outcome read(const std::vector<std::string>& files, cutrace::sink& to, const options& o) {
  if (files.empty()) throw reading_error("no file is named");
  reading all(files, to, o);
  return all.run();
}

}  // namespace cutrace_reading
