// SPDX-License-Identifier: Apache-2.0
// What cutrace::graph_exec asks before and after it launches a graph of which it has two instances. The second
// one is called twin (graph_exec.hpp says why there are two). The backend that records graphs answers.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE

enum class twin_step : std::uint32_t {
  wanted,         ///< is a second instance of use to the session? `first`: no
  begin,          ///< a launch begins
  begin_sampled,  ///< likewise; this launch is to be recorded node by node even where others are not
  end,            ///< a launch has ended whose begin was not answered by `first`; same thread; the answer means nothing
};
enum class twin_choice : std::uint32_t {
  first,       ///< launch the first instance; report no end
  first_held,  ///< launch the first instance; report the end, before which no window opens
  twin,        ///< launch the second instance, whose nodes are recorded; report the end
};

CUTRACE_END_NAMESPACE
