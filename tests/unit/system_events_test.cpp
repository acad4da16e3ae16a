// SPDX-License-Identifier: Apache-2.0
// What the kernel did, on its way from a backend through the collector: arguments with their names and texts live as
// long as the sink needs them, in the order of the ends.
#include <doctest/doctest.h>

#include <cstdint>
#include <cutrace/backend.hpp>
#include <cutrace/cutrace.hpp>
#include <cutrace/sinks/memory.hpp>
#include <string>
#include <vector>

namespace system_events_test {

namespace {

using cutrace::argument;
using cutrace::argument_kind;
using cutrace::event;
using cutrace::event_kind;

std::string text_of(cutrace::text t) { return {t.data, t.size}; }

/// Hands over one buffer, whose decoder gives `count` events with `arguments` each, the latest first.
struct probe_backend : cutrace::backend {
  cutrace::event_writer* writer = nullptr;
  int count = 0;
  std::uint32_t arguments = 0;

  const char* name() const noexcept override { return "probe"; }
  cutrace::backend_status start(cutrace::event_writer& w) override {
    writer = &w;
    return {false, "described by the test"};
  }
  bool flush(std::uint32_t) noexcept override { return true; }
  bool stop(std::uint32_t) noexcept override { return true; }

  void report(int events, std::uint32_t arguments_each) {
    count = events;
    arguments = arguments_each;
    cutrace::activity_buffer b{};
    b.owner = this;
    b.decode = &decode;
    b.release = [](const cutrace::activity_buffer&) {};
    REQUIRE(writer->submit(b));
  }
  static void decode(const cutrace::activity_buffer& b, cutrace::event_emitter& to) {
    const probe_backend& self = *static_cast<const probe_backend*>(b.owner);
    const auto now = static_cast<std::int64_t>(self.writer->raw_ns(self.writer->ticks()));
    for (int i = 0; i < self.count; ++i) {
      const std::string word = "value " + std::to_string(i);
      std::vector<argument> all(self.arguments);
      for (std::uint32_t k = 0; k < self.arguments; ++k)
        all[k] = {{"number", 6}, argument_kind::integer, static_cast<std::uint64_t>(-1 - static_cast<int>(k))};
      if (!all.empty())
        all[0] = {{"text", 4}, argument_kind::string, argument::word_of(to.intern(word.data(), word.size()).data)};
      event e;
      e.kind = event_kind::system;
      e.thread_id = 7;
      e.start_ns = e.end_ns = now - i;
      e.name = to.intern("seen", 4);
      e.system.category = {"test", 4};
      e.system.arguments = all.data();
      e.system.argument_count = self.arguments;
      e.system.enclosing = 40 + static_cast<std::uint64_t>(i);
      to.emit(e);
    }
  }
};

std::vector<event> reported(int events, std::uint32_t arguments, cutrace::memory_sink*& sink, cutrace::session& trace) {
  probe_backend backend;
  trace.add_backend(backend);
  sink = &trace.emplace_sink<cutrace::memory_sink>();
  backend.report(events, arguments);
  trace.stop();
  std::vector<event> some;
  for (const event& e : sink->events())
    if (e.kind == event_kind::system) some.push_back(e);
  return some;
}

cutrace::session_options quiet() {
  cutrace::session_options o;
  o.backend = "none";
  o.sinks = "null";
  return o;
}

}  // namespace

TEST_CASE("arguments of what a probe saw reach the sink with names, kinds and texts") {
  cutrace::session trace(quiet());
  cutrace::memory_sink* sink = nullptr;
  const std::vector<event> all = reported(600, 3, sink, trace);  // delivered in slices of 64
  REQUIRE(all.size() == 600);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const event& e = all[i];
    const std::size_t reported_as = all.size() - 1 - i;  // the last one ended first
    CHECK(text_of(e.name) == "seen");
    CHECK(text_of(e.system.category) == "test");
    CHECK(e.thread_id == 7);
    CHECK(e.system.enclosing == 40 + reported_as);
    REQUIRE(e.system.argument_count == 3);
    const argument* a = e.system.arguments;
    CHECK(text_of(a[0].name) == "text");
    REQUIRE(a[0].kind == argument_kind::string);
    CHECK(std::string(a[0].string_value()) == "value " + std::to_string(reported_as));
    CHECK(text_of(a[2].name) == "number");
    CHECK(static_cast<std::int64_t>(a[2].value) == -3);
  }
  CHECK(sink->totals().by_kind[static_cast<std::size_t>(event_kind::system)] == 600);
}

TEST_CASE("no more than ten arguments, and none at all") {
  cutrace::session many(quiet());
  cutrace::memory_sink* sink = nullptr;
  const std::vector<event> ten = reported(2, 14, sink, many);
  REQUIRE(ten.size() == 2);
  CHECK(ten[0].system.argument_count == 10);
  CHECK(static_cast<std::int64_t>(ten[1].system.arguments[9].value) == -10);
  many.stop();
  cutrace::session none(quiet());
  const std::vector<event> bare = reported(1, 0, sink, none);
  REQUIRE(bare.size() == 1);
  CHECK(bare[0].system.argument_count == 0);
}

}  // namespace system_events_test
