// SPDX-License-Identifier: Apache-2.0
// The memory sink: copies of everything, within a limit, for any thread.
#include <atomic>
#include <cutrace/sinks/memory.hpp>
#include <thread>

#include "contract/sink_contract.hpp"

namespace memory_sink_test {

namespace {

std::string string_of(cutrace::text t) { return std::string(t.data, t.size); }

bool same(const cutrace::argument* a, const cutrace::argument* b, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (a[i].kind != b[i].kind || string_of(a[i].name) != string_of(b[i].name)) return false;
    const bool string = a[i].kind == cutrace::argument_kind::string;
    if (string ? std::string(a[i].string_value()) != b[i].string_value() : a[i].value != b[i].value) return false;
  }
  return true;
}

bool same(const cutrace::event& a, const cutrace::event& b) {
  if (a.kind != b.kind || a.start_ns != b.start_ns || a.end_ns != b.end_ns || a.stage_id != b.stage_id) return false;
  if (string_of(a.stage_name) != string_of(b.stage_name) || a.request_count != b.request_count) return false;
  if (b.name.data != nullptr && string_of(a.name) != string_of(b.name)) return false;
  for (std::uint32_t i = 0; i < a.request_count; ++i) {
    if (a.requests[i].id != b.requests[i].id) return false;
    if (string_of(a.requests[i].name) != string_of(b.requests[i].name)) return false;
  }
  if (a.kind == cutrace::event_kind::system)
    return a.system.argument_count == b.system.argument_count &&
           string_of(a.system.category) == string_of(b.system.category) &&
           same(a.system.arguments, b.system.arguments, a.system.argument_count);
  if (a.kind != cutrace::event_kind::api) return true;
  return a.api.argument_count == b.api.argument_count && same(a.api.arguments, b.api.arguments, a.api.argument_count);
}

}  // namespace

TEST_CASE("memory sink keeps the contract of sinks") {
  sink_contract::subject s;
  s.has_file = false;
  s.make = [](const std::string&) { return std::unique_ptr<cutrace::sink>(new cutrace::memory_sink()); };
  s.check = [](cutrace::sink& sink, const std::string&, const sink_contract::events& all) {
    auto& memory = static_cast<cutrace::memory_sink&>(sink);
    const std::vector<cutrace::event> kept = memory.events();
    REQUIRE(kept.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(same(kept[i], all[i]));
    CHECK(memory.not_kept() == 0);
    CHECK(memory.closed());
    CHECK(memory.totals().delivered == all.size());
    CHECK(memory.notes().size() == 2);
  };
  sink_contract::check_sink_contract(s);
}

TEST_CASE("memory sink: names outlive the strings they came from") {
  cutrace::memory_sink sink;
  {
    std::string name = "a name that lives on the heap of its own";
    const cutrace::event e = sample::mark(name, 1);
    sink.write(cutrace::event_view{&e, 1});
    cutrace::event call = sample::api("cuMemAlloc", 0, 10, 1);
    call.api.runtime_name = sample::text_of(name);
    sink.write(cutrace::event_view{&call, 1});
    name.assign(name.size(), '?');
  }
  CHECK(string_of(sink.events()[0].name) == "a name that lives on the heap of its own");
  CHECK(string_of(sink.events()[1].api.runtime_name) == "a name that lives on the heap of its own");
}

TEST_CASE("memory sink: what does not fit is counted") {
  const std::vector<cutrace::event> all = sample::server_run();
  cutrace::memory_sink sink(10 * sizeof(cutrace::event));
  for (int i = 0; i < 10; ++i) sink.write(sample::view(all));
  CHECK(sink.bytes() <= 10 * sizeof(cutrace::event));
  CHECK(sink.events().size() > 0);
  CHECK(sink.events().size() + sink.not_kept() == 10 * all.size());
  const cutrace::sink& as_the_session_sees_it = sink;
  CHECK(as_the_session_sees_it.left_out() == sink.not_kept());
  CHECK(std::string(as_the_session_sees_it.left_out_because()).find("limit") != std::string::npos);
}

TEST_CASE("memory sink: snapshots while another thread writes") {
  cutrace::memory_sink sink;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    const std::vector<cutrace::event> all = sample::server_run();
    for (int i = 0; i < 200; ++i) sink_contract::write_shortlived(sink, all);
    done = true;
  });
  std::size_t before = 0;
  while (!done) {
    const std::vector<cutrace::event> now = sink.events();
    CHECK(now.size() >= before);
    before = now.size();
    for (const cutrace::event& e : now) {
      if (e.request_count != 0) REQUIRE(e.requests[0].id != 666);
    }
  }
  writer.join();
  CHECK(sink.events().size() == 200 * sample::server_run().size());
}

}  // namespace memory_sink_test
