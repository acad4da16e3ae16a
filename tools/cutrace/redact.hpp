// SPDX-License-Identifier: Apache-2.0
// What can identify somebody is taken out of a trace on its way to a sink, so that it is out of every format alike:
// docs/privacy.md lists what. Equal texts and addresses are replaced by equal ones, so that reports count and join as
// before.
#pragma once

#include <cstdint>
#include <cutrace/analysis/names.hpp>
#include <cutrace/sink.hpp>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cutrace_tool {

class redact_sink : public cutrace::sink {
 public:
  /// @param files that are read: complaints name them
  redact_sink(cutrace::sink& to, const std::vector<std::string>& files);
  const char* name() const noexcept override { return to_.name(); }
  void open(const cutrace::trace_info& info) override;
  void write(cutrace::event_view events) override;
  void flush() override { to_.flush(); }
  void close(const cutrace::trace_summary& summary) override;

 private:
  /// A text is replaced by WORD-1, WORD-2 and so on, with the word of its kind.
  enum class text_kind : unsigned char { path, thread, process, request, text, count };

  cutrace::text replacement_of(text_kind w, cutrace::text old);
  cutrace::text without_paths(cutrace::text old);
  cutrace::text store(std::string s);
  std::uint64_t replacement_of(std::uint64_t address);
  /// A message with all secrets replaced; it may hold any text of the trace.
  std::string redacted_message(const char* old);
  /// Why the alarm `e` came: it names a request or an address.
  cutrace::text redacted_why(const cutrace::event& e);
  void remember(std::string_view secret, text_kind w);
  void remember_parts(std::string_view name);
  void redact(cutrace::event& e);
  const cutrace::argument* arguments(const cutrace::argument* old, std::uint32_t count);

  cutrace::sink& to_;
  std::deque<std::string> texts_;  ///< live as long as the trace
  cutrace::detail::seeded_map<std::string, cutrace::text> known_[static_cast<std::size_t>(text_kind::count)];
  cutrace::detail::seeded_map<std::string, cutrace::text> pathless_;
  cutrace::detail::seeded_map<std::uint64_t, std::uint64_t> addresses_;
  /// The longest first: one may be part of another.
  struct longer {
    bool operator()(const std::string& a, const std::string& b) const noexcept {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  std::map<std::string, std::string, longer> secrets_;  ///< that messages may hold, with their replacements
  std::vector<cutrace::event> batch_;
  std::deque<std::vector<cutrace::argument>> arguments_;  ///< of the batch
  std::deque<std::vector<cutrace::request_ref>> requests_;
};

}  // namespace cutrace_tool
