// SPDX-License-Identifier: Apache-2.0
// Which format a file has, by its first bytes.
#pragma once

#include <string_view>

#include "trace/trace_reader.hpp"

namespace cutrace_reading {

/// `beginning`: the first MiB, or all of a smaller file.
format detect(std::string_view beginning) noexcept;

}  // namespace cutrace_reading
