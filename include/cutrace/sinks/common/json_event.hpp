// SPDX-License-Identifier: Apache-2.0
// The fields of one event in the canonical JSON form (docs/jsonl.md): what a kind has, under one name and one type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <cutrace/base/recent_slot.hpp>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/text_buffer.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

inline void optional_field(json_text& json, std::string_view key, std::uint64_t number) {
  if (number != 0) json.field(key, number);
}
inline void optional_field(json_text& json, std::string_view key, text t) {
  if (t.size != 0) json.field(key, t);
}
inline void flag(json_text& json, std::string_view key, bool set) {
  if (set) json.field(key, true);
}
inline void triple(json_text& json, std::string_view key, const std::uint32_t (&v)[3]) {
  json.key(key);
  json.begin_array();
  for (const std::uint32_t n : v) json.value(n);
  json.end_array();
}

/// Differences of 64-bit times without undefined overflow; end before start gives a negative number.
inline std::int64_t difference_ns(std::int64_t end, std::int64_t start) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(start));
}

/// Numbers as numbers; what is an address, a handle or unknown as "0x...".
inline char* put_argument_value(char* to, const argument& a) noexcept {
  switch (a.kind) {
    case argument_kind::integer:
      return put_integer(to, static_cast<std::int64_t>(a.value));
    case argument_kind::unsigned_integer:
    case argument_kind::bytes:
      return put_decimal(to, a.value);
    case argument_kind::floating: {
      double d = 0;
      std::memcpy(&d, &a.value, sizeof(d));
      return put_double(to, d);
    }
    case argument_kind::string:
      return put_string(to, a.string_value());
    case argument_kind::word:
    case argument_kind::pointer:
    case argument_kind::stream:
    case argument_kind::handle:
    case argument_kind::output:
      break;
  }
  return put_hex(to, a.value);
}

/// Room for `put_arguments`.
inline std::size_t arguments_room(const argument* arguments, std::uint32_t count) noexcept {
  std::size_t room = 16;
  for (std::uint32_t i = 0; arguments != nullptr && i < count; ++i) {
    room += escaped_room(arguments[i].name.size) + 64;
    if (arguments[i].kind == argument_kind::string) room += escaped_room(std::strlen(arguments[i].string_value()));
  }
  return room;
}

/// "bytesize":4000000; arguments without a name are arg0, arg1, ... by position.
inline char* put_argument(char* to, const argument& a, std::uint32_t position) {
  if (a.name.size != 0) {
    to = put_string(to, view_of(a.name));
  } else {
    to = put_decimal(put_literal(to, "\"arg"), position);
    *to++ = '"';
  }
  *to++ = ':';
  return put_argument_value(to, a);
}
/// {"dptr":"0x7f32a4000000","bytesize":4000000}
inline char* put_arguments(char* to, const argument* arguments, std::uint32_t count) {
  *to++ = '{';
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i != 0) *to++ = ',';
    to = put_argument(to, arguments[i], i);
  }
  *to++ = '}';
  return to;
}
inline void arguments_object(json_text& json, const argument* arguments, std::uint32_t count) {
  json.end_raw(put_arguments(json.begin_raw(arguments_room(arguments, count)), arguments, count));
}

/// `requests` holds ids, `request_names` texts; `request_total` stands where the marker named more than there are.
inline void request_fields(json_text& json, const event& e) {
  if (e.requests == nullptr || e.request_count == 0) return;
  bool ids = false;
  bool names = false;
  for (std::uint32_t i = 0; i < e.request_count; ++i) (e.requests[i].name.size != 0 ? names : ids) = true;
  if (ids) {
    json.key("requests");
    char* to = json.begin_raw((decimal_room + 1) * e.request_count + 2);
    *to++ = '[';
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (e.requests[i].name.size != 0) continue;
      to = put_decimal(to, e.requests[i].id);
      *to++ = ',';
    }
    to[-1] = ']';  // in place of the last comma: there is one id at least
    json.end_raw(to);
  }
  if (names) {
    json.key("request_names");
    json.begin_array();
    for (std::uint32_t i = 0; i < e.request_count; ++i) {
      if (e.requests[i].name.size != 0) json.value(e.requests[i].name);
    }
    json.end_array();
  }
  if (e.request_total > e.request_count) json.field("request_total", e.request_total);
}

inline bool knows_call(const event& e) noexcept {
  return e.joined == attribution::by_call || e.joined == attribution::outside_stage ||
         e.joined == attribution::stage_unknown;
}

/// Device, context and stream of GPU events, and the call that they come from.
inline void gpu_fields(json_text& json, const event& e) {
  json.field("device", e.device);
  json.field("context", e.context);
  json.field("stream", e.stream);
  json.field("attribution", to_string(e.joined));
  if (knows_call(e)) {
    optional_field(json, "call", e.call_name);
    json.field("call_ts_ns", e.call_start_ns);
  }
}

inline void graph_fields(json_text& json, std::uint32_t graph, std::uint64_t node) {
  optional_field(json, "graph_id", graph);
  optional_field(json, "graph_node_id", node);
}

inline void kernel_fields(json_text& json, const kernel_data& k) {
  triple(json, "grid", k.grid);
  triple(json, "block", k.block);
  if (k.cluster[0] != 0) triple(json, "cluster", k.cluster);
  json.field("registers_per_thread", k.registers_per_thread);
  json.field("static_shared_bytes", k.static_shared_bytes);
  json.field("dynamic_shared_bytes", k.dynamic_shared_bytes);
  json.field("local_bytes_per_thread", k.local_bytes_per_thread);
  json.field("priority", k.priority);
  graph_fields(json, k.graph_id, k.graph_node_id);
  if (k.queued_ns != 0) json.field("queued_ts_ns", k.queued_ns);
  if (k.submitted_ns != 0) json.field("submitted_ts_ns", k.submitted_ns);
  optional_field(json, "mangled_name", k.mangled_name);
}

inline void memcpy_fields(json_text& json, const memcpy_data& c) {
  json.field("bytes", c.bytes);
  json.field("direction", to_string(c.direction));
  json.field("source", to_string(c.source));
  json.field("destination", to_string(c.destination));
  json.field("async", c.asynchronous);
  if (c.direction == copy_direction::peer) {
    json.field("source_device", c.source_device);
    json.field("destination_device", c.destination_device);
  }
  graph_fields(json, c.graph_id, c.graph_node_id);
}

inline void memset_fields(json_text& json, const memset_data& m) {
  json.field("bytes", m.bytes);
  if (m.graph_node_id == 0) json.field("value", m.value);  // unknown for nodes of graphs
  json.field("memory", to_string(m.memory));
  json.field("async", m.asynchronous);
  graph_fields(json, m.graph_id, m.graph_node_id);
}

inline void api_fields(json_text& json, const api_data& a) {
  json.field("api", a.runtime_api ? "runtime" : "driver");
  optional_field(json, "function", a.function);
  optional_field(json, "runtime", a.runtime_name);
  optional_field(json, "enclosing", a.enclosing);
  optional_field(json, "joined", a.joined);
  json.field("result", a.result);
  optional_field(json, "result_name", a.result_name);
  if (a.direction != copy_direction::unknown) json.field("direction", to_string(a.direction));
  optional_field(json, "bytes", a.bytes);
  if (a.arguments != nullptr && a.argument_count != 0) {
    json.key("args");
    arguments_object(json, a.arguments, a.argument_count);
  }
}

inline void hex_field(json_text& json, std::string_view key, std::uint64_t number) {
  json.key(key);
  json.hex(number);
}

/// Handles and words as "0x...", as NVIDIA's headers and logs write them.
inline void ioctl_fields(json_text& json, const ioctl_data& i) {
  optional_field(json, "node", i.node);
  if (i.device == ioctl_device::unknown && i.request == 0) return;  // of a trace that tells no more than the name
  json.field("device_kind", to_string(i.device));
  hex_field(json, "request_word", i.request);
  optional_field(json, "bytes", i.bytes);
  json.field("errno", i.error);
  if (i.status_name.size != 0) {
    hex_field(json, "status", i.status);
    json.field("status_name", i.status_name);
  }
  if (i.has_command) {
    hex_field(json, "command", i.command);
    optional_field(json, "command_name", i.command_name);
  }
  if (i.client != 0) hex_field(json, "client", i.client);
  if (i.parent != 0) hex_field(json, "parent_object", i.parent);
  if (i.object != 0) hex_field(json, "object", i.object);
  optional_field(json, "enclosing", i.enclosing);
  flag(json, "transferred", i.transferred);
}

inline void system_fields(json_text& json, const system_data& s) {
  optional_field(json, "category_name", s.category);
  json.field("cpu", s.cpu);
  optional_field(json, "enclosing", s.enclosing);
  if (s.has_result) json.field("result", s.result);
  if (s.arguments != nullptr && s.argument_count != 0) {
    json.key("args");
    arguments_object(json, s.arguments, s.argument_count);
  }
}

/// What NVTX told of a stage or mark; for others nothing.
inline void origin_fields(json_text& json, const stage_data& s) {
  if (s.origin == stage_origin::marker) return;
  json.field("origin", to_string(s.origin));
  optional_field(json, "domain", s.domain);
  optional_field(json, "category", s.category);
  optional_field(json, "category_name", s.category_name);
  if (s.color != 0) {
    json.key("color");
    json.hex(s.color);
  }
  if (s.payload_kind == argument_kind::word) return;
  json.key("payload");
  json.end_raw(put_argument_value(json.begin_raw(64), argument{{}, s.payload_kind, s.payload}));
}

inline void stage_fields(json_text& json, const event& e) {
  json.field("depth", e.depth);
  optional_field(json, "parent", e.stage.parent);
  flag(json, "adopted", e.stage.adopted);
  flag(json, "span", e.stage.span);
  if (e.stage.file.size != 0) {
    json.field("file", e.stage.file);
    json.field("line", e.stage.line);
  }
  origin_fields(json, e.stage);
}

inline void append_uuid(std::string& out, const std::uint8_t (&uuid)[16]) {
  static const char hex[] = "0123456789abcdef";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += hex[uuid[i] >> 4];
    out += hex[uuid[i] & 15u];
  }
}

inline void device_fields(json_text& json, const event& e) {
  const device_data& d = e.device_;
  json.field("device", e.device);
  json.field("memory_bytes", d.memory_bytes);
  json.field("memory_bandwidth_bytes_per_s", d.memory_bandwidth_bytes_per_s);
  json.field("multiprocessors", d.multiprocessors);
  json.field("compute_major", d.compute_major);
  json.field("compute_minor", d.compute_minor);
  json.field("core_clock_khz", d.core_clock_khz);
  std::string uuid;
  append_uuid(uuid, d.uuid);
  json.field("uuid", uuid);
}

/// The word for its type, as the file had it where this version has none.
inline std::string_view type_word(const event& e) noexcept {
  return e.kind == event_kind::other && e.other.type.size != 0 ? view_of(e.other.type) : to_string(e.kind);
}

/// What only this kind has.
inline void kind_fields(json_text& json, const event& e) {
  switch (e.kind) {
    case event_kind::stage:
      return stage_fields(json, e);
    case event_kind::counter:
      json.field("value", e.counter.value);
      json.field("change", e.counter.change);
      json.field("gauge", e.counter.gauge);
      return;
    case event_kind::api:
      return api_fields(json, e.api);
    case event_kind::ioctl:
      return ioctl_fields(json, e.ioctl_);
    case event_kind::system:
      return system_fields(json, e.system);
    case event_kind::kernel:
      gpu_fields(json, e);
      return kernel_fields(json, e.kernel);
    case event_kind::memcpy:
      gpu_fields(json, e);
      return memcpy_fields(json, e.memcpy_);
    case event_kind::memset:
      gpu_fields(json, e);
      return memset_fields(json, e.memset_);
    case event_kind::graph_launch:
      gpu_fields(json, e);
      return graph_fields(json, e.kernel.graph_id, e.kernel.graph_node_id);
    case event_kind::sync:
      gpu_fields(json, e);
      json.field("sync", to_string(e.sync.what));
      return optional_field(json, "event_id", e.sync.event_id);
    case event_kind::memory:
      gpu_fields(json, e);
      json.field("operation", to_string(e.memory.operation));
      json.key("address");
      json.hex(e.memory.address);
      json.field("bytes", e.memory.bytes);
      return json.field("memory", to_string(e.memory.memory));
    case event_kind::loss:
      json.field("cause", to_string(e.loss.cause));
      return json.field("count", e.loss.count);
    case event_kind::device:
      return device_fields(json, e);
    case event_kind::context:
      json.field("device", e.device);
      json.field("context", e.context);
      return flag(json, "derived", e.context_.derived);
    case event_kind::stream:
      json.field("device", e.device);
      json.field("context", e.context);
      json.field("stream", e.stream);
      if (e.stream_.derived) return flag(json, "derived", true);
      json.field("priority", e.stream_.priority);
      return json.field("flags", e.stream_.flags);
    case event_kind::mark:
      if (e.is_cuda_event()) gpu_fields(json, e);
      return origin_fields(json, e.stage);
    case event_kind::overhead:
    case event_kind::jit:
    case event_kind::nvtx:
    case event_kind::process:
    case event_kind::thread:
    case event_kind::window:
    case event_kind::other:
      return;
  }
}

// Arguments of calls as JSON, as arguments_object of json_event.hpp writes them. The same stream, kernel and size come
// again and again: the text of the last ones is kept. One thread at a time.

class kept_arguments {
 public:
  /// Forgets all: interned names live as long as their session.
  void clear() noexcept {
    for (kept& k : kept_) k = kept();
  }

  /// As put_arguments, in the same room.
  char* put(char* to, const argument* arguments, std::uint32_t count) {
    *to++ = '{';
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i != 0) *to++ = ',';
      const argument& a = arguments[i];
      kept& k = kept_[slot_of(a)];
      if (CUTRACE_LIKELY(k.is_of(a))) {
        std::memcpy(to, k.text, sizeof(k.text));
        to += k.size;
      } else {
        char* const end = put_argument(to, a, i);
        k.keep(a, to, static_cast<std::size_t>(end - to));
        to = end;
      }
    }
    *to++ = '}';
    return to;
  }

 private:
  struct alignas(64) kept {
    const char* name = nullptr;
    std::uint64_t value = 0;
    std::uint32_t name_size = 0;
    argument_kind kind = argument_kind::word;
    std::uint8_t size = 0;  ///< 0: nothing stands here
    char text[38];

    /// Names and texts are interned: equal addresses are equal texts.
    bool is_of(const argument& a) const noexcept {
      return size != 0 && value == a.value && name == a.name.data && name_size == a.name.size && kind == a.kind;
    }
    void keep(const argument& a, const char* written, std::size_t n) noexcept {
      if (n > sizeof(text) || a.name.size == 0) return;  // without a name it is called by its place
      name = a.name.data;
      value = a.value;
      name_size = a.name.size;
      kind = a.kind;
      size = static_cast<std::uint8_t>(n);
      std::memcpy(text, written, n);
    }
  };
  static_assert(sizeof(kept) == 64, "one cache line");
  static constexpr std::size_t slots = 128;

  static std::size_t slot_of(const argument& a) noexcept {
    return kept_slot<slots>(a.value + reinterpret_cast<std::uintptr_t>(a.name.data));
  }

  kept kept_[slots] = {};
};

}  // namespace detail
CUTRACE_END_NAMESPACE
