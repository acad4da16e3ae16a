// SPDX-License-Identifier: Apache-2.0
#include "cutrace/redact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <cutrace/event_fields.hpp>
#include <cutrace/marker/record.hpp>
#include <type_traits>

#include "trace/merge.hpp"

namespace cutrace_tool {

using cutrace::argument;
using cutrace::argument_kind;
using cutrace::event;
using cutrace::event_kind;
using cutrace::text;

namespace {

std::string_view view(text t) noexcept { return {t.size != 0 ? t.data : "", t.size}; }

/// Shorter texts are not replaced: they would be found inside of words that have nothing to do with them.
constexpr std::size_t shortest_secret = 4;
/// No memory is mapped below it; handles as small are constants of CUDA's headers, such as CU_STREAM_LEGACY.
constexpr std::uint64_t least_address = 4096;

/// The first path in `s` from `at` on, or something like one: what begins with '/', with C:\ or C:/, with '~' or '.'
/// and has a slash, what has a dot behind its last slash, or ":/" (a URL). It ends at the closing quote where it stands
/// in quotes, at the end where that is missing, else at the next separator.
struct found_path {
  std::size_t begin, size;
};
found_path find_path(std::string_view s, std::size_t at) {
  constexpr std::string_view separators = " \t\r\n\"'`,;()[]{}<>=|";
  while (at < s.size()) {
    const std::size_t begin = s.find_first_not_of(separators, at);
    if (begin == std::string_view::npos) break;
    const char before = begin != 0 ? s[begin - 1] : ' ';
    const bool quoted = before == '"' || before == '\'' || before == '`';
    const std::size_t quote = quoted ? s.find(before, begin) : std::string_view::npos;
    std::size_t end = quote != std::string_view::npos ? quote : std::min(s.find_first_of(separators, begin), s.size());
    // A message that was cut in the middle of a name: messages quote names like that.
    if (quote == std::string_view::npos && before == '"' && s[begin] == '/') end = s.size();
    std::string_view word = s.substr(begin, end - begin);
    const std::size_t colon = word.find(":/");  // "jsonl:/srv/..."
    const std::size_t slash = word.find('/'), last = word.rfind('/');
    const bool rooted = slash == 0 && word.size() > 1;
    const bool home = slash != std::string_view::npos && (word[0] == '~' || word[0] == '.');
    const bool dotted = slash != std::string_view::npos && word.find('.', last) != std::string_view::npos;
    const bool drive = word.size() > 2 && word[1] == ':' && (word[2] == '\\' || word[2] == '/');
    if (rooted || home || dotted || drive || colon != std::string_view::npos) return {begin, end - begin};
    at = end + 1;
  }
  return {s.size(), 0};
}

}  // namespace

redact_sink::redact_sink(cutrace::sink& to, const std::vector<std::string>& files) : to_(to) {
  for (const std::string& file : files) {
    remember(file, text_kind::path);
    remember(std::string_view(file).substr(file.rfind('/') + 1), text_kind::path);  // npos + 1 is 0
  }
}

text redact_sink::store(std::string s) {
  texts_.push_back(std::move(s));
  return {texts_.back().c_str(), static_cast<std::uint32_t>(texts_.back().size())};
}

text redact_sink::replacement_of(text_kind w, text old) {
  static const char* const words[] = {"path", "thread", "process", "request", "text"};
  if (old.size == 0) return old;
  auto& known = known_[static_cast<std::size_t>(w)];
  const auto [at, is_new] = known.emplace(view(old), text{});
  if (is_new) at->second = store(words[static_cast<std::size_t>(w)] + ("-" + std::to_string(known.size())));
  return at->second;
}

void redact_sink::remember(std::string_view secret, text_kind w) {
  if (secret.size() < shortest_secret) return;
  const text now = replacement_of(w, {secret.data(), static_cast<std::uint32_t>(secret.size())});
  secrets_.emplace(std::string(secret), view(now));
}

text redact_sink::without_paths(text old) {
  found_path p = find_path(view(old), 0);
  if (p.size == 0) return old;
  const auto [at, is_new] = pathless_.emplace(view(old), text{});
  if (!is_new) return at->second;
  std::string now(view(old));
  for (; p.size != 0; p = find_path(now, p.begin)) {
    const text by = replacement_of(text_kind::path, {now.data() + p.begin, static_cast<std::uint32_t>(p.size)});
    now.replace(p.begin, p.size, view(by));
    p.begin += by.size;
  }
  return at->second = store(std::move(now));
}

std::uint64_t redact_sink::replacement_of(std::uint64_t address) {
  if (address < least_address) return address;
  const std::uint64_t next = (addresses_.size() + 1) * least_address;
  return addresses_.emplace(address, next).first->second;
}

std::string redact_sink::redacted_message(const char* old) {
  if (old == nullptr) return {};
  std::string s = old;
  // As merge.cpp, feed.cpp and the readers write notes. The file's name need not look like a path.
  const auto replace_file = [&](std::string_view before, std::string_view behind) {
    const std::size_t begin = s.find(before), end = s.find(behind, std::min(begin, s.size()));
    if (end == std::string::npos) return false;
    const std::string file = s.substr(begin + before.size(), end - begin - before.size());
    remember(file, text_kind::path);
    const text now = replacement_of(text_kind::path, {file.data(), static_cast<std::uint32_t>(file.size())});
    s.replace(begin + before.size(), file.size(), view(now));
    return true;
  };
  constexpr std::string_view first = " complaints, the first: ";
  replace_file(", from ", ": begins at ");
  replace_file(": the next part, ", ", was not given");
  if (!replace_file(first, ", line ")) replace_file(first, ", byte ");
  s = std::string(view(without_paths({s.data(), static_cast<std::uint32_t>(s.size())})));
  for (const auto& [secret, now] : secrets_)
    for (std::size_t at = 0; (at = s.find(secret, at)) != std::string::npos; at += now.size())
      s.replace(at, secret.size(), now);
  return s;
}

text redact_sink::redacted_why(const event& e) {
  std::string s(view(e.alarm.why));
  // As stage_watch.hpp writes it. The name may be shorter than what is looked for in messages.
  static constexpr std::string_view before = "a stage of request ", behind = " may be open for ";
  const std::size_t end = s.rfind(behind);
  if (s.compare(0, before.size(), before) == 0 && end != std::string::npos && end > before.size()) {
    const std::string request = s.substr(before.size(), end - before.size());
    const auto is_number = [&](const cutrace::request_ref& r) {
      return r.name.size == 0 && std::to_string(r.id) == request;
    };
    if (std::none_of(e.requests, e.requests + e.request_count, is_number)) {
      remember(request, text_kind::request);
      const text now = replacement_of(text_kind::request, {request.data(), static_cast<std::uint32_t>(request.size())});
      s.replace(before.size(), request.size(), view(now));
    }
  }
  // Numbers in hex, but not where they are a part of a kernel's name.
  for (std::size_t at = 0; (at = s.find("0x", at)) != std::string::npos;) {
    const bool in_name = at != 0 && (std::isalnum(static_cast<unsigned char>(s[at - 1])) != 0 || s[at - 1] == '_');
    at += 2;
    const std::size_t size = std::min(s.find_first_not_of("0123456789abcdefABCDEF", at), s.size()) - at;
    if (in_name || size == 0) continue;
    const std::string now = fmt::format("{:x}", replacement_of(std::strtoull(s.c_str() + at, nullptr, 16)));
    s.replace(at, size, now);
    at += now.size();
  }
  return store(redacted_message(s.c_str()));
}

/// Notes of the merged traces hold the parts of a name that merge.cpp made: "server (rank 3, node-2, pid 17)".
void redact_sink::remember_parts(std::string_view name) {
  const std::size_t open = name.rfind(" (");
  if (open == std::string_view::npos || name.back() != ')') return;
  remember(name.substr(0, open), text_kind::process);
  std::string_view rest = name.substr(open + 2, name.size() - open - 3);
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(", "));
    if (part.substr(0, 5) != "rank " && part.substr(0, 4) != "pid " && part != "unknown host")
      remember(part, text_kind::text);
    rest.remove_prefix(std::min(part.size() + 2, rest.size()));
  }
}

void redact_sink::open(const cutrace::trace_info& info) {
  const auto secret = [this](const char* s, text_kind w) {
    if (s != nullptr) remember(s, w);
  };
  secret(info.host_name, text_kind::text);
  if (info.host_name != nullptr) remember(cutrace_reading::without_more(info.host_name), text_kind::text);
  secret(info.boot_id, text_kind::text);
  secret(info.process_name, text_kind::process);
  secret(info.command_line, text_kind::text);
  // Texts of events may hold a single word of the command line.
  const std::string line = info.command_line != nullptr ? info.command_line : "";
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    remember(std::string_view(line).substr(at, end - at), text_kind::text);
    at = end + 1;
  }
  const std::string detail = redacted_message(info.backend_detail);
  cutrace::trace_info redacted = info;
  const std::string name = info.process_name != nullptr ? info.process_name : "";
  redacted.process_name =
      replacement_of(text_kind::process, {name.data(), static_cast<std::uint32_t>(name.size())}).data;
  redacted.command_line = redacted.host_name = redacted.boot_id = "";
  redacted.backend_detail = store(detail).data;
  to_.open(redacted);
}

const argument* redact_sink::arguments(const argument* old, std::uint32_t count) {
  if (count == 0) return old;
  arguments_.emplace_back(old, old + count);
  for (argument& a : arguments_.back()) {
    switch (a.kind) {
      case argument_kind::word:
      case argument_kind::pointer:
      case argument_kind::stream:
      case argument_kind::handle:
      case argument_kind::output:
        a.value = replacement_of(a.value);
        break;
      case argument_kind::string: {
        const char* const s = a.string_value();
        if (s != nullptr)
          a.value =
              argument::word_of(replacement_of(text_kind::text, {s, static_cast<std::uint32_t>(std::strlen(s))}).data);
        break;
      }
      case argument_kind::integer:
      case argument_kind::unsigned_integer:
      case argument_kind::floating:
      case argument_kind::bytes:
        break;
    }
  }
  return arguments_.back().data();
}

void redact_sink::redact(event& e) {
  e.more = {};  // fields of a file that this version does not know
  e.name = without_paths(e.name);
  e.stage_name = without_paths(e.stage_name);
  e.capture_stage_name = without_paths(e.capture_stage_name);
  if (e.kind == event_kind::alarm) e.alarm.why = redacted_why(e);
  if (e.request_count != 0) {
    requests_.emplace_back(e.requests, e.requests + e.request_count);
    for (cutrace::request_ref& r : requests_.back()) {
      if (r.name.size == 0) continue;
      remember(view(r.name), text_kind::request);
      r.name = replacement_of(text_kind::request, r.name);
      r.id = cutrace::detail::hash_text(r.name.data, r.name.size);  // the old id is a hash of the old name
    }
    e.requests = requests_.back().data();
  }
  const auto redact_arguments = [&](const auto& field) {
    if constexpr (std::decay_t<decltype(field)>::form == cutrace::field_form::arguments)
      field.of(e).arguments = arguments(field.of(e).arguments, field.of(e).argument_count);
  };
  cutrace::with_fields(e.kind, [&](const auto&... field) { (redact_arguments(field), ...); });
  switch (e.kind) {
    case event_kind::process:
      remember(view(e.name), text_kind::process);
      remember_parts(view(e.name));
      e.name = replacement_of(text_kind::process, e.name);
      break;
    case event_kind::thread:
      remember(view(e.name), text_kind::thread);
      e.name = replacement_of(text_kind::thread, e.name);
      break;
    case event_kind::stage:
    case event_kind::mark:
      e.stage.file = replacement_of(text_kind::path, e.stage.file);
      e.stage.category_name = without_paths(e.stage.category_name);
      e.stage.domain = without_paths(e.stage.domain);
      break;
    case event_kind::memory:
      e.memory.address = replacement_of(e.memory.address);
      break;
    case event_kind::device:  // it identifies one board
      std::memset(e.device_.uuid, 0, sizeof(e.device_.uuid));
      break;
    case event_kind::other:
      e.name = {};
      break;
    default:
      break;
  }
}

void redact_sink::write(cutrace::event_view events) {
  batch_.assign(events.begin(), events.end());
  arguments_.clear();
  requests_.clear();
  for (event& e : batch_) redact(e);
  to_.write({batch_.data(), batch_.size()});
}

void redact_sink::close(const cutrace::trace_summary& summary) {
  cutrace::trace_summary redacted = summary;
  std::vector<std::string> notes;
  for (std::uint32_t i = 0; i < summary.note_count; ++i) notes.push_back(redacted_message(summary.notes[i]));
  std::vector<const char*> lines;
  for (const std::string& note : notes) lines.push_back(note.c_str());
  redacted.notes = lines.data();
  redacted.note_count = static_cast<std::uint32_t>(lines.size());
  const std::string missing = redacted_message(summary.missing);
  if (summary.missing != nullptr) redacted.missing = missing.c_str();
  for (std::uint32_t i = 0; i < redacted.totals.sink_count && i < cutrace::sink_limit; ++i) {
    char(&failure)[160] = redacted.totals.sinks[i].failure;
    failure[sizeof(failure) - 1] = '\0';
    const std::string now = redacted_message(failure);
    std::memset(failure, 0, sizeof(failure));
    std::memcpy(failure, now.data(), std::min(now.size(), sizeof(failure) - 1));
  }
  to_.close(redacted);
}

}  // namespace cutrace_tool
