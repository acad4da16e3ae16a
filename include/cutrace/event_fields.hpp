// SPDX-License-Identifier: Apache-2.0
// One description of the fields of an event, kind by kind: each field's name, where it lies in `event`, its form, its
// unit and when it is present. Writers and readers of all formats go by it, so a new field, or kind, is described here
// alone. The order is that of JSONL (a test compares docs/jsonl.md with this). For use at compile time:
//
//   with_fields(e.kind, [&](const auto&... field) { (print(field.name, field.of(e), field.is_there(e)), ...); });
//
// Fields that events of all kinds have (name, times, stage and requests) are not in these lists.
#pragma once

#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/event.hpp>
#include <cutrace/names.hpp>
#include <string_view>
#include <tuple>
#include <type_traits>

CUTRACE_BEGIN_NAMESPACE

/// How a field is written.
enum class field_form : std::uint8_t {
  number,
  time,       ///< ns since the start of the session
  hex,        ///< "0x...": addresses, handles, words of bits
  word,       ///< of an enumeration, by to_string (names.hpp)
  choice,     ///< a Boolean, as one of two words
  flag,       ///< true or false
  text,       ///< interned
  triple,     ///< three numbers
  uuid,       ///< 16 bytes
  arguments,  ///< of a call or probe: `arguments` and `argument_count` of the member
  payload     ///< of NVTX: `payload` and `payload_kind` of the member
};
enum class field_unit : std::uint8_t { none, ns, bytes, bytes_per_s, khz };

namespace detail {

template <class T>
constexpr bool is_zero(const T& v) noexcept {
  if constexpr (std::is_same_v<T, text>)
    return v.size == 0;
  else if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>)
    return v == T{};
  else
    return false;
}

// Conditions: `holds` says whether an event has a field. A reader that found the field calls `was_read`, after which
// `holds` is true.

struct field_always {
  template <class T>
  static bool holds(const event&, const T&) noexcept {
    return true;
  }
  static void was_read(event&) noexcept {}
};
struct field_unless_zero : field_always {
  template <class T>
  static bool holds(const event&, const T& v) noexcept {
    return !is_zero(v);
  }
};
/// Present where the flag at `Path` is true; readers set the flag.
template <auto... Path>
struct field_if_flag {
  template <class T>
  static bool holds(const event& e, const T&) noexcept {
    return (e.*....*Path);
  }
  static void was_read(event& e) noexcept { (e.*....*Path) = true; }
};
/// Present where `If(event)` is true.
template <bool (*If)(const event&)>
struct field_if : field_always {
  template <class T>
  static bool holds(const event& e, const T&) noexcept {
    return If(e);
  }
};
template <class T>
constexpr field_form form_of() noexcept {
  if constexpr (std::is_same_v<T, bool>)
    return field_form::flag;
  else if constexpr (std::is_enum_v<T>)
    return field_form::word;
  else if constexpr (std::is_same_v<T, text>)
    return field_form::text;
  else if constexpr (std::is_same_v<T, std::uint32_t[3]>)
    return field_form::triple;
  else if constexpr (std::is_same_v<T, std::uint8_t[16]>)
    return field_form::uuid;
  else
    return field_form::number;
}

template <field_form Form, class When, auto... Path>
struct event_field {
  std::string_view name;
  field_unit unit = field_unit::none;
  const char* words[2] = {"", ""};  ///< of a choice: for false and true

  static constexpr field_form form = Form;

  /// The member at `Path` of an `event` or `const event`.
  template <class Event>
  static constexpr auto& of(Event& e) noexcept {
    return (e.*....*Path);
  }
  static bool is_there(const event& e) noexcept { return When::holds(e, of(e)); }
  static void was_read(event& e) noexcept { When::was_read(e); }

  template <field_form F>
  constexpr auto as() const noexcept {
    return event_field<F, When, Path...>{name, unit, {words[0], words[1]}};
  }
  template <class W>
  constexpr auto when() const noexcept {
    return event_field<Form, W, Path...>{name, unit, {words[0], words[1]}};
  }
  constexpr auto unless_zero() const noexcept { return when<field_unless_zero>(); }
  constexpr auto hex() const noexcept { return as<field_form::hex>(); }
  constexpr auto time() const noexcept { return as<field_form::time>().in(field_unit::ns); }
  constexpr auto in(field_unit u) const noexcept { return event_field{name, u, {words[0], words[1]}}; }
  constexpr auto choice(const char* no, const char* yes) const noexcept {
    return event_field<field_form::choice, When, Path...>{name, unit, {no, yes}};
  }
};

/// The field of the member at `Path`, whose type determines the form.
template <auto... Path>
constexpr auto field(std::string_view name) noexcept {
  using member = std::remove_reference_t<decltype((std::declval<event&>().*....*Path))>;
  return event_field<form_of<member>(), field_always, Path...>{name};
}

inline bool knows_call(const event& e) noexcept {
  return e.joined == attribution::by_call || e.joined == attribution::outside_stage ||
         e.joined == attribution::stage_unknown;
}
/// True but for marks that are no CUDA events. For kinds that have gpu_fields.
inline bool is_of_gpu(const event& e) noexcept { return e.kind != event_kind::mark || e.context != 0; }
inline bool is_of_gpu_with_call(const event& e) noexcept { return is_of_gpu(e) && knows_call(e); }
inline bool names_call(const event& e) noexcept { return is_of_gpu_with_call(e) && e.call_name.size != 0; }
inline bool has_clusters(const event& e) noexcept { return e.kernel.cluster[0] != 0; }
inline bool is_peer_copy(const event& e) noexcept { return e.memcpy_.direction == copy_direction::peer; }
/// The value of a set that is a graph's node is unknown.
inline bool knows_set_value(const event& e) noexcept { return e.memset_.graph_node_id == 0; }
inline bool has_file(const event& e) noexcept { return e.stage.file.size != 0; }
inline bool has_arguments(const event& e) noexcept { return e.api.arguments != nullptr && e.api.argument_count != 0; }
inline bool has_system_arguments(const event& e) noexcept {
  return e.system.arguments != nullptr && e.system.argument_count != 0;
}
inline bool has_payload(const event& e) noexcept { return e.stage.payload_kind != argument_kind::word; }
/// Of an ioctl, whether its request word and device are known: some traces have no more than its name.
inline bool knows_request(const event& e) noexcept {
  return e.ioctl_.device != ioctl_device::unknown || e.ioctl_.request != 0;
}
inline bool has_status(const event& e) noexcept { return e.ioctl_.status_name.size != 0; }
inline bool is_cut_batch(const event& e) noexcept { return e.request_total > e.request_count; }
inline bool is_kernel_alarm(const event& e) noexcept { return e.alarm.grid[0] != 0; }
inline bool is_described(const event& e) noexcept { return !e.stream_.derived; }

/// Of a stage or mark, what came through NVTX.
inline constexpr auto origin_fields =
    std::make_tuple(field<&event::stage, &stage_data::origin>("origin").unless_zero(),
                    field<&event::stage, &stage_data::domain>("domain").unless_zero(),
                    field<&event::stage, &stage_data::category>("category").unless_zero(),
                    field<&event::stage, &stage_data::category_name>("category_name").unless_zero(),
                    field<&event::stage, &stage_data::color>("color").hex().unless_zero(),
                    field<&event::stage>("payload").as<field_form::payload>().when<field_if<has_payload>>());

inline constexpr auto stage_fields = std::tuple_cat(
    std::make_tuple(field<&event::depth>("depth"), field<&event::stage, &stage_data::parent>("parent").unless_zero(),
                    field<&event::stage, &stage_data::adopted>("adopted").unless_zero(),
                    field<&event::stage, &stage_data::span>("span").unless_zero(),
                    field<&event::stage, &stage_data::file>("file").unless_zero(),
                    field<&event::stage, &stage_data::line>("line").when<field_if<has_file>>()),
    origin_fields);

inline constexpr auto counter_fields = std::make_tuple(field<&event::counter, &counter_data::value>("value"),
                                                       field<&event::counter, &counter_data::change>("change"),
                                                       field<&event::counter, &counter_data::gauge>("gauge"));

inline constexpr auto api_fields = std::make_tuple(
    field<&event::api, &api_data::runtime_api>("api").choice("driver", "runtime"),
    field<&event::api, &api_data::function>("function").unless_zero(),
    field<&event::api, &api_data::runtime_name>("runtime").unless_zero(),
    field<&event::api, &api_data::enclosing>("enclosing").unless_zero(),
    field<&event::api, &api_data::joined>("joined").unless_zero(), field<&event::api, &api_data::result>("result"),
    field<&event::api, &api_data::result_name>("result_name").unless_zero(),
    field<&event::api, &api_data::direction>("direction").unless_zero(),
    field<&event::api, &api_data::bytes>("bytes").in(field_unit::bytes).unless_zero(),
    field<&event::api>("args").as<field_form::arguments>().when<field_if<has_arguments>>());

/// Handles and words as "0x...", as NVIDIA's headers and logs write them.
inline constexpr auto ioctl_fields =
    std::make_tuple(field<&event::ioctl_, &ioctl_data::node>("node").unless_zero(),
                    field<&event::ioctl_, &ioctl_data::device>("device_kind").when<field_if<knows_request>>(),
                    field<&event::ioctl_, &ioctl_data::request>("request_word").hex().when<field_if<knows_request>>(),
                    field<&event::ioctl_, &ioctl_data::bytes>("bytes").in(field_unit::bytes).unless_zero(),
                    field<&event::ioctl_, &ioctl_data::error>("errno").when<field_if<knows_request>>(),
                    field<&event::ioctl_, &ioctl_data::status>("status").hex().when<field_if<has_status>>(),
                    field<&event::ioctl_, &ioctl_data::status_name>("status_name").unless_zero(),
                    field<&event::ioctl_, &ioctl_data::command>("command")
                        .hex()
                        .when<field_if_flag<&event::ioctl_, &ioctl_data::has_command>>(),
                    field<&event::ioctl_, &ioctl_data::command_name>("command_name").unless_zero(),
                    field<&event::ioctl_, &ioctl_data::client>("client").hex().unless_zero(),
                    field<&event::ioctl_, &ioctl_data::parent>("parent_object").hex().unless_zero(),
                    field<&event::ioctl_, &ioctl_data::object>("object").hex().unless_zero(),
                    field<&event::ioctl_, &ioctl_data::enclosing>("enclosing").unless_zero(),
                    field<&event::ioctl_, &ioctl_data::transferred>("transferred").unless_zero());

inline constexpr auto system_fields =
    std::make_tuple(field<&event::system, &system_data::category>("category_name").unless_zero(),
                    field<&event::system, &system_data::cpu>("cpu"),
                    field<&event::system, &system_data::enclosing>("enclosing").unless_zero(),
                    field<&event::system, &system_data::result>("result")
                        .when<field_if_flag<&event::system, &system_data::has_result>>(),
                    field<&event::system>("args").as<field_form::arguments>().when<field_if<has_system_arguments>>());

/// Of GPU events: where they ran, and the call that they come from.
inline constexpr auto gpu_fields =
    std::make_tuple(field<&event::device>("device").when<field_if<is_of_gpu>>(),
                    field<&event::context>("context").when<field_if<is_of_gpu>>(),
                    field<&event::stream>("stream").when<field_if<is_of_gpu>>(),
                    field<&event::joined>("attribution").when<field_if<is_of_gpu>>(),
                    field<&event::call_name>("call").when<field_if<names_call>>(),
                    field<&event::call_start_ns>("call_ts_ns").time().when<field_if<is_of_gpu_with_call>>());

/// Of work in a CUDA graph.
template <class data, data event::*Data>
constexpr auto graph_fields() noexcept {
  return std::make_tuple(field<Data, &data::graph_id>("graph_id").unless_zero(),
                         field<Data, &data::graph_node_id>("graph_node_id").unless_zero());
}

inline constexpr auto kernel_fields = std::tuple_cat(
    gpu_fields,
    std::make_tuple(
        field<&event::kernel, &kernel_data::grid>("grid"), field<&event::kernel, &kernel_data::block>("block"),
        field<&event::kernel, &kernel_data::cluster>("cluster").when<field_if<has_clusters>>(),
        field<&event::kernel, &kernel_data::registers_per_thread>("registers_per_thread"),
        field<&event::kernel, &kernel_data::static_shared_bytes>("static_shared_bytes").in(field_unit::bytes),
        field<&event::kernel, &kernel_data::dynamic_shared_bytes>("dynamic_shared_bytes").in(field_unit::bytes),
        field<&event::kernel, &kernel_data::local_bytes_per_thread>("local_bytes_per_thread").in(field_unit::bytes),
        field<&event::kernel, &kernel_data::priority>("priority")),
    graph_fields<kernel_data, &event::kernel>(),
    std::make_tuple(field<&event::kernel, &kernel_data::queued_ns>("queued_ts_ns").time().unless_zero(),
                    field<&event::kernel, &kernel_data::submitted_ns>("submitted_ts_ns").time().unless_zero(),
                    field<&event::kernel, &kernel_data::mangled_name>("mangled_name").unless_zero()));

inline constexpr auto memcpy_fields = std::tuple_cat(
    gpu_fields,
    std::make_tuple(
        field<&event::memcpy_, &memcpy_data::bytes>("bytes").in(field_unit::bytes),
        field<&event::memcpy_, &memcpy_data::direction>("direction"),
        field<&event::memcpy_, &memcpy_data::source>("source"),
        field<&event::memcpy_, &memcpy_data::destination>("destination"),
        field<&event::memcpy_, &memcpy_data::asynchronous>("async"),
        field<&event::memcpy_, &memcpy_data::source_device>("source_device").when<field_if<is_peer_copy>>(),
        field<&event::memcpy_, &memcpy_data::destination_device>("destination_device").when<field_if<is_peer_copy>>()),
    graph_fields<memcpy_data, &event::memcpy_>());

inline constexpr auto memset_fields = std::tuple_cat(
    gpu_fields,
    std::make_tuple(field<&event::memset_, &memset_data::bytes>("bytes").in(field_unit::bytes),
                    field<&event::memset_, &memset_data::value>("value").when<field_if<knows_set_value>>(),
                    field<&event::memset_, &memset_data::memory>("memory"),
                    field<&event::memset_, &memset_data::asynchronous>("async")),
    graph_fields<memset_data, &event::memset_>());

inline constexpr auto graph_launch_fields = std::tuple_cat(gpu_fields, graph_fields<kernel_data, &event::kernel>());

inline constexpr auto sync_fields =
    std::tuple_cat(gpu_fields, std::make_tuple(field<&event::sync, &sync_data::what>("sync"),
                                               field<&event::sync, &sync_data::event_id>("event_id").unless_zero()));

inline constexpr auto memory_fields = std::tuple_cat(
    gpu_fields, std::make_tuple(field<&event::memory, &memory_data::operation>("operation"),
                                field<&event::memory, &memory_data::address>("address").hex(),
                                field<&event::memory, &memory_data::bytes>("bytes").in(field_unit::bytes),
                                field<&event::memory, &memory_data::memory>("memory")));

inline constexpr auto alarm_fields = std::tuple_cat(
    std::make_tuple(field<&event::alarm, &alarm_data::what>("alarm"), field<&event::alarm, &alarm_data::work>("work"),
                    field<&event::alarm, &alarm_data::why>("why").unless_zero(),
                    field<&event::alarm, &alarm_data::rank>("rank"),
                    field<&event::alarm, &alarm_data::candidates>("candidates"),
                    field<&event::alarm, &alarm_data::behind>("behind"),
                    field<&event::alarm, &alarm_data::result>("result").unless_zero(),
                    field<&event::alarm, &alarm_data::unfinished_ns>("unfinished_ns").in(field_unit::ns).unless_zero()),
    gpu_fields,
    std::make_tuple(field<&event::alarm, &alarm_data::grid>("grid").when<field_if<is_kernel_alarm>>(),
                    field<&event::alarm, &alarm_data::block>("block").when<field_if<is_kernel_alarm>>(),
                    field<&event::alarm, &alarm_data::graph_node_id>("graph_node_id").unless_zero()));

inline constexpr auto loss_fields =
    std::make_tuple(field<&event::loss, &loss_data::cause>("cause"), field<&event::loss, &loss_data::count>("count"));

inline constexpr auto device_fields =
    std::make_tuple(field<&event::device>("device"),
                    field<&event::device_, &device_data::memory_bytes>("memory_bytes").in(field_unit::bytes),
                    field<&event::device_, &device_data::memory_bandwidth_bytes_per_s>("memory_bandwidth_bytes_per_s")
                        .in(field_unit::bytes_per_s),
                    field<&event::device_, &device_data::multiprocessors>("multiprocessors"),
                    field<&event::device_, &device_data::compute_major>("compute_major"),
                    field<&event::device_, &device_data::compute_minor>("compute_minor"),
                    field<&event::device_, &device_data::core_clock_khz>("core_clock_khz").in(field_unit::khz),
                    field<&event::device_, &device_data::uuid>("uuid"));

inline constexpr auto context_fields =
    std::make_tuple(field<&event::device>("device"), field<&event::context>("context"),
                    field<&event::context_, &context_data::derived>("derived").unless_zero());

inline constexpr auto stream_fields =
    std::make_tuple(field<&event::device>("device"), field<&event::context>("context"), field<&event::stream>("stream"),
                    field<&event::stream_, &stream_data::derived>("derived").unless_zero(),
                    field<&event::stream_, &stream_data::priority>("priority").when<field_if<is_described>>(),
                    field<&event::stream_, &stream_data::flags>("flags").when<field_if<is_described>>());

inline constexpr auto mark_fields = std::tuple_cat(gpu_fields, origin_fields);

/// Of all kinds: these and belonging_fields stand before the fields of the kind, quality_fields after them.
inline constexpr auto host_fields =
    std::make_tuple(field<&event::process_id>("pid"), field<&event::thread_id>("tid").unless_zero(),
                    field<&event::correlation_id>("correlation").unless_zero());
/// The stage and the requests that it serves. The requests themselves stand behind `stage_id`.
inline constexpr auto belonging_fields =
    std::make_tuple(field<&event::stage_name>("stage").unless_zero(), field<&event::stage_id>("stage_id").unless_zero(),
                    field<&event::request_total>("request_total").when<field_if<is_cut_batch>>(),
                    field<&event::capture_stage_name>("capture_stage").unless_zero(),
                    field<&event::capture_stage_id>("capture_stage_id").unless_zero());
inline constexpr auto quality_fields = std::make_tuple(
    field<&event::late>("late").unless_zero(), field<&event::skewed>("skewed").unless_zero(),
    field<&event::by_events>("by_events").unless_zero(), field<&event::incomplete>("incomplete").unless_zero());

/// Calls `visit(fields)` with the tuple of the fields of this kind.
template <class Visit>
constexpr decltype(auto) with_field_list(event_kind kind, Visit&& visit) {
  switch (kind) {
    case event_kind::stage:
      return visit(stage_fields);
    case event_kind::mark:
      return visit(mark_fields);
    case event_kind::counter:
      return visit(counter_fields);
    case event_kind::api:
      return visit(api_fields);
    case event_kind::kernel:
      return visit(kernel_fields);
    case event_kind::memcpy:
      return visit(memcpy_fields);
    case event_kind::memset:
      return visit(memset_fields);
    case event_kind::sync:
      return visit(sync_fields);
    case event_kind::memory:
      return visit(memory_fields);
    case event_kind::graph_launch:
      return visit(graph_launch_fields);
    case event_kind::ioctl:
      return visit(ioctl_fields);
    case event_kind::system:
      return visit(system_fields);
    case event_kind::alarm:
      return visit(alarm_fields);
    case event_kind::loss:
      return visit(loss_fields);
    case event_kind::device:
      return visit(device_fields);
    case event_kind::context:
      return visit(context_fields);
    case event_kind::stream:
      return visit(stream_fields);
    default:
      return visit(std::tuple<>());
  }
}

}  // namespace detail

/// Calls `visit(field...)` with the fields of this kind, each of a type of its own: `name`, `form`, `unit`,
/// `of(event)`, `is_there(event)`.
template <class Visit>
constexpr decltype(auto) with_fields(event_kind kind, Visit&& visit) {
  return detail::with_field_list(kind, [&](const auto& list) -> decltype(auto) { return std::apply(visit, list); });
}

CUTRACE_END_NAMESPACE
