// SPDX-License-Identifier: Apache-2.0
#if defined(CUTRACE_WITH_EBPF)
#include "cutrace/bpf_list.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cutrace/output/json_text.hpp>
#include <map>
#include <optional>
#include <vector>

#include "cutrace/bpf_places.hpp"
#include "cutrace/exit_status.hpp"
#include "cutrace/probe_choice.hpp"
#include "driver_files.hpp"
#include "kernel_catalog.hpp"
#include "probe_permission.hpp"
#include "probe_spec.hpp"

namespace cutrace_tool {

namespace eb = cutrace_ebpf;

namespace {

constexpr std::size_t width = 100;

/// "[KIND:][WHERE:]GLOB"
struct pattern {
  std::optional<eb::probe_kind> kind;
  std::string where, glob;

  explicit pattern(std::string text) {
    eb::probe_kind k{};
    const std::size_t first = text.find(':');
    if (first != std::string::npos && eb::read_kind(text.substr(0, first), k)) {
      kind = k;
      text.erase(0, first + 1);
    }
    const std::size_t last = text.rfind(':');
    if (last != std::string::npos) where = text.substr(0, last);
    glob = text.substr(last + 1);  // npos + 1 is 0
    if (glob.empty()) throw usage_error("--list: no pattern; '*' is every name");
  }
  bool wants(eb::probe_kind k) const { return !kind || *kind == k; }
  bool fits(const std::string& place, const std::string& name) const {
    return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0 &&
           (where.empty() || ::fnmatch(where.c_str(), place.c_str(), 0) == 0);
  }
};

/// One name at one place, with the kinds that fit.
struct row {
  eb::kernel_function of;
  bool kinds[4] = {};
};

struct listing {
  std::vector<row> rows;
  std::map<eb::probe_kind, eb::permission> permissions;
  std::string library;         ///< whose functions they are; empty: none was found
  std::string library_reason;  ///< why
};

void add(listing& l, std::vector<eb::kernel_function> all, std::initializer_list<eb::probe_kind> kinds) {
  for (eb::kernel_function& f : all) {
    row r;
    for (const eb::probe_kind k : kinds) r.kinds[static_cast<int>(k)] = k != eb::probe_kind::fentry || f.type_id != 0;
    r.of = std::move(f);
    if (std::any_of(std::begin(r.kinds), std::end(r.kinds), [](bool b) { return b; })) l.rows.push_back(std::move(r));
  }
}

void add_library(listing& l, const pattern& p, const std::string& wanted) {
  try {
    const eb::opened_file file = library_or_driver(!p.where.empty() && p.kind ? p.where : wanted);
    l.library = file.path();
    std::vector<eb::kernel_function> all;
    for (const std::string& name : function_names(file)) {
      if (::fnmatch(p.glob.c_str(), name.c_str(), 0) != 0) continue;
      eb::kernel_function f;
      f.module = l.library;
      f.name = name;
      all.push_back(std::move(f));
    }
    add(l, std::move(all), {eb::probe_kind::uprobe});
  } catch (const std::runtime_error& e) {
    if (!wanted.empty()) throw usage_error(e.what());
    l.library_reason = e.what();
  }
}

listing look(const pattern& p, const eb::kernel_catalog& kernel, const std::string& library) {
  listing l;
  const auto fits = [&](const std::string& module, const std::string& name) { return p.fits(module, name); };
  if (p.wants(eb::probe_kind::uprobe) && (p.where.empty() || p.kind)) add_library(l, p, library);
  if (p.wants(eb::probe_kind::tracepoint)) add(l, kernel.tracepoints(fits), {eb::probe_kind::tracepoint});
  if (p.wants(eb::probe_kind::fentry) && p.wants(eb::probe_kind::kprobe))
    add(l, kernel.functions(fits), {eb::probe_kind::fentry, eb::probe_kind::kprobe});
  else if (p.wants(eb::probe_kind::fentry) || p.wants(eb::probe_kind::kprobe))
    add(l, kernel.functions(fits), {*p.kind});
  return l;
}

/// Where no name fits: text with the names nearest to it, out of all names of the kinds that were asked for.
std::string near(const pattern& p, const eb::kernel_catalog& kernel, const listing& l) {
  std::vector<std::string> names;
  std::string plain = p.glob;
  plain.erase(std::remove_if(plain.begin(), plain.end(), [](char c) { return c == '*' || c == '?'; }), plain.end());
  const auto any = [](const std::string&, const std::string&) { return true; };
  if (p.wants(eb::probe_kind::tracepoint))
    for (const eb::kernel_function& f : kernel.tracepoints(any)) names.push_back(f.name);
  if (p.wants(eb::probe_kind::fentry) || p.wants(eb::probe_kind::kprobe))
    for (const std::string& name : kernel.function_names()) names.push_back(name);
  if (!l.library.empty())
    for (const std::string& name : function_names(eb::opened_file(l.library))) names.push_back(name);
  return eb::nearest_names(plain, names);
}

std::string arguments_of(const eb::kernel_function& f) {
  if (f.type_id == 0) return "six registers";
  std::string text;
  for (const eb::typed_value& v : f.arguments) {
    text += text.empty() ? "(" : ", ";
    text += v.type + (v.type.back() == '*' ? "" : " ") + v.name + (v.readable ? "" : " [not read]");
  }
  text += text.empty() ? "()" : ")";
  if (!f.result.type.empty()) text += " -> " + f.result.type;
  return text;
}

std::string place_of(const row& r) {
  return r.kinds[static_cast<int>(eb::probe_kind::uprobe)] ? r.of.module.substr(r.of.module.rfind('/') + 1)
                                                           : r.of.module;
}

/// Words, in lines of at most `width` columns that begin with `indent` blanks, the first one with `first`.
std::string wrapped(const std::string& first, const std::string& text, std::size_t indent) {
  std::string out = first;
  std::size_t column = first.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column > indent && column + 1 + end - at > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out.append(text, at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out + "\n";
}

std::string as_table(const listing& l, bool verbose) {
  std::string out;
  std::vector<eb::probe_kind> kinds;
  for (const auto& [kind, may] : l.permissions) {
    kinds.push_back(kind);
    std::string text = may.given ? "permitted here" : "refused here: " + may.reason;
    if (kind == eb::probe_kind::uprobe)
      text += l.library.empty() ? "; no functions to list: " + l.library_reason : "; functions of " + l.library;
    out += wrapped(fmt::format("{:<12}", eb::to_string(kind)), text, 12);
  }
  std::size_t names = 4, places = 2;
  for (const row& r : l.rows) {
    names = std::max(names, r.of.name.size());
    places = std::max(places, place_of(r).size());
  }
  std::size_t columns = 0;
  for (const eb::probe_kind k : kinds) columns += 2 + std::max<std::size_t>(std::string(eb::to_string(k)).size(), 7);
  places = std::min<std::size_t>(places, 20);
  names = std::min(names, width - columns - places - 2);
  out += fmt::format("\n{:<{}}  {:<{}}", "NAME", names, "OF", places);
  for (const eb::probe_kind k : kinds) out += fmt::format("  {:<7}", eb::to_string(k));
  while (out.back() == ' ') out.pop_back();
  out += '\n';
  for (const row& r : l.rows) {
    std::string line = fmt::format("{:<{}}  {:<{}}", r.of.name, names, place_of(r), places);
    for (const eb::probe_kind k : kinds)
      line += fmt::format("  {:<{}}",
                          !r.kinds[static_cast<int>(k)] ? "-"
                          : l.permissions.at(k).given   ? "yes"
                                                        : "refused",
                          std::max<std::size_t>(std::string(eb::to_string(k)).size(), 7));
    while (line.back() == ' ') line.pop_back();
    out += line + '\n';
    if (verbose) out += wrapped("   ", arguments_of(r.of), 4);
  }
  return out + fmt::format("\n{} {}\n", l.rows.size(), l.rows.size() == 1 ? "name" : "names");
}

void put_value(cutrace::detail::json_text& j, const eb::typed_value& v) {
  j.begin_object();
  if (!v.name.empty()) j.field("name", std::string_view(v.name));
  j.field("type", std::string_view(v.type));
  j.field("bytes", v.bytes);
  j.field("read", v.readable);
  j.end_object();
}

std::string as_json(const listing& l, const std::string& wanted) {
  cutrace::detail::json_text j;
  j.begin_object();
  j.field("v", 1);
  j.field("type", "bpf_list");
  j.field("pattern", std::string_view(wanted));
  j.key("kinds");
  j.begin_array();
  for (const auto& [kind, may] : l.permissions) {
    j.begin_object();
    j.field("kind", eb::to_string(kind));
    j.field("permitted", may.given);
    j.field("reason", std::string_view(may.reason));
    j.end_object();
  }
  j.end_array();
  j.field("library", std::string_view(l.library));
  j.key("probes");
  j.begin_array();
  for (const row& r : l.rows) {
    for (const auto& [kind, may] : l.permissions) {
      if (!r.kinds[static_cast<int>(kind)]) continue;
      j.begin_object();
      j.field("probe", std::string_view((eb::probe_spec{kind, r.of.module, r.of.name}).text()));
      j.field("kind", eb::to_string(kind));
      j.field("of", std::string_view(r.of.module));
      j.field("name", std::string_view(r.of.name));
      j.field("permitted", may.given);
      if (r.of.type_id != 0 && kind != eb::probe_kind::kprobe) {
        j.key("arguments");
        j.begin_array();
        for (const eb::typed_value& v : r.of.arguments) put_value(j, v);
        j.end_array();
        if (!r.of.result.type.empty()) {
          j.key("result");
          put_value(j, r.of.result);
        }
      }
      j.end_object();
    }
  }
  j.end_array();
  j.end_object();
  j.new_line();
  return std::string(j.view());
}

}  // namespace

std::string list_probes(const list_options& options) {
  const pattern p(options.pattern);
  const eb::kernel_catalog kernel(kernel_root());
  listing l = look(p, kernel, options.library);
  if (l.rows.empty())
    throw usage_error("nothing that can be probed here is called \"" + options.pattern + "\"" +
                      (l.library_reason.empty() ? "" : " (" + l.library_reason + ")") + near(p, kernel, l));
  for (const eb::probe_kind k : eb::probe_kinds)
    if (p.wants(k)) l.permissions[k] = eb::try_probe_kind(k, kernel);
  return options.json ? as_json(l, options.pattern) : as_table(l, options.verbose);
}

}  // namespace cutrace_tool
#endif
