// SPDX-License-Identifier: Apache-2.0
// What cutrace::graph_exec asks before it launches a graph of which it has two instances, and after; answered by the
// backend that records graphs.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE

enum class twin_step : std::uint32_t {
  wanted,         ///< may a session use a second instance? `first`: no
  begin,          ///< of a launch
  begin_sampled,  ///< of a launch that is to be recorded node by node, where the others are not
  end,            ///< of a launch for which `begin` did not answer `first`, on the same thread; any answer
};
enum class twin_choice : std::uint32_t {
  first,       ///< launch the first one; no end is to be reported
  first_held,  ///< launch the first one
  twin,        ///< launch the second one, all of its nodes are recorded
};

CUTRACE_END_NAMESPACE
