// SPDX-License-Identifier: Apache-2.0
// One packet sequence of a Perfetto trace as perfetto_trace.hpp keeps it: defaults, clocks, and what interned ids mean.
#pragma once

#include <cstdint>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <stdexcept>
#include <string>
#include <utility>

namespace perfetto_trace {

using protozero::pbf_reader;
using notes = std::multimap<std::string, std::string>;

struct kernel {
  std::string name, demangled, arch;
  notes args;
};
struct specification {
  std::string name;
  int category = 0;
};
struct sequence {
  bool valid = false;
  std::uint64_t default_track = 0, last = 0, session_origin = 0;
  std::uint32_t default_clock = 0;
  std::map<std::uint64_t, std::string> categories, names, annotations, texts, arg_names;
  std::map<std::uint64_t, std::int32_t> contexts;
  std::map<std::uint64_t, specification> specifications;
  std::map<std::uint64_t, kernel> kernels;
};
inline void need(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}
template <class Map>
inline const typename Map::mapped_type& meaning(const Map& map, std::uint64_t iid, const char* what) {
  const auto at = map.find(iid);
  if (at == map.end()) throw std::runtime_error(std::string("unknown iid of ") + what + ": " + std::to_string(iid));
  return at->second;
}

inline void read_defaults(sequence& s, pbf_reader p) {
  while (p.next()) {
    if (p.tag() == 58) {
      s.default_clock = p.get_uint32();
    } else {
      need(p.tag() == 11, "unknown default");
      pbf_reader event = p.get_message();
      while (event.next(11)) s.default_track = event.get_uint64();
    }
  }
}

inline std::pair<std::uint64_t, std::string> read_text(pbf_reader p) {
  std::pair<std::uint64_t, std::string> out;
  while (p.next()) {
    if (p.tag() == 1)
      out.first = p.get_uint64();
    else if (p.tag() == 2)
      out.second = p.get_string();
    else
      need(false, "unknown field of an interned text");
  }
  need(out.first != 0, "iid 0");
  return out;
}

inline void read_context(sequence& s, pbf_reader p) {
  std::uint64_t iid = 0;
  std::int32_t pid = 0, api = 0;
  while (p.next()) {
    if (p.tag() == 1)
      iid = p.get_uint64();
    else if (p.tag() == 2)
      pid = p.get_int32();
    else if (p.tag() == 3)
      api = p.get_enum();
    else
      need(false, "unknown field of a context");
  }
  need(api == 4, "a context that is not CUDA's");
  s.contexts[iid] = pid;
}
inline void read_specification(sequence& s, pbf_reader p) {
  std::uint64_t iid = 0;
  specification out;
  while (p.next()) {
    if (p.tag() == 1)
      iid = p.get_uint64();
    else if (p.tag() == 2)
      out.name = p.get_string();
    else if (p.tag() == 4)
      out.category = p.get_enum();
    else
      need(p.tag() == 3 && !p.get_string().empty(), "unknown field of a specification");
  }
  s.specifications[iid] = out;
}

inline std::pair<std::string, std::string> read_note(const sequence& s, pbf_reader p) {
  std::pair<std::string, std::string> out;
  while (p.next()) {
    switch (p.tag()) {
      case 1:
        out.first = meaning(s.annotations, p.get_uint64(), "annotation");
        break;
      case 10:
        out.first = p.get_string();
        break;
      case 3:
      case 7:
        out.second = std::to_string(p.get_uint64());
        break;
      case 4:
        out.second = std::to_string(p.get_int64());
        break;
      case 5:
        out.second = std::to_string(p.get_double());
        break;
      case 6:
        out.second = p.get_string();
        break;
      case 17:
        out.second = meaning(s.texts, p.get_uint64(), "text");
        break;
      default:
        need(false, "unknown field of an annotation");
    }
  }
  return out;
}

inline std::pair<std::string, std::string> read_arg(const sequence& s, pbf_reader p) {
  std::pair<std::string, std::string> out;
  while (p.next()) {
    switch (p.tag()) {
      case 1:
        out.first = meaning(s.arg_names, p.get_uint64(), "argument");
        break;
      case 2:
        out.first = p.get_string();
        break;
      case 3:
        out.second = std::to_string(p.get_int64());
        break;
      case 4:
        out.second = std::to_string(p.get_uint64());
        break;
      case 6:
        out.second = p.get_string();
        break;
      case 7:
        out.second = meaning(s.texts, p.get_uint64(), "text");
        break;
      default:
        need(false, "unknown field of an argument");
    }
  }
  return out;
}

inline void read_kernel(sequence& s, pbf_reader p) {
  std::uint64_t iid = 0;
  kernel k;
  while (p.next()) {
    if (p.tag() == 1)
      iid = p.get_uint64();
    else if (p.tag() == 2)
      k.name = p.get_string();
    else if (p.tag() == 3)
      k.demangled = p.get_string();
    else if (p.tag() == 4)
      k.arch = p.get_string();
    else if (p.tag() == 5)
      k.args.insert(read_arg(s, p.get_message()));
    else
      need(false, "unknown field of a kernel");
  }
  s.kernels[iid] = k;
}

inline void read_interned(sequence& s, pbf_reader p) {
  while (p.next()) {
    const std::uint32_t tag = p.tag();
    pbf_reader one = p.get_message();
    if (tag == 1)
      s.categories.insert(read_text(one));
    else if (tag == 2)
      s.names.insert(read_text(one));
    else if (tag == 3)
      s.annotations.insert(read_text(one));
    else if (tag == 29)
      s.texts.insert(read_text(one));
    else if (tag == 1001)
      s.arg_names.insert(read_text(one));
    else if (tag == 23)
      read_context(s, one);
    else if (tag == 24)
      read_specification(s, one);
    else if (tag == 1000)
      read_kernel(s, one);
    else
      need(false, "unknown interned data");
  }
}

}  // namespace perfetto_trace
