// SPDX-License-Identifier: Apache-2.0
// Text on its way into a ".gz" file (RFC 1952). After `sync` all that was given can be read, whatever happens later.
// One thread at a time.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <memory>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace detail {

// zlib, opened when the first ".gz" file is: a program that writes none needs neither the library nor its headers, and
// gets no dependency through ours. Structure and functions are those of zlib.h 1.2 and 1.3; deflateInit2_ refuses
// another major version, or another size of the structure.

/// z_stream of zlib.h. A test compares the members that are used, and its size, with the header.
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

class gzip_text {
 public:
  /// Level of compression. On traces level 6 saves a fifth of the bytes and takes three times as long.
  static constexpr int level = 1;

  gzip_text() = default;
  gzip_text(const gzip_text&) = delete;
  gzip_text& operator=(const gzip_text&) = delete;
  ~gzip_text() { stop(); }

  /// Begins a file. `path`: for messages. @throws config_error without zlib, error without memory
  void start(const std::string& path) {
    stop();
    const zlib_library& zlib = zlib_library::get(path);
    if (out_ == nullptr) out_.reset(new unsigned char[room]);
    stream_ = zlib_stream();
    constexpr int deflated = 8, largest_window_with_gzip_header = 15 + 16, usual_memory = 8, usual_strategy = 0;
    const int failure = zlib.init(&stream_, level, deflated, largest_window_with_gzip_header, usual_memory,
                                  usual_strategy, "1.2", static_cast<int>(sizeof(stream_)));
    if (failure != 0) throw error(("cannot compress \"" + path + "\": zlib error " + std::to_string(failure)).c_str());
    zlib_ = &zlib;
    fresh_ = false;
  }
  bool started() const noexcept { return zlib_ != nullptr; }

  /// `add`, `sync` and `finish` hand the compressed text that is ready to `put(std::string_view)`.
  template <class Put>
  void add(std::string_view text, Put put) {
    constexpr std::size_t most = 1u << 30;  // zlib counts in unsigned int
    for (; !text.empty(); text.remove_prefix(text.size() < most ? text.size() : most)) {
      const std::string_view part = text.substr(0, most);
      stream_.next_in = reinterpret_cast<const unsigned char*>(part.data());
      stream_.avail_in = static_cast<unsigned>(part.size());
      run(no_flush, put);
      fresh_ = true;
    }
  }
  template <class Put>
  void sync(Put put) {
    if (!fresh_) return;  // nothing is new, and a file without text gets no header
    fresh_ = false;
    run(sync_flush, put);
  }
  template <class Put>
  void finish(Put put) {
    run(end_of_file, put);
    stop();
  }
  void stop() noexcept {
    if (zlib_ != nullptr) zlib_->end(&stream_);
    zlib_ = nullptr;
  }

 private:
  static constexpr std::size_t room = 64 * 1024;
  static constexpr int no_flush = 0, sync_flush = 2, end_of_file = 4;  // of zlib.h

  template <class Put>
  void run(int how, Put& put) {
    do {
      stream_.next_out = out_.get();
      stream_.avail_out = static_cast<unsigned>(room);
      zlib_->deflate(&stream_, how);  // cannot fail with these arguments
      const std::size_t n = room - stream_.avail_out;
      if (n != 0) put(std::string_view(reinterpret_cast<const char*>(out_.get()), n));
    } while (stream_.avail_out == 0);
  }

  const zlib_library* zlib_ = nullptr;  ///< null: no file is begun
  zlib_stream stream_ = {};
  std::unique_ptr<unsigned char[]> out_;
  bool fresh_ = false;  ///< text came since the last sync
};

}  // namespace detail
CUTRACE_END_NAMESPACE
