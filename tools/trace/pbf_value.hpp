// SPDX-License-Identifier: Apache-2.0
// Values of a protobuf message. Checks the wire type of each field first: protozero treats a wrong one as a programming
// error.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <stdexcept>
#include <string_view>

namespace cutrace_reading {

struct wrong_wire_type : std::runtime_error {
  wrong_wire_type() : std::runtime_error("a field of the wrong type") {}
};

/// Integers, enumerations and booleans; negative integers as two's complement.
inline std::uint64_t number(protozero::pbf_reader& p) {
  if (p.wire_type() != protozero::pbf_wire_type::varint) throw wrong_wire_type();
  return p.get_uint64();
}
inline std::uint32_t number32(protozero::pbf_reader& p) { return static_cast<std::uint32_t>(number(p)); }
inline std::string_view bytes(protozero::pbf_reader& p) {
  if (p.wire_type() != protozero::pbf_wire_type::length_delimited) throw wrong_wire_type();
  const protozero::data_view v = p.get_view();
  return {v.data(), v.size()};
}
inline protozero::pbf_reader message(protozero::pbf_reader& p) {
  const std::string_view b = bytes(p);
  return protozero::pbf_reader(b.data(), b.size());
}
/// Bits of a double.
inline std::uint64_t double_bits(protozero::pbf_reader& p) {
  if (p.wire_type() != protozero::pbf_wire_type::fixed64) throw wrong_wire_type();
  return p.get_fixed64();
}

}  // namespace cutrace_reading
