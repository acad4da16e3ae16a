// SPDX-License-Identifier: Apache-2.0
// What a user calls a probe: "uprobe:[LIBRARY:]NAME", "tracepoint:[MODULE:]NAME", "fentry:[MODULE:]NAME",
// "kprobe:[MODULE:]NAME"; and which names are near one that does not exist.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace cutrace_ebpf {

enum class probe_kind { uprobe, tracepoint, fentry, kprobe };
constexpr probe_kind probe_kinds[] = {probe_kind::uprobe, probe_kind::tracepoint, probe_kind::fentry,
                                      probe_kind::kprobe};

constexpr const char* to_string(probe_kind k) {
  return k == probe_kind::uprobe       ? "uprobe"
         : k == probe_kind::tracepoint ? "tracepoint"
         : k == probe_kind::fentry     ? "fentry"
                                       : "kprobe";
}

inline bool read_kind(const std::string& word, probe_kind& to) {
  for (const probe_kind k : probe_kinds) {
    if (word != to_string(k)) continue;
    to = k;
    return true;
  }
  return false;
}

struct probe_spec {
  probe_kind kind = probe_kind::uprobe;
  std::string where;  ///< a library or a module; empty: not said
  std::string name;

  std::string text() const { return std::string(to_string(kind)) + ":" + (where.empty() ? "" : where + ":") + name; }
};

/// @throws std::runtime_error
inline probe_spec read_probe(const std::string& text) {
  probe_spec p;
  const std::size_t first = text.find(':'), last = text.rfind(':');
  if (first == std::string::npos || !read_kind(text.substr(0, first), p.kind) || last + 1 == text.size())
    throw std::runtime_error("\"" + text +
                             "\" is no probe; accepted: uprobe:[LIBRARY:]NAME, tracepoint:[MODULE:]NAME, "
                             "fentry:[MODULE:]NAME, kprobe:[MODULE:]NAME");
  if (last != first) p.where = text.substr(first + 1, last - first - 1);
  p.name = text.substr(last + 1);
  return p;
}

/// How many characters must be put in, taken out or replaced (Levenshtein's distance). Beyond `limit`: limit + 1.
inline std::size_t edits_between(const std::string& a, const std::string& b, std::size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t before = row[0], least = row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = before + (a[i - 1] == b[j - 1] ? 0 : 1);
      before = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
      least = std::min(least, row[j]);
    }
    if (least > limit) return limit + 1;
  }
  return std::min(row[b.size()], limit + 1);
}

/// "; nearest: a, b, c", of known names that differ little from `wanted` or contain it; empty where none does.
inline std::string nearest_names(const std::string& wanted, const std::vector<std::string>& known) {
  constexpr std::size_t shown = 3;
  const std::size_t limit = std::max<std::size_t>(2, wanted.size() / 4);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& name : known) {
    std::size_t away = edits_between(wanted, name, limit);
    if (away > limit && wanted.size() > 3 && name.find(wanted) != std::string::npos)
      away = limit + name.size() - wanted.size();
    else if (away > limit)
      continue;
    near.emplace_back(away, name);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  std::string text;
  for (std::size_t i = 0; i < near.size() && i < shown; ++i) text += (i == 0 ? "; nearest: " : ", ") + near[i].second;
  return text;
}

}  // namespace cutrace_ebpf
