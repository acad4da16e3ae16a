// SPDX-License-Identifier: Apache-2.0
// One scrape: reads the head of a request, answers it, and is done. Never waits; the server's loop says when there is
// something to read or room to write.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cutrace/config.hpp>
#include <cutrace/sinks/prometheus_socket.hpp>
#include <string>
#include <string_view>
#include <utility>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

/// The whole answer to a request whose head is complete. Pure.
CUTRACE_NOINLINE inline std::string answer_to(std::string_view request, const std::string& page) {
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
    if (method != "GET" && method != "HEAD") {
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
  void advance(clock::time_point now, Page&& page) {
    if (!socket_.is_ours()) return close();
    if (answer_.empty() && !receive(page)) return;
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
  /// @returns whether the answer stands.
  template <class Page>
  bool receive(Page&& page) {
    char some[1024];
    const ssize_t n = ::recv(fd(), some, sizeof(some), MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n <= 0) {
      close();
      return false;
    }
    request_.append(some, static_cast<std::size_t>(n));
    if (request_.find("\r\n\r\n") != std::string::npos || request_.find("\n\n") != std::string::npos) {
      answer_ = answer_to(request_, *page());
    } else if (request_.size() > request_most) {
      answer_ = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    }
    return !answer_.empty();
  }

  own_socket socket_;
  std::string request_, answer_;
  std::size_t sent_ = 0;
  clock::time_point deadline_{}, end_{};
};

}  // namespace prometheus
CUTRACE_END_NAMESPACE
