// SPDX-License-Identifier: Apache-2.0
// The tee: every sink gets everything, and one that fails does not stop the others.
#include <cutrace/sinks/memory.hpp>
#include <cutrace/sinks/null.hpp>
#include <cutrace/sinks/tee.hpp>
#include <memory>
#include <string>
#include <vector>

#include "contract/sink_contract.hpp"

namespace tee_sink_test {

namespace {

enum class when { never, open, write, flush, close };

/// Throws at one point of its life, and counts what it is asked to do.
struct failing_sink : cutrace::sink {
  explicit failing_sink(when w) : fails(w) {}
  const char* name() const noexcept override { return "failing"; }
  void open(const cutrace::trace_info&) override { step(when::open); }
  void write(cutrace::event_view) override {
    ++writes;
    step(when::write);
  }
  void flush() override { step(when::flush); }
  void close(const cutrace::trace_summary&) override {
    ++closes;
    step(when::close);
  }
  void step(when now) const {
    if (now == fails && now == when::flush) throw 42;  // not everybody throws exceptions of the standard library
    if (now == fails) throw cutrace::error("broken on purpose");
  }
  when fails;
  int writes = 0;
  int closes = 0;
};

struct reports {
  std::vector<std::string> lines;
  static void add(const char* component, const char* message, void* user) {
    static_cast<reports*>(user)->lines.push_back(std::string(component) + ": " + message);
  }
};

}  // namespace

TEST_CASE("tee keeps the contract of sinks") {
  sink_contract::subject s;
  s.has_file = false;
  static cutrace::memory_sink* first = nullptr;
  static cutrace::null_sink* second = nullptr;
  s.make = [](const std::string&) {
    auto tee = std::make_unique<cutrace::tee_sink>();
    first = new cutrace::memory_sink();
    second = new cutrace::null_sink();
    tee->add(std::unique_ptr<cutrace::sink>(first));
    tee->add(std::unique_ptr<cutrace::sink>(second));
    return tee;
  };
  s.check = [](cutrace::sink& sink, const std::string&, const sink_contract::events& all) {
    CHECK(first->events().size() == all.size());
    CHECK(first->closed());
    CHECK(second->written() == all.size());
    CHECK(static_cast<cutrace::tee_sink&>(sink).failures().empty());
  };
  sink_contract::check_sink_contract(s);
}

TEST_CASE("tee: a sink that fails is left alone and reported once, the others get everything") {
  for (const when point : {when::open, when::write, when::flush, when::close}) {
    reports said;
    failing_sink bad(point);
    cutrace::memory_sink good;
    cutrace::tee_sink tee(&reports::add, &said);
    tee.add(bad);
    tee.add(good);
    const std::vector<cutrace::event> all = sample::server_run();
    tee.open(sample::info());
    for (int i = 0; i < 3; ++i) {
      tee.write(sample::view(all));
      tee.flush();
    }
    tee.close(sample::summary(3 * all.size()));

    CHECK(good.events().size() == 3 * all.size());
    CHECK(good.closed());
    REQUIRE(said.lines.size() == 1);
    CHECK(said.lines[0].rfind("failing: ", 0) == 0);
    REQUIRE(tee.failures().size() == 1);
    CHECK(tee.failures()[0].sink == "failing");
    const std::uint64_t taken = point == when::open || point == when::write ? 0 : point == when::flush ? 1 : 3;
    CHECK(tee.failures()[0].lost == (3 - taken) * all.size());
    CHECK(bad.closes == (point == when::close ? 1 : 0));
  }
}

TEST_CASE("tee: throws when not one of its sinks opens, and says why") {
  reports said;
  failing_sink bad(when::open);
  cutrace::tee_sink tee(&reports::add, &said);
  tee.add(bad);
  CHECK_THROWS_WITH_AS(tee.open(sample::info()), doctest::Contains("failing: broken on purpose"), cutrace::error);
}

TEST_CASE("tee: a sink that leaves events out goes on, and is counted and reported once") {
  struct picky : cutrace::sink {
    std::uint64_t out = 0, flushes = 0;
    const char* name() const noexcept override { return "picky"; }
    void write(cutrace::event_view events) override { out += events.size / 2; }
    std::uint64_t left_out() const noexcept override { return out; }
    const char* left_out_because() const noexcept override { return "no room"; }
    void flush() override { ++flushes; }
  } sink;
  reports said;
  cutrace::tee_sink tee(&reports::add, &said);
  tee.add(sink);
  const std::vector<cutrace::event> all = sample::server_run();
  tee.open(sample::info());
  for (int i = 0; i < 3; ++i) tee.write(sample::view(all));
  tee.flush();
  CHECK(sink.flushes == 1);
  REQUIRE(said.lines.size() == 1);
  CHECK(said.lines[0] == "picky: no room");
  REQUIRE(tee.failures().size() == 1);
  CHECK(tee.failures()[0].lost == 3 * (all.size() / 2));
}

}  // namespace tee_sink_test
