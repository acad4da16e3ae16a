// SPDX-License-Identifier: Apache-2.0
// Sinks that make of a trace what the command makes of it, and throw the result away: reports in all forms, answers of
// `cutrace why`, and files of each sink.
#pragma once

#include <cutrace/sink.hpp>
#include <memory>

namespace fuzz {

/// One of eight; nullptr: nothing is made.
std::unique_ptr<cutrace::sink> make_of_it(unsigned which);

}  // namespace fuzz
