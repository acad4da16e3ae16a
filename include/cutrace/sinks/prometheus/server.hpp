// SPDX-License-Identifier: Apache-2.0
// Serves one page at /metrics from a thread of its own.
//
// Why not a library: what is needed is one page to one scraper, inside a program that is not ours. Debian's cpp-httplib
// is a shared library that brings OpenSSL, zlib and brotli into the traced process, and a pool of threads; by default
// it sends without MSG_NOSIGNAL (CPPHTTPLIB_SEND_FLAGS 0), and it does not look whether a descriptor is still its own.
// So: one connection after the other, GET and HEAD, heads of 4 KiB that arrive within half a second, answers of at most
// 10 s. Clients that connect and are silent wait in the kernel (TCP_DEFER_ACCEPT) and hold up nobody.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>  // strncasecmp
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cutrace/base/guarded_socket.hpp>
#include <cutrace/base/helper_thread.hpp>
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

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

using detail::closed_after_fork;
using detail::guarded_socket;

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

/// The whole answer to a request whose head is complete. Pure. `only_local`: the server listens on loopback; a browser
/// that asks for it by another host name was sent by a web page from elsewhere, which would read the answer (DNS
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

class metrics_server {
 public:
  metrics_server() = default;
  metrics_server(const metrics_server&) = delete;
  metrics_server& operator=(const metrics_server&) = delete;
  ~metrics_server() { stop(); }

  /// Listens, and serves `first` from then on. @throws config_error where the address cannot be used, error where no
  /// thread can be started
  CUTRACE_NOINLINE void start(const std::string& address, std::string first) {
    stop();
    const listen_address at = parse_address(address);
    std::unique_ptr<state> s(new state(::socket(at.socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
    const int on = 1;  // after a restart, what is left of earlier connections shall not hold the port
    const int wait_s = 1;
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    const int fd = s->listening.fd();
    if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        ::setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &wait_s, sizeof(wait_s)) != 0 ||
        ::bind(fd, reinterpret_cast<const sockaddr*>(&at.socket), at.size) != 0 || ::listen(fd, 64) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0)
      throw_listen_error(address, errno);
    url_ = "http://" + address_text(bound) + "/metrics";
    s->page = std::make_shared<const std::string>(std::move(first));
    s->only_local = is_loopback(bound);
    s->process = ::getpid();
    closed_after_fork<guarded_socket>::add(&s->listening);
    state_ = std::move(s);
    try {
      state_->thread = detail::start_thread(&run, state_.get());
    } catch (const std::system_error& e) {
      closed_after_fork<guarded_socket>::remove(&state_->listening);
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
      throw error(("metrics are no longer served at " + url_ + ": the program closed its descriptor, or memory ran out")
                      .c_str());
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
    closed_after_fork<guarded_socket>::remove(&state_->listening);
    state_.reset();
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t head_bytes = 4096;

  struct state {
    explicit state(int fd) noexcept : listening(fd) {}
    guarded_socket listening;
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
    while (!s.stopping.load(std::memory_order_acquire)) {
      if (!s.listening.is_ours()) return s.failed.store(true, std::memory_order_release);
      if (!wait(s, s.listening.fd(), POLLIN, clock::now() + std::chrono::seconds(1))) continue;
      if (!s.listening.is_ours()) continue;
      guarded_socket client(::accept4(s.listening.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (client.is_open())
        answer(s, client);
      else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        wait(s, -1, 0, clock::now() + std::chrono::seconds(1));  // without a pause this loop would spin
    }
  }

  /// Waits until `fd` is ready for `what`. @returns false after `until`, and where the server stops
  static bool wait(const state& s, int fd, short what, clock::time_point until) {
    while (!s.stopping.load(std::memory_order_acquire) && clock::now() < until) {
      pollfd one{fd, what, 0};
      // `stop` wakes a wait for a connection; where the program has closed our socket, nothing wakes it.
      if (::poll(&one, 1, fd == s.listening.fd() ? 1000 : 50) > 0) return true;
    }
    return false;
  }

  static void answer(state& s, const guarded_socket& client) {
    const clock::time_point begin = clock::now();
    std::string request;
    while (request.find("\r\n\r\n") == std::string::npos && request.find("\n\n") == std::string::npos) {
      char some[1024];
      if (!client.is_ours()) return;
      const ssize_t n = ::recv(client.fd(), some, sizeof(some), MSG_DONTWAIT);
      if (n > 0) request.append(some, static_cast<std::size_t>(n));
      if (request.size() > head_bytes)
        return send(s, client,
                    "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      if (n > 0) continue;
      if (n == 0 || !is_transient(errno) || !wait(s, client.fd(), POLLIN, begin + std::chrono::milliseconds(500)))
        return;
    }
    send(s, client, answer_to(request, *page_of(s), s.only_local));
  }
  static bool is_transient(int failure) noexcept {
    return failure == EAGAIN || failure == EWOULDBLOCK || failure == EINTR;
  }

  /// Gives up after 10 s, and after 2 s without progress.
  static void send(const state& s, const guarded_socket& client, std::string_view text) {
    const clock::time_point end = clock::now() + std::chrono::seconds(10);
    while (!text.empty()) {
      if (!client.is_ours()) return;
      // MSG_NOSIGNAL: a client that has gone must not send SIGPIPE into the program.
      const ssize_t n = ::send(client.fd(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0) {
        text.remove_prefix(static_cast<std::size_t>(n));
      } else if (!is_transient(errno) ||
                 !wait(s, client.fd(), POLLOUT, std::min(end, clock::now() + std::chrono::seconds(2)))) {
        return;
      }
    }
    ::shutdown(client.fd(), SHUT_WR);  // ends the connection even where a forked child holds a copy of the descriptor
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
