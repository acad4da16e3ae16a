// SPDX-License-Identifier: Apache-2.0
// Contexts and streams that are older than the session are described by the first work seen in them.
#include <doctest/doctest.h>

#include <cutrace/cupti/late_places.hpp>
#include <string>
#include <vector>

#include "recording_emitter.hpp"

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

std::string told(const std::vector<event>& events) {
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

TEST_CASE("cupti late places: a context and its streams are described once, before their first work") {
  support::recording_emitter out;
  known_places known;
  {
    place_deriver d(out, known);
    d.emit(at(event_kind::kernel, 1, 2, 7));
    d.emit(at(event_kind::kernel, 1, 2, 7));
    d.emit(at(event_kind::memcpy, 1, 2, 8));
  }
  place_deriver d(out, known);  // of the next buffer
  d.emit(at(event_kind::memset, 1, 2, 7));
  d.emit(at(event_kind::graph_launch, 0, 1, 7));
  CHECK(told(out.events) ==
        "context*1/2/0 stream*1/2/7 other1/2/7 other1/2/7 stream*1/2/8 other1/2/8 other1/2/7 "
        "context*0/1/0 stream*0/1/7 other0/1/7 ");
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
  d.emit(at(event_kind::memory, 0, 3, 20));  // these may know less of their device
  d.emit(at(event_kind::sync, 0, 4, 21));
  CHECK(told(out.events) == "context0/1/7 stream0/1/13 other0/1/13 other0/1/0 other0/0/0 other0/3/20 other0/4/21 ");
}

TEST_CASE("cupti late places: a program that makes streams without end does not fill the memory") {
  support::recording_emitter out;
  known_places known;
  place_deriver d(out, known);
  for (std::uint64_t stream = 1; stream <= 3 * known_places::limit; ++stream)
    d.emit(at(event_kind::kernel, 0, 1, stream));
  CHECK(known.keys.size() == known_places::limit);
  CHECK(out.events.size() == 4 * known_places::limit);
}
