// SPDX-License-Identifier: Apache-2.0
// What NVTX says of a range or mark beside name and time. Collector's thread only.
#pragma once

#include <cstdint>
#include <cutrace/detail/site_table.hpp>
#include <cutrace/event.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

inline bool is_nvtx(const site_table::entry& site) noexcept {
  return site.kind == static_cast<std::uint8_t>(site_kind::nvtx);
}

/// `words`: of its record. Nothing where the site is a marker's.
inline void keep_origin(stage_data& s, const site_table::entry& site, const std::vector<std::uint64_t>& words,
                        const site_table& sites) {
  if (!is_nvtx(site)) return;
  s.origin = stage_origin::nvtx;
  s.domain = site.file;
  if (words.size() < 3) return;
  s.payload = words[0];
  s.payload_kind = static_cast<argument_kind>(words[1] & 0xff);
  s.color = static_cast<std::uint32_t>(words[1] >> 32);
  s.category = static_cast<std::uint32_t>(words[2]);
  if (const std::uint32_t named = static_cast<std::uint32_t>(words[2] >> 32)) s.category_name = sites.at(named).name;
}

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
