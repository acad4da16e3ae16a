// SPDX-License-Identifier: Apache-2.0
// What every file of an application includes: markers, hand-off between threads, and the opaque session.
//
//   #include <cutrace/cutrace.hpp>
//   int main() {
//     cutrace::session trace;                        // sinks from CUTRACE_SINKS or from code
//     CUTRACE_STAGE("decode", request_id);           // GPU work in this scope belongs to "decode" of that request
//   }
#pragma once

#include <cutrace/config.hpp>
#include <cutrace/context.hpp>
#include <cutrace/mark.hpp>
#include <cutrace/session.hpp>
#include <cutrace/stage.hpp>
