// SPDX-License-Identifier: Apache-2.0
// Feeds the readers of trace files with bytes that no good program has written. The first byte says whether they are to
// be taken for the target's own format or recognised by their content, and what is made of the trace: a report, a file
// of some sink (made_of_it.hpp); the rest is the file. Whatever it holds, the sink sees one open, events whose texts
// can all be read, and one close, or the reader throws a reading_error. Memory has a budget here; scripts/fuzz limits
// the time, and the memory of the process.
//
// READ_FORMAT: jsonl, chrome or perfetto.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cutrace/event_fields.hpp>
#include <string>

#include "inputs.hpp"
#include "made_of_it.hpp"
#include "read_mutator.hpp"
#include "trace/byte_window.hpp"
#include "trace/chrome_reader.hpp"
#include "trace/feed.hpp"
#include "trace/input.hpp"
#include "trace/json_value.hpp"
#include "trace/jsonl_reader.hpp"
#include "trace/memory_budget.hpp"
#include "trace/perfetto_reader.hpp"
#include "trace/trace_reader.hpp"

namespace {

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct checking_sink : cutrace::sink {
  int opened = 0, closed = 0;
  std::uint64_t sum = 0, events = 0, windows = 0;
  simdjson::dom::parser parser;
  std::unique_ptr<cutrace::sink> also;  ///< what is made of it; nullptr: nothing

  void touch(cutrace::text t) {
    if (t.size != 0 && t.data == nullptr) broken("a text without an address");
    for (std::uint32_t i = 0; i < t.size; ++i) sum += static_cast<unsigned char>(t.data[i]);
    if (t.size != 0 && t.data[t.size] != '\0') broken("a text without its end");
  }
  void touch(const char* s) {
    while (*s != '\0') sum += static_cast<unsigned char>(*s++);
  }
  void touch(const cutrace::argument* a, std::uint32_t count) {
    for (std::uint32_t n = 0; n < count; ++n) {
      touch(a[n].name);
      if (a[n].kind == cutrace::argument_kind::string) touch(a[n].string_value());
    }
  }
  template <class Field>
  void touch_field(const cutrace::event& e, const Field& field) {
    const auto& v = field.of(e);
    if constexpr (Field::form == cutrace::field_form::text) touch(v);
    if constexpr (Field::form == cutrace::field_form::arguments) touch(v.arguments, v.argument_count);
  }
  void open(const cutrace::trace_info& i) override {
    ++opened;
    for (const char* s : {i.process_name, i.command_line, i.host_name, i.boot_id, i.backend, i.backend_detail, i.clock})
      touch(s);
    if (also != nullptr) also->open(i);
  }
  void write(cutrace::event_view view) override {
    if (opened != 1 || closed != 0) broken("events outside of open and close");
    for (const cutrace::event& e : view) {
      ++events;
      windows += e.kind == cutrace::event_kind::window ? 1 : 0;
      if (static_cast<std::size_t>(e.kind) >= cutrace::event_kind_count) broken("a kind that is none");
      touch(e.name);
      touch(e.stage_name);
      touch(e.call_name);
      touch(e.capture_stage_name);
      touch(e.more);
      if (e.more.size != 0 && parser.parse("{" + std::string(e.more.data, e.more.size) + "}").error())
        broken("fields that are kept and are no JSON");
      if (e.kind == cutrace::event_kind::other) touch(e.other.type);
      if (e.request_count != 0 && e.requests == nullptr) broken("requests without an address");
      for (std::uint32_t n = 0; n < e.request_count; ++n) touch(e.requests[n].name);
      cutrace::with_fields(e.kind, [&](const auto&... field) { (touch_field(e, field), ...); });
    }
    if (also != nullptr) also->write(view);
  }
  void close(const cutrace::trace_summary& s) override {
    ++closed;
    for (std::uint32_t n = 0; n < s.note_count; ++n) touch(s.notes[n]);
    if (also != nullptr) also->close(s);
  }
};

struct jsonl {
  [[maybe_unused]] static constexpr bool is_json = true;
  static void read(cutrace_reading::feed& to, cutrace_reading::byte_window& window, const std::string&) {
    cutrace_reading::jsonl_reader reader(to);
    reader.read(window);
    reader.finish();
    to.finish();
  }
};
struct chrome {
  [[maybe_unused]] static constexpr bool is_json = true;
  static void read(cutrace_reading::feed& to, cutrace_reading::byte_window& window, const std::string& path) {
    cutrace_reading::chrome_reader reader(to);
    reader.read(window, path);
    reader.finish();
    to.finish();
  }
};
struct perfetto {
  [[maybe_unused]] static constexpr bool is_json = false;
  static void read(cutrace_reading::feed& to, cutrace_reading::byte_window& window, const std::string&) {
    cutrace_reading::perfetto_reader reader(to);
    reader.read(window);
    reader.finish();
    to.finish();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::memory_file file(input + 1, size - 1);
  cutrace_reading::memory_budget::of_process().set_limit(std::size_t{128} << 20);
  checking_sink sink;
  sink.also = fuzz::make_of_it(input[0] >> 2);
  bool failed = false;
  try {
    if (input[0] % 4 == 0) {
      const cutrace_reading::outcome o = cutrace_reading::read({file.path()}, sink);
      // Where parts are missing or a file was full, the reader adds `window` events, which it does not count.
      if (o.events > sink.events || sink.events - o.events > sink.windows) broken("not as many events as were said");
    } else {
      cutrace_reading::complaints problems;
      cutrace_reading::feed feed(sink, problems);
      cutrace_reading::input in(file.path());
      cutrace_reading::byte_window window(in);
      READ_FORMAT::read(feed, window, file.path());
      for (const cutrace_reading::complaint& c : problems.kinds()) sink.sum += sentence_of(c).size();
    }
  } catch (const cutrace_reading::reading_error&) {
    failed = true;
  }
  if (!failed && (sink.opened != 1 || sink.closed != 1)) broken("not one open and one close");
  if (cutrace_reading::memory_budget::of_process().used() != 0) broken("memory that is taken from the budget for good");
  return 0;
}

// libFuzzer's, or that of random_driver.cpp, which takes its place where there is no libFuzzer.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate(READ_FORMAT::is_json, data, size, max_size, seed, LLVMFuzzerMutate);
}
