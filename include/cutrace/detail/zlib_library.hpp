// SPDX-License-Identifier: Apache-2.0
// zlib, opened when the first ".gz" file is: a program that writes none needs neither the library nor its headers, and
// gets no dependency through ours. Structure and functions are those of zlib.h 1.2 and 1.3, whose own check of version
// and size refuses any other.
#pragma once

#include <dlfcn.h>

#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <string>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

/// z_stream of zlib.h. A test compares it with the header, member by member.
struct zlib_stream {
  const unsigned char* next_in;
  unsigned avail_in;
  unsigned long total_in;
  unsigned char* next_out;
  unsigned avail_out;
  unsigned long total_out;
  const char* msg;
  void* state;
  void* (*zalloc)(void*, unsigned, unsigned);
  void (*zfree)(void*, void*);
  void* opaque;
  int data_type;
  unsigned long adler;
  unsigned long reserved;
};

class zlib_library {
 public:
  int (*init)(zlib_stream*, int level, int method, int window_bits, int memory_level, int strategy, const char* version,
              int stream_size) = nullptr;  ///< deflateInit2_
  int (*deflate)(zlib_stream*, int flush) = nullptr;
  int (*end)(zlib_stream*) = nullptr;  ///< deflateEnd

  /// Opened once and never closed. `path` is the file that asks, for the message. @throws config_error
  static const zlib_library& get(const std::string& path) {
    static const zlib_library loaded("libz.so.1");
    if (loaded.end == nullptr) {
      throw config_error(("\"" + path + "\" ends in .gz, which needs zlib: " + loaded.reason_ +
                          "; install it (Debian: zlib1g), or leave .gz out of the name")
                             .c_str());
    }
    return loaded;
  }

  /// `end` is null where the library cannot be used; `reason` then says why.
  explicit zlib_library(const char* name) {
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      reason_ = why != nullptr ? why : "cannot open it";
      return;
    }
    init = reinterpret_cast<decltype(init)>(::dlsym(library, "deflateInit2_"));
    deflate = reinterpret_cast<decltype(deflate)>(::dlsym(library, "deflate"));
    if (init == nullptr || deflate == nullptr) {
      reason_ = std::string(name) + " has no deflate";
      return;
    }
    end = reinterpret_cast<decltype(end)>(::dlsym(library, "deflateEnd"));
  }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

}  // namespace detail
CUTRACE_END_NAMESPACE
