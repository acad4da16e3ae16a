// SPDX-License-Identifier: Apache-2.0
// Writes the seeds for the fuzz targets of the readers: what sinks make of sane, random and hostile events, each behind
// a byte that says how it is to be read.
//
//   read_corpus FOLDER      FOLDER/jsonl, FOLDER/chrome, FOLDER/perfetto
#include <cstdio>
#include <cutrace/sinks/chrome.hpp>
#include <cutrace/sinks/jsonl.hpp>
#include <cutrace/sinks/perfetto.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/hostile_events.hpp"
#include "support/random_events.hpp"
#include "support/sample_events.hpp"
#include "support/temporary_folder.hpp"

namespace {

int written = 0;

template <class Sink, class... Options>
void seed(const std::string& folder, const std::string& name, const std::string& extension, char how,
          const std::vector<cutrace::event>& events, const Options&... options) {
  const temporary_folder temporary;
  const std::string path = temporary.file("t" + extension);
  {
    Sink sink(path, options...);
    sink.open(sample::info());
    sink.write(sample::view(events));
    sink.close(sample::summary(events.size()));
  }
  std::filesystem::create_directories(folder);
  // The first byte chooses what the fuzzer does with the file (read_fuzz.cpp). Every fourth file is of the same kind:
  // without `written / 4`, that kind would get only two of the eight choices.
  const char all = static_cast<char>(how | (written + written / 4) % 8 << 2);
  ++written;
  std::ofstream(folder + "/" + name, std::ios::binary) << all << content_of(path);
}

std::vector<cutrace::event> few(const std::vector<cutrace::event>& all, std::size_t from, std::size_t n) {
  return std::vector<cutrace::event>(all.begin() + static_cast<std::ptrdiff_t>(std::min(from, all.size())),
                                     all.begin() + static_cast<std::ptrdiff_t>(std::min(from + n, all.size())));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("read_corpus FOLDER\n", stderr), 2;
  const std::string folder = argv[1];
  const random_trace::trace random(17, 8);
  const std::vector<std::vector<cutrace::event>> sets = {sample::server_run(),
                                                         random.events(),
                                                         few(hostile::named_events(), 0, 30),
                                                         few(hostile::named_events(), 200, 30),
                                                         hostile::extreme_events(),
                                                         {}};
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const std::string n = std::to_string(i);
    const char how = static_cast<char>(i % 2);
    seed<cutrace::jsonl_sink>(folder + "/jsonl", "events" + n, ".jsonl", how, sets[i]);
    cutrace::jsonl_options paired;
    paired.form = cutrace::jsonl_form::paired;
    seed<cutrace::jsonl_sink>(folder + "/jsonl", "paired" + n, ".jsonl", how, sets[i], paired);
    seed<cutrace::chrome_sink>(folder + "/chrome", "chrome" + n, ".json", how, sets[i]);
    cutrace::perfetto_options arguments;
    arguments.arguments = true;
    seed<cutrace::perfetto_sink>(folder + "/perfetto", "perfetto" + n, ".pftrace", how, sets[i], arguments);
  }
  seed<cutrace::jsonl_sink>(folder + "/jsonl", "zipped", ".jsonl.gz", 0, sets[0]);
  seed<cutrace::perfetto_sink>(folder + "/perfetto", "zipped", ".pftrace.gz", 0, sets[0]);
  // Kineto's shape.
  static const char* const kineto[] = {
      R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],)",
      R"("baseTimeNanoseconds": 1790857026000000000, "traceEvents": [)",
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1035, "tid": 1035, "ts": 4362131675678.073,)",
      R"( "dur": 421.629, "args": {"External id": 64513}},)",
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1035, "tid": 1035,)",
      R"( "ts": 4362131675721.885, "dur": 19.981, "args": {"cbid": 211, "correlation": 7}},)",
      R"({"ph": "s", "id": 7, "pid": 1035, "tid": 1035, "ts": 4362131675721.885, "cat": "ac2g", "name": "ac2g"},)",
      R"(  {)",
      R"(    "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4362131676080.596, "dur": 0.864,)",
      R"(    "args": {)",
      R"(      "External id": 64513, "device": 0, "context": 1, "stream": 7, "correlation": 7, "grid": [1, 1, 1])",
      R"(    })",
      R"(  },)",
      R"({"ph": "X", "cat": "Trace", "ts": 4362131674976.829, "dur": 197206.216, "pid": "Spans", "tid": "Profiler",)",
      R"( "name": "PyTorch Profiler"},)",
      R"({"name": "process_labels", "ph": "M", "ts": 4362131675044.962, "pid": 1035, "tid": 0,)",
      R"( "args": {"labels": "CPU"}})",
      R"(], "traceName": "x.json"})",
  };
  std::ofstream file(folder + "/chrome/kineto", std::ios::binary);
  file << '\1';
  for (const char* line : kineto) file << line << '\n';
  std::printf("%d seeds\n", ++written);
}
