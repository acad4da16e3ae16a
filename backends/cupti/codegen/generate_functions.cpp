// SPDX-License-Identifier: Apache-2.0
// First step of the function tables: reads the text of CUPTI's headers (callback ids and parameter structures) and
// writes a C++ probe that includes the same headers, so that the compiler gives sizes and offsets. The probe, built
// and run, writes <cutrace/cupti/cuda_functions.hpp>. Works on the headers of any CUDA release: it relies
// on their style alone.
//
//   generate_functions PROBE.cpp INCLUDE_DIR...      directories with cupti.h and cuda.h, searched in this order

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct member {
  std::string type;
  std::string name;
};
using parameter_struct = std::vector<member>;
struct callback {
  bool runtime;
  unsigned id;
  std::string name;
};
struct sources {
  std::map<std::string, parameter_struct> structs;
  std::vector<callback> callbacks;
  std::set<std::string> without_parameters;
  std::vector<std::string> driver_results;   // enumerators of CUresult
  std::vector<std::string> runtime_results;  // of cudaError_t
};

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Text of a header with comments blanked out; line ends of either kind become '\n'.
std::string read_header(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream buffer;
  buffer << in.rdbuf();
  const std::string raw = buffer.str();
  std::string text;
  text.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw.compare(i, 2, "//") == 0) {
      while (i < raw.size() && raw[i] != '\n') ++i;
      text += '\n';
    } else if (raw.compare(i, 2, "/*") == 0) {
      const std::size_t end = raw.find("*/", i + 2);
      i = end == std::string::npos ? raw.size() : end + 1;
      text += ' ';
    } else if (raw[i] != '\r') {
      text += raw[i];
    }
  }
  return text;
}

fs::path find_header(const std::vector<fs::path>& dirs, const std::string& name) {
  for (const fs::path& d : dirs) {
    std::error_code ignored;
    if (fs::is_regular_file(d / name, ignored)) return d / name;
  }
  return {};
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front())) != 0) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back())) != 0) s.remove_suffix(1);
  return std::string(s);
}

/// "CUPTI_DRIVER_TRACE_CBID_cuInit = 1," for each function.
void read_callbacks(const std::string& text, const std::string& prefix, bool runtime, sources& out) {
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    std::size_t end = at + prefix.size();
    while (end < text.size() && is_name(text[end])) ++end;
    const std::string name = text.substr(at + prefix.size(), end - at - prefix.size());
    while (end < text.size() && text[end] == ' ') ++end;
    if (end >= text.size() || text[end] != '=') continue;
    if (name == "INVALID" || name == "SIZE" || name == "FORCE_INT") continue;
    const unsigned long id = std::strtoul(text.c_str() + end + 1, nullptr, 0);
    if (id < 4096) out.callbacks.push_back({runtime, static_cast<unsigned>(id), name});
  }
}

/// One declaration of a structure: "const void *const *srcs", "size_t size  __dv". False for what is not a plain
/// member.
bool read_member(std::string text, member& out) {
  text = trimmed(text);
  const std::string mark = "__dv";  // default-value mark of some runtime structures, empty in C
  if (text.size() > mark.size() && text.compare(text.size() - mark.size(), mark.size(), mark) == 0) {
    text = trimmed(std::string_view(text).substr(0, text.size() - mark.size()));
  }
  std::size_t begin = text.size();
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  out.name = text.substr(begin);
  out.type = trimmed(std::string_view(text).substr(0, begin));
  return !out.name.empty() && !out.type.empty();
}

/// "typedef struct NAME_params_st { ... } NAME_params;" for each function.
void read_structs(const std::string& text, sources& out) {
  const std::string begin_mark = "typedef struct ";
  const std::string end_mark = "_params_st";
  for (std::size_t at = text.find(begin_mark); at != std::string::npos; at = text.find(begin_mark, at + 1)) {
    const std::size_t name_at = at + begin_mark.size();
    std::size_t name_end = name_at;
    while (name_end < text.size() && is_name(text[name_end])) ++name_end;
    const std::string tag = text.substr(name_at, name_end - name_at);
    if (tag.size() <= end_mark.size() || tag.compare(tag.size() - end_mark.size(), end_mark.size(), end_mark) != 0) {
      continue;
    }
    const std::size_t open = text.find('{', name_end);
    const std::size_t close = text.find('}', name_end);
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    parameter_struct s;
    std::stringstream body(text.substr(open + 1, close - open - 1));
    bool plain = true;
    for (std::string line; std::getline(body, line, ';');) {
      if (trimmed(line).empty()) continue;
      member m;
      plain = plain && read_member(line, m);
      s.push_back(m);
    }
    if (plain) out.structs.emplace(tag.substr(0, tag.size() - end_mark.size()), s);
  }
}

/// "cuCtxSynchronize(void)": functions that have no parameter structure because they take nothing.
void read_parameterless(const std::string& text, std::set<std::string>& out) {
  const std::string mark = "(void)";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    std::size_t end = at;
    while (end > 0 && text[end - 1] == ' ') --end;
    std::size_t begin = end;
    while (begin > 0 && is_name(text[begin - 1])) --begin;
    out.insert(text.substr(begin, end - begin));
  }
}

bool takes_nothing(const sources& in, std::string name) {
  if (in.without_parameters.count(name) != 0) return true;
  for (const char* suffix : {"_ptsz", "_ptds"}) {
    const std::size_t at = name.rfind(suffix);
    if (at != std::string::npos) name.erase(at, 5);
  }
  if (in.without_parameters.count(name) != 0) return true;
  // Runtime functions carry the release that brought them: cudaDeviceSynchronize_v3020.
  const std::size_t at = name.rfind("_v");
  return name.compare(0, 4, "cuda") == 0 && at != std::string::npos &&
         in.without_parameters.count(name.substr(0, at)) != 0;
}

/// "enum ... TAG { CUDA_SUCCESS = 0, ... };": the enumerators. The compiler knows their values.
std::vector<std::string> read_enumerators(const std::string& text, const std::string& tag) {
  std::vector<std::string> names;
  for (std::size_t at = text.find(tag); at != std::string::npos; at = text.find(tag, at + 1)) {
    std::size_t open = at + tag.size();
    while (open < text.size() && std::isspace(static_cast<unsigned char>(text[open])) != 0) ++open;
    const bool whole = at > 0 && !is_name(text[at - 1]);
    if (!whole || open >= text.size() || text[open] != '{') continue;  // a use of the name, not the definition
    std::stringstream body(text.substr(open + 1, text.find('}', open) - open - 1));
    for (std::string item; std::getline(body, item, ',');) {
      const std::string name = trimmed(item.substr(0, item.find('=')));
      if (!name.empty()) names.push_back(name);
    }
    break;
  }
  return names;
}

bool read_all(const std::vector<fs::path>& dirs, sources& out) {
  for (const char* name : {"cupti.h", "cuda.h", "cuda_runtime_api.h", "cupti_driver_cbid.h", "cupti_runtime_cbid.h",
                           "generated_cuda_meta.h", "generated_cuda_runtime_api_meta.h"}) {
    if (find_header(dirs, name).empty()) {
      std::fprintf(stderr, "cutrace codegen: %s is in none of the given directories\n", name);
      return false;
    }
  }
  read_callbacks(read_header(find_header(dirs, "cupti_driver_cbid.h")), "CUPTI_DRIVER_TRACE_CBID_", false, out);
  read_callbacks(read_header(find_header(dirs, "cupti_runtime_cbid.h")), "CUPTI_RUNTIME_TRACE_CBID_", true, out);
  // The two that cupti.h itself includes, so that they compile wherever CUPTI does. Those of graphics interoperability
  // need headers of OpenGL and others; their calls are stored as four raw words.
  for (const char* name : {"generated_cuda_meta.h", "generated_cuda_runtime_api_meta.h"}) {
    read_structs(read_header(find_header(dirs, name)), out);
  }
  for (const char* name : {"cuda.h", "cuda_runtime_api.h", "cudaProfiler.h", "cuda_profiler_api.h"}) {
    const fs::path path = find_header(dirs, name);
    if (!path.empty()) read_parameterless(read_header(path), out.without_parameters);
  }
  out.driver_results = read_enumerators(read_header(find_header(dirs, "cuda.h")), "cudaError_enum");
  const fs::path runtime_types = find_header(dirs, "driver_types.h");
  if (!runtime_types.empty()) out.runtime_results = read_enumerators(read_header(runtime_types), "cudaError");
  return true;
}

void write_parameters(const callback& c, const parameter_struct& s, std::ostream& out) {
  const std::string type = c.name + "_params";
  out << "constexpr parameter_facts p_" << c.name << "[] = {\n";
  for (const member& m : s) {
    out << "    {\"" << m.name << "\", \"" << m.type << "\", offsetof(" << type << ", " << m.name
        << "), facts<decltype(" << type << "::" << m.name << ")>()},\n";
  }
  out << "};\n";
}

void write_results(const char* table, const std::vector<std::string>& names, std::ostream& out) {
  out << "\nconst std::vector<codegen::result_facts> " << table << " = {\n";
  for (const std::string& n : names) out << "    {static_cast<int>(" << n << "), \"" << n << "\"},\n";
  out << "};\n";
}

void write_probe(const sources& in, std::ostream& out) {
  out << "// Made by generate_functions; do not edit.\n#include <cupti.h>\n"
      << (in.runtime_results.empty() ? "" : "#include <driver_types.h>\n")
      << "\n#include \"print.hpp\"\n\n"
         "namespace {\n\nusing codegen::facts;\nusing codegen::parameter_facts;\n\n";
  for (const callback& c : in.callbacks) {
    const auto s = in.structs.find(c.name);
    if (s != in.structs.end() && !s->second.empty()) write_parameters(c, s->second, out);
  }
  out << "\nconst codegen::function_facts functions[] = {\n";
  for (const callback& c : in.callbacks) {
    out << "    {" << (c.runtime ? "true" : "false") << ", " << c.id << ", \"" << c.name << "\", ";
    const auto s = in.structs.find(c.name);
    if (s != in.structs.end() && !s->second.empty()) {
      out << "true, p_" << c.name << ", " << s->second.size() << "},\n";
    } else {
      const bool known = s != in.structs.end() || takes_nothing(in, c.name);
      out << (known ? "true" : "false") << ", nullptr, 0},\n";
    }
  }
  out << "};\n";
  write_results("driver_results", in.driver_results, out);
  write_results("runtime_results", in.runtime_results, out);
  out << "\n}  // namespace\n\nint main(int argc, char** argv) {\n"
         "  return codegen::print(functions, sizeof(functions) / sizeof(functions[0]), driver_results, "
         "runtime_results, CUDA_VERSION, CUPTI_API_VERSION, argc, argv);\n}\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s PROBE.cpp INCLUDE_DIR...\n", argv[0]);
    return 2;
  }
  const std::vector<fs::path> dirs(argv + 2, argv + argc);
  sources in;
  if (!read_all(dirs, in)) return 1;
  std::ofstream out(argv[1]);
  write_probe(in, out);
  out.close();
  if (!out) {
    std::fprintf(stderr, "cutrace codegen: cannot write %s\n", argv[1]);
    return 1;
  }
  std::printf("cutrace codegen: %zu callback ids, %zu parameter structures\n", in.callbacks.size(), in.structs.size());
  return 0;
}
