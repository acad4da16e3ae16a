// SPDX-License-Identifier: Apache-2.0
// The null sink: counts what it gets.
#include <cutrace/sinks/null.hpp>

#include "contract/sink_contract.hpp"

namespace null_sink_test {

TEST_CASE("null sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.has_file = false;
  s.make = [](const std::string&) { return std::unique_ptr<cutrace::sink>(new cutrace::null_sink()); };
  s.check = [](cutrace::sink& sink, const std::string&, const sink_contract::events& all) {
    CHECK(static_cast<cutrace::null_sink&>(sink).written() == all.size());
  };
  sink_contract::check_sink_contract(s);
}

}  // namespace null_sink_test
