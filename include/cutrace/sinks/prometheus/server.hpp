// SPDX-License-Identifier: Apache-2.0
// Serves one page at /metrics from a thread of its own.
//
// Why not a library: what is needed is one page to one scraper, inside a program that is not ours. Debian's cpp-httplib
// is a shared library that brings OpenSSL, zlib and brotli into the traced process, and a pool of threads; by default
// it sends without MSG_NOSIGNAL (CPPHTTPLIB_SEND_FLAGS 0), and it does not look whether a descriptor is still its own.
// The limits here: 16 connections, heads of 4 KiB, 2 s without progress, GET and HEAD.
#pragma once

#include <poll.h>
#include <strings.h>  // strncasecmp
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cutrace/base/helper_thread.hpp>
#include <cutrace/base/own_socket.hpp>
#include <cutrace/base/write_all.hpp>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <cutrace/sinks/prometheus/address.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

using detail::closed_after_fork;
using detail::own_socket;

// One scrape: reads the head of a request, answers it, and is done. Never waits; the server's loop says when there is
// something to read or room to write.

/// Whether no Host header of the request names another machine.
CUTRACE_NOINLINE inline bool asks_this_machine(std::string_view request) {
  for (std::size_t at = request.find('\n'); at != std::string_view::npos; at = request.find('\n', at)) {
    ++at;
    const std::string_view line = request.substr(at, request.find_first_of("\r\n", at) - at);
    const bool host = line.size() > 4 && ::strncasecmp(line.data(), "host", 4) == 0;
    const std::size_t colon = host ? line.find_first_not_of(" \t", 4) : std::string_view::npos;
    if (colon != std::string_view::npos && line[colon] == ':' && !is_local_host(line.substr(colon + 1))) return false;
  }
  return true;
}

/// The whole answer to a request whose head is complete. Pure. `only_local`: the page is this machine's alone, and a
/// browser on it that asks by another name was sent here by a page from elsewhere, which would read the answer (DNS
/// rebinding).
CUTRACE_NOINLINE inline std::string answer_to(std::string_view request, const std::string& page,
                                              bool only_local = false) {
  const std::string_view line = request.substr(0, request.find_first_of("\r\n"));
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  const char* status = "400 Bad Request";
  const char* type = "text/plain; charset=utf-8";
  std::string_view body = "this is no HTTP/1 request\n";
  std::string_view method;
  if (second != std::string_view::npos && line.substr(second + 1, 7) == "HTTP/1.") {
    method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, second - first - 1);
    if (only_local && !asks_this_machine(request)) {
      status = "421 Misdirected Request";
      body = "this address answers to localhost and to addresses of loopback\n";
    } else if (method != "GET" && method != "HEAD") {
      status = "405 Method Not Allowed\r\nAllow: GET, HEAD";
      body = "only GET\n";
    } else if (target.substr(0, target.find('?')) != "/metrics") {
      status = "404 Not Found";
      body = "metrics are at /metrics\n";
    } else {
      status = "200 OK";
      type = "text/plain; version=0.0.4; charset=utf-8";
      body = page;
    }
  }
  std::string out = "HTTP/1.1 ";
  out.append(status).append("\r\nContent-Type: ").append(type);
  out.append("\r\nContent-Length: ").append(std::to_string(body.size()));
  out.append("\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
  if (method != "HEAD") out.append(body);
  return out;
}

class connection {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t request_most = 4096;

  void begin(own_socket s, clock::time_point now) {
    socket_ = std::move(s);
    request_.clear();
    answer_.clear();
    sent_ = 0;
    deadline_ = now + std::chrono::seconds(2);
    end_ = now + std::chrono::seconds(10);
  }
  bool is_open() const noexcept { return socket_.is_open(); }
  int fd() const noexcept { return socket_.fd(); }
  short wants() const noexcept { return answer_.empty() ? POLLIN : POLLOUT; }
  /// Two seconds after the last progress, ten after the beginning.
  clock::time_point deadline() const noexcept { return deadline_ < end_ ? deadline_ : end_; }
  void close() noexcept { socket_.close(); }

  /// Goes on as far as it can without waiting; closes the socket at the end and after any error. `page()` is asked for
  /// when the request is complete.
  template <class Page>
  void advance(clock::time_point now, bool only_local, Page&& page) {
    if (!socket_.is_ours()) return close();
    if (answer_.empty() && !receive(only_local, page)) return;
    while (sent_ < answer_.size()) {
      // MSG_NOSIGNAL: a client that has gone must not send SIGPIPE into the program.
      const ssize_t n = ::send(fd(), answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) close();
        return;
      }
      sent_ += static_cast<std::size_t>(n);
      deadline_ = now + std::chrono::seconds(2);
    }
    ::shutdown(fd(), SHUT_WR);  // ends it even where a forked child holds a copy of the descriptor
    close();
  }

 private:
  /// Reads what is there. @returns whether the answer stands.
  template <class Page>
  bool receive(bool only_local, Page&& page) {
    while (answer_.empty()) {
      char some[1024];
      const ssize_t n = ::recv(fd(), some, sizeof(some), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (n <= 0) {
        close();
        return false;
      }
      request_.append(some, static_cast<std::size_t>(n));
      if (request_.find("\r\n\r\n") != std::string::npos || request_.find("\n\n") != std::string::npos) {
        answer_ = answer_to(request_, *page(), only_local);
      } else if (request_.size() > request_most) {
        answer_ = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      }
    }
    return true;
  }

  own_socket socket_;
  std::string request_, answer_;
  std::size_t sent_ = 0;
  clock::time_point deadline_{}, end_{};
};

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
    s->only_local = is_loopback(bound);
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
    bool only_local = false;
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
        // At its deadline too: this thread may have waited for a processor while the request came.
        if (polled[i].revents != 0 || now >= c.deadline()) c.advance(now, s.only_local, [&s] { return page_of(s); });
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
