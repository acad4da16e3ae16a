// SPDX-License-Identifier: Apache-2.0
// The fault language (CUTRACE_SIM_FAULTS) of the stand-in libraries for libcuda and CUPTI.
#include <doctest/doctest.h>

#include "../../backends/sim/cuda/faults.hpp"

namespace sim_faults_test {

TEST_CASE("sim faults: every word is understood") {
  standin::fault_set f;
  CHECK(
      standin::parse_faults("cuptiSubscribe=39,cuMemAlloc_v2=2@5,drop=100,late=50ms,shuffle,incomplete=3,unknown=2,"
                            "zero_time=4,no_such_symbol=cuptiSubscribe_v2,version=18,no_device,graph_trace_crash,"
                            "cuptiActivityFlushAll=hang@3,early=3us,unified=6,correlation=4294967295,cupti_fatal=9,"
                            "fault:_Z4gemmPfi=700,fault:gather=716@10001,hang:spin,hang:spin@3,fault_report=45ms",
                            f));
  REQUIRE(f.functions.size() == 3);
  CHECK(f.functions[2].code == standin::fault_hangs);
  CHECK(f.functions[2].at == 3);
  CHECK(f.functions[0].name == "cuptiSubscribe");
  CHECK(f.functions[0].code == 39);
  CHECK(f.functions[0].at == 0);
  CHECK(f.functions[1].at == 5);
  CHECK(f.drop == 100);
  CHECK(f.late_ns == 50000000);
  CHECK(f.shuffle);
  CHECK(f.incomplete == 3);
  CHECK(f.unknown == 2);
  CHECK(f.zero_time == 4);
  CHECK(f.missing_symbols == std::vector<std::string>{"cuptiSubscribe_v2"});
  CHECK(f.version == 18);
  CHECK(f.no_device);
  CHECK(f.unified == 6);
  CHECK(f.early_ns == 3000);
  CHECK(f.sets_correlation);
  CHECK(f.correlation == 4294967295u);
  CHECK(f.cupti_fatal == 9);
  CHECK(f.graph_trace_crash);
  REQUIRE(f.kernels.size() == 4);
  CHECK(f.kernels[0].name == "_Z4gemmPfi");
  CHECK(f.kernels[0].code == 700);
  CHECK(f.kernels[0].at == 0);
  CHECK(f.kernels[1].code == 716);
  CHECK(f.kernels[1].at == 10001);
  CHECK(f.kernels[2].code == standin::fault_hangs);
  CHECK(f.kernels[2].name == "spin");
  CHECK(f.kernels[3].name == "spin");
  CHECK(f.kernels[3].at == 3);
  CHECK(f.fault_report_ns == 45000000);
  CHECK(standin::fault_set{}.fault_report_ns == 60000000);
}

TEST_CASE("sim faults: nothing else is") {
  for (const char* bad : {"dorp=3",        "drop",
                          "drop=x",        "drop=-1",
                          "late=5",        "late=5min",
                          "version=0",     "shuffle=1",
                          "cuInit=",       "cuInit=x",
                          "cuInit=3@0",    "cuInit=3@x",
                          "cuInit=hangs",  "correlation=4294967296",
                          "cupti_fatal=0", "no_such_symbol=",
                          "hello",         "fault:k",
                          "fault:=700",    "fault:k=0",
                          "fault:k=700@0", "fault:k=x",
                          "hang:",         "hang:k=1",
                          "hang:k@0",      "fault_report=60",
                          "fault_report"}) {
    standin::fault_set f;
    CAPTURE(bad);
    CHECK_FALSE(standin::parse_faults(bad, f, false));
  }
  standin::fault_set none;
  CHECK(standin::parse_faults("", none));
  CHECK(standin::parse_faults(nullptr, none));
}

}  // namespace sim_faults_test
