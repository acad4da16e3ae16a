// SPDX-License-Identifier: Apache-2.0
// One word of a sink specification, name[:path][?key=value&...], and the messages about what is wrong with it.
#pragma once

#include <charconv>
#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
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

  /// Empty where none was given.
  CUTRACE_NOINLINE std::string take_path() { return std::exchange(path_, {}); }

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

  /// As it was given; empty where it was not.
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

/// Words between commas, white space around them dropped. @throws config_error for an empty word
CUTRACE_NOINLINE inline std::vector<sink_spec> parse_sink_specs(const char* specification, const char* option) {
  std::vector<sink_spec> specs;
  std::string_view rest = specification != nullptr ? specification : "";
  constexpr const char* blanks = " \t\n";
  if (rest.find_first_not_of(blanks) == std::string_view::npos) return specs;
  while (true) {
    const std::size_t comma = rest.find(',');
    std::string_view word = rest.substr(0, comma);
    const std::size_t first = word.find_first_not_of(blanks);
    if (first == std::string_view::npos) {
      throw config_error((std::string(option) + ": \"" + specification + "\": a sink's name is missing").c_str());
    }
    word = word.substr(first, word.find_last_not_of(blanks) - first + 1);
    specs.emplace_back(option, word);
    if (comma == std::string_view::npos) return specs;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace detail
CUTRACE_END_NAMESPACE
