// SPDX-License-Identifier: Apache-2.0
// Errors. Configuration errors are thrown early, on the caller's thread. What fails later, in a backend, a sink or the
// collector, is reported to one callback and never reaches the application's control flow.
#pragma once

#include <cstring>
#include <cutrace/config.hpp>
#include <exception>

CUTRACE_BEGIN_NAMESPACE

/// Base of what cutrace throws. The message says what to do.
class error : public std::exception {
 public:
  explicit error(const char* message) noexcept {
    const std::size_t size = strnlen(message, sizeof(message_) - 1);
    std::memcpy(message_, message, size);
    message_[size] = '\0';
  }
  const char* what() const noexcept override { return message_; }

 private:
  char message_[1024];
};

/// An option, environment variable, sink name or path that cannot be used.
class config_error : public error {
 public:
  using error::error;
};

/// Receives one line for each run-time error, each distinct line once. Called on any thread: the collector's, a
/// backend's, or one of the program in a call of cutrace or CUDA. Must not throw. Default: the line goes to stderr.
using error_handler = void (*)(const char* component, const char* message, void* user);

/// Receives the block of text of each alarm, which names what faulted or hangs; stderr gets the block as well. Called
/// on the collector's thread; must not throw, call CUDA, or wait for a thread that calls CUDA.
using alarm_handler = void (*)(const char* block, void* user);

CUTRACE_END_NAMESPACE
