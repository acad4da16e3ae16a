// SPDX-License-Identifier: Apache-2.0
// Writes the classified functions as the header cutrace/cupti/cuda_functions.hpp. Part of the probe
// that generate_functions.cpp writes.
#pragma once

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "classify.hpp"

namespace codegen {

inline const char* text_of(argument_kind k) {
  constexpr const char* names[] = {"word",  "integer", "unsigned_integer", "floating", "pointer",
                                   "bytes", "stream",  "handle",           "output"};
  return names[static_cast<int>(k)];
}
inline const char* text_of(read_how h) {
  constexpr const char* names[] = {"value", "output", "nested", "product"};
  return names[static_cast<int>(h)];
}
inline const char* text_of(function_work w) {
  constexpr const char* names[] = {"none",     "launch", "graph",       "copy", "set",
                                   "allocate", "free",   "synchronize", "event"};
  return names[static_cast<int>(w)];
}
inline const char* text_of(copy_direction d) {
  constexpr const char* names[] = {"unknown",          "host_to_device", "device_to_host",
                                   "device_to_device", "host_to_host",   "peer"};
  return names[static_cast<int>(d)];
}

/// Prints rows, and collects the tables of parameters and products that all rows index.
class table_writer {
 public:
  explicit table_writer(std::FILE* out) : out_(out) {}

  void signature_head() {
    std::fprintf(
        out_,
        "// Made by cutrace's codegen from the CUDA headers; do not edit.\n#pragma once\n\n"
        "#include \"signature_entry.hpp\"\n\n"
        "CUTRACE_BEGIN_NAMESPACE\nnamespace cupti {\nnamespace signatures {\n\n"
        "using k = argument_kind;\nusing h = read_how;\nusing w = function_work;\nusing d = copy_direction;\n\n");
  }

  void head(unsigned long cuda_version, unsigned long cupti_version) {
    std::fprintf(
        out_,
        "// Made by cutrace's codegen from the CUDA headers; do not edit.\n#pragma once\n\n"
        "#include <cstdint>\n\n#include <cutrace/cupti/functions_entry.hpp>\n\n"
        "CUTRACE_BEGIN_NAMESPACE\nnamespace cupti {\nnamespace tables {\n\n"
        "constexpr std::uint32_t cuda_version = %lu;\nconstexpr std::uint32_t cupti_version = %lu;\n\n"
        "using k = argument_kind;\nusing h = read_how;\nusing w = function_work;\nusing d = copy_direction;\n\n",
        cuda_version, cupti_version);
  }

  /// One table, indexed by callback id.
  void functions(const char* name, const std::vector<function_row>& rows) {
    unsigned last = 0;
    for (const function_row& r : rows) last = r.cbid > last ? r.cbid : last;
    std::vector<const function_row*> by_id(last + 1, nullptr);
    for (const function_row& r : rows) by_id[r.cbid] = &r;
    std::fprintf(out_, "// name, symbol, first, parameters, words, bytes_word, work, direction, known, query, gpu\n");
    std::fprintf(out_, "CUTRACE_LOCAL inline constexpr function_entry %s[] = {\n", name);
    for (const function_row* r : by_id) {
      if (r == nullptr) {
        std::fprintf(out_, "    {nullptr, nullptr, 0, 0, 0, -1, w::none, d::unknown, false, false, false},\n");
      } else {
        std::fprintf(out_, "    ");
        function(*r, "\n");
      }
    }
    std::fprintf(out_, "};\n\n");
  }

  /// Driver functions, sorted by symbol, and where their arguments lie when they are called.
  void signatures(const std::vector<std::pair<function_row, const function_facts*>>& all) {
    std::string places;
    unsigned place_count = 0;
    std::fprintf(out_, "CUTRACE_LOCAL inline constexpr preload::signature functions[] = {\n");
    for (const auto& [row, facts] : all) {
      std::fprintf(out_, "    {");
      function(row, "");
      bool placed = row.known;
      for (std::size_t i = 0; i < facts->count; ++i) {
        const parameter_facts& p = facts->parameters[i];
        // Which registers a structure of two words takes depends on its members.
        placed = placed && (p.t.size <= 8 || p.t.size > 16);
        char line[64];
        std::snprintf(line, sizeof(line), "    {%zu, %zu, %s},\n", p.offset, p.t.size, p.t.floating ? "true" : "false");
        places += line;
      }
      std::fprintf(out_, " %u, %zu, %s},\n", place_count, facts->count, placed ? "true" : "false");
      place_count += static_cast<unsigned>(facts->count);
    }
    std::fprintf(
        out_, "};\n\nCUTRACE_LOCAL inline constexpr preload::argument_place places[] = {\n%s    {0, 0, false},\n};\n\n",
        places.c_str());
  }

  /// Names of result codes. Of several names for one code the first one stays.
  void results(const char* name, const std::vector<result_facts>& all) {
    std::set<int> seen;
    std::fprintf(out_, "CUTRACE_LOCAL inline constexpr result_entry %s[] = {\n", name);
    for (const result_facts& r : all) {
      if (seen.insert(r.code).second) std::fprintf(out_, "    {%d, \"%s\"},\n", r.code, r.name);
    }
    std::fprintf(out_, "    {0, nullptr},\n};\n\n");
  }

  void tail(const char* room = "tables") {
    std::fprintf(out_, "CUTRACE_LOCAL inline constexpr function_parameter parameters[] = {\n%s", parameters_.c_str());
    std::fprintf(out_, "    {nullptr, k::word, h::value, 0, 0, 0},\n};\n\n");
    std::fprintf(out_, "CUTRACE_LOCAL inline constexpr function_product products[] = {\n%s", products_.c_str());
    std::fprintf(out_, "    {no_offset, {0, 0, 0}, {0, 0, 0}, 0, 0, {no_offset, no_offset}},\n};\n\n");
    std::fprintf(out_, "}  // namespace %s\n}  // namespace cupti\nCUTRACE_END_NAMESPACE\n", room);
  }

 private:
  void function(const function_row& r, const char* end) {
    std::fprintf(out_, "{\"%s\", \"%s\", %u, %zu, %zu, %d, w::%s, d::%s, %s, %s, %s},%s", r.name.c_str(),
                 r.symbol.c_str(), parameter_count_, r.stored.size() + r.other.size(), r.stored.size(), r.bytes_word,
                 text_of(r.work), text_of(r.direction), r.known ? "true" : "false", r.query ? "true" : "false",
                 r.makes_gpu_work ? "true" : "false", end);
    for (const function_parameter& p : r.stored) parameter(p, product_count_);
    for (const function_parameter& p : r.other) parameter(p, product_count_);
    for (const function_product& p : r.products) product(p);
  }

  void parameter(const function_parameter& p, unsigned first_product) {
    char line[256];
    const unsigned offset = p.how == read_how::product ? first_product + p.offset : p.offset;
    std::snprintf(line, sizeof(line), "    {\"%s\", k::%s, h::%s, %u, %u, %u},\n", p.name, text_of(p.kind),
                  text_of(p.how), p.size, offset, p.inner);
    parameters_ += line;
    ++parameter_count_;
  }

  void product(const function_product& p) {
    char line[256];
    std::snprintf(line, sizeof(line), "    {%u, {%u, %u, %u}, {%u, %u, %u}, %u, %u, {%u, %u}},\n", p.pointer,
                  p.factor[0], p.factor[1], p.factor[2], p.size[0], p.size[1], p.size[2], p.count, p.scale,
                  p.null_at[0], p.null_at[1]);
    products_ += line;
    ++product_count_;
  }

  std::FILE* out_;
  std::string parameters_;
  std::string products_;
  unsigned parameter_count_ = 0;
  unsigned product_count_ = 0;
};

/// Prints one line of counts; with `names`, also the functions whose parameters no header declares.
inline void summary(const char* domain, const std::vector<function_row>& rows, bool names) {
  std::size_t with = 0, without = 0, unknown = 0, work = 0, query = 0;
  for (const function_row& r : rows) {
    if (!r.known) {
      ++unknown;
    } else if (r.stored.empty() && r.other.empty()) {
      ++without;
    } else {
      ++with;
    }
    work += r.makes_gpu_work ? 1 : 0;
    query += r.query ? 1 : 0;
  }
  std::printf(
      "cutrace codegen: %s: %zu functions, %zu with parameters, %zu take none, %zu unknown (four raw words); "
      "%zu make GPU work, %zu only ask\n",
      domain, rows.size(), with, without, unknown, work, query);
  if (!names) return;
  for (const function_row& r : rows) {
    if (!r.known) std::printf("  no parameters known: %s\n", r.symbol.c_str());
  }
}

inline int close(std::FILE* out, const char* path) {
  if (std::fclose(out) == 0) return 0;
  std::perror(path);
  return 1;
}

/// The header for calls hooked by LD_PRELOAD: their arguments lie in registers and on the stack, and no GPU record adds
/// the grid, block and shared memory of a launch.
inline int print_signatures(const function_facts* functions, std::size_t count,
                            const std::vector<result_facts>& driver_results, const char* path) {
  std::vector<std::pair<function_row, const function_facts*>> all;
  for (std::size_t i = 0; i < count; ++i)
    if (!functions[i].runtime) all.emplace_back(classify(functions[i], launch_words::all), &functions[i]);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.symbol < b.first.symbol; });
  std::FILE* out = std::fopen(path, "w");
  if (out == nullptr) {
    std::perror(path);
    return 1;
  }
  table_writer w(out);
  w.signature_head();
  w.signatures(all);
  w.results("results", driver_results);
  w.tail("signatures");
  return close(out, path);
}

/// Body of the probe's main: classify all functions, write the header to argv[1]. "-v" as argv[2] lists functions
/// without known parameters; "--signatures" writes the header for hooked calls instead.
inline int print(const function_facts* functions, std::size_t count, const std::vector<result_facts>& driver_results,
                 const std::vector<result_facts>& runtime_results, unsigned long cuda_version,
                 unsigned long cupti_version, int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s OUTPUT.hpp [-v]\n", argv[0]);
    return 2;
  }
  std::vector<function_row> driver, runtime;
  for (std::size_t i = 0; i < count; ++i) {
    (functions[i].runtime ? runtime : driver).push_back(classify(functions[i]));
  }
  if (driver.empty() || runtime.empty()) {
    std::fprintf(stderr, "cutrace codegen: no functions found in the CUPTI headers\n");
    return 1;
  }
  if (driver_results.empty()) {
    std::fprintf(stderr, "cutrace codegen: no enumerators of CUresult found in cuda.h\n");
    return 1;
  }
  if (argc > 2 && std::string_view(argv[2]) == "--signatures")
    return print_signatures(functions, count, driver_results, argv[1]);
  std::FILE* out = std::fopen(argv[1], "w");
  if (out == nullptr) {
    std::perror(argv[1]);
    return 1;
  }
  table_writer w(out);
  w.head(cuda_version, cupti_version);
  w.functions("driver", driver);
  w.functions("runtime", runtime);
  w.results("driver_results", driver_results);
  w.results("runtime_results", runtime_results);
  w.tail();
  if (close(out, argv[1]) != 0) return 1;
  const bool verbose = argc > 2 && std::string_view(argv[2]) == "-v";
  summary("driver", driver, verbose);
  summary("runtime", runtime, verbose);
  std::printf("cutrace codegen: names of %zu driver and %zu runtime results\n", driver_results.size(),
              runtime_results.size());
  return 0;
}

}  // namespace codegen
