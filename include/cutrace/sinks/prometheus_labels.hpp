// SPDX-License-Identifier: Apache-2.0
// Names as labels, a bounded number of them: each series costs a scraper memory for ever, so names beyond the limit
// share one series, and how often that happened is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <cutrace/event.hpp>
#include <cutrace/sinks/prometheus_text.hpp>
#include <string>
#include <unordered_map>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

class label_table {
 public:
  static constexpr std::uint32_t other = 0;  ///< "other": every name beyond the limit
  static constexpr std::uint32_t none = 1;   ///< "none": no name

  explicit label_table(std::size_t limit) : names_(limit, limit * analysis::name_table::longest) {
    label("other");
    label("none");
    label_of_name_.push_back(other);
  }

  /// Number of the label; different names may have one label, since it has valid UTF-8 and no more than 128 bytes.
  std::uint32_t number(text name) {
    if (name.size == 0) return none;
    const std::uint32_t n = names_.number(name);
    if (CUTRACE_UNLIKELY(n == label_of_name_.size()))
      label_of_name_.push_back(label(label_value({name.data, name.size})));
    return label_of_name_[n];
  }

  std::size_t size() const noexcept { return labels_.size(); }
  const std::string& operator[](std::size_t number) const { return labels_[number]; }
  /// Events whose name found no room.
  std::uint64_t folded() const noexcept { return names_.refused(); }

 private:
  CUTRACE_NOINLINE std::uint32_t label(const std::string& value) {
    const auto added = numbers_.emplace(value, static_cast<std::uint32_t>(labels_.size()));
    if (added.second) labels_.push_back(value);
    return added.first->second;
  }

  analysis::name_table names_;
  std::vector<std::uint32_t> label_of_name_;  ///< by number of the name
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// Devices by index, as labels: the first 16 that are seen, "other" for the rest.
class device_table {
 public:
  static constexpr std::size_t most = 16;
  static constexpr std::uint32_t other = most;

  std::uint32_t number(std::uint32_t device) {
    for (std::uint32_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] == device) return i;
    }
    if (devices_.size() == most) return other;
    devices_.push_back(device);
    return static_cast<std::uint32_t>(devices_.size() - 1);
  }
  std::string label(std::size_t number) const {
    return number == other ? std::string("other") : std::to_string(devices_[number]);
  }

 private:
  std::vector<std::uint32_t> devices_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
