// SPDX-License-Identifier: Apache-2.0
// One word of a sink specification, name[:path][?key=value&...], and the messages about what is wrong with it.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/output/trace_file.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CUTRACE_BEGIN_NAMESPACE

/// What a sink factory reads. Each `take` marks its part as understood.
class sink_spec {
 public:
  CUTRACE_NOINLINE sink_spec(std::string_view option, std::string_view word) : option_(option), word_(word) {
    const std::size_t query = word.find('?');
    const std::string_view before = word.substr(0, query);
    const std::size_t colon = before.find(':');
    name_ = before.substr(0, colon);
    if (colon != std::string_view::npos) {
      path_ = before.substr(colon + 1);
      if (path_.empty()) fail("a path must follow the colon");
    }
    if (query != std::string_view::npos) parse_options(word.substr(query + 1));
  }

  const std::string& name() const noexcept { return name_; }

  const std::string& path() const noexcept { return path_; }

  /// The path, empty where none was given.
  CUTRACE_NOINLINE std::string take_path() { return std::exchange(path_, {}); }

  /// As take_path, for a sink that does not compress: a name that ends in .gz is a config_error.
  CUTRACE_NOINLINE std::string take_plain_path() {
    if (detail::ends_in_gz(path_))
      fail("\"" + name_ + "\" compresses nothing; leave .gz out of the name (calls, chrome, jsonl and perfetto can)");
    return take_path();
  }

  /// One of `accepted`; the first of them where the key was not given.
  CUTRACE_NOINLINE std::string take_choice(std::string_view key, std::initializer_list<const char*> accepted) {
    std::string value;
    if (!take(key, value)) return *accepted.begin();
    std::string all;
    for (const char* a : accepted) {
      if (value == a) return value;
      all += (all.empty() ? "" : ", ") + std::string(a);
    }
    fail(std::string(key) + "=" + value + " is not known; accepted: " + all);
  }

  /// The value as it was given; empty where the key was not given.
  CUTRACE_NOINLINE std::string take_text(std::string_view key) {
    std::string value;
    if (take(key, value) && value.empty()) fail(std::string(key) + "= says nothing");
    return value;
  }

  /// A whole number from `least` to `most`; `otherwise` where the key was not given.
  CUTRACE_NOINLINE std::size_t take_number(std::string_view key, std::size_t otherwise, std::size_t most,
                                           std::size_t least = 0) {
    std::string value;
    if (!take(key, value)) return otherwise;
    std::size_t n = 0;
    const std::from_chars_result r = std::from_chars(value.data(), value.data() + value.size(), n);
    if (r.ec == std::errc() && r.ptr == value.data() + value.size() && n >= least && n <= most) return n;
    fail(std::string(key) + "=" + value + " is not a whole number from " + std::to_string(least) + " to " +
         std::to_string(most));
  }

  /// Throws if a path or an option was given that the factory did not take.
  CUTRACE_NOINLINE void expect_all_taken() const {
    if (!path_.empty()) fail("\"" + name_ + "\" takes no path");
    if (options_.empty()) return;
    std::string known;
    for (const std::string& k : asked_) known += (known.empty() ? "" : ", ") + k;
    fail("unknown option \"" + options_.front().first + "\" of \"" + name_ +
         "\"; accepted: " + (known.empty() ? "none" : known));
  }

  [[noreturn]] CUTRACE_NOINLINE void fail(const std::string& what) const {
    throw config_error((option_ + ": \"" + word_ + "\": " + what).c_str());
  }

 private:
  CUTRACE_NOINLINE void parse_options(std::string_view text) {
    while (true) {
      const std::size_t end = text.find('&');
      const std::string_view part = text.substr(0, end);
      const std::size_t equals = part.find('=');
      if (equals == 0 || equals == std::string_view::npos) fail("options are written key=value&key=value");
      options_.emplace_back(part.substr(0, equals), part.substr(equals + 1));
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + 1);
    }
  }

  /// Where a key stands twice, the last one counts.
  CUTRACE_NOINLINE bool take(std::string_view key, std::string& value) {
    asked_.emplace_back(key);
    bool found = false;
    for (std::size_t i = 0; i < options_.size();) {
      if (options_[i].first != key) {
        ++i;
        continue;
      }
      value = options_[i].second;
      found = true;
      options_.erase(options_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return found;
  }

  std::string option_;
  std::string word_;
  std::string name_;
  std::string path_;
  std::vector<std::pair<std::string, std::string>> options_;
  std::vector<std::string> asked_;
};

namespace detail {

/// Words between commas, white space around them dropped; an empty one where a name is missing.
CUTRACE_NOINLINE inline std::vector<std::string_view> sink_words(std::string_view specification) {
  std::vector<std::string_view> words;
  constexpr const char* blanks = " \t\n";
  if (specification.find_first_not_of(blanks) == std::string_view::npos) return words;
  for (std::string_view rest = specification;;) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    const std::size_t first = std::min(word.find_first_not_of(blanks), word.size());
    word.remove_prefix(first);
    words.push_back(word.substr(0, word.find_last_not_of(blanks) + 1));
    if (comma == std::string_view::npos) return words;
    rest.remove_prefix(comma + 1);
  }
}

/// @throws config_error for an empty word
CUTRACE_NOINLINE inline std::vector<sink_spec> parse_sink_specs(const char* specification, const char* option) {
  std::vector<sink_spec> specs;
  const std::string_view whole = specification != nullptr ? specification : "";
  for (const std::string_view word : sink_words(whole)) {
    if (word.empty())
      throw config_error((std::string(option) + ": \"" + specification + "\": a sink's name is missing").c_str());
    specs.emplace_back(option, word);
  }
  return specs;
}

}  // namespace detail

// Limits of a sink's file as its specification says them: "rotate=64M", "rotate=10m", "rotate=64M/10m", "keep=5",
// "max=1G".

namespace detail CUTRACE_LOCAL {

/// A letter that stands for a unit, and its factor.
struct unit {
  char letter;
  std::uint64_t factor;
};
/// A whole number and the letter of one of `units`. @returns 0 for another text, and for a number that is too large
template <std::size_t N>
inline std::uint64_t number_with_unit(std::string_view text, const unit (&units)[N]) noexcept {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result r = std::from_chars(text.data(), end, n);
  if (r.ec != std::errc() || end - r.ptr != 1) return 0;
  for (const unit& u : units) {
    if (u.letter == *r.ptr) return n > (std::uint64_t{1} << 62) / u.factor ? 0 : n * u.factor;
  }
  return 0;
}
inline std::uint64_t size_with_unit(std::string_view text) noexcept {
  constexpr unit sizes[] = {{'K', 1u << 10}, {'M', 1u << 20}, {'G', 1u << 30}};
  return number_with_unit(text, sizes);
}
inline std::uint64_t time_with_unit(std::string_view text) noexcept {
  constexpr unit times[] = {{'s', 1000000000u}, {'m', 60000000000u}, {'h', 3600000000000u}};
  return number_with_unit(text, times);
}

/// Takes "rotate", "keep" and "max". @throws config_error
CUTRACE_NOINLINE inline file_limits take_file_limits(sink_spec& spec) {
  file_limits limits;
  const std::string rotate = spec.take_text("rotate");
  std::string_view rest = rotate;
  for (bool more = !rest.empty(); more;) {
    const std::string_view one = rest.substr(0, rest.find('/'));
    const std::uint64_t bytes = size_with_unit(one), ns = time_with_unit(one);
    if (bytes != 0) limits.rotate_bytes = bytes;
    if (ns != 0) limits.rotate_ns = ns;
    if (bytes == 0 && ns == 0)
      spec.fail("rotate=" + rotate +
                " is neither a size (64M; K, M or G) nor a time (10m; s, m or h), nor both (64M/10m)");
    more = one.size() < rest.size();
    if (more) rest.remove_prefix(one.size() + 1);
  }
  limits.keep = static_cast<std::uint32_t>(spec.take_number("keep", 0, 1000000, 1));
  if (limits.keep != 0 && !limits.parts()) spec.fail("keep= needs rotate=, whose newest parts it keeps");
  const std::string most = spec.take_text("max");
  limits.max_bytes = size_with_unit(most);
  if (!most.empty() && limits.max_bytes == 0) spec.fail("max=" + most + " is not a size (1G; K, M or G)");
  return limits;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
