// SPDX-License-Identifier: Apache-2.0
// A strict reader of Prometheus's text format 0.0.4, written from its specification and not from the sink: what it does
// not understand is an error.
#pragma once

#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace prometheus_text {

using labels = std::map<std::string, std::string>;

struct family {
  std::string type;
  std::map<std::string, std::map<labels, double>> samples;  ///< by name of the sample: with _bucket, _sum, _count
};

class document {
 public:
  explicit document(const std::string& text) {
    if (text.empty() || text.back() != '\n') fail("the last line does not end");
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      line_ = text.substr(at, end - at);
      at = end + 1;
      if (line_[0] == '#')
        comment();
      else
        sample();
    }
    for (const auto& f : families_) {
      if (f.second.type == "histogram") check_histogram(f.first, f.second);
    }
  }

  const std::map<std::string, family>& families() const { return families_; }

  bool has(const std::string& name, const labels& of = {}) const {
    const auto f = families_.find(family_of(name));
    if (f == families_.end()) return false;
    const auto s = f->second.samples.find(name);
    return s != f->second.samples.end() && s->second.count(of) == 1;
  }
  double value(const std::string& name, const labels& of = {}) const {
    if (!has(name, of)) throw std::runtime_error("no sample " + name);
    return families_.at(family_of(name)).samples.at(name).at(of);
  }
  /// Of all samples of that name.
  double sum(const std::string& name) const {
    double total = 0;
    const auto f = families_.find(family_of(name));
    if (f == families_.end()) return 0;
    const auto samples = f->second.samples.find(name);
    if (samples == f->second.samples.end()) return 0;
    for (const auto& s : samples->second) total += s.second;
    return total;
  }

 private:
  [[noreturn]] void fail(const char* why) const { throw std::runtime_error(std::string(why) + ": " + line_); }

  static bool is_name(const std::string& s) {
    if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
    for (const char c : s) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
    }
    return true;
  }

  std::string family_of(const std::string& name) const {
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      const std::string_view end(suffix);
      if (name.size() <= end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) continue;
      const std::string base = name.substr(0, name.size() - end.size());
      const auto f = families_.find(base);
      if (f != families_.end() && f->second.type == "histogram") return base;
    }
    return name;
  }

  void comment() {
    const bool help = line_.compare(0, 7, "# HELP ") == 0;
    if (!help && line_.compare(0, 7, "# TYPE ") != 0) fail("neither HELP nor TYPE");
    const std::size_t end = line_.find(' ', 7);
    if (end == std::string::npos || end + 1 == line_.size()) fail("nothing is said");
    const std::string name = line_.substr(7, end - 7);
    if (!is_name(name)) fail("no name of a metric");
    if (help) {
      if (!families_.emplace(name, family()).second) fail("a family stands twice");
      current_ = name;
      return;
    }
    if (name != current_) fail("TYPE without HELP before it");
    const std::string type = line_.substr(end + 1);
    if (type != "counter" && type != "gauge" && type != "histogram") fail("unknown type");
    if (type == "counter" && (name.size() < 6 || name.compare(name.size() - 6, 6, "_total") != 0))
      fail("a counter without _total");
    families_[name].type = type;
  }

  void sample() {
    std::size_t at = line_.find_first_of("{ ");
    if (at == std::string::npos) fail("no value");
    const std::string name = line_.substr(0, at);
    if (!is_name(name)) fail("no name of a metric");
    labels of;
    if (line_[at] == '{') at = read_labels(at + 1, of);
    if (at >= line_.size() || line_[at] != ' ') fail("no blank before the value");
    const char* begin = line_.c_str() + at + 1;
    char* end = nullptr;
    const double value = std::strtod(begin, &end);
    if (end == begin || *end != '\0' || std::isspace(static_cast<unsigned char>(*begin))) fail("no number");
    const std::string of_family = family_of(name);
    if (of_family != current_ || families_[current_].type.empty()) fail("a sample outside of its family");
    if (families_[current_].type == "histogram" && name == of_family) fail("a histogram's sample without a suffix");
    if (!families_[current_].samples[name].emplace(of, value).second) fail("a series stands twice");
  }

  std::size_t read_labels(std::size_t at, labels& of) const {
    for (;;) {
      const std::size_t equals = line_.find("=\"", at);
      if (equals == std::string::npos) fail("no label");
      const std::string name = line_.substr(at, equals - at);
      if (!is_name(name)) fail("no name of a label");
      std::string value;
      for (at = equals + 2;; ++at) {
        if (at >= line_.size()) fail("a label does not end");
        if (line_[at] == '"') break;
        if (line_[at] == '\\') {
          ++at;
          if (at >= line_.size() || (line_[at] != '\\' && line_[at] != '"' && line_[at] != 'n')) fail("unknown escape");
          value += line_[at] == 'n' ? '\n' : line_[at];
        } else {
          value += line_[at];
        }
      }
      if (!of.emplace(name, value).second) fail("a label stands twice");
      ++at;
      if (at < line_.size() && line_[at] == ',') {
        ++at;
        continue;
      }
      if (at < line_.size() && line_[at] == '}') return at + 1;
      fail("labels do not end");
    }
  }

  /// Buckets rise with their bounds, the last one is +Inf and equals the count, there is a sum; for each set of labels.
  void check_histogram(const std::string& name, const family& f) {
    line_ = name;
    std::map<labels, std::map<double, double>> buckets;
    const auto all = f.samples.find(name + "_bucket");
    if (all == f.samples.end()) return;
    for (const auto& s : all->second) {
      labels of = s.first;
      const auto le = of.find("le");
      if (le == of.end()) fail("a bucket without le");
      const double bound = std::strtod(le->second.c_str(), nullptr);
      of.erase(le);
      if (!buckets[of].emplace(bound, s.second).second) fail("two buckets of one bound");
    }
    for (const auto& b : buckets) {
      double before = 0;
      for (const auto& one : b.second) {
        if (one.second < before) fail("buckets fall");
        before = one.second;
      }
      if (b.second.rbegin()->first < 1e300) fail("no bucket +Inf");
      if (before != value(name + "_count", b.first)) fail("the last bucket is not the count");
      if (value(name + "_sum", b.first) < 0) fail("a negative sum of durations");
    }
  }

  std::map<std::string, family> families_;
  std::string current_, line_;
};

}  // namespace prometheus_text
