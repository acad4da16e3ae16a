// SPDX-License-Identifier: Apache-2.0
// Stands in for the readers where simdjson or zlib was missing when cutrace was built.
#include "trace/trace_reader.hpp"

namespace cutrace_reading {

const char* to_string(format) noexcept { return "unknown"; }

outcome read(const std::vector<std::string>&, cutrace::sink&, const options&) {
  throw reading_error(
      "this cutrace was built without the readers of trace files: simdjson or zlib was missing (Debian: "
      "libsimdjson-dev, zlib1g-dev; scripts/setup installs them). Install them and build again");
}

}  // namespace cutrace_reading
