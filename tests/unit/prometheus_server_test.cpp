// SPDX-License-Identifier: Apache-2.0
// The metrics server against clients that scrape, stall, flood, hang up and talk nonsense, and in a program that forks,
// closes descriptors that are not its own, or has the port in use.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cutrace/sinks/prometheus.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/prometheus_text.hpp"
#include "support/sample_events.hpp"
#include "support/sanitized.hpp"

namespace prometheus_server_test {

using cutrace::prometheus::answer_to;
using cutrace::prometheus::metrics_server;

namespace {

std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::atoi(url.c_str() + url.rfind(':') + 1));
}

int connected(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) return fd;
  ::close(fd);
  return -1;
}

void say(int fd, const std::string& text) {
  REQUIRE(::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

/// All that comes until the other side ends, and closes.
std::string rest_of(int fd) {
  std::string all;
  char some[65536];
  for (ssize_t n = 0; (n = ::recv(fd, some, sizeof(some), 0)) > 0;) all.append(some, static_cast<std::size_t>(n));
  ::close(fd);
  return all;
}

std::string get(std::uint16_t port, const std::string& request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") {
  const int fd = connected(port);
  if (fd < 0) return "refused";
  say(fd, request);
  return rest_of(fd);
}
std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

/// The descriptor of this process that listens at `port`, -1 where there is none.
int listening_at(std::uint16_t port) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in name{};
    socklen_t size = sizeof(name);
    int listens = 0;
    socklen_t four = sizeof(listens);
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 && ntohs(name.sin_port) == port &&
        ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &four) == 0 && listens == 1)
      return fd;
  }
  return -1;
}

std::string failure_at(const std::string& address) {
  metrics_server s;
  try {
    s.start(address, "");
  } catch (const cutrace::config_error& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("metrics server: what it answers") {
  const std::string page = "a 1\n";
  CHECK(answer_to("GET /metrics HTTP/1.1\r\n\r\n", page).find("HTTP/1.1 200 OK\r\n") == 0);
  CHECK(answer_to("GET /metrics HTTP/1.1\r\n\r\n", page).find("text/plain; version=0.0.4") != std::string::npos);
  CHECK(body_of(answer_to("GET /metrics?x=1 HTTP/1.0\n\n", page)) == page);
  CHECK(body_of(answer_to("HEAD /metrics HTTP/1.1\r\n\r\n", page)).empty());
  CHECK(answer_to("HEAD /metrics HTTP/1.1\r\n\r\n", page).find("Content-Length: 4\r\n") != std::string::npos);
  CHECK(answer_to("GET / HTTP/1.1\r\n\r\n", page).find("HTTP/1.1 404 ") == 0);
  CHECK(answer_to("GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", page).find("HTTP/1.1 404 ") == 0);
  CHECK(answer_to("POST /metrics HTTP/1.1\r\n\r\n", page).find("HTTP/1.1 405 ") == 0);
  for (const char* nonsense :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET /metrics SMTP\r\n\r\n", "  \n\n"})
    CHECK(answer_to(nonsense, page).find("HTTP/1.1 400 ") == 0);
}

TEST_CASE("metrics server: on loopback it answers to names of this machine alone, elsewhere to any") {
  metrics_server local, everywhere;
  local.start("127.0.0.1:0", "a 1\n");
  everywhere.start("0.0.0.0:0", "a 1\n");
  const auto status = [](const metrics_server& s, const std::string& headers) {
    return get(port_of(s.url()), "GET /metrics HTTP/1.1\r\n" + headers + "\r\n").substr(9, 3);
  };
  for (const char* headers :
       {"Host: localhost\r\n", "Host: LocalHost:9464\r\n", "host:127.0.0.1\r\n", "Host: 127.9.8.7:1 \r\n",
        "Host: [::1]\r\n", "Accept: */*\r\nHost: [::1]:9464\r\n", "Host: [::ffff:127.0.0.1]\r\n", ""}) {
    CAPTURE(headers);
    CHECK(status(local, headers) == "200");
    CHECK(status(everywhere, headers) == "200");
  }
  for (const char* headers :
       {"Host: evil.example\r\n", "Host: evil.example:9464\r\n", "Host: localhost.evil.example\r\n",
        "Host: 10.0.0.1\r\n", "Host: 127.0.0.1.evil.example\r\n", "Host: localhost\r\nHost: evil.example\r\n",
        "Host : evil.example\r\n", "Host:\r\n", "Host: [2001:db8::1]:9464\r\n", "Host: [::1\r\n",
        "Host: localhost:evil\r\n", "HOST: 0x7f.1\r\n"}) {
    CAPTURE(headers);
    CHECK(status(local, headers) == "421");
    CHECK(status(everywhere, headers) == "200");
  }
  CHECK(body_of(get(port_of(local.url()), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).find("a 1") ==
        std::string::npos);
}

TEST_CASE("metrics server: addresses, and files that look like them") {
  using cutrace::prometheus::is_address;
  for (const char* word : {"127.0.0.1:9464", ":9464", "[::1]:9464", "localhost:1", "0.0.0.0:946%r", "host:1"})
    CHECK(is_address(word));
  for (const char* word : {"m.prom", "./a:1", "/tmp/a:1", "a:b", "a:", ""}) CHECK_FALSE(is_address(word));
  const auto text = [](const char* word) {
    return cutrace::prometheus::address_text(cutrace::prometheus::parse_address(word).socket);
  };
  CHECK(text(":9464") == "127.0.0.1:9464");
  CHECK(text("localhost:9464") == "127.0.0.1:9464");
  CHECK(text("0.0.0.0:9464") == "0.0.0.0:9464");
  CHECK(text("[::1]:9464") == "[::1]:9464");
  CHECK(failure_at("host:1").find("in numbers") != std::string::npos);
  CHECK(failure_at("127.0.0.1:70000").find("0 to 65535") != std::string::npos);
  CHECK(failure_at("[x]:1").find("no IPv6") != std::string::npos);
  CHECK(failure_at("192.0.2.1:0").find("no such address") != std::string::npos);
}

TEST_CASE("metrics server: a port in use says what to do, and is free again at once") {
  metrics_server first;
  first.start(":0", "a 1\n");
  const std::string address = "127.0.0.1:" + std::to_string(port_of(first.url()));
  CHECK(body_of(get(port_of(first.url()))) == "a 1\n");
  const std::string message = failure_at(address);
  CHECK(message.find("Address already in use") != std::string::npos);
  CHECK(message.find("another port") != std::string::npos);
  first.stop();
  CHECK(get(port_of(first.url())) == "refused");
  CHECK(failure_at(address).empty());
}

TEST_CASE("metrics server: the sink's page, before and after events") {
  cutrace::prometheus_options o;
  o.to = "127.0.0.1:0";
  cutrace::prometheus_sink sink(o);
  sink.open(sample::info());
  const std::uint16_t port = port_of(sink.destination());
  CHECK(prometheus_text::document(body_of(get(port))).value("cutrace_events_total") == 0);
  const std::vector<cutrace::event> all = sample::server_run();
  sink.write(sample::view(all));
  sink.flush();
  CHECK(prometheus_text::document(body_of(get(port))).value("cutrace_events_total") == all.size());
  sink.close(sample::summary(all.size()));
  CHECK(get(port) == "refused");
}

TEST_CASE("metrics server: clients that stall, flood or hang up hold up nobody else") {
  metrics_server server;
  server.start(":0", std::string(8 << 20, 'x'));  // more than the buffers of a connection take
  const std::uint16_t port = port_of(server.url());
  std::vector<int> stalled;
  for (int i = 0; i < 14; ++i) stalled.push_back(connected(port));
  say(stalled[0], "GET /met");
  for (int i = 0; i < 20; ++i) {  // asks, and goes before the answer is out
    const int fd = connected(port);
    say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
    const linger hard{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    ::close(fd);
  }
  const int flood = connected(port);
  const std::string much(5000, 'a');
  static_cast<void>(::send(flood, much.data(), much.size(), MSG_NOSIGNAL));
  CHECK(rest_of(flood).find("HTTP/1.1 431 ") == 0);
  CHECK(body_of(get(port)).size() == 8 << 20);
  for (int i = 0; i < 20; ++i) stalled.push_back(connected(port));  // served one by one: each is dropped after 0.5 s
  CHECK(body_of(get(port)).size() == 8 << 20);
  for (const int fd : stalled) ::close(fd);
}

TEST_CASE("metrics server: pages change under scrapers, each is whole") {
  metrics_server server;
  server.start(":0", std::string(1000, 'a'));
  const std::uint16_t port = port_of(server.url());
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) server.publish(std::string(1000, static_cast<char>('a' + i % 26)));
  });
  for (int i = 0; i < 100; ++i) {
    const std::string body = body_of(get(port));
    REQUIRE(body.size() == 1000);
    CHECK(body.find_first_not_of(body[0]) == std::string::npos);
  }
  writer.join();
}

TEST_CASE("metrics server: a forked child keeps no port and ends by itself") {
  metrics_server server;
  server.start(":0", "a 1\n");
  const std::uint16_t port = port_of(server.url());
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool kept = listening_at(port) != -1;  // if so, the port stays taken after the parent was killed
    ::close(go[1]);
    char c = 0;
    static_cast<void>(!::read(go[0], &c, 1));
    server.stop();
    ::_exit(kept ? 1 : 0);
  }
  CHECK(body_of(get(port)) == "a 1\n");
  server.stop();
  CHECK(get(port) == "refused");  // while the child lives
  ::close(go[1]);
  ::close(go[0]);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

// Not under ThreadSanitizer: closing a descriptor that another thread uses is a race, which it reports, though the
// server survives it.
#if !CUTRACE_TEST_TSAN
TEST_CASE(
    "metrics server: a program that closes all descriptors keeps what it opens under the same number, and the sink "
    "fails aloud") {
  metrics_server server;
  server.start(":0", "a 1\n");
  const std::uint16_t port = port_of(server.url());
  // Daemons close all descriptors; here only the server's is closed, so that the test keeps its files.
  const int fd = listening_at(port);
  REQUIRE(fd >= 0);
  ::close(fd);
  const int own = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(own == fd);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(own, reinterpret_cast<const sockaddr*>(&any), sizeof(any)) == 0);
  REQUIRE(::listen(own, 4) == 0);
  socklen_t size = sizeof(any);
  REQUIRE(::getsockname(own, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  bool said = false;
  for (int i = 0; i < 1000 && !said; ++i) {
    try {
      server.publish("b 2\n");
    } catch (const cutrace::error& e) {
      said = std::string(e.what()).find("closed its descriptor") != std::string::npos;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(said);
  const int client = connected(ntohs(any.sin_port));
  server.stop();
  pollfd waits{own, POLLIN, 0};  // the connection is the program's: nobody took it, and its socket still listens
  CHECK(::poll(&waits, 1, 1000) == 1);
  ::close(client);
  ::close(own);
}
#endif

}  // namespace prometheus_server_test
