// SPDX-License-Identifier: Apache-2.0
// Serves one page at /metrics from a thread of its own.
//
// Why not a library: what is needed is one page to one scraper, inside a program that is not ours. Debian's cpp-httplib
// is a shared library that brings OpenSSL, zlib and brotli into the traced process, and a pool of threads; by default
// it sends without MSG_NOSIGNAL (CPPHTTPLIB_SEND_FLAGS 0), and it does not look whether a descriptor is still its own.
// The limits here: 16 connections, heads of 4 KiB, 2 s without progress, GET and HEAD.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/detail/own_thread.hpp>
#include <cutrace/detail/write_all.hpp>
#include <cutrace/error.hpp>
#include <cutrace/sinks/prometheus_address.hpp>
#include <cutrace/sinks/prometheus_connection.hpp>
#include <cutrace/sinks/prometheus_socket.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

class metrics_server {
 public:
  metrics_server() = default;
  metrics_server(const metrics_server&) = delete;
  metrics_server& operator=(const metrics_server&) = delete;
  ~metrics_server() { stop(); }

  /// Listens, and serves `first` from then on. @throws config_error, error without a thread
  CUTRACE_NOINLINE void start(const std::string& address, std::string first) {
    stop();
    std::unique_ptr<state> s(new state());
    const listen_address at = parse_address(address);
    s->listening = own_socket(::socket(at.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;  // after a restart, what is left of earlier connections shall not hold the port
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    const int fd = s->listening.fd();
    if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::bind(fd, reinterpret_cast<const sockaddr*>(&at.socket), at.size) != 0 || ::listen(fd, 16) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      throw_listen_error(address, errno);
    url_ = "http://" + address_text(bound) + "/metrics";
    s->page = std::make_shared<const std::string>(std::move(first));
    s->process = ::getpid();
    closed_after_fork::add(&s->listening);
    state_ = std::move(s);
    try {
      state_->thread = detail::start_thread(&run, state_.get());
    } catch (const std::system_error& e) {
      closed_after_fork::remove(&state_->listening);
      state_.reset();
      throw error(("cannot serve metrics at \"" + address + "\": no thread can be started: " + e.what()).c_str());
    }
  }

  /// Where the page is, once started.
  const std::string& url() const noexcept { return url_; }

  /// What is served from now on. Waits for nothing but another thread's copy of a pointer.
  /// @throws error when the server has ended by itself
  void publish(std::string text) {
    if (state_ == nullptr) return;
    if (state_->failed.load(std::memory_order_acquire))
      throw error(("metrics are no longer served at " + url_ + ": the program closed the descriptor").c_str());
    std::shared_ptr<const std::string> next = std::make_shared<const std::string>(std::move(text));
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->page.swap(next);
  }

  void stop() noexcept {
    if (state_ == nullptr) return;
    if (state_->process != ::getpid()) {  // a forked child, where the thread does not exist and locks may be held
      static_cast<void>(state_.release());
      return;
    }
    state_->stopping.store(true, std::memory_order_release);
    if (state_->listening.is_ours()) ::shutdown(state_->listening.fd(), SHUT_RDWR);  // wakes the thread
    if (state_->thread.joinable()) state_->thread.join();
    closed_after_fork::remove(&state_->listening);
    state_.reset();
  }

 private:
  using clock = connection::clock;
  static constexpr std::size_t connection_most = 16;

  struct state {
    own_socket listening;
    std::mutex mutex;
    std::shared_ptr<const std::string> page;
    std::atomic<bool> stopping{false}, failed{false};
    pid_t process = 0;
    std::thread thread;
  };

  static void run(void* p) {
    state& s = *static_cast<state*>(p);
    try {
      serve(s);
    } catch (...) {  // no memory
      s.failed.store(true, std::memory_order_release);
    }
  }

  static void serve(state& s) {
    connection connections[connection_most];
    clock::time_point accept_again{};
    while (!s.stopping.load(std::memory_order_acquire)) {
      pollfd polled[connection_most + 1];
      const clock::time_point begin = clock::now();
      clock::time_point until =
          begin + std::chrono::seconds(1);  // where the program closed our socket, nothing wakes us
      bool room = false;
      for (std::size_t i = 0; i < connection_most; ++i) {
        const connection& c = connections[i];
        polled[i] = {c.fd(), c.wants(), 0};
        room = room || !c.is_open();
        if (c.is_open()) until = std::min(until, c.deadline());
      }
      if (!s.listening.is_ours()) {
        if (!s.stopping.load(std::memory_order_acquire)) s.failed.store(true, std::memory_order_release);
        return;
      }
      polled[connection_most] = {room && begin >= accept_again ? s.listening.fd() : -1, POLLIN, 0};
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(until - begin).count();
      ::poll(polled, connection_most + 1, static_cast<int>(std::max<decltype(wait)>(wait, 0)) + 1);
      if (s.stopping.load(std::memory_order_acquire)) return;

      const clock::time_point now = clock::now();
      for (std::size_t i = 0; i < connection_most; ++i) {
        connection& c = connections[i];
        if (!c.is_open()) continue;
        if (polled[i].revents != 0) c.advance(now, [&s] { return page_of(s); });
        if (c.is_open() && now >= c.deadline()) c.close();
      }
      if (polled[connection_most].revents != 0 && s.listening.is_ours() && !accept(s, connections, now))
        accept_again = now + std::chrono::seconds(1);  // no descriptor is free: the socket would stay ready
    }
  }

  /// @returns false where a connection waits that cannot be had now.
  static bool accept(state& s, connection* connections, clock::time_point now) {
    for (std::size_t i = 0; i < connection_most; ++i) {
      if (connections[i].is_open()) continue;
      const int fd = ::accept4(s.listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
      connections[i].begin(own_socket(fd), now);
    }
    return true;
  }

  static std::shared_ptr<const std::string> page_of(state& s) {
    const std::lock_guard<std::mutex> lock(s.mutex);
    return s.page;
  }

  [[noreturn]] static void throw_listen_error(const std::string& address, int failure) {
    std::string message = "cannot serve metrics at \"" + address + "\": " + detail::errno_text(failure);
    if (failure == EADDRINUSE)
      message += "; choose another port, one for each process (946%r with ranks), or 0 for any";
    if (failure == EACCES) message += "; choose a port from 1024 on";
    if (failure == EADDRNOTAVAIL) message += "; this machine has no such address, 127.0.0.1 is always there";
    throw config_error(message.c_str());
  }

  std::unique_ptr<state> state_;
  std::string url_;
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
