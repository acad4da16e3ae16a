// SPDX-License-Identifier: Apache-2.0
// Addresses to serve at: "127.0.0.1:9464", "[::1]:9464", ":9464" (loopback), "localhost:9464". Numbers only: a trace
// asks no name server.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/error.hpp>
#include <string>
#include <string_view>

CUTRACE_BEGIN_NAMESPACE
namespace prometheus {

/// Whether a word of CUTRACE_SINKS means an address and not a file: it ends in a colon and a number (%r: the rank), and
/// has no slash. A file of such a name is written "./name:1".
inline bool is_address(std::string_view word) noexcept {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string_view::npos || colon + 1 == word.size()) return false;
  return word.find('/') == std::string_view::npos &&
         word.find_first_not_of("0123456789%r", colon + 1) == std::string_view::npos;
}

struct listen_address {
  sockaddr_storage socket{};
  socklen_t size = 0;
};

/// @throws config_error
CUTRACE_NOINLINE inline listen_address parse_address(const std::string& word) {
  const std::size_t colon = word.rfind(':');
  const auto refuse = [&](const char* why) {
    throw config_error(("cannot serve metrics at \"" + word + "\": " + why).c_str());
  };
  if (colon == std::string::npos) refuse("an address is written HOST:PORT");
  std::string host = word.substr(0, colon);
  std::uint16_t port = 0;
  const std::from_chars_result r = std::from_chars(word.data() + colon + 1, word.data() + word.size(), port);
  if (r.ec != std::errc() || r.ptr != word.data() + word.size()) refuse("the port is a number from 0 to 65535");
  const bool six = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (six) host = host.substr(1, host.size() - 2);
  if (host.empty() || host == "localhost") host = "127.0.0.1";

  listen_address to;
  if (six) {
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_port = htons(port);
    if (::inet_pton(AF_INET6, host.c_str(), &a.sin6_addr) != 1) refuse("what is in brackets is no IPv6 address");
    __builtin_memcpy(&to.socket, &a, sizeof(a));
    to.size = sizeof(a);
  } else {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    if (::inet_pton(AF_INET, host.c_str(), &a.sin_addr) != 1)
      refuse(
          "write the host in numbers, as in 127.0.0.1:9464, 0.0.0.0:9464 for every network, [::1]:9464 for IPv6; a "
          "file of this name is written with a ./ before it");
    __builtin_memcpy(&to.socket, &a, sizeof(a));
    to.size = sizeof(a);
  }
  return to;
}

/// Whether what listens there can be reached from this machine alone.
CUTRACE_NOINLINE inline bool is_loopback(const sockaddr_storage& of) noexcept {
  const unsigned char mapped[13] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  if (of.ss_family == AF_INET6) {
    sockaddr_in6 a{};
    __builtin_memcpy(&a, &of, sizeof(a));
    return IN6_IS_ADDR_LOOPBACK(&a.sin6_addr) || __builtin_memcmp(&a.sin6_addr, mapped, sizeof(mapped)) == 0;
  }
  sockaddr_in a{};
  __builtin_memcpy(&a, &of, sizeof(a));
  return of.ss_family == AF_INET && ntohl(a.sin_addr.s_addr) >> 24 == 127;
}

/// Whether the value of a Host header means this machine: "localhost" or an address of loopback, with or without a
/// port. Everything else is a name that somebody chose.
CUTRACE_NOINLINE inline bool is_local_host(std::string_view host) {
  while (!host.empty() && (host.front() == ' ' || host.front() == '\t')) host.remove_prefix(1);
  while (!host.empty() && (host.back() == ' ' || host.back() == '\t')) host.remove_suffix(1);
  const bool six = !host.empty() && host[0] == '[';
  const std::size_t colon = host.find(':', six ? std::min(host.find(']'), host.size()) : 0);
  if (colon != std::string_view::npos && host.find_first_not_of("0123456789", colon + 1) != std::string_view::npos)
    return false;
  std::string name(host.substr(0, colon));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (name == "localhost" || name == "localhost.") return true;
  sockaddr_storage address{};
  sockaddr_in four{};
  sockaddr_in6 of_six{};
  if (six && name.size() > 2 && name.back() == ']') {
    of_six.sin6_family = AF_INET6;
    if (::inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &of_six.sin6_addr) != 1) return false;
    __builtin_memcpy(&address, &of_six, sizeof(of_six));
  } else {
    four.sin_family = AF_INET;
    if (::inet_pton(AF_INET, name.c_str(), &four.sin_addr) != 1) return false;
    __builtin_memcpy(&address, &four, sizeof(four));
  }
  return is_loopback(address);
}

/// "127.0.0.1:9464", with the port that the kernel chose where 0 was asked for.
CUTRACE_NOINLINE inline std::string address_text(const sockaddr_storage& of) {
  char host[INET6_ADDRSTRLEN] = "";
  if (of.ss_family == AF_INET6) {
    sockaddr_in6 a{};
    __builtin_memcpy(&a, &of, sizeof(a));
    ::inet_ntop(AF_INET6, &a.sin6_addr, host, sizeof(host));
    return "[" + std::string(host) + "]:" + std::to_string(ntohs(a.sin6_port));
  }
  sockaddr_in a{};
  __builtin_memcpy(&a, &of, sizeof(a));
  ::inet_ntop(AF_INET, &a.sin_addr, host, sizeof(host));
  return std::string(host) + ":" + std::to_string(ntohs(a.sin_port));
}

}  // namespace prometheus
CUTRACE_END_NAMESPACE
