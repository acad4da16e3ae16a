// SPDX-License-Identifier: Apache-2.0
// What golden files are made of. Each producer makes the files of one test, golden.<what>; what depends on a machine, a
// moment or a release is fixed by the input, or normalised before it gets here.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace golden {

/// Contents by file name.
using files = std::map<std::string, std::string>;

struct context {
  std::string command;  ///< path of the command `cutrace`
  std::string source;   ///< the project's folder
};

// sinks.cpp
files ascii(const context&);
files calls(const context&);
files chrome(const context&);
files html(const context&);
files jsonl(const context&);
files perfetto(const context&);
files prometheus(const context&);
files hashes(const context&);

// commands.cpp
files completion(const context&);
files diff(const context&);
files help(const context&);
files report(const context&);

// names.cpp
files fields(const context&);
files names(const context&);
files options(const context&);
files variables(const context&);

/// What a sink writes over a set of events. `sink` is its word for CUTRACE_SINKS, "jsonl?form=paired". Sets are
/// "sample", "marked sample", where `late` is set on events out of order, or readers would complain, "random N", whose
/// seed is N, "hostile names" and "extreme values".
std::string written_by(const std::string& sink, const std::string& set);

/// The version of the library, wherever it stands as a word of its own, becomes VERSION.
std::string without_version(std::string_view text);
/// A page without its programs and styles, whose elements stay; data in script elements stays, too. The random number
/// that admits its programs becomes NONCE.
std::string without_programs(std::string page);
/// FNV-1a of 64 bits, in hexadecimal digits.
std::string hash_of(std::string_view bytes);

}  // namespace golden
