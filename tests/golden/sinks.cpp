// SPDX-License-Identifier: Apache-2.0
// What the sinks write: over the sample events as text, over random and hostile ones as hashes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cutrace/sinks/sink_registry.hpp>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden.hpp"
#include "support/hostile_events.hpp"
#include "support/protobuf_text.hpp"
#include "support/random_events.hpp"
#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace golden {

namespace {

using events = std::vector<cutrace::event>;

constexpr std::size_t random_steps = 300;

/// A whole life of a sink: batches as a collector hands them over, a flush now and then. @returns its file
std::string life_of(const std::string& word, const events& all, std::size_t batch) {
  const temporary_folder folder;
  const std::string path = folder.file("out");
  const std::size_t query = std::min(word.find('?'), word.size());
  const std::string spec = word.substr(0, query) + ":" + path + word.substr(query);
  const auto sinks = cutrace::make_sinks(spec.c_str());
  if (sinks.size() != 1) throw std::runtime_error(word + " is not one sink");
  cutrace::sink& sink = *sinks[0];
  sink.open(sample::info());
  std::size_t batches = 0;
  for (std::size_t at = 0; at < all.size(); at += batch) {
    sink.write({all.data() + at, std::min(batch, all.size() - at)});
    if (++batches % 5 == 0) sink.flush();
  }
  sink.close(sample::summary(all.size()));
  return content_of(path);
}

/// The tracks of counters, each with a word that stands for its number: the sink makes numbers from the addresses of
/// names, which differ from run to run.
std::map<std::string, std::string> counter_tracks(std::string_view file) {
  constexpr std::uint64_t track_descriptor = 60, uuid = 1, counter = 8;
  std::map<std::string, std::string> words;
  for (protobuf_text::reader top(file); top.next();) {
    for (protobuf_text::reader packet(top.content); packet.next();) {
      if (packet.number != track_descriptor) continue;
      std::uint64_t number = 0;
      bool counts = false;
      for (protobuf_text::reader track(packet.content); track.next();) {
        if (track.number == uuid) number = track.value;
        counts = counts || track.number == counter;
      }
      if (counts) words.emplace(std::to_string(number), "COUNTER_" + std::to_string(words.size() + 1));
    }
  }
  return words;
}

std::string with_words(const std::string& text, const std::map<std::string, std::string>& tracks) {
  constexpr std::string_view field = "uuid: ";
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(field); at != text.npos; at = text.find(field, at)) {
    at += field.size();
    const std::size_t end = text.find_first_not_of("0123456789", at);
    const auto word = tracks.find(text.substr(at, end - at));
    if (word == tracks.end()) continue;
    out.append(text, done, at - done);
    out += word->second;
    done = end;
  }
  return out.append(text, done, text.npos);
}

/// The packets of a Perfetto file as text. `digest` gets their bytes, or the text of packets that had to be normalised.
std::string text_of_packets(const context& c, std::string_view file, std::string& digest) {
  const protobuf_text::schema known(content_of(c.source + "/tests/support/perfetto_min.proto"));
  const std::map<std::string, std::string> counters = counter_tracks(file);
  std::string text;
  for (protobuf_text::reader top(file); top.next();) {
    if (top.number != 1 || top.wire != 2) throw std::runtime_error("a Perfetto file holds something else than packets");
    const std::string plain = protobuf_text::text_of(known, ".TracePacket", top.content, 2, "  ");
    const std::string packet = with_words(without_version(plain), counters);
    if (packet == plain)
      digest += top.content;
    else
      digest += packet;
    text += "packet {\n" + packet + "}\n";
  }
  return text;
}

std::string normal_form(const context& c, const std::string& word, const std::string& bytes) {
  if (word.compare(0, 4, "html") == 0) return without_version(without_programs(bytes));
  if (word.compare(0, 8, "perfetto") != 0) return without_version(bytes);
  std::string digest;
  text_of_packets(c, bytes, digest);
  return digest;
}

std::string sample_of(const context& c, const std::string& word) {
  return normal_form(c, word, written_by(word, "sample"));
}

}  // namespace

std::string written_by(const std::string& sink, const std::string& set) {
  if (set == "sample") return life_of(sink, sample::server_run(), 1000);
  if (set == "marked sample") {
    events all = sample::server_run();
    random_trace::mark_late(all);
    return life_of(sink, all, 1000);
  }
  if (set == "hostile names") return life_of(sink, hostile::named_events(), 7);
  if (set == "extreme values") return life_of(sink, hostile::extreme_events(), 5);
  if (set.compare(0, 7, "random ") != 0) throw std::runtime_error("no such set of events: " + set);
  const random_trace::trace trace(std::stoull(set.substr(7)), random_steps);
  return life_of(sink, trace.events(), 100);
}

files ascii(const context& c) {
  return {{"ascii.txt", sample_of(c, "ascii")}, {"ascii_width_80.txt", sample_of(c, "ascii?width=80")}};
}
files calls(const context& c) { return {{"calls.txt", sample_of(c, "calls")}}; }
files chrome(const context& c) { return {{"chrome.json", sample_of(c, "chrome")}}; }
files html(const context& c) { return {{"html.html", sample_of(c, "html")}}; }
files jsonl(const context& c) {
  return {{"jsonl.jsonl", sample_of(c, "jsonl")}, {"jsonl_paired.jsonl", sample_of(c, "jsonl?form=paired")}};
}
files prometheus(const context& c) { return {{"prometheus.prom", sample_of(c, "prometheus")}}; }

files perfetto(const context& c) {
  files all;
  for (const char* word : {"perfetto", "perfetto?arguments=yes"}) {
    std::string digest;
    const std::string text = text_of_packets(c, written_by(word, "sample"), digest);
    const bool plain = std::string_view(word) == "perfetto";
    all[plain ? "perfetto.txt" : "perfetto_arguments.txt"] = "# bytes: fnv1a64 " + hash_of(digest) + "\n" + text;
  }
  return all;
}

files hashes(const context& c) {
  static const char* const words[] = {"ascii",        "ascii?width=80",
                                      "calls",        "chrome",
                                      "html",         "jsonl",
                                      "jsonl?hold=0", "jsonl?form=paired",
                                      "perfetto",     "perfetto?arguments=yes",
                                      "prometheus",   "prometheus?stages=1"};
  std::string text = "# FNV-1a of 64 bits of what each sink writes, by events\n";
  for (const char* word : words) {
    for (const char* set : {"random 1", "random 2", "hostile names", "extreme values"}) {
      char line[160];
      std::snprintf(line, sizeof(line), "%-24s%-16s%s\n", word, set,
                    hash_of(normal_form(c, word, written_by(word, set))).c_str());
      text += line;
    }
  }
  return {{"hashes.txt", text}};
}

}  // namespace golden
