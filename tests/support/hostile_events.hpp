// SPDX-License-Identifier: Apache-2.0
// Events that no sane program makes and that some program will: names that break formats, times and ids at the limits.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/sample_events.hpp"

namespace hostile {

/// Names that have broken trace files. They live as long as the program.
inline const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {
      "",
      "plain",
      "quote \" in the middle",
      "back\\slash\\",
      "ends in a brace {",
      "[",
      ":",
      ",",
      "line\nbreak\rreturn\ttab",
      std::string("zero\0byte", 9),
      "\x01\x02\x1b[31mred\x1b[0m\x1f",
      "delete \x7f",
      "c1 \xc2\x85 next line",
      "umlaut \xc3\xa4, kanji \xe6\xbc\xa2, emoji \xf0\x9f\x9a\x80",
      "line separator \xe2\x80\xa8",
      "lone continuation \x80\xbf",
      "cut short \xe6\xbc",
      "cut short \xf0\x9f\x9a",
      "overlong \xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf",
      "surrogate \xed\xa0\x80",
      "beyond \xf4\x90\x80\x80 \xff\xfe",
      "</script><b>&amp;",
      "%s%n{}{0}",
      std::string(10000, 'x'),
      std::string(5000, '"') + std::string(5000, '\n'),
  };
  return all;
}

/// Each hostile name in each place where a name can stand.
inline std::vector<cutrace::event> named_events() {
  using namespace cutrace;
  static std::vector<request_ref> requests(names().size());
  static std::vector<argument> arguments(names().size());
  std::vector<event> all;
  std::int64_t t = 1000;
  for (std::size_t i = 0; i < names().size(); ++i) {
    const std::string& name = names()[i];
    requests[i] = sample::request_name(name);
    arguments[i] = sample::argument_of(name, argument_kind::integer, i);
    all.push_back(sample::base(event_kind::process, name, 0, 0, 0));
    all.push_back(sample::base(event_kind::thread, name, 0, 0));
    all.push_back(sample::device(0, name));
    event call = sample::in_stage(sample::api(name, t, t + 10, i + 1, &arguments[i], 1), name, i + 1, &requests[i], 1);
    call.api.result = 1;
    call.api.result_name = call.api.runtime_name = sample::text_of(name);
    all.push_back(call);
    event work = sample::in_stage(sample::kernel(name, t + 20, t + 30, i + 1), name, i + 1, &requests[i], 1);
    work.kernel.mangled_name = sample::text_of(name);
    work.call_name = sample::text_of(name);
    all.push_back(work);
    all.push_back(sample::mark(name, t + 30));
    all.push_back(sample::counter(name, t + 31, static_cast<std::int64_t>(i)));
    for (const event_kind kind : {event_kind::overhead, event_kind::jit, event_kind::nvtx}) {
      all.push_back(sample::base(kind, name, t + 32, t + 33));
    }
    event asked = sample::ioctl(name, t + 32, t + 33);
    asked.ioctl_.node = asked.ioctl_.command_name = asked.ioctl_.status_name = sample::text_of(name);
    all.push_back(asked);
    event whole = sample::in_stage(sample::stage(name, t - 1, t + 40, i + 1), name, i + 1, &requests[i], 1);
    whole.stage.file = sample::text_of(name);
    all.push_back(whole);
    t += 100;
  }
  return all;
}

/// Times, devices, streams and numbers at their limits.
inline std::vector<cutrace::event> extreme_events() {
  using namespace cutrace;
  constexpr std::int64_t exact = std::int64_t{1} << 53;  // above it doubles skip integers
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  static const double not_a_number = std::numeric_limits<double>::quiet_NaN();
  static std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &not_a_number, sizeof(bits));
  static const argument arguments[] = {
      sample::argument_of("", argument_kind::floating, bits),
      sample::argument_of("", argument_kind::word, ~std::uint64_t{0}),
      sample::argument_of("n", argument_kind::unsigned_integer, ~std::uint64_t{0}),
      sample::argument_of("m", argument_kind::integer, std::uint64_t{1} << 63),
  };
  std::vector<event> all;
  all.push_back(sample::kernel("ends before it starts", 5000, 4000, 1));
  all.push_back(sample::stage("ends before it starts", 5000, 4000, 1));
  all.push_back(sample::kernel("no time", 0, 0, 2));
  all.push_back(sample::kernel("before the session", -5500, -4999, 3));
  all.push_back(sample::stage("2^53", exact - 1, exact + 1, 2));
  all.push_back(sample::kernel("2^53", exact + 1, exact + 3, 4));
  all.push_back(sample::kernel("device 200", 6000, 7000, 5, 7, 200));
  all.push_back(sample::kernel("device 63", 6000, 7000, 5, 7, 63));
  all.push_back(sample::kernel("device 2^32-1", 6000, 7000, 5, 7, 0xFFFFFFFFu));
  all.push_back(sample::kernel("stream over 2^32", 6000, 7000, 6, (std::uint64_t{1} << 32) + 7));
  all.push_back(sample::kernel("stream 2^64-1", 6000, 7000, 7, ~std::uint64_t{0}));
  all.push_back(sample::kernel("stream 0", 6000, 7000, 8, 0));
  all.push_back(sample::sync(sync_kind::stream, 6000, 7000, 9, 0));
  all.push_back(sample::sync(sync_kind::context, 6000, 7000, 9, 0xFFFFFFFFu));
  all.push_back(sample::memcpy(copy_direction::device_to_host, ~std::uint64_t{0}, 8000, 8000, 10));
  all.push_back(sample::memset(0, 8000, 8001, 11));
  all.push_back(sample::counter("least", 9000, least, least));
  all.push_back(sample::counter("most", 9000, most, most, false));
  all.push_back(sample::loss(loss_cause::sink_failed, ~std::uint64_t{0}, 9000));
  all.push_back(sample::api("arguments", 9000, 9100, ~std::uint64_t{0}, arguments, 4, ~std::uint64_t{0}));
  event cut = sample::stage("requests lost", 9000, 9200, ~std::uint64_t{0}, ~std::uint64_t{0}, 4000000000u);
  cut.request_total = 7;
  all.push_back(cut);
  event widest = sample::kernel("all of time", least, most, 12);
  widest.call_start_ns = most;
  widest.skewed = true;
  widest.by_events = true;
  widest.incomplete = true;
  widest.late = true;
  all.push_back(widest);
  event nobody = sample::base(event_kind::stage, "no process, no thread", 1, 2, 0);
  nobody.process_id = 0;
  all.push_back(nobody);
  event text_without_data = sample::base(event_kind::api, "null texts", 1, 2);
  text_without_data.name = text{nullptr, 0};  // what a zeroed union holds
  all.push_back(text_without_data);
  return all;
}

}  // namespace hostile
