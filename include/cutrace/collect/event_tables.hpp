// SPDX-License-Identifier: Apache-2.0
// What ingestion fills and delivery looks up: the process's tables, and those of one trace. Collector's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/collect/runtime_core.hpp>
#include <cutrace/collect/stage_table.hpp>
#include <cutrace/collect/string_table.hpp>
#include <vector>

CUTRACE_BEGIN_NAMESPACE
namespace detail CUTRACE_LOCAL {

struct event_tables {
  static constexpr text name_lost{"(name lost)", 11};

  /// `process`: the one that is traced.
  CUTRACE_NOINLINE event_tables(runtime_core& core, std::size_t string_bytes, std::uint32_t process)
      : scale(core.scale),
        sites(core.sites),
        functions(core.functions),
        ring(core.ring),
        graphs(core.graphs),
        strings(string_bytes),
        process_id(process),
        thread_ids_(thread_slots) {}

  /// Name of a call's function.
  static text name_of(const known_function* f) noexcept {
    return f != nullptr ? f->text_of_name() : text{"(unknown function)", 18};
  }

  void set_thread(std::uint32_t index, std::uint32_t kernel_id) noexcept {
    thread_ids_[index % thread_slots] = {index, kernel_id};
  }
  /// Linux thread id (gettid) of the thread with this index, 0 while no record of it has been read.
  std::uint32_t thread_id_of(std::uint32_t index) const noexcept {
    const thread_id& known = thread_ids_[index % thread_slots];
    return known.index == index ? known.kernel_id : 0;
  }

  const tick_scale& scale;
  const site_table& sites;
  const function_table& functions;
  const correlation_ring& ring;
  call_copies held_calls;  ///< that `ring` has overwritten, or is about to
  graph_table& graphs;
  string_table strings;
  stage_table stages;
  const std::uint32_t process_id;

 private:
  static constexpr std::size_t thread_slots = 1u << 16;  ///< threads come and go while their work waits
  struct thread_id {
    std::uint32_t index = 0, kernel_id = 0;
  };
  std::vector<thread_id> thread_ids_;
};

}  // namespace CUTRACE_LOCAL
CUTRACE_END_NAMESPACE
