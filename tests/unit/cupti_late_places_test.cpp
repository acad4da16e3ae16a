// SPDX-License-Identifier: Apache-2.0
// Contexts and streams that GPU work names are described once, whenever and whether CUPTI describes them.
#include <doctest/doctest.h>

#include <cutrace/cupti/late_places.hpp>
#include <string>
#include <vector>

#include "recording_emitter.hpp"

namespace cupti_late_places_test {

using namespace cutrace;         // NOLINT(google-build-using-namespace)
using namespace cutrace::cupti;  // NOLINT(google-build-using-namespace)

namespace {

event at(event_kind kind, std::uint32_t device, std::uint32_t context, std::uint64_t stream) {
  event e;
  e.kind = kind;
  e.device = device;
  e.context = context;
  e.stream = stream;
  return e;
}

std::string reported(const std::vector<event>& events) {
  std::string all;
  for (const event& e : events) {
    const bool derived =
        (e.kind == event_kind::context && e.context_.derived) || (e.kind == event_kind::stream && e.stream_.derived);
    all += (e.kind == event_kind::context  ? "context"
            : e.kind == event_kind::stream ? "stream"
                                           : "other") +
           std::string(derived ? "*" : "") + std::to_string(e.device) + "/" + std::to_string(e.context) + "/" +
           std::to_string(e.stream) + " ";
  }
  return all;
}

}  // namespace

TEST_CASE("cupti late places: what CUPTI does not describe is described once, by its first work") {
  support::recording_emitter out;
  known_places known;
  {
    place_deriver d(out, known);
    d.emit(at(event_kind::kernel, 1, 2, 7));
    d.emit(at(event_kind::kernel, 1, 2, 7));
    d.emit(at(event_kind::memcpy, 1, 2, 8));
    d.settle();
  }
  place_deriver d(out, known);  // of the next buffer
  d.emit(at(event_kind::memset, 1, 2, 7));
  d.emit(at(event_kind::graph_launch, 0, 1, 7));
  d.settle();
  d.settle();
  CHECK(reported(out.events) ==
        "other1/2/7 other1/2/7 other1/2/8 context*1/2/0 stream*1/2/7 stream*1/2/8 other1/2/7 "
        "other0/1/7 context*0/1/0 stream*0/1/7 ");
}

TEST_CASE("cupti late places: what CUPTI describes is not described again, and what has no place not at all") {
  support::recording_emitter out;
  known_places known;
  place_deriver d(out, known);
  d.emit(at(event_kind::context, 0, 1, 7));
  d.emit(at(event_kind::stream, 0, 1, 13));
  d.emit(at(event_kind::kernel, 0, 1, 13));
  d.emit(at(event_kind::kernel, 0, 1, 0));
  d.emit(at(event_kind::memcpy, 0, 0, 0));   // a migration of managed memory
  d.emit(at(event_kind::memory, 0, 3, 20));  // these two are not GPU work; a sync record does not name its device
  d.emit(at(event_kind::sync, 0, 4, 21));
  d.settle();
  CHECK(reported(out.events) == "context0/1/7 stream0/1/13 other0/1/13 other0/1/0 other0/0/0 other0/3/20 other0/4/21 ");
}

TEST_CASE("cupti late places: a stream that is reported before its context waits for it, and for its device") {
  support::recording_emitter out;
  known_places known;
  place_deriver d(out, known);
  d.emit(at(event_kind::stream, 0, 2, 13));
  d.emit(at(event_kind::stream, 0, 3, 14));
  d.emit(at(event_kind::kernel, 1, 2, 13));
  d.emit(at(event_kind::context, 1, 2, 7));
  CHECK(reported(out.events) == "other1/2/13 context1/2/7 stream1/2/13 ");
  d.settle();
  CHECK(out.events.size() == 3);
  d.emit(at(event_kind::kernel, 1, 3, 14));  // in a context that is older than the session
  d.settle();
  CHECK(reported({out.events.begin() + 3, out.events.end()}) == "other1/3/14 context*1/3/0 stream1/3/14 ");
}

TEST_CASE("cupti late places: a description that comes too late is not the second one") {
  support::recording_emitter out;
  known_places known;
  place_deriver d(out, known);
  d.emit(at(event_kind::kernel, 1, 2, 13));
  d.settle();
  d.emit(at(event_kind::stream, 0, 2, 13));
  d.emit(at(event_kind::context, 1, 2, 7));
  CHECK(reported(out.events) == "other1/2/13 context*1/2/0 stream*1/2/13 ");
}

TEST_CASE("cupti late places: a program that makes streams without end does not fill the memory") {
  support::recording_emitter out;
  known_places known;
  place_deriver d(out, known);
  for (std::uint64_t stream = 1; stream <= 3 * known_places::limit; ++stream)
    d.emit(at(event_kind::kernel, 0, 1, stream));
  CHECK(known.all.size() == known_places::limit);
  CHECK(known.awaited.size() == known_places::limit);
  d.settle();
  CHECK(known.awaited.empty());
  CHECK(out.events.size() == 4 * known_places::limit);
  for (std::uint64_t stream = 1; stream <= 3 * known_places::limit; ++stream)
    d.emit(at(event_kind::stream, 0, 9, stream));  // of a context that nobody names
  CHECK(known.streams.size() == known_places::limit);
  CHECK(out.events.size() == 6 * known_places::limit);
}

}  // namespace cupti_late_places_test
