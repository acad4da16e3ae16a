// SPDX-License-Identifier: Apache-2.0
// The HTML sink keeps the contract of sinks; its page carries all data as JSON and packed events, which are read here
// by a parser and a decoder of the test's own. How it looks in a browser is for tests/browser.
#include <cutrace/sinks/html.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "contract/sink_contract.hpp"

namespace html_sink_test {

namespace {

std::string between(const std::string& page, const std::string& before, const std::string& after) {
  const std::size_t at = page.find(before);
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find(after, at + before.size());
  REQUIRE(end != std::string::npos);
  return page.substr(at + before.size(), end - at - before.size());
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

std::vector<unsigned> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned> out;
  unsigned bits = 0, held = 0;
  REQUIRE(text.size() % 4 == 0);
  for (const char c : text) {
    if (c == '=') break;
    const std::size_t digit = digits.find(c);
    REQUIRE(digit != std::string::npos);
    held = (held << 6 | static_cast<unsigned>(digit)) & 0xffffffu;
    bits += 6;
    if (bits >= 8) out.push_back(held >> (bits -= 8) & 0xffu);
  }
  return out;
}

struct shown_event {
  std::int64_t start_ns = 0;
  std::uint64_t length_ns = 0, context = 0, detail = 0, call = 0, bytes = 0, joined = 0, busy_ns = 0;
  std::int64_t delay_ns = 0;
  std::string name;
};

/// The format as sinks/html/timeline.hpp states it.
struct shown_page {
  nlohmann::json data;
  std::map<std::string, std::vector<shown_event>> rows;

  explicit shown_page(const std::string& path) {
    const std::string page = content_of(path);
    data = nlohmann::json::parse(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
    packed_ = from_base64(between(page, "<script type=\"text/plain\" id=\"events\">", "</script>"));
    for (const nlohmann::json& row : data["rows"]) {
      const std::size_t end = at_ + row["bytes"].get<std::size_t>();
      std::vector<shown_event>& list = rows[row["label"].get<std::string>()];
      const std::size_t before = list.size();  // hostile names make labels alike
      std::int64_t start_ns = 0;
      while (at_ < end) list.push_back(next(start_ns));
      REQUIRE(at_ == end);
      CHECK(list.size() - before == row["events"].get<std::size_t>());
    }
    CHECK(at_ == packed_.size());
  }

 private:
  std::uint64_t number() {
    std::uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
      REQUIRE(at_ < packed_.size());
      const unsigned c = packed_[at_++];
      n |= std::uint64_t{c & 127u} << shift;
      if (c < 128) return n;
    }
  }
  std::int64_t signed_number() {
    const std::uint64_t n = number();
    return n % 2 == 0 ? static_cast<std::int64_t>(n / 2) : -static_cast<std::int64_t>(n / 2) - 1;
  }
  shown_event next(std::int64_t& start_ns) {
    shown_event e;
    e.name = data["names"].at(number()).get<std::string>();
    const std::uint64_t flags = number();
    e.start_ns = start_ns += signed_number();
    e.length_ns = number();
    if (flags & 1) e.context = number();
    if (flags & 2) e.detail = number();
    if (flags & 4) {
      e.call = number();
      e.delay_ns = signed_number();
    }
    if (flags & 8) e.bytes = number();
    if (flags & 16) {
      e.joined = number();
      e.busy_ns = number();
    }
    CHECK(e.context <= data["contexts"].size());
    return e;
  }

  std::vector<unsigned> packed_;
  std::size_t at_ = 0;
};

void check_page(cutrace::sink&, const std::string& path, const sink_contract::events& all) {
  const std::string page = content_of(path);
  const shown_page shown(path);
  CHECK(shown.data["delivered"] == all.size());
  CHECK(shown.data["lost_total"] == 12);
  CHECK(shown.data["answer"].get<std::string>().size() > 10);
  CHECK(page.substr(page.size() - 8) == "</html>\n");
  // Three scripts: the data, the events, the program. Names add none, and open no comment.
  CHECK(occurrences(page, "<script") == 3);
  CHECK(occurrences(page, "</script") == 3);
  CHECK(occurrences(page, "<!--") == 0);
  // What it loads: nothing.
  for (const char* part : {" src=", "http://", "https://", "@import", "url(", "<link", "<iframe"}) {
    const std::string program = between(page, "<style", "<script type") + page.substr(page.find("\"use strict\""));
    CAPTURE(part);
    CHECK((occurrences(program, part) == 0 ||
           (std::string(part) == "http://" &&
            occurrences(program, part) == occurrences(program, "http://www.w3.org/2000/svg"))));
  }
  const std::string nonce = between(page, "<style nonce=\"", "\"");
  CHECK(nonce.size() == 32);
  CHECK(page.find("default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'nonce-" + nonce +
                  "'; script-src 'nonce-" + nonce + "'\">") != std::string::npos);
  CHECK(occurrences(page, nonce) == 4);
}

sink_contract::subject subject_with(std::size_t memory_bytes) {
  sink_contract::subject s;
  s.make = [memory_bytes](const std::string& path) {
    cutrace::html_options o;
    o.path = path;
    o.memory_limit_bytes = memory_bytes;
    return std::unique_ptr<cutrace::sink>(new cutrace::html_sink(o));
  };
  s.check = check_page;
  return s;
}

/// Runs the default sink over `all` and reads its page.
shown_page page_of(const sink_contract::events& all, std::size_t memory_bytes = std::size_t{32} << 20) {
  const temporary_folder folder;
  const auto sink = subject_with(memory_bytes).make(folder.file("out"));
  sink->open(sample::info());
  sink->write(sample::view(all));
  sink->close(sample::summary(all.size()));
  return shown_page(folder.file("out"));
}

}  // namespace

TEST_CASE("html sink keeps the contract of sinks") {
  sink_contract::check_sink_contract(subject_with(std::size_t{32} << 20));
}

TEST_CASE("html: each event is in its row, with what the page shows of it") {
  const shown_page page = page_of(sample::server_run());
  REQUIRE(page.rows.count("GPU 0 stream 7") == 1);
  const std::vector<shown_event>& gpu = page.rows.at("GPU 0 stream 7");
  REQUIRE(gpu.size() == 5);
  CHECK(gpu[0].name == "[memcpy HtoD]");
  CHECK(gpu[0].start_ns == 45000);
  CHECK(gpu[0].length_ns == 80000);
  CHECK(gpu[0].bytes == 4000000);
  const shown_event& gemm = gpu[1];
  CHECK(gemm.name == "gemm(float const*, float const*, float*, int)");
  CHECK(gemm.start_ns == 126000);
  CHECK(gemm.length_ns == 12300);
  CHECK(gemm.delay_ns == 76000);
  CHECK(page.data["names"][gemm.call] == "cuLaunchKernel");
  REQUIRE(gemm.context > 0);
  const nlohmann::json context = page.data["contexts"][gemm.context - 1];
  CHECK(page.data["names"][context[0].get<std::size_t>()] == "prefill");
  CHECK(context[1] == "17");
  REQUIRE(gemm.detail > 0);
  const sink_contract::events all = sample::server_run();
  for (const cutrace::event& e : all) {
    if (e.kind != cutrace::event_kind::kernel || e.start_ns != 126000) continue;
    for (unsigned i = 0; i < 3; ++i) {
      CHECK(page.data["shapes"][gemm.detail - 1][i] == e.kernel.grid[i]);
      CHECK(page.data["shapes"][gemm.detail - 1][3 + i] == e.kernel.block[i]);
    }
  }
  const std::vector<shown_event>& stages = page.rows.at("scheduler (4242) stages");
  REQUIRE(stages.size() == 2);
  CHECK(page.data["contexts"][stages[1].context - 1][1] == "17, 18, chat-0007 and 37 more");
  CHECK(page.rows.at("scheduler (4242) stages 1").size() == 1);
  bool failed = false;
  for (const shown_event& e : page.rows.at("scheduler (4242) driver calls")) failed = failed || (e.detail == 2);
  CHECK(failed);
}

TEST_CASE("html: idle gaps have the cause that the host gives them") {
  const sink_contract::events all = {sample::kernel("before", 1000, 2000, 1),
                                     sample::api("cuStreamSynchronize", 2000, 9000, 2),
                                     sample::api("cuLaunchKernel", 9500, 9600, 3),
                                     sample::called_at(sample::kernel("after", 10000, 11000, 3), 9500),
                                     sample::stage("tokenize", 11500, 19500, 2, 1, 1),
                                     sample::api("cuLaunchKernel", 19600, 19700, 4),
                                     sample::called_at(sample::kernel("behind the stage", 20000, 21000, 4), 19600),
                                     sample::api("cuMemAlloc", 24000, 25000, 5),
                                     sample::api("cuLaunchKernel", 29000, 29500, 6),
                                     sample::called_at(sample::kernel("last", 30000, 200000, 6), 29000),
                                     sample::stage("serve", 0, 200000, 1)};
  const shown_page page = page_of(all);
  const nlohmann::json gaps = page.data["gaps"];
  const char* waited = "the host had waited, so nothing was queued";
  const char* late = "the host was late: own code, other calls";
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[0] == nlohmann::json({0, 2000, 8000, waited, 9, "serve: cuStreamSynchronize", "after"}));
  CHECK(gaps[1] == nlohmann::json({0, 11000, 9000, late, 10, "tokenize", "behind the stage"}));
  // A short call does not explain a long gap.
  CHECK(gaps[2] == nlohmann::json({0, 21000, 9000, late, 10, "serve", "last"}));
  CHECK(page.data["gap_count"] == 3);
  const nlohmann::json idle = page.data["idle"];
  REQUIRE(idle.size() == 3);
  CHECK(idle[0] == nlohmann::json({late, 2, 18000, "serve"}));
  CHECK(idle[1] == nlohmann::json({waited, 1, 8000, "serve: cuStreamSynchronize"}));
  CHECK(idle[2] == nlohmann::json({"before the first and after the last work", 0, 1000, ""}));
  CHECK(page.data["answer"].get<std::string>().find(
            "mostly: the host was late (69.2 % of the gaps, most of all in stage ") != std::string::npos);
}

TEST_CASE("html: a device's idle time that cannot be known is marked") {
  // Windows of 1 ms, of 40 kernels each; `all` lacks the second one, `late` has it behind everything.
  sink_contract::events all;
  std::uint64_t id = 1;
  for (std::int64_t w = 0; w < 500; ++w) {
    const std::int64_t start = w * 10000000;
    for (std::int64_t k = 0; k < 40; ++k)
      all.push_back(sample::kernel("k", start + k * 20000, start + k * 20000 + 9000, id++));
    if (w != 1) all.push_back(sample::base(cutrace::event_kind::window, "recorded", start, start + 1000000));
  }
  sink_contract::events late = all;
  late.push_back(sample::base(cutrace::event_kind::window, "recorded", 10000000, 11000000));
  for (const bool known : {true, false}) {
    CAPTURE(known);
    const shown_page page = page_of(known ? all : late, std::size_t{512} << 10);
    REQUIRE(page.data["devices"].size() == 1);
    CHECK(page.data["devices"][0]["idle_approximate"] == !known);
    const bool noted = page.data["notes"].dump().find("WHY THE GPU IS IDLE is approximate") != std::string::npos;
    CHECK(noted == !known);
  }
}

TEST_CASE("html: slices that do not fit are joined; busy time and counts stay right") {
  constexpr std::uint64_t n = 200000;
  sink_contract::events all;
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::int64_t t = static_cast<std::int64_t>(i) * 1000;
    all.push_back(sample::kernel("short", t, t + 600, i, 7 + i % 3));
  }
  all.push_back(sample::kernel("long", 0, static_cast<std::int64_t>(n) * 1000, n, 20));
  const shown_page page = page_of(all, std::size_t{2} << 20);
  std::uint64_t events = 0, busy_ns = 0, records = 0;
  for (const auto& row : page.rows)
    for (const shown_event& e : row.second) {
      ++records;
      events += e.joined != 0 ? e.joined : 1;
      busy_ns += e.joined != 0 ? e.busy_ns : e.length_ns;
      if (e.name == "long") CHECK(e.length_ns == n * 1000);
    }
  CHECK(events == n + 1);
  CHECK(busy_ns == n * 600 + n * 1000);
  CHECK(records < n / 2);
  CHECK(records > 1000);
  CHECK(page.data["resolution_ns"] > 0);
  CHECK(page.data["gpu"][1][2] == n);
}

TEST_CASE("html: percentiles come from all events of a name") {
  sink_contract::events all;
  for (int i = 1; i <= 1000; ++i) {
    const std::int64_t t = i * 2000000;
    all.push_back(sample::kernel("spread", t, t + i * 1000, static_cast<std::uint64_t>(i)));
  }
  const nlohmann::json row = page_of(all).data["gpu"][0];
  REQUIRE(row.size() == 11);
  const double expected[] = {500000, 900000, 990000};
  for (std::size_t k = 0; k < 3; ++k) CHECK(row[8 + k].get<double>() == doctest::Approx(expected[k]).epsilon(0.032));
}

TEST_CASE("html: a mark has the requests that it names, not those of its stage or of another mark") {
  const cutrace::request_ref first[] = {sample::request_id(1)}, second[] = {sample::request_id(2)};
  const cutrace::request_ref both[] = {sample::request_id(1), sample::request_id(2)};
  const cutrace::request_ref named[] = {sample::request_name("chat-7")};
  const sink_contract::events all = {
      sample::in_stage(sample::mark("token", 1000), "decode", 50, first, 1),
      sample::in_stage(sample::mark("token", 2000), "decode", 50, second, 1),
      sample::in_stage(sample::api("cuLaunchKernel", 3000, 3100, 1), "decode", 50, both, 2),
      sample::in_stage(sample::mark("token", 4000), "decode", 50, named, 1),
      sample::in_stage(sample::stage("decode", 0, 5000, 50), "decode", 50, both, 2),
      sample::in_stage(sample::mark("token", 6000), "", 0, second, 1)};
  const shown_page page = page_of(all);
  const auto requests = [&](const shown_event& e) {
    return e.context == 0 ? std::string("no context") : page.data["contexts"][e.context - 1][1].get<std::string>();
  };
  const std::vector<shown_event>* marks = nullptr;
  const std::vector<shown_event>* calls = nullptr;
  for (const auto& row : page.rows) {
    if (row.first.find(" marks") != std::string::npos) marks = &row.second;
    if (row.first.find(" driver calls") != std::string::npos) calls = &row.second;
  }
  REQUIRE(marks != nullptr);
  REQUIRE(calls != nullptr);
  REQUIRE(marks->size() == 4);
  CHECK(requests((*marks)[0]) == "1");
  CHECK(requests((*marks)[1]) == "2");
  CHECK(requests((*calls)[0]) == "1, 2");
  CHECK(requests((*marks)[2]) == "chat-7");
  CHECK(requests((*marks)[3]) == "2");
}

TEST_CASE("html: beyond the memory limit an event keeps its stage") {
  sink_contract::events all;
  constexpr std::uint64_t n = 20000;
  std::vector<cutrace::request_ref> requests(n);
  for (std::uint64_t i = 0; i < n; ++i) {
    requests[i] = sample::request_id(i + 1);
    const std::int64_t t = static_cast<std::int64_t>(i) * 10000;
    all.push_back(sample::in_stage(sample::kernel("gemm", t, t + 5000, i + 1), i % 2 == 0 ? "prefill" : "decode", i + 1,
                                   &requests[i], 1));
  }
  const shown_page page = page_of(all, std::size_t{2} << 20);
  std::size_t events = 0, wrong = 0;
  for (const shown_event& e : page.rows.at("GPU 0 stream 7")) {
    const std::uint64_t i = static_cast<std::uint64_t>(e.start_ns) / 10000;
    if (e.joined != 0) continue;
    ++events;
    const nlohmann::json context = e.context == 0 ? nlohmann::json() : page.data["contexts"][e.context - 1];
    if (e.context == 0 || page.data["names"][context[0].get<std::size_t>()] != (i % 2 == 0 ? "prefill" : "decode") ||
        (context[1] != std::to_string(i + 1) && context[1] != "(not kept: memory limit)"))
      ++wrong;
  }
  CHECK(events == n);
  CHECK(wrong == 0);
  CHECK(page.data["notes"].dump().find("do not show their requests") != std::string::npos);
}

TEST_CASE("html: names in any script stand in title, answer and notes as they are") {
  const temporary_folder folder;
  const auto sink = subject_with(std::size_t{32} << 20).make(folder.file("out"));
  cutrace::trace_info info = sample::info();
  info.process_name = "\u6a21\u578b";
  const sink_contract::events all = {
      sample::kernel("before", 1000, 2000, 1), sample::stage("\u89e3\u7801", 2500, 19500, 2),
      sample::stage("\u202egnp", 19500, 19600, 3), sample::api("cuLaunchKernel", 19600, 19700, 4),
      sample::called_at(sample::kernel("after", 20000, 21000, 4), 19600)};
  cutrace::trace_summary end = sample::summary(all.size());
  const char* const notes[] = {"no file \u00e9t\u00e9, nor \u202exyz"};
  end.notes = notes;
  end.note_count = 1;
  sink->open(info);
  sink->write(sample::view(all));
  sink->close(end);
  const std::string page = content_of(folder.file("out"));
  CHECK(between(page, "<title>", "</title>") == "\u6a21\u578b (pid 4242) - cutrace");
  const nlohmann::json data = shown_page(folder.file("out")).data;
  CHECK(data["answer"].get<std::string>().find("\u89e3\u7801") != std::string::npos);
  CHECK(data["notes"].dump().find("\u00e9t\u00e9, nor \\\\u{202e}xyz") != std::string::npos);
  CHECK_FALSE(cutrace::ascii::names_in_utf8());
}

TEST_CASE("html: the file has its name only when the report is complete") {
  const temporary_folder folder;
  cutrace::html_options o;
  o.path = folder.file("report.html");
  cutrace::html_sink sink(o);
  sink.open(sample::info());
  sink.write(sample::view(sample::server_run()));
  sink.flush();
  CHECK(::access(o.path.c_str(), F_OK) != 0);
  sink.close(sample::summary(30));
  CHECK(::access(o.path.c_str(), F_OK) == 0);
}

}  // namespace html_sink_test
