// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cutrace/base/process_info.hpp>

#include "cutrace/file_content.hpp"

namespace process_info_test {

using cutrace::detail::process_info;

TEST_CASE("a name that the kernel has cut is taken whole from the program's path") {
  CHECK(process_info::whole_name("inference_serve", "./build/inference_server") == "inference_server");
  CHECK(process_info::whole_name("inference_serve", "inference_server") == "inference_server");
  CHECK(process_info::whole_name("renamed_thread_", "./inference_server") == "renamed_thread_");
  CHECK(process_info::whole_name("server", "./server_of_mine") == "server");
  CHECK(process_info::whole_name("inference_serve", "") == "inference_serve");
  CHECK(process_info::whole_name("", "").empty());
}

TEST_CASE("this process is named by its program") {
  const process_info p = process_info::read();
  CHECK(p.name == "cutrace_unit_tests");
  CHECK(p.command_line.find("cutrace_unit_tests") != std::string::npos);
}

TEST_CASE("a file of /proc that cannot be read to its end throws nothing") {
  CHECK(cutrace_tool::content_of("/proc/self/mem").empty());  // fails with EIO; after the process's end: ESRCH
  CHECK(cutrace_tool::content_of("/no/such/file").empty());
  CHECK(!cutrace_tool::content_of("/proc/self/environ").empty());
}

}  // namespace process_info_test
