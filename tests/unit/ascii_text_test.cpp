// SPDX-License-Identifier: Apache-2.0
// Numbers with units, and foreign names made safe for a terminal.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <cutrace/sinks/ascii/page.hpp>
#include <cutrace/sinks/ascii/tables.hpp>
#include <string>

#include "support/hostile_events.hpp"

namespace ascii_text_test {

namespace ascii = cutrace::ascii;

TEST_CASE("a place in the source loses folders in front, never its file and line") {
  CHECK(ascii::place("src/worker.cpp:12", 40) == "src/worker.cpp:12");
  CHECK(ascii::place("/opt/somewhere/project/server/src/worker.cpp:135", 48) ==
        "/opt/somewhere/project/server/src/worker.cpp:135");
  CHECK(ascii::place("/opt/somewhere/project/server/src/worker.cpp:135", 47) ==
        ".../somewhere/project/server/src/worker.cpp:135");
  CHECK(ascii::place("/opt/somewhere/project/server/src/worker.cpp:135", 26) == ".../src/worker.cpp:135");
  CHECK(ascii::place("/opt/somewhere/project/server/src/worker.cpp:135", 10) == ".../worker.cpp:135");
  CHECK(ascii::place("a_file_with_a_rather_long_name.cpp:9", 10) == "a_file_with_a_rather_long_name.cpp:9");
  CHECK(ascii::place("/a_file_with_a_rather_long_name.cpp:9", 10) == "/a_file_with_a_rather_long_name.cpp:9");
  CHECK(ascii::place("\033[2Jx.cpp:1", 40) == "\\x1b[2Jx.cpp:1");
}

TEST_CASE("durations have three digits and the unit that fits") {
  CHECK(ascii::duration(std::int64_t{0}) == "0 ns");
  CHECK(ascii::duration(std::int64_t{999}) == "999 ns");
  CHECK(ascii::duration(std::int64_t{1000}) == "1.00 us");
  CHECK(ascii::duration(std::int64_t{9994}) == "9.99 us");
  CHECK(ascii::duration(std::int64_t{9996}) == "10.0 us");
  CHECK(ascii::duration(std::int64_t{99960}) == "100 us");
  CHECK(ascii::duration(std::int64_t{999499}) == "999 us");
  CHECK(ascii::duration(std::int64_t{999500}) == "1.00 ms");
  CHECK(ascii::duration(std::int64_t{2500000000}) == "2.50 s");
  CHECK(ascii::duration(std::int64_t{1000} * 1000000000) == "16.7 min");
  CHECK(ascii::duration(std::int64_t{9000} * 1000000000) == "2.50 h");
  CHECK(ascii::duration(std::int64_t{10} * 86400 * 1000000000) == "10.0 d");
  CHECK(ascii::duration(std::int64_t{1} << 60) == "13,344 d");
  CHECK(ascii::duration(std::int64_t{-1500}) == "-1.50 us");
}

TEST_CASE("bytes count in 1024s, bandwidth in 1000s") {
  CHECK(ascii::bytes(0) == "0 B");
  CHECK(ascii::bytes(1023) == "1023 B");
  CHECK(ascii::bytes(1536) == "1.50 KiB");
  CHECK(ascii::bytes(1024 * 1024 - 1) == "1.00 MiB");
  CHECK(ascii::bytes(4000000) == "3.81 MiB");
  CHECK(ascii::bytes(std::uint64_t{139} << 30) == "139 GiB");
  CHECK(ascii::bytes(~std::uint64_t{0}) == "16.0 EiB");
  CHECK(ascii::bandwidth(50e9) == "50.0 GB/s");
  CHECK(ascii::bandwidth(4.8e12) == "4.80 TB/s");
}

TEST_CASE("counts and shares") {
  CHECK(ascii::count(0) == "0");
  CHECK(ascii::count(999) == "999");
  CHECK(ascii::count(1234567) == "1,234,567");
  CHECK(ascii::count(~std::uint64_t{0}) == "18,446,744,073,709,551,615");
  CHECK(ascii::share(432) == "43.2 %");
  CHECK(ascii::share_of(1, 3) == "33.3 %");
  CHECK(ascii::share_of(1, 1000000) == "<0.1 %");
  CHECK(ascii::share_of(0, 10) == "0.0 %");
  CHECK(ascii::share_of(1, 0) == "-");
}

TEST_CASE("figures end where their room ends, and signs and large numbers survive") {
  CHECK(ascii::signed_digits(INT64_MIN) == "-9223372036854775808");
  CHECK(ascii::signed_digits(0) == "0");
  CHECK(ascii::fixed(1e300, 0).view().size() == 39);
  CHECK(ascii::figure("a").add(std::string(100, 'b')) == "a" + std::string(38, 'b'));
}

TEST_CASE("pieces stand on the left or on the right of their columns") {
  CHECK(ascii::joined({"a", {"b", 3}, {"c", -3}, "d"}) == "a  bc  d");
  CHECK(ascii::joined({{"long", 2}, {"long", -2}, {"", 2}, ascii::count(1000)}) == "longlong  1,000");
  CHECK(ascii::joined({}).empty());
}

TEST_CASE("names become printable ASCII, and different ones of up to 512 bytes stay different") {
  CHECK(ascii::escaped("plain name") == "plain name");
  CHECK(ascii::escaped("a\nb\tc\\n") == "a\\nb\\tc\\\\n");
  CHECK(ascii::escaped("\x1b[31mred\x7f") == "\\x1b[31mred\\x7f");
  CHECK(ascii::escaped(std::string("a\0b", 3)) == "a\\x00b");
  CHECK(ascii::escaped("\xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x9a\x80") == "\\u{e4} \\u{6f22} \\u{1f680}");
  CHECK(ascii::escaped("\x80 \xe6\xbc") == "\\x80 \\xe6\\xbc");
  for (const std::string& name : hostile::names())
    for (const char c : ascii::escaped(name)) REQUIRE((c >= 0x20 && c < 0x7f));
  CHECK(ascii::escaped("a\nb") != ascii::escaped("a\\nb"));
}

TEST_CASE("on a page for a terminal that takes UTF-8 names stay as they are, but for what harms it") {
  {
    const ascii::page out(80, false, true);
    CHECK(ascii::escaped("\xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x9a\x80 e\xcc\x81") ==
          "\xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x9a\x80 e\xcc\x81");
    CHECK(ascii::escaped("a\nb\x1b[2J\x7f") == "a\\nb\\x1b[2J\\x7f");
    CHECK(ascii::escaped("\xc2\x9b\x32J") == "\\u{9b}2J");  // CSI as one C1 control character
    CHECK(ascii::escaped("\xe2\x80\xae"
                         "evil\xe2\x80\x8b") == "\\u{202e}evil\\u{200b}");  // right-to-left override, zero-width space
    CHECK(ascii::escaped("\xcc\x81") == "\\u{301}");                        // combining: drawn over what is before it
    CHECK(ascii::escaped("\xed\xa0\x80 \xc0\xaf \xe0\x80\xaf \xf4\x90\x80\x80") ==
          "\\xed\\xa0\\x80 \\xc0\\xaf \\xe0\\x80\\xaf \\xf4\\x90\\x80\\x80");  // surrogate, overlong, beyond
    CHECK(ascii::columns_of("\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x9a\x80 e\xcc\x81") == 7);
    CHECK(ascii::label("\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2", 8) ==
          "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2");
    CHECK(ascii::label("\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2", 7) == "\xe6\xbc\xa2..\xe6\xbc\xa2");
    CHECK(ascii::joined({{"\xc3\xa4", 3}, {"\xe6\xbc\xa2", -3}, "|"}) == "  \xc3\xa4\xe6\xbc\xa2 |");
    CHECK(ascii::wrapped("\xc3\xa4\xc3\xa4\xe6\xbc\xa2 \xe6\xbc\xa2\xe6\xbc\xa2 x", 6, 0) ==
          "\xc3\xa4\xc3\xa4\xe6\xbc\xa2\n\xe6\xbc\xa2\xe6\xbc\xa2 x");
    for (const std::string& name : hostile::names())
      for (std::size_t width = 9; width < 40; ++width) {
        const std::string shown = ascii::label(name, width);
        REQUIRE(ascii::columns_of(shown) <= width);
        for (std::size_t i = 0; i < shown.size();) {
          const ascii::utf8_character c = ascii::utf8_at(std::string_view(shown).substr(i));
          REQUIRE(c.size != 0);
          REQUIRE(ascii::columns_of(c.point) >= 0);
          i += c.size;
        }
      }
  }
  CHECK(ascii::escaped("\xc3\xa4") == "\\u{e4}");  // the page has ended
}

TEST_CASE("which terminals take UTF-8 is the environment's word, the strongest variable first") {
  const auto takes = [](const char* all, const char* type, const char* lang) {
    const auto set = [](const char* name, const char* value) {
      if (value != nullptr)
        ::setenv(name, value, 1);
      else
        ::unsetenv(name);
    };
    set("LC_ALL", all), set("LC_CTYPE", type), set("LANG", lang);
    return ascii::terminal_takes_utf8();
  };
  std::string before[3];
  const char* names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (int i = 0; i < 3; ++i)
    if (const char* value = std::getenv(names[i])) before[i] = value;
  CHECK(takes(nullptr, nullptr, "de_DE.UTF-8"));
  CHECK(takes("", "C.utf8", nullptr));
  CHECK_FALSE(takes("C", "C.UTF-8", "C.UTF-8"));
  CHECK_FALSE(takes(nullptr, nullptr, nullptr));
  CHECK_FALSE(takes(nullptr, nullptr, "POSIX"));
  for (int i = 0; i < 3; ++i) ::setenv(names[i], before[i].c_str(), 1);  // empty is as good as none
}

TEST_CASE("long names lose their middle") {
  CHECK(ascii::cut("0123456789", 10) == "0123456789");
  CHECK(ascii::cut("0123456789", 9) == "0123..789");
  CHECK(ascii::cut("0123456789", 2) == "01");
  CHECK(ascii::cut("0123456789", 0) == "");
  for (const std::string& name : hostile::names())
    for (std::size_t width = 9; width < 40; ++width) REQUIRE(ascii::label(name, width).size() <= width);
  CHECK(ascii::escaped(std::string(100000, 'x')).size() < 600);
}

TEST_CASE("paragraphs break at spaces, and inside of words only where there is none") {
  CHECK(ascii::wrapped("one two three four", 9, 2) == "one two\n  three\n  four");
  CHECK(ascii::wrapped("short", 9, 2) == "short");
  CHECK(ascii::wrapped("abcdefghijkl", 5, 1) == "abcde\n fghi\n jkl");
}

TEST_CASE("a page never exceeds its width, and has colour only where asked") {
  ascii::page plain(10, false), colored(10, true);
  for (ascii::page* p : {&plain, &colored}) {
    p->line("0123456789abc", ascii::tone::alarm);
    p->line("x   ");
  }
  CHECK(plain.text() == "0123456789\nx\n");
  CHECK(colored.text() == "\x1b[1;31m0123456789\x1b[0m\nx\n");
}

TEST_CASE("ascii: kernels by their short names, with what distinguishes rows") {
  const auto shown = [](const std::vector<std::string>& full) {
    std::vector<cutrace::analysis::operation> rows;
    for (const std::string& name : full) {
      cutrace::analysis::operation o;
      o.is = cutrace::analysis::category::kernel;
      o.name = name;
      rows.push_back(o);
    }
    return cutrace::ascii::short_names(rows);
  };
  using names = std::vector<std::string>;
  CHECK(shown({"void mul_mat_vec_f<__half, float, 1, 256>(__half const*, float const*, int, int)"}) ==
        names{"mul_mat_vec_f"});
  CHECK(shown({"void mul_mat_vec_f<__half, float, 1, 256>(int)", "void mul_mat_vec_f<__half, float, 2, 256>(int)",
               "void other(int)"}) == names{"mul_mat_vec_f<1>", "mul_mat_vec_f<2>", "other"});
  CHECK(
      shown(
          {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, "
           "3ul> "
           ">(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
           "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp<float>, "
           "std::array<char*, 3ul> >(int)"}) == names{"vectorized_elementwise_kernel<CUDAFunctor_add<float>>",
                                                      "vectorized_elementwise_kernel<launch_clamp<float>>"});
  // Overloads, names of C, mangled and broken ones stay as they are; an empty list of template arguments goes.
  CHECK(shown({"void f(int)", "void f(float)"}) == names{"void f(int)", "void f(float)"});
  CHECK(shown({"gemm", "_Z4gemmPKf", "ncclDevKernel_AllReduce_Sum_f32", "", "a<b", "x>y(", "f<>(int)"}) ==
        names{"gemm", "_Z4gemmPKf", "ncclDevKernel_AllReduce_Sum_f32", "", "a<b", "x>y(", "f"});
  CHECK(shown({"void ns::A<int>::run<2>(B)"}) == names{"run"});
  CHECK(shown({"void ns::{lambda(int)#1}::operator()(int)"}) != names{""});
}

}  // namespace ascii_text_test
