// SPDX-License-Identifier: Apache-2.0
// The header for code of applications: markers, stages that are handed to other threads, and the session. The runtime
// behind the session is compiled elsewhere (runtime.hpp).
//
//   #include <cutrace/cutrace.hpp>
//   int main() {
//     cutrace::session trace;                        // sinks from CUTRACE_SINKS or from code
//     CUTRACE_STAGE("decode", request_id);           // GPU work in this scope belongs to "decode" of request_id
//   }
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/context.hpp>
#include <cutrace/mark.hpp>
#include <cutrace/session.hpp>
#include <cutrace/stage.hpp>
