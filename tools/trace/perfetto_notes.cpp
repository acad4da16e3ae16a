// SPDX-License-Identifier: Apache-2.0
// What events of a Perfetto trace say beside their name: debug annotations, and arguments of GPU work.
#include <algorithm>
#include <charconv>
#include <cutrace/event_fields.hpp>
#include <cutrace/sinks/perfetto/fields.hpp>

#include "trace/pbf_value.hpp"
#include "trace/perfetto_reader.hpp"

namespace cutrace_reading {

namespace pf = cutrace::detail::pf;
using cutrace::argument_kind;
using cutrace::event_kind;
using cutrace::detail::note;

perfetto_reader::parsed_note perfetto_reader::read_note(perfetto_sequence& s, pbf p) {
  parsed_note n;
  while (p.next()) {
    switch (p.tag()) {
      case pf::annotation::name_iid: {
        const note* const key = s.annotations.find(number(p));
        n.key = key != nullptr ? *key : note::none;
        n.numbered = true;
        break;
      }
      case pf::annotation::name:
        n.name = bytes(p);
        break;
      case pf::annotation::uint_value:
      case pf::annotation::bool_value:
        n.kind = argument_kind::unsigned_integer;
        n.value = number(p);
        break;
      case pf::annotation::int_value:
        n.kind = argument_kind::integer;
        n.value = number(p);
        break;
      case pf::annotation::double_value:
        n.kind = argument_kind::floating;
        n.value = double_bits(p);
        break;
      case pf::annotation::string_value:
        n.is_text = true;
        n.text = bytes(p);
        break;
      case pf::annotation::pointer_value:
        n.value = number(p);
        break;
      case pf::annotation::string_value_iid:
        n.is_text = true;
        n.interned = s.texts.find(number(p));
        if (n.interned != nullptr) n.text = n.interned->text;
        break;
      default:
        complain("unknown field " + std::to_string(p.tag()) + " of a note");
        p.skip();
    }
  }
  return n;
}

perfetto_reader::parsed_note perfetto_reader::read_gpu_note(perfetto_sequence& s, pbf p) {
  parsed_note n;
  while (p.next()) {
    switch (p.tag()) {
      case pf::gpu::arg_name_iid: {
        const note* const key = s.arguments.find(number(p));
        n.key = key != nullptr ? *key : note::none;
        n.numbered = true;
        break;
      }
      case pf::gpu::arg_name:
        n.name = bytes(p);
        break;
      case pf::gpu::arg_int:
      case pf::gpu::arg_uint:
        n.value = number(p);
        break;
      case pf::gpu::arg_string:
        n.is_text = true;
        n.text = bytes(p);
        break;
      case pf::gpu::arg_string_iid:
        n.is_text = true;
        n.interned = s.texts.find(number(p));
        if (n.interned != nullptr) n.text = n.interned->text;
        break;
      default:
        complain("unknown field " + std::to_string(p.tag()) + " of a note");
        p.skip();
    }
  }
  return n;
}

cutrace::text perfetto_reader::text_of(const parsed_note& n) {
  if (n.interned == nullptr) return to_.texts().intern(n.text);
  if (!n.interned->is_pooled) {
    n.interned->pooled = to_.texts().intern(n.text);
    n.interned->is_pooled = true;
  }
  return n.interned->pooled;
}

namespace {

/// Takes the first request off a list, `17` off `17, chat-0007`, and what stands between it and the next one. A name in
/// quotes goes to `name`.
std::string_view take_request(std::string_view& rest, std::string& name) {
  if (rest.front() == '"') {
    name.clear();
    std::size_t at = 1;
    for (; at < rest.size() && rest[at] != '"'; ++at) {
      if (rest[at] == '\\' && at + 1 < rest.size()) ++at;
      name += rest[at];
    }
    const std::string_view behind = rest.substr(std::min(at + 1, rest.size()));
    if (at < rest.size() && (behind.empty() || starts_with(behind, ", "))) {
      rest = behind.substr(std::min<std::size_t>(2, behind.size()));
      return name;
    }
  }
  const std::size_t comma = std::min(rest.find(", "), rest.size());
  const std::string_view one = rest.substr(0, comma);
  rest.remove_prefix(std::min(comma + 2, rest.size()));
  return one;
}

}  // namespace

/// "17, 18, chat-0007 and 37 more": numbers are ids, anything else a name, also a number in quotes. No id is written
/// with a zero before it.
void perfetto_reader::read_requests(interned_text& t) {
  t.is_read = true;
  const auto requests = std::allocate_shared<request_vector>(counting_allocator<request_vector>());
  std::string_view rest = t.text;
  std::string name;
  constexpr std::string_view more_word = " more", and_word = " and ";
  std::uint64_t more = 0;
  if (rest.size() > more_word.size() && rest.substr(rest.size() - more_word.size()) == more_word) {
    const std::size_t at = rest.rfind(and_word);
    if (at != std::string_view::npos) {
      const std::string_view n =
          rest.substr(at + and_word.size(), rest.size() - more_word.size() - at - and_word.size());
      const auto r = std::from_chars(n.data(), n.data() + n.size(), more);
      if (r.ec == std::errc() && r.ptr == n.data() + n.size()) {
        rest = rest.substr(0, at);
      } else {
        more = 0;
      }
    }
  }
  while (!rest.empty()) {
    const bool quoted = rest.front() == '"';
    const std::string_view one = take_request(rest, name);
    if (requests->size() >= request_list::limit) {
      ++more;
      continue;
    }
    cutrace::request_ref r;
    const auto parsed = std::from_chars(one.data(), one.data() + one.size(), r.id);
    const bool is_id = !quoted && parsed.ec == std::errc() && parsed.ptr == one.data() + one.size();
    if (!is_id || (one.size() > 1 && one.front() == '0')) {
      r.id = request_list::hash(one);
      r.name = to_.texts().intern(one);
    }
    requests->push_back(r);
  }
  t.total = static_cast<std::uint32_t>(std::min<std::uint64_t>(requests->size() + more, UINT32_MAX));
  t.requests = requests;
}

/// @returns false where the note is none of those that any event may have
bool perfetto_reader::apply_common(open_slice& to, const parsed_note& n) {
  cutrace::event& e = to.e;
  switch (n.key) {
    case note::request:
      to.many.reset();
      to.one = cutrace::request_ref();
      to.one.id = n.value;
      to.has_one = true;
      return true;
    case note::requests:
      if (n.interned == nullptr) return true;
      if (!n.interned->is_read) read_requests(*n.interned);
      to.many = n.interned->requests;
      if (e.request_total < n.interned->total) e.request_total = n.interned->total;
      return true;
    case note::request_total:
      e.request_total = static_cast<std::uint32_t>(n.value);
      return true;
    case note::late:
      e.late = true;
      return true;
    case note::skewed:
      e.skewed = true;
      return true;
    case note::by_events:
      e.by_events = true;
      return true;
    case note::incomplete:
      e.incomplete = true;
      return true;
    case note::ended_before_start_ns:
      to.ended_before_start_ns = n.value;
      return true;
    default:
      return false;
  }
}

/// A field of event_fields.hpp, as perfetto_host::put_field writes it.
template <class Field>
void perfetto_reader::read_described(const Field& field, const parsed_note& n, cutrace::event& e) {
  using cutrace::field_form;
  auto& to = field.of(e);
  using type = std::decay_t<decltype(to)>;
  if constexpr (Field::form == field_form::text) {
    to = text_of(n);
  } else if constexpr (Field::form == field_form::word) {
    if (!parse(n.text, to)) complain("unknown word \"" + std::string(n.text.substr(0, 64)) + "\"");
  } else if constexpr (Field::form == field_form::choice) {
    to = n.text == field.words[1];
  } else if constexpr (Field::form == field_form::time) {
    to = session_ns(n.value);
  } else if constexpr (Field::form == field_form::flag) {
    to = n.value != 0;
  } else if constexpr (Field::form == field_form::triple) {  // "64x1x1"
    const char *at = n.text.data(), *const end = at + n.text.size();
    for (std::uint32_t& number : to) {
      const std::from_chars_result read = std::from_chars(at, end, number);
      if (read.ec != std::errc() || (read.ptr != end) != (&number != &to[2]) || (read.ptr != end && *read.ptr != 'x'))
        return complain("not three numbers, as 64x1x1: \"" + std::string(n.text.substr(0, 64)) + "\"");
      at = read.ptr == end ? end : read.ptr + 1;
    }
  } else {
    to = static_cast<type>(n.value);
  }
  field.was_read(e);
}

/// @returns false where the event's kind has no such field
bool perfetto_reader::apply_described(cutrace::event& e, const parsed_note& n) {
  const std::string_view name = n.numbered ? cutrace::detail::field_of_note(n.key) : n.name;
  bool found = false;
  const auto look = [&](const auto& field) {
    using field_type = std::decay_t<decltype(field)>;
    if constexpr (field_type::form != cutrace::field_form::arguments && field_type::form != cutrace::field_form::uuid &&
                  field_type::form != cutrace::field_form::payload) {
      if (found || field.name != name) return;
      found = true;
      read_described(field, n, e);
    }
  };
  cutrace::with_fields(e.kind, [&](const auto&... field) { (look(field), ...); });
  return found;
}

void perfetto_reader::apply_host(open_slice& to, const parsed_note& n) {
  cutrace::event& e = to.e;
  const bool is_stage = e.kind == event_kind::stage || e.kind == event_kind::mark;
  const bool is_call = e.kind == event_kind::api, is_memory = e.kind == event_kind::memory;
  const bool is_described = cutrace::detail::goes_by_fields(e.kind);
  if (!n.numbered) {
    if (is_described && apply_described(e, n)) return;
    if (is_memory && n.name == "memory") {
      if (!parse(n.text, e.memory.memory)) complain("unknown word \"" + std::string(n.text.substr(0, 64)) + "\"");
      return;
    }
    cutrace::argument a;
    if (n.name != "arg" + std::to_string(to.arguments.size())) a.name = to_.texts().intern(n.name);
    a.kind = n.kind;
    a.value = n.is_text ? cutrace::argument::word_of(text_of(n).data) : n.value;
    if (n.is_text) a.kind = argument_kind::string;
    to.arguments.push_back(a);
    return;
  }
  if (apply_common(to, n)) return;
  if (is_stage) {
    switch (n.key) {
      case note::adopted:
        e.stage.adopted = true;
        return;
      case note::thread:
        e.thread_id = static_cast<std::uint32_t>(n.value);
        return;
      case note::domain:
        e.stage.domain = text_of(n);
        e.stage.origin = cutrace::stage_origin::nvtx;
        return;
      case note::category:
        e.stage.origin = cutrace::stage_origin::nvtx;
        if (n.is_text) {
          e.stage.category_name = text_of(n);
        } else {
          e.stage.category = static_cast<std::uint32_t>(n.value);
        }
        return;
      case note::color:
        e.stage.origin = cutrace::stage_origin::nvtx;
        e.stage.color = static_cast<std::uint32_t>(n.value);
        return;
      case note::payload:
        e.stage.origin = cutrace::stage_origin::nvtx;
        e.stage.payload_kind = n.kind;
        e.stage.payload = n.value;
        return;
      default:
        break;
    }
  } else if (is_call) {
    switch (n.key) {
      case note::result:
        e.api.result = static_cast<std::int32_t>(n.value);
        return;
      case note::result_name:
        e.api.result_name = text_of(n);
        return;
      case note::runtime:
        e.api.runtime_name = text_of(n);
        return;
      default:
        break;
    }
  } else if (is_described) {
    if (e.kind == event_kind::alarm && n.key == note::stage) {
      e.stage_name = text_of(n);
      return;
    }
    if (apply_described(e, n)) return;
  } else if (is_memory) {
    switch (n.key) {
      case note::bytes:
        e.memory.bytes = n.value;
        return;
      case note::address:
        e.memory.address = n.value;
        return;
      case note::device:
        e.device = static_cast<std::uint32_t>(n.value);
        return;
      default:
        break;
    }
  }
  complain("a note that this kind of event does not have");
}

void perfetto_reader::apply_gpu(open_slice& to, const parsed_note& n) {
  if (apply_common(to, n)) return;
  cutrace::event& e = to.e;
  const bool is_kernel = e.kind == event_kind::kernel || e.kind == event_kind::graph_launch;
  const bool is_copy = e.kind == event_kind::memcpy, is_set = e.kind == event_kind::memset;
  const auto narrow = static_cast<std::uint32_t>(n.value);
  switch (n.key) {
    case note::stage:
      e.stage_name = text_of(n);
      return;
    case note::capture_stage:
      e.capture_stage_name = text_of(n);
      return;
    case note::attribution:
      if (!parse(n.text, e.joined)) complain("unknown word \"" + std::string(n.text.substr(0, 64)) + "\"");
      return;
    case note::bytes:
      if (is_copy) e.memcpy_.bytes = n.value;
      if (is_set) e.memset_.bytes = n.value;
      return;
    case note::asynchronous:
      if (is_copy) e.memcpy_.asynchronous = true;
      if (is_set) e.memset_.asynchronous = true;
      return;
    case note::value:
      if (is_set) e.memset_.value = narrow;
      return;
    case note::graph_id:
      if (is_kernel) e.kernel.graph_id = narrow;
      if (is_copy) e.memcpy_.graph_id = narrow;
      if (is_set) e.memset_.graph_id = narrow;
      return;
    case note::graph_node_id:
      if (is_kernel) e.kernel.graph_node_id = n.value;
      if (is_copy) e.memcpy_.graph_node_id = n.value;
      if (is_set) e.memset_.graph_node_id = n.value;
      return;
    case note::queued_ts_ns:
      if (is_kernel) e.kernel.queued_ns = session_ns(n.value);
      return;
    case note::submitted_ts_ns:
      if (is_kernel) e.kernel.submitted_ns = session_ns(n.value);
      return;
    case note::source_device:
      if (is_copy) e.memcpy_.source_device = narrow;
      return;
    case note::destination_device:
      if (is_copy) e.memcpy_.destination_device = narrow;
      return;
    default:
      complain("a note that this kind of event does not have");
  }
}

}  // namespace cutrace_reading
