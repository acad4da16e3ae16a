// SPDX-License-Identifier: Apache-2.0
#include "trace/chrome_reader.hpp"

#include <algorithm>
#include <cutrace/event_fields.hpp>
#include <limits>

#include "trace/json_arguments.hpp"
#include "trace/json_fields.hpp"
#include "trace/json_value.hpp"

namespace cutrace_reading {

using cutrace::event_kind;

namespace {

/// Microseconds with a fraction, as text, to nanoseconds; smaller parts are cut off. Exact, as no double is.
value_state nanoseconds(std::string_view token, std::int64_t& ns) noexcept {
  std::size_t at = 0;
  const bool negative = !token.empty() && token[0] == '-';
  if (negative) ++at;
  const std::size_t first = at;
  std::uint64_t sum = 0;
  const auto digit = [&](char c) {
    const auto d = static_cast<std::uint64_t>(c - '0');
    if (sum > (std::uint64_t{1} << 63) / 10) return false;
    sum = sum * 10 + d;
    return sum <= std::uint64_t{1} << 63;
  };
  for (; at < token.size() && token[at] >= '0' && token[at] <= '9'; ++at)
    if (!digit(token[at])) return value_state::out_of_range;
  if (at == first) return value_state::wrong_type;
  unsigned decimals = 0;
  if (at < token.size() && token[at] == '.') {
    for (++at; at < token.size() && token[at] >= '0' && token[at] <= '9'; ++at) {
      if (decimals == 3) continue;
      if (!digit(token[at])) return value_state::out_of_range;
      ++decimals;
    }
  }
  for (; decimals < 3; ++decimals)
    if (!digit('0')) return value_state::out_of_range;
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) return value_state::wrong_type;
  if (!negative && sum > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return value_state::out_of_range;
  ns = static_cast<std::int64_t>(negative ? 0 - sum : sum);
  return value_state::good;
}

}  // namespace

void chrome_reader::read(byte_window& from, const std::string& path) {
  json_splitter pieces(from, to_.problems());
  ours_ = began_ = totals_seen_ = false;
  has_path_ = !path.empty();
  for (json_splitter::piece p = pieces.next(); p != json_splitter::piece::end; p = pieces.next()) {
    at_ = pieces.at();
    if (p == json_splitter::piece::field) {
      read_head(pieces.key(), pieces.text());
      continue;
    }
    if (!began_) begin_events(path);
    read_event(pieces.text());
  }
  at_ = pieces.at();
  if (!began_) begin_events(path);
  deliver_block();
  if (from.source().broken() != nullptr) complain(from.source().broken());
  if (!pieces.whole()) return;
  if (ours_ && !totals_seen_) return complain("no totals: the trace has lost its end");
  rows_.describe(at_);
  if (!ours_) to_.close_uncounted();
}

void chrome_reader::finish() {
  if (!next_part_.empty()) complain("the next part, " + next_part_ + ", was not given");
}

bool chrome_reader::parse(std::string_view text, json_object& object) {
  padded_.assign(text);
  padded_.resize(text.size() + byte_window::padding);
  const simdjson::error_code wrong =
      head_parser_.iterate(simdjson::padded_string_view(padded_.data(), text.size(), padded_.size()))
          .get(head_document_);
  check_memory(wrong);
  return wrong == simdjson::SUCCESS && head_document_.get_object().get(object) == simdjson::SUCCESS;
}

/// A field of the document beside its events.
void chrome_reader::read_head(std::string_view key, std::string_view text) {
  field_watch watch(to_.problems(), at_);
  json_object object;
  if (key == "cutraceInfo") {
    facts_ = trace_facts();
    if (!parse(text, object)) return watch.wrong(key, value_state::broken);
    ours_ = true;
    for (auto result : object) {
      simdjson::ondemand::field f;
      if (std::move(result).get(f) != simdjson::SUCCESS) return watch.wrong(key, value_state::broken);
      const std::string_view name = raw_key(f);
      if (!read_header_field(name, f.value(), facts_, watch)) watch.unknown(name);
    }
  } else if (key == "cutraceSummary") {
    if (!parse(text, object)) return watch.wrong(key, value_state::broken);
    totals_seen_ = true;
    bool has_next = false;
    for (auto result : object) {
      simdjson::ondemand::field f;
      if (std::move(result).get(f) != simdjson::SUCCESS) return watch.wrong(key, value_state::broken);
      const std::string_view name = raw_key(f);
      std::string_view next;
      if (name == "next" && read_text(f.value(), next) == value_state::good) {
        next_part_ = cut_fact(next);
        has_next = true;
      } else if (!read_footer_field(name, f.value(), totals_, watch)) {
        watch.unknown(name);
      }
    }
    if (has_next) return;
    next_part_.clear();
    deliver_block();
    to_.close(std::move(totals_));
    totals_ = trace_totals();
  } else if (key == "baseTimeNanoseconds" || key == "cutracePart") {
    whole_number n;
    const value_state state = parse_whole(text, n);
    if (state != value_state::good) return watch.wrong(key, state);
    if (key == "cutracePart") {
      facts_.part = static_cast<std::uint32_t>(std::min<std::uint64_t>(n.bits, UINT32_MAX));
    } else {
      base_ns_ = static_cast<std::int64_t>(n.bits);
    }
  } else if (key == "distributedInfo" && !ours_) {
    if (!parse(text, object)) return watch.wrong(key, value_state::broken);
    for (auto result : object) {
      simdjson::ondemand::field f;
      if (std::move(result).get(f) != simdjson::SUCCESS) return;
      const std::string_view name = raw_key(f);
      if (name == "rank") watch.check(name, read_signed32(f.value(), facts_.rank));
      if (name == "world_size") watch.check(name, read_signed32(f.value(), facts_.world_size));
    }
  } else if (key == "deviceProperties") {
    // An array of flat objects.
    for (std::size_t at = text.find('{'); at != std::string_view::npos;) {
      const std::size_t end = text.find('}', at);
      if (end == std::string_view::npos || !rows_.add_device(text.substr(at, end - at + 1)))
        return watch.wrong(key, value_state::broken);
      at = text.find('{', end);
    }
  }
  // Others are versions and settings of the writer.
}

void chrome_reader::begin_events(const std::string& path) {
  began_ = true;
  to_.expect_no_order();
  if (!ours_) {
    if (has_origin_)
      throw reading_error(
          "PyTorch's profiler writes each trace into one file; only the parts of one trace can be given together "
          "(cutrace merge joins the traces of several processes)");
    calls_.keep(block_limit);
    return;  // deliver_block opens the sink: the first block shows when the trace begins
  }
  to_.look_ahead([this](cutrace::event& e) { calls_.finish(e); });
  if (has_path_) rows_.look_through(path);
  to_.open(facts_);     // of a further part: compares its facts with those of the first
  rows_.describe(at_);  // of a further part: only rows that are new
}

void chrome_reader::read_event(std::string_view text) {
  simdjson::ondemand::document document;
  json_object object;
  simdjson::error_code wrong =
      parser_.iterate(simdjson::padded_string_view(text.data(), text.size(), text.size() + byte_window::padding))
          .get(document);
  check_memory(wrong);
  if (wrong == simdjson::SUCCESS) wrong = document.get_object().get(object);
  if (wrong != simdjson::SUCCESS) return complain(std::string("no JSON object: ") + error_message(wrong));
  chrome_fields f{};
  requests_.clear();
  arguments_.clear();
  if (!read_fields(object, f)) return;
  if (f.args_wait) {
    // Not object.reset(): it keeps the unescaped strings of the first pass in the parser's buffer, which has room for
    // each string of the document once. rewind() empties the buffer.
    document.rewind();
    if (document.get_object().get(object) != simdjson::SUCCESS || !read_fields(object, f)) return;
  }
  if (!f.has_phase) return complain("an event without \"ph\"");
  if (f.phase == "M") {
    rows_.add(f.pid, f.tid, f.name_text, f.meta_value);
    return;
  }
  if (f.phase == "s" || f.phase == "t" || f.phase == "f") return;  // arrows, which repeat what correlation ids say
  if (!f.has_ts) return complain("an event without \"ts\"");
  cutrace::event e;
  if (make(e, f)) deliver(e, f);
}

bool chrome_reader::read_fields(json_object object, chrome_fields& f) {
  for (auto result : object) {
    simdjson::ondemand::field one;
    const simdjson::error_code wrong = std::move(result).get(one);
    if (wrong != simdjson::SUCCESS) {
      complain(std::string("a broken object: ") + error_message(wrong));
      return false;
    }
    const std::string_view key = raw_key(one);
    read_field(key, one.value(), f);
    if (f.broken) return false;
  }
  return true;
}

value_state chrome_reader::read_time(json_value& v, std::int64_t& ns) {
  std::string_view token = v.raw_json_token();
  while (!token.empty() && (token.back() == ' ' || token.back() == '\n' || token.back() == '\r'))
    token.remove_suffix(1);
  const value_state state = nanoseconds(token, ns);
  double d = 0;
  if (state != value_state::wrong_type) return state;
  const value_state as_double = state_of(v.get_double().get(d));  // 1.5e6
  if (as_double != value_state::good) return as_double;
  if (!(d > -9e15 && d < 9e15)) return value_state::out_of_range;
  ns = static_cast<std::int64_t>(d * 1000);
  return value_state::good;
}

void chrome_reader::read_field(std::string_view key, json_value& v, chrome_fields& f) {
  field_watch watch(to_.problems(), at_);
  const auto id = [&](std::uint64_t& to) {
    whole_number n;
    const std::string_view token = v.raw_json_token();
    if (!token.empty() && token[0] == '"') {
      f.text_pid = true;  // rows that Kineto makes up
      return;
    }
    const value_state state = read_whole(v, n);
    watch.check(key, state);
    to = n.bits;
  };
  switch (word_key(key)) {
    case word_key("ph"):
      f.has_phase = read_text(v, f.phase) == value_state::good;
      return;
    case word_key("cat"):
      return watch.check(key, read_text(v, f.category));
    case word_key("name"):
      return watch.check(key, read_text(v, f.name_text));
    case word_key("pid"):
      return id(f.pid);
    case word_key("tid"):
      return id(f.tid);
    case word_key("ts"): {
      const value_state state = read_time(v, f.ts_ns);
      f.has_ts = state == value_state::good;
      return watch.check(key, state);
    }
    case word_key("dur"):
      return watch.check(key, read_time(v, f.dur_ns));
    case word_key("args"):
      // The category says how to read "args"; a writer that sorts keys puts it after them.
      f.args_wait = ours_ && f.category.empty() && !f.args_wait;
      if (f.args_wait) return;
      f.goes_by_fields =
          ours_ && cutrace_reading::parse(f.category, f.said.kind) && cutrace::detail::goes_by_fields(f.said.kind);
      return read_args(v, f);
    case word_key("id"):
    case word_key("bp"):
    case word_key("s"):
      return;
    default:
      if (ours_) watch.unknown(key);
  }
}

void chrome_reader::read_args(json_value& v, chrome_fields& f) {
  field_watch watch(to_.problems(), at_);
  json_object object;
  const value_state state = state_of(v.get_object().get(object));
  if (state != value_state::good) return watch.wrong("args", state);
  for (auto result : object) {
    simdjson::ondemand::field one;
    const simdjson::error_code wrong = std::move(result).get(one);
    if (wrong != simdjson::SUCCESS) {
      f.broken = true;
      return complain(std::string("a broken object: ") + error_message(wrong));
    }
    const std::string_view key = raw_key(one);
    json_value& value = one.value();
    if (f.goes_by_fields) {
      const auto& all = readable_fields_of_kind(f.said.kind);
      const readable_field* const known = find_field(all, key == "arguments" ? "args" : key, f.next);
      if (known != nullptr) {
        watch.check(key, known->read(*known, value, {f.said, arguments_, to_.texts(), to_.problems(), at_}));
        continue;
      }
    }
    if (read_number_arg(key, value, f) || read_word_arg(key, value, f)) continue;
    if (ours_) watch.unknown(key);
  }
}

bool chrome_reader::read_number_arg(std::string_view key, json_value& v, chrome_fields& f) {
  field_watch watch(to_.problems(), at_);
  const auto whole = [&](auto& to) { watch.check(key, read_unsigned(v, to)); };
  const auto number = [&](std::int64_t& to) { watch.check(key, read_signed(v, to)); };
  const auto triple = [&](std::uint32_t(&to)[3]) { watch.check(key, read_triple(v, to)); };
  switch (word_key(key)) {
    case word_key("device"):
      return whole(f.device), true;
    case word_key("context"):
      return whole(f.context), true;
    case word_key("stream"): {
      whole_number n;
      const value_state state = read_whole(v, n);
      watch.check(key, state);
      f.has_stream = state == value_state::good;
      f.no_stream = n.negative;
      f.stream = n.bits;
      return true;
    }
    case word_key("cuda_stream"):
      f.has_cuda_stream = true;
      return whole(f.cuda_stream), true;
    case word_key("correlation"):
      return whole(f.correlation), true;
    case word_key("External id"):
      return whole(f.external_id), true;
    case word_key("queued"):
      return number(f.queued_ns), true;
    case word_key("registers per thread"):
      return whole(f.registers_per_thread), true;
    case word_key("shared memory"): {
      std::uint64_t bytes = 0;
      whole(bytes);
      f.shared_bytes = static_cast<std::uint32_t>(bytes);
      return true;
    }
    case word_key("grid"):
      f.has_grid = true;
      return triple(f.grid), true;
    case word_key("block"):
      return triple(f.block), true;
    case word_key("cluster"):
      return triple(f.cluster), true;
    case word_key("priority"):
      return watch.check(key, read_signed32(v, f.priority)), true;
    case word_key("graph id"):
      return whole(f.graph_id), true;
    case word_key("graph node id"):
      return whole(f.graph_node_id), true;
    case word_key("bytes"):
      return whole(f.bytes), true;
    case word_key("fromDevice"):
      return whole(f.from_device), true;
    case word_key("toDevice"):
      return whole(f.to_device), true;
    case word_key("wait_on_cuda_event_id"): {
      whole_number n;
      watch.check(key, read_whole(v, n));
      f.event_id = n.negative ? 0 : static_cast<std::uint32_t>(n.bits);
      return true;
    }
    case word_key("cbid"):
      return whole(f.function), true;
    case word_key("result"): {
      std::int32_t code = 0;
      watch.check(key, read_signed32(v, code));
      f.result = code;
      return true;
    }
    case word_key("stage_id"):
      return whole(f.stage_id), true;
    case word_key("capture_stage_id"):
      return whole(f.capture_stage_id), true;
    case word_key("request_total"):
      return whole(f.request_total), true;
    case word_key("parent"):
      return whole(f.parent), true;
    case word_key("thread"):
      return whole(f.thread), true;
    case word_key("process"):
      if (ours_) whole(f.process);
      return true;
    case word_key("value"):
      if (ours_) return number(f.value), true;
      return true;
    case word_key("count"):
      return whole(f.count), true;
    case word_key("ended_before_start_ns"):
      return number(f.ended_before_start_ns), true;
    case word_key("category"):
      if (ours_) whole(f.category_number);
      return true;
    case word_key("blocks per SM"):
    case word_key("warps per SM"):
    case word_key("est. achieved occupancy %"):
    case word_key("memory bandwidth (GB/s)"):  // these follow from other fields
    case word_key("sort_index"):               // for viewers
      return true;
    default:
      return false;
  }
}

bool chrome_reader::read_word_arg(std::string_view key, json_value& v, chrome_fields& f) {
  field_watch watch(to_.problems(), at_);
  const auto text = [&](cutrace::text& to) {
    std::string_view s;
    const value_state state = read_text(v, s);
    watch.check(key, state);
    if (state == value_state::good) to = to_.texts().intern(s);
  };
  const auto word = [&](auto& to) {
    std::string_view s;
    const value_state state = read_text(v, s);
    if (state != value_state::good) return watch.wrong(key, state);
    if (!cutrace_reading::parse(s, to) && ours_) complain("unknown word \"" + std::string(s.substr(0, 64)) + "\"");
  };
  const auto truth = [&](bool& to) { watch.check(key, read_bool(v, to)); };
  switch (word_key(key)) {
    case word_key("name"):
    case word_key("labels"):
      static_cast<void>(read_text(v, f.meta_value));
      return true;
    case word_key("attribution"):
      f.has_attribution = true;
      return word(f.attribution), true;
    case word_key("memory"):
      if (!ours_) return false;
      return word(f.memory), true;
    case word_key("cuda_sync_kind"):
      f.has_sync = true;
      return word(f.sync), true;
    case word_key("stage"):
      return text(f.stage), true;
    case word_key("capture_stage"):
      return text(f.capture_stage), true;
    case word_key("runtime"):
      return text(f.runtime), true;
    case word_key("result_name"):
      return text(f.result_name), true;
    case word_key("domain"):
      return text(f.domain), true;
    case word_key("category_name"):
      return text(f.category_name), true;
    case word_key("late"):
      return truth(f.late), true;
    case word_key("skewed"):
      return truth(f.skewed), true;
    case word_key("by_events"):
      return truth(f.by_events), true;
    case word_key("incomplete"):
      return truth(f.incomplete), true;
    case word_key("async"):
      if (!ours_) return false;
      return truth(f.asynchronous), true;
    case word_key("adopted"):
      return truth(f.adopted), true;
    case word_key("address"):
      return watch.check(key, read_hex(v, f.address)), true;
    case word_key("color"):
      return watch.check(key, read_hex(v, f.color)), true;
    case word_key("origin"): {
      std::string_view s;
      watch.check(key, read_text(v, s));
      f.nvtx = s == "nvtx";
      return true;
    }
    case word_key("payload"): {
      cutrace::argument a;
      watch.check(key, read_argument(v, nullptr, a));
      f.payload = a.value;
      f.payload_kind = a.kind;
      return true;
    }
    case word_key("requests"):
      return read_requests(key, v, false, requests_, watch), true;
    case word_key("request_names"):
      return read_requests(key, v, true, requests_, watch), true;
    case word_key("arguments"):
      return read_arguments(key, v, to_.texts(), false, arguments_, watch), true;
    default:
      return false;
  }
}

}  // namespace cutrace_reading
