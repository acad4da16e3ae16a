// SPDX-License-Identifier: Apache-2.0
// What is made of traces that were read, as the command makes it, and thrown away: reports in all forms, answers to
// "why", and files of each sink.
#pragma once

#include <cutrace/sink.hpp>
#include <memory>

namespace fuzz {

/// One of eight; nullptr: nothing is made.
std::unique_ptr<cutrace::sink> make_of_it(unsigned which);

}  // namespace fuzz
