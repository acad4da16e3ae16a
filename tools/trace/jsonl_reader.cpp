// SPDX-License-Identifier: Apache-2.0
#include "trace/jsonl_reader.hpp"

#include <cutrace/sinks/common/json_trace.hpp>

#include "trace/json_arguments.hpp"

namespace cutrace_reading {

using cutrace::event;
using cutrace::event_kind;

namespace {

/// Stands in call_start_ns until the line says it.
constexpr std::int64_t not_said = INT64_MIN;

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
  open_ = {};
}

void jsonl_reader::read_line(std::string_view line, bool last) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  jsonl_line f;
  f.e.call_start_ns = not_said;
  requests_.clear();
  arguments_.clear();
  more_.clear();
  facts_ = trace_facts();
  json_object object;
  simdjson::error_code wrong =
      parser_.iterate(simdjson::padded_string_view(line.data(), line.size(), line.size() + byte_window::padding))
          .get(document_);
  check_memory(wrong);
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
void jsonl_reader::find_type(json_object& object, jsonl_line& f) {
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
    if (f.is_header || f.is_footer) break;
    if (!parse(word, f.e.kind) || f.e.kind == event_kind::other) {
      f.e.kind = event_kind::other;
      f.e.other.type = to_.texts().intern(word);
      complain("unknown type of event \"" + std::string(word.substr(0, 64)) + "\"");
    }
    f.fields = &readable_fields(f.e.kind);
    break;
  }
  bool ignored = false;
  // Once something was broken the document has no beginning any more to go back to.
  if (!document_.is_alive() || object.reset().get(ignored) != simdjson::SUCCESS) {
    f.broken = true;
    complain("a broken object");
  }
}

void jsonl_reader::read_object(json_object object, jsonl_line& f) {
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
        next_part_ = cut_fact(name);
        f.has_next = true;
        continue;
      }
      if (read_footer_field(key, v, totals_, watch)) continue;
    }
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
    check_memory(wrong);
  }
  if (wrong != simdjson::SUCCESS) return complain(wrong_field(key, state_of(wrong)) + ", and is left out");
  more_.append(more_.empty() ? "" : ",").append(object, 1, object.size() - 2);
}

void jsonl_reader::add_more(cutrace::event& e, std::string_view fields) {
  if (!fields.empty()) e.more = to_.keep(fields);
}

void jsonl_reader::read_field(std::string_view key, json_value& v, jsonl_line& f) {
  const field_target to{f.e, arguments_, to_.texts(), to_.problems(), at_};
  field_watch watch(to_.problems(), at_);
  // Fields come in the order in which they are written, so the next one is known mostly.
  const readable_field* known = nullptr;
  if (f.fields != nullptr && (*f.fields)[f.next].name == key) known = find_field(*f.fields, key, f.next);
  if (known == nullptr && read_line_field(key, v, f, watch)) return;
  if (known == nullptr && f.fields != nullptr) known = find_field(*f.fields, key, f.next);
  if (known != nullptr) return watch.check(key, known->read(*known, v, to));
  if (f.e.kind != event_kind::other || f.fields == nullptr) watch.unknown(key);
  if (!f.is_header && !f.is_footer) read_unknown(key, v);
}

/// Fields that lines of any kind may have, not those of one kind.
bool jsonl_reader::read_line_field(std::string_view key, json_value& v, jsonl_line& f, field_watch& watch) {
  switch (word_key(key)) {
    case word_key("v"):
      return watch.check(key, read_unsigned(v, f.version)), true;
    case word_key("type"):
      return true;
    case word_key("ts_ns"): {
      const value_state state = read_signed(v, f.e.start_ns);
      f.has_ts = state == value_state::good;
      return watch.check(key, state), true;
    }
    case word_key("dur_ns"):
      return watch.check(key, read_signed(v, f.dur_ns)), true;
    case word_key("name"): {
      std::string_view s;
      const value_state state = read_text(v, s);
      if (state == value_state::good) f.e.name = to_.texts().intern(s);
      return watch.check(key, state), true;
    }
    case word_key("requests"):
      return read_requests(key, v, false, requests_, watch), true;
    case word_key("request_names"):
      return read_requests(key, v, true, requests_, watch), true;
    case word_key("ts"):
      return watch.check(key, read_signed(v, f.paired_ts_ns)), true;
    case word_key("op_id"):
      return watch.check(key, read_unsigned(v, f.op_id)), true;
    case word_key("phase"): {
      std::string_view s;
      watch.check(key, read_text(v, s));
      f.ends = s == "E";
      if (s != "B" && s != "E") complain("unknown word \"" + std::string(s.substr(0, 64)) + "\"");
      return true;
    }
    case word_key("details"): {
      if (f.in_details) return false;  // only once, or the stack is as deep as the file says
      f.in_details = true;
      json_object details;
      const value_state state = state_of(v.get_object().get(details));
      if (state == value_state::good)
        read_object(details, f);
      else
        watch.wrong(key, state);
      f.in_details = false;
      return true;
    }
    default:
      return false;
  }
}

/// Completes what the fields of a line say.
void jsonl_reader::complete(jsonl_line& f) {
  event& e = f.e;
  e.end_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(e.start_ns) + static_cast<std::uint64_t>(f.dur_ns));
  if (e.call_start_ns == not_said) e.call_start_ns = e.is_on_gpu() ? e.start_ns : 0;
  e.request_count = static_cast<std::uint32_t>(requests_.size());
  const std::uint64_t all = requests_.size() + requests_.left_out();
  if (e.request_total < all && (e.request_total == 0 || requests_.left_out() != 0))
    e.request_total = static_cast<std::uint32_t>(std::min<std::uint64_t>(all, UINT32_MAX));
}

void jsonl_reader::deliver(jsonl_line& f) {
  complete(f);
  event& e = to_.begin();
  e = f.e;
  e.requests = requests_.finish();
  to_.set_arguments(e, arguments_);
  add_more(e, more_);
  to_.add(at_);
}

/// The line of a begin has all but the end. The event is delivered with the line of its end, so in the order of ends.
void jsonl_reader::deliver_pair(jsonl_line& f) {
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
  to_.set_arguments(e, o.arguments);
  if (!o.more.empty() && !more_.empty()) o.more += ',';
  add_more(e, o.more.append(more_.data(), more_.size()));
  open_.erase(at);
  to_.add(at_);
}

void jsonl_reader::begin_operation(jsonl_line& f) {
  if (open_.size() >= open_limit) return complain("more operations are open than can be kept");
  f.e.start_ns = f.paired_ts_ns;
  complete(f);
  open_operation o;
  o.e = f.e;
  o.requests.assign(requests_.all().begin(), requests_.all().end());
  o.arguments.assign(arguments_.begin(), arguments_.end());
  o.more.assign(more_.data(), more_.size());
  if (!open_.emplace(f.op_id, std::move(o)).second) complain("two operations with one number");
}

void jsonl_reader::head(const jsonl_line&) {
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
    complain("the header of another trace, or of an earlier part: what follows it is left out");
    stopped_ = has_footer_ = true;
  }
}

void jsonl_reader::foot(const jsonl_line& f) {
  has_footer_ = true;
  if (stated_lines_ != 0 && stated_lines_ != at_.line - first_line_) {
    complain("the footer counts " + std::to_string(stated_lines_) + " lines, and there are " +
             std::to_string(at_.line - first_line_));
  }
  stated_lines_ = 0;
  if (f.has_next) return;
  next_part_.clear();
  to_.close(std::move(totals_));
  totals_ = trace_totals();
}

}  // namespace cutrace_reading
