// SPDX-License-Identifier: Apache-2.0
#include "trace/jsonl_reader.hpp"

#include <cutrace/sinks/common/json_trace.hpp>

#include "trace/json_arguments.hpp"

namespace cutrace_reading {

using cutrace::event_kind;

namespace {

/// Of fields that an event of any type may have; those of an unknown type that are named as another type's are its own.
bool is_of_every_event(std::string_view key) noexcept {
  for (const char* const known :
       {"v", "type", "ts_ns", "dur_ns", "name", "pid", "tid", "correlation", "stage", "stage_id", "requests",
        "request_names", "request_total", "late", "ts", "op_id", "phase", "details"})
    if (key == known) return true;
  return false;
}

}  // namespace

void jsonl_reader::read(byte_window& from) {
  has_header_ = has_footer_ = stopped_ = false;
  next_part_.clear();
  at_ = {};
  std::size_t looked_at = 0;  // no line ends before here
  bool skipping = false, ended = false;
  while (!stopped_) {
    const auto* newline = static_cast<const char*>(std::memchr(from.data() + looked_at, '\n', from.size() - looked_at));
    if (newline == nullptr && !ended) {
      looked_at = from.size();
      if (looked_at > line_limit) {
        if (!skipping) {
          at_ = {from.offset(), at_.line + 1};
          complain("a line of more than 16 MiB is passed over");
        }
        skipping = true;
        from.drop(looked_at);
        looked_at = 0;
      }
      ended = !from.more();
      continue;
    }
    const bool last = newline == nullptr;
    if (last && from.size() == 0) break;
    const std::size_t size = last ? from.size() : static_cast<std::size_t>(newline - from.data());
    if (!skipping) {
      at_ = {from.offset(), at_.line + 1};
      read_line(std::string_view(from.data(), size), last);
    }
    skipping = false;
    from.drop(last ? size : size + 1);
    looked_at = 0;
  }
  if (from.source().broken() != nullptr) complain(from.source().broken());
  if (!has_footer_) complain("no footer: the trace was cut short, or is still being written");
  for (std::size_t i = 0; i < open_.size(); ++i) complain("an operation that never ends");
  open_.clear();
}

void jsonl_reader::read_line(std::string_view line, bool last) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  jsonl_fields f{};
  f.kind = event_kind::mark;
  requests_.clear();
  arguments_.clear();
  more_.clear();
  facts_ = trace_facts();
  json_object object;
  simdjson::error_code wrong =
      parser_.iterate(simdjson::padded_string_view(line.data(), line.size(), line.size() + byte_window::padding))
          .get(document_);
  if (wrong == simdjson::SUCCESS) wrong = document_.get_object().get(object);
  if (wrong != simdjson::SUCCESS) {
    return complain(last ? std::string("the last line is cut")
                         : std::string("no JSON object: ") + error_message(wrong));
  }
  const std::uint64_t before = to_.problems().total();
  read_object(object, f);
  const char* rest = nullptr;
  if (document_.current_location().get(rest) == simdjson::SUCCESS && to_.problems().total() == before) {
    complain("something stands behind the object of a line");
  }
  if (f.broken) return;
  if (!f.has_type) return complain("a line without \"type\", or one that is cut");
  look_at_version(f.version);
  if (!has_header_ && !f.is_header) {
    has_header_ = true;
    complain("no header: nothing is known of the process and its clocks");
  }
  if (f.is_header) return head(f);
  if (f.is_footer) return foot(f);
  if (f.paired) return deliver_pair(f);
  if (!f.has_ts) return complain("an event without \"ts_ns\"");
  deliver(f);
}

void jsonl_reader::look_at_version(std::uint64_t version) {
  if (version <= cutrace::detail::json_schema_version || version <= newest_version_) return;
  newest_version_ = version;
  complain("schema " + std::to_string(version) + " is later than " +
           std::to_string(cutrace::detail::json_schema_version) +
           ", which this cutrace knows; what it does not know is kept as it stands and not looked at");
}

/// Header and footer have fields of their own, so the type comes first.
void jsonl_reader::find_type(json_object& object, jsonl_fields& f) {
  for (auto result : object) {
    simdjson::ondemand::field one;
    if (std::move(result).get(one) != simdjson::SUCCESS) break;
    const std::string_view key = raw_key(one);
    if (key == "phase") {
      f.paired = true;
      break;
    }
    if (key != "type") continue;
    std::string_view word;
    if (read_text(one.value(), word) != value_state::good) break;
    f.has_type = true;
    f.is_header = word == "header";
    f.is_footer = word == "footer";
    if (!f.is_header && !f.is_footer && (!parse(word, f.kind) || f.kind == event_kind::other)) {
      f.unknown_type = true;
      f.kind = event_kind::other;
      f.other_type = to_.texts().intern(word);
      complain("unknown type of event \"" + std::string(word.substr(0, 64)) + "\"");
    }
    break;
  }
  bool ignored = false;
  // Once something was broken the document has no beginning any more to go back to.
  if (!document_.is_alive() || object.reset().get(ignored) != simdjson::SUCCESS) {
    f.broken = true;
    complain("a broken object");
  }
}

void jsonl_reader::read_object(json_object object, jsonl_fields& f) {
  if (!f.has_type) find_type(object, f);
  if (f.broken) return;
  field_watch watch(to_.problems(), at_);
  for (auto result : object) {
    simdjson::ondemand::field one;
    const simdjson::error_code wrong = std::move(result).get(one);
    if (wrong != simdjson::SUCCESS) {
      complain(std::string("a broken object: ") + error_message(wrong));
      f.broken = true;
      return;
    }
    const std::string_view key = raw_key(one);
    json_value& v = one.value();
    if (f.is_header && read_header_field(key, v, facts_, watch)) continue;
    if (f.is_footer) {
      if (key == "lines") {
        watch.check(key, read_unsigned(v, stated_lines_));
        continue;
      }
      if (key == "next") {
        std::string_view name;
        watch.check(key, read_text(v, name));
        next_part_ = name;
        f.has_next = true;
        continue;
      }
      if (read_footer_field(key, v, totals_, watch)) continue;
    }
    if (f.unknown_type && !is_of_every_event(key))
      read_unknown(key, v);
    else
      read_field(key, v, f);
  }
}

/// Keeps a field as it stands, if it is JSON: whoever writes it again must not write a broken line.
void jsonl_reader::read_unknown(std::string_view key, json_value& v) {
  const auto raw_of = [&](std::string_view& raw) {
    simdjson::ondemand::json_type type{};
    simdjson::error_code wrong = v.type().get(type);
    if (wrong != simdjson::SUCCESS) return wrong;
    if (type == simdjson::ondemand::json_type::object) {
      json_object object;
      wrong = v.get_object().get(object);
      return wrong != simdjson::SUCCESS ? wrong : object.raw_json().get(raw);
    }
    if (type == simdjson::ondemand::json_type::array) {
      json_array array;
      wrong = v.get_array().get(array);
      return wrong != simdjson::SUCCESS ? wrong : array.raw_json().get(raw);
    }
    raw = v.raw_json_token();
    return simdjson::SUCCESS;
  };
  std::string_view raw;
  std::string object = "{\"";
  simdjson::error_code wrong = raw_of(raw);
  if (wrong == simdjson::SUCCESS) {
    object.append(key).append("\":").append(raw).append("}");
    wrong = checker_.parse(object).error();
  }
  if (wrong != simdjson::SUCCESS) return complain(wrong_field(key, state_of(wrong)) + ", and is left out");
  more_.append(more_.empty() ? "" : ",").append(object, 1, object.size() - 2);
}

void jsonl_reader::add_more(cutrace::event& e, std::string_view fields) {
  if (!fields.empty()) e.more = to_.keep(fields);
}

value_state jsonl_reader::read_interned(json_value& v, cutrace::text& to) {
  std::string_view s;
  const value_state state = read_text(v, s);
  if (state == value_state::good) to = to_.texts().intern(s);
  return state;
}

template <class Enum>
value_state jsonl_reader::read_word(json_value& v, Enum& to) {
  std::string_view s;
  const value_state state = read_text(v, s);
  if (state != value_state::good) return state;
  if (!parse(s, to)) complain("unknown word \"" + std::string(s.substr(0, 64)) + "\"");
  return state;
}

bool jsonl_reader::read_number_field(std::string_view key, json_value& v, jsonl_fields& f) {
  field_watch watch(to_.problems(), at_);
  const auto whole = [&](auto& to) { watch.check(key, read_unsigned(v, to)); };
  const auto signed_ns = [&](std::int64_t& to) { watch.check(key, read_signed(v, to)); };
  switch (word_key(key)) {
    case word_key("v"):
      return whole(f.version), true;
    case word_key("ts_ns"): {
      const value_state state = read_signed(v, f.ts_ns);
      f.has_ts = state == value_state::good;
      return watch.check(key, state), true;
    }
    case word_key("dur_ns"):
      return signed_ns(f.dur_ns), true;
    case word_key("pid"):
      return whole(f.pid), true;
    case word_key("tid"):
      return whole(f.tid), true;
    case word_key("correlation"):
      return whole(f.correlation), true;
    case word_key("stage_id"):
      return whole(f.stage_id), true;
    case word_key("capture_stage_id"):
      return whole(f.capture_stage_id), true;
    case word_key("request_total"):
      return whole(f.total_requests), true;
    case word_key("device"):
      return whole(f.device), true;
    case word_key("context"):
      return whole(f.context), true;
    case word_key("stream"):
      return whole(f.stream), true;
    case word_key("call_ts_ns"):
      f.knows_call = true;
      return signed_ns(f.call_ts_ns), true;
    case word_key("graph_id"):
      return whole(f.graph_id), true;
    case word_key("graph_node_id"):
      return whole(f.graph_node_id), true;
    case word_key("bytes"):
      return whole(f.bytes), true;
    case word_key("function"):
      return whole(f.function), true;
    case word_key("result"): {
      f.has_result = true;
      if (f.kind == cutrace::event_kind::system) return signed_ns(f.result), true;
      std::int32_t code = 0;
      watch.check(key, read_signed32(v, code));
      f.result = code;
      return true;
    }
    case word_key("cpu"):
      return whole(f.cpu), true;
    case word_key("registers_per_thread"):
      return whole(f.registers_per_thread), true;
    case word_key("static_shared_bytes"):
      return whole(f.static_shared_bytes), true;
    case word_key("dynamic_shared_bytes"):
      return whole(f.dynamic_shared_bytes), true;
    case word_key("local_bytes_per_thread"):
      return whole(f.local_bytes_per_thread), true;
    case word_key("priority"):
      return watch.check(key, read_signed32(v, f.priority)), true;
    case word_key("queued_ts_ns"):
      return signed_ns(f.queued_ts_ns), true;
    case word_key("submitted_ts_ns"):
      return signed_ns(f.submitted_ts_ns), true;
    case word_key("source_device"):
      return whole(f.source_device), true;
    case word_key("destination_device"):
      return whole(f.destination_device), true;
    case word_key("value"): {
      whole_number n;
      value_state state = read_whole(v, n);
      const bool is_counter = f.kind == event_kind::counter;
      if (state == value_state::good &&
          (is_counter ? !n.negative && n.bits >> 63 != 0 : n.negative || n.bits >> 32 != 0))
        state = value_state::out_of_range;
      if (state == value_state::good) f.value = n.bits;
      return watch.check(key, state), true;
    }
    case word_key("change"):
      return signed_ns(f.change), true;
    case word_key("event_id"):
      return whole(f.event_id), true;
    case word_key("count"):
      return whole(f.count), true;
    case word_key("depth"):
      return whole(f.depth), true;
    case word_key("parent"):
      return whole(f.parent), true;
    case word_key("line"):
      return whole(f.line), true;
    case word_key("category"):
      return whole(f.category), true;
    case word_key("memory_bytes"):
      return whole(f.memory_bytes), true;
    case word_key("memory_bandwidth_bytes_per_s"):
      return whole(f.memory_bandwidth), true;
    case word_key("multiprocessors"):
      return whole(f.multiprocessors), true;
    case word_key("compute_major"):
      return whole(f.compute_major), true;
    case word_key("compute_minor"):
      return whole(f.compute_minor), true;
    case word_key("core_clock_khz"):
      return whole(f.core_clock_khz), true;
    case word_key("flags"):
      return whole(f.flags), true;
    case word_key("ts"):
      return signed_ns(f.paired_ts_ns), true;
    case word_key("op_id"):
      return whole(f.op_id), true;
    case word_key("enclosing"):
      return whole(f.enclosing), true;
    case word_key("joined"):
      return whole(f.joined), true;
    default:
      return false;
  }
}

bool jsonl_reader::read_word_field(std::string_view key, json_value& v, jsonl_fields& f) {
  field_watch watch(to_.problems(), at_);
  const auto text = [&](cutrace::text& to) { watch.check(key, read_interned(v, to)); };
  const auto word = [&](auto& to) { watch.check(key, read_word(v, to)); };
  const auto truth = [&](bool& to) { watch.check(key, read_bool(v, to)); };
  const auto hex = [&](std::uint64_t& to) { watch.check(key, read_hex(v, to)); };
  switch (word_key(key)) {
    case word_key("type"):
      return true;
    case word_key("name"):
      return text(f.name), true;
    case word_key("stage"):
      return text(f.stage), true;
    case word_key("capture_stage"):
      return text(f.capture_stage), true;
    case word_key("attribution"):
      return word(f.attribution), true;
    case word_key("call"):
      return text(f.call), true;
    case word_key("runtime"):
      return text(f.runtime), true;
    case word_key("result_name"):
      return text(f.result_name), true;
    case word_key("mangled_name"):
      return text(f.mangled_name), true;
    case word_key("file"):
      return text(f.file), true;
    case word_key("domain"):
      return text(f.domain), true;
    case word_key("category_name"):
      return text(f.category_name), true;
    case word_key("direction"):
      return word(f.direction), true;
    case word_key("source"):
      return word(f.source), true;
    case word_key("destination"):
      return word(f.destination), true;
    case word_key("memory"):
      return word(f.memory), true;
    case word_key("sync"):
      return word(f.sync), true;
    case word_key("operation"):
      return word(f.operation), true;
    case word_key("cause"):
      return word(f.cause), true;
    case word_key("late"):
      return truth(f.late), true;
    case word_key("skewed"):
      return truth(f.skewed), true;
    case word_key("by_events"):
      return truth(f.by_events), true;
    case word_key("incomplete"):
      return truth(f.incomplete), true;
    case word_key("adopted"):
      return truth(f.adopted), true;
    case word_key("span"):
      return truth(f.span), true;
    case word_key("gauge"):
      return truth(f.gauge), true;
    case word_key("async"):
      return truth(f.asynchronous), true;
    case word_key("derived"):
      return truth(f.derived), true;
    case word_key("address"):
      return hex(f.address), true;
    case word_key("color"):
      return hex(f.color), true;
    case word_key("api"):
    case word_key("origin"):
    case word_key("phase"): {
      std::string_view s;
      watch.check(key, read_text(v, s));
      if (key == "api") f.runtime_api = s == "runtime";
      if (key == "origin") f.nvtx = s == "nvtx";
      if (key == "phase") f.ends = s == "E";
      const bool known = key == "api"      ? s == "runtime" || s == "driver"
                         : key == "origin" ? s == "nvtx" || s == "marker"
                                           : s == "B" || s == "E";
      if (!known) complain("unknown word \"" + std::string(s.substr(0, 64)) + "\"");
      return true;
    }
    default:
      return false;
  }
}

void jsonl_reader::read_field(std::string_view key, json_value& v, jsonl_fields& f) {
  if (read_number_field(key, v, f) || read_word_field(key, v, f)) return;
  field_watch of_ioctl(to_.problems(), at_);
  if (f.kind == cutrace::event_kind::ioctl && read_ioctl_field(key, v, to_.texts(), f.ioctl, of_ioctl)) return;
  field_watch watch(to_.problems(), at_);
  switch (word_key(key)) {
    case word_key("requests"):
      return read_requests(key, v, false, requests_, watch);
    case word_key("request_names"):
      return read_requests(key, v, true, requests_, watch);
    case word_key("grid"):
      return watch.check(key, read_triple(v, f.grid));
    case word_key("block"):
      return watch.check(key, read_triple(v, f.block));
    case word_key("cluster"):
      return watch.check(key, read_triple(v, f.cluster));
    case word_key("args"):
      return read_arguments(key, v, to_.texts(), f.kind == cutrace::event_kind::system, arguments_, watch);
    case word_key("payload"): {
      cutrace::argument a;
      watch.check(key, read_argument(v, nullptr, a));
      f.payload = a.value;
      f.payload_kind = a.kind;
      return;
    }
    case word_key("uuid"):
      return watch.check(key, read_uuid(v, f.uuid));
    case word_key("details"): {
      json_object details;
      const value_state state = state_of(v.get_object().get(details));
      if (state != value_state::good) return watch.wrong(key, state);
      return read_object(details, f);
    }
    default:
      watch.unknown(key);
      if (!f.is_header && !f.is_footer) read_unknown(key, v);
      return;
  }
}

void jsonl_reader::deliver(const jsonl_fields& line) {
  jsonl_fields f = line;
  f.requests = requests_.finish();
  f.request_count = static_cast<std::uint32_t>(requests_.size());
  if (!arguments_.empty()) {
    cutrace::argument* const copy = to_.arguments(arguments_.size());
    std::copy(arguments_.begin(), arguments_.end(), copy);
    f.arguments = copy;
    f.argument_count = static_cast<std::uint32_t>(arguments_.size());
  }
  cutrace::event& e = to_.begin();
  fill(e, f);
  add_more(e, more_);
  to_.add(at_);
}

/// All is known when an event begins but its end. It is delivered then, so that the order is that of ends.
void jsonl_reader::deliver_pair(const jsonl_fields& f) {
  if (!f.ends) return begin_operation(f);
  const auto at = open_.find(f.op_id);
  if (at == open_.end()) return complain("an end without its begin");
  open_operation& o = at->second;
  cutrace::event& e = to_.begin();
  e = o.e;
  e.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(e.start_ns) + static_cast<std::uint64_t>(f.dur_ns));
  requests_.clear();
  for (const cutrace::request_ref& r : o.requests)
    r.name.size != 0 ? requests_.add({r.name.data, r.name.size}) : requests_.add(r.id);
  e.requests = requests_.finish();
  if (!o.arguments.empty()) {
    cutrace::argument* const copy = to_.arguments(o.arguments.size());
    std::copy(o.arguments.begin(), o.arguments.end(), copy);
    (e.kind == cutrace::event_kind::system ? e.system.arguments : e.api.arguments) = copy;
  }
  if (!o.more.empty() && !more_.empty()) o.more += ',';
  add_more(e, o.more += more_);
  open_.erase(at);
  to_.add(at_);
}

void jsonl_reader::begin_operation(const jsonl_fields& line) {
  if (open_.size() >= open_limit) return complain("more operations are open than can be kept");
  jsonl_fields f = line;
  f.ts_ns = f.paired_ts_ns;
  f.request_count = static_cast<std::uint32_t>(requests_.size());
  f.argument_count = static_cast<std::uint32_t>(arguments_.size());
  open_operation o;
  fill(o.e, f);
  o.requests = requests_.all();
  o.arguments = arguments_;
  o.more = more_;
  if (!open_.emplace(f.op_id, std::move(o)).second) complain("two operations with one number");
}

void jsonl_reader::head(const jsonl_fields&) {
  if (!has_header_ || !to_.is_open()) {
    has_header_ = true;
    first_line_ = at_.line;
    return to_.open(facts_);
  }
  try {
    first_line_ = at_.line;
    to_.open(facts_);
    to_.next_file();  // a part behind another, in one file
    has_footer_ = false;
  } catch (const reading_error&) {
    complain("the header of another trace: what follows it is left out");
    stopped_ = has_footer_ = true;
  }
}

void jsonl_reader::foot(const jsonl_fields& f) {
  has_footer_ = true;
  if (stated_lines_ != 0 && stated_lines_ != at_.line - first_line_) {
    complain("the footer counts " + std::to_string(stated_lines_) + " lines, and there are " +
             std::to_string(at_.line - first_line_));
  }
  stated_lines_ = 0;
  if (f.has_next) return to_.part_ended();
  next_part_.clear();
  to_.close(std::move(totals_));
  totals_ = trace_totals();
}

}  // namespace cutrace_reading
