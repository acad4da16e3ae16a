// SPDX-License-Identifier: Apache-2.0
// Renumbers the ids in events of several processes, so that no two processes share one in the merged trace. Ids of
// requests stay, since several processes may serve one request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cutrace/event.hpp>
#include <cutrace/sinks/common/arguments.hpp>
#include <map>

#include "trace/merge_ids.hpp"

namespace cutrace_reading {

class merged_ids {
 public:
  /// Id of a process or thread, which share one space, as in the kernel.
  std::uint32_t task(std::size_t process, std::uint32_t id) {
    return id == 0 ? 0 : static_cast<std::uint32_t>(tasks_.of(process, id));
  }

  std::uint32_t device_of(std::size_t process, std::uint32_t number) {
    return static_cast<std::uint32_t>(devices_.of(process, number));
  }

  void renumber(std::size_t process, cutrace::event& e) {
    using cutrace::event_kind;
    e.process_id = task(process, e.process_id);
    e.thread_id = task(process, e.thread_id);
    e.stage_id = stage(process, e.stage_id);
    e.capture_stage_id = stage(process, e.capture_stage_id);
    e.correlation_id = correlation(process, e.correlation_id);
    if (e.kind == event_kind::device) describe_device(process, e);
    const std::uint32_t device = e.device;
    if (on_device(e)) {
      e.device = device_of(process, device);
      if (e.context != 0) e.context = static_cast<std::uint32_t>(contexts_.of(process, e.context));
      if (e.kind != event_kind::device && e.kind != event_kind::context) e.stream = stream(process, e.device, e.stream);
    }
    switch (e.kind) {
      case event_kind::stage:
        e.stage.parent = stage(process, e.stage.parent);
        break;
      case event_kind::api:
        e.api.enclosing = correlation(process, e.api.enclosing);
        break;
      case event_kind::ioctl:
        e.ioctl_.enclosing = correlation(process, e.ioctl_.enclosing);
        break;
      case event_kind::system:
        e.system.enclosing = correlation(process, e.system.enclosing);
        break;
      case event_kind::memcpy:
        if (e.memcpy_.direction != cutrace::copy_direction::peer) break;
        e.memcpy_.source_device = device_of(process, e.memcpy_.source_device);
        e.memcpy_.destination_device = device_of(process, e.memcpy_.destination_device);
        break;
      default:
        break;
    }
  }

 private:
  static bool on_device(const cutrace::event& e) noexcept {
    using cutrace::event_kind;
    return e.is_on_gpu() || (e.kind == event_kind::alarm && e.context != 0) || e.kind == event_kind::device ||
           e.kind == event_kind::context || e.kind == event_kind::stream;
  }
  /// An id is the index of the thread << 40 | sequence; the index gets a new number.
  std::uint64_t stage(std::size_t process, std::uint64_t id) {
    return id == 0 ? 0 : stage_threads_.of(process, id >> 40) << 40 | (id & ((std::uint64_t{1} << 40) - 1));
  }
  /// An id is the epoch << 32 | CUPTI's id; the epoch gets a new number.
  std::uint64_t correlation(std::size_t process, std::uint64_t id) {
    return id == 0 ? 0 : epochs_.of(process, id >> 32) << 32 | (id & UINT32_MAX);
  }
  std::uint64_t stream(std::size_t process, std::uint32_t device, std::uint64_t id) {
    if (cutrace::detail::is_no_stream(id)) return id;
    return streams_.emplace(device, id_space(1000)).first->second.of(process, id);
  }
  /// The same GPU in two processes has the same UUID, whatever number each gives it.
  void describe_device(std::size_t process, const cutrace::event& e) {
    std::array<std::uint8_t, 16> uuid{};
    bool known = false;
    for (std::size_t i = 0; i < uuid.size(); ++i) known = (uuid[i] = e.device_.uuid[i]) != 0 || known;
    if (!known) return;
    const auto found = by_uuid_.find(uuid);
    if (found == by_uuid_.end())
      by_uuid_[uuid] = device_of(process, e.device);
    else
      devices_.join(process, e.device, found->second);
  }

  id_space tasks_{std::uint64_t{1} << 22, std::uint64_t{1} << 30};  // Linux process ids end at 2^22
  id_space stage_threads_{1, std::uint64_t{1} << 24};
  id_space epochs_{1, std::uint64_t{1} << 32};
  id_space devices_{1, std::uint64_t{1} << 32};
  id_space contexts_{1000, std::uint64_t{1} << 32};
  std::map<std::uint32_t, id_space> streams_;  ///< by device
  std::map<std::array<std::uint8_t, 16>, std::uint32_t> by_uuid_;
};

}  // namespace cutrace_reading
