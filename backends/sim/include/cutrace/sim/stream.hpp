// SPDX-License-Identifier: Apache-2.0
// Contexts, streams and events of the model: plain state, guarded by the machine's lock.
#pragma once

#include <cstdint>
#include <cutrace/sim/graph.hpp>
#include <cutrace/sim/moment.hpp>
#include <memory>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace sim {

struct context;
struct stream;

/// A stream capture under way: the graph that grows, and the streams that take part.
struct capture {
  std::uint64_t id = 0;
  graph* target = nullptr;
  stream* origin = nullptr;
  std::vector<stream*> members;
  bool broken = false;
  bool global = false;  ///< calls that are unsafe break it, whichever thread makes them
};

enum class stream_kind : std::uint8_t { legacy, per_thread, blocking, non_blocking };

struct stream {
  context* owner = nullptr;
  std::uint32_t id = 0;
  stream_kind kind = stream_kind::blocking;
  std::int32_t priority = 0;
  std::uint64_t end_ns = 0;      ///< when everything issued so far is done, as far as that is known
  std::vector<moment_ptr> open;  ///< what the next work comes after, too; known ones are taken out
  std::uint64_t sequence = 0;    ///< works issued so far
  capture* capturing = nullptr;
  std::vector<graph_node*> tips;  ///< while capturing: what the next work comes after
};

struct gpu_event {
  std::uint32_t id = 0;
  bool recorded = false;
  bool timing = true;
  std::uint64_t at_ns = 0;
  moment_ptr open;  ///< instead of `at_ns`, where that could not be computed
  std::shared_ptr<const loss> lost;
  const stream* where = nullptr;
  capture* captured = nullptr;  ///< the capture that it was last recorded in, so that it has no time; else null
  std::uint64_t captured_id = 0;
  std::vector<graph_node*> tips;
};

struct context {
  std::uint32_t id = 0;
  std::uint32_t device = 0;
  bool primary = false;
  std::uint32_t flags = 0;
  std::uint32_t next_stream_id = 13;  // streams made by programs start there on real hardware, the legacy one is 7
  std::uint64_t blocking_end_ns = 0;  ///< of all streams that synchronise with the legacy one
  std::uint64_t end_ns = 0;           ///< of all streams
  struct left_over {
    moment_ptr when;
    bool blocking;
  };
  std::vector<left_over> open;  ///< of streams that are destroyed
  std::shared_ptr<loss> lost = std::make_shared<loss>();
  std::uint32_t blocking_captures = 0;
  std::unique_ptr<stream> legacy;
  std::vector<std::unique_ptr<stream>> streams;
};

}  // namespace sim
CUTRACE_END_NAMESPACE
