// SPDX-License-Identifier: Apache-2.0
// The HTML report as a file: one page that loads nothing. Its Content-Security-Policy allows only the style and the
// script that carry this file's own nonce; names stand in the page as JSON and base64, never as markup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cutrace/config.hpp>
#include <cutrace/output/json_text.hpp>
#include <cutrace/output/output_file.hpp>
#include <cutrace/sinks/html/collect.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// Style, frame and script of the page: files in assets/html/, of which the build makes this header.
#if __has_include(<cutrace/sinks/html/assets.hpp>)
#include <cutrace/sinks/html/assets.hpp>
#else
#error \
    "the HTML sink needs cutrace/sinks/html/assets.hpp, which the build of cutrace makes: use an installation or a \
release archive of cutrace, add the folder include/ of its build, or leave the sink out with CUTRACE_WITHOUT_HTML"
CUTRACE_BEGIN_NAMESPACE
namespace html {
constexpr const char *style_css = "", *body_html = "", *model_js = "";  // so that this stays the only error
constexpr const char *timeline_js = "", *page_js = "", *input_js = "";
}  // namespace html
CUTRACE_END_NAMESPACE
#endif

CUTRACE_BEGIN_NAMESPACE
namespace html {

/// For text between tags.
CUTRACE_NOINLINE inline std::string escaped_markup(std::string_view s) {
  std::string out;
  for (const char c : s) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

/// JSON as it may stand in a script element: "<" occurs in strings only, and would begin what ends the element or opens
/// a comment in it (HTML Standard, 13.2.5.4 and 4.12.1.3).
CUTRACE_NOINLINE inline std::string inert_json(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

/// RFC 4648, section 4, in pieces: three bytes become four characters.
class base64_writer {
 public:
  explicit base64_writer(detail::output_file& to) : to_(to) {}
  CUTRACE_NOINLINE void write(const std::vector<unsigned char>& bytes) {
    for (const unsigned char c : bytes) {
      group_ = group_ << 8 | c;
      if (++held_ == 3) put(4);
    }
  }
  CUTRACE_NOINLINE void finish() {
    if (held_ == 1) group_ <<= 16, put(2), text_ += "==";
    if (held_ == 2) group_ <<= 8, put(3), text_ += '=';
    to_.write(text_);
    text_.clear();
  }

 private:
  void put(int characters) {
    constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0; i < characters; ++i) text_ += digits[group_ >> (18 - 6 * i) & 63u];
    group_ = 0;
    held_ = 0;
    if (text_.size() >= 32768) to_.write(text_), text_.clear();
  }
  detail::output_file& to_;
  std::string text_;
  std::uint32_t group_ = 0;
  int held_ = 0;
};

/// 128 bits that no name in the trace can know.
CUTRACE_NOINLINE inline std::string fresh_nonce() {
  std::random_device source;
  std::string s;
  for (int i = 0; i < 32; ++i) s += "0123456789abcdef"[source() & 15u];
  return s;
}

/// What the packed events refer to: names, contexts (a stage with its requests), launch shapes, and the rows' index.
class model_writer {
 public:
  model_writer(detail::json_text& json, const collection& data) : json_(json), t_(data.events) {}

  CUTRACE_NOINLINE void write(std::uint32_t process_id) {
    json_.field("resolution_ns", t_.resolution_ns());
    json_.key("names");
    json_.begin_array();
    for (std::uint32_t n = 0; n < t_.names().size(); ++n) json_.value(std::string_view(t_.names().name(n)));
    json_.end_array();
    json_.key("contexts");  // [name of the stage, requests]
    json_.begin_array();
    for (const std::string* c : t_.contexts().entries()) {
      json_.begin_array();
      json_.value(context_table::stage_name(*c));
      json_.value(context_table::requests(*c));
      json_.end_array();
    }
    json_.end_array();
    json_.key("shapes");  // as launch_shape
    json_.begin_array();
    for (const std::string* s : t_.shapes().entries()) {
      json_.begin_array();
      for (const std::uint32_t n : shape_table::shape(*s).of) json_.value(n);
      json_.end_array();
    }
    json_.end_array();
    json_.key("rows");
    json_.begin_array();
    bool others = false;
    for (const auto& r : t_.rows()) {
      if (r.first.on_gpu() && !others) others = other_rows("other threads", t_.other_host(), true);
      row(r.first, r.second, process_id);
    }
    if (!others) other_rows("other threads", t_.other_host(), true);
    other_rows("other streams", t_.other_gpu(), false);
    json_.end_array();
  }

  /// The events of all rows, in the order of the index.
  CUTRACE_NOINLINE void write_events(base64_writer& out) const {
    bool others = false;
    for (const auto& r : t_.rows()) {
      if (r.first.on_gpu() && !others) out.write(t_.other_host().bytes()), others = true;
      out.write(r.second.bytes());
    }
    if (!others) out.write(t_.other_host().bytes());
    out.write(t_.other_gpu().bytes());
    out.finish();
  }

 private:
  bool other_rows(const char* label, const packed_records& r, bool host) {
    if (r.count() == 0) return true;
    begin(host ? "call" : "gpu", label, r);
    json_.end_object();
    return true;
  }

  void begin(const char* kind, std::string_view label, const packed_records& r) {
    json_.begin_object();
    json_.field("kind", kind);
    json_.field("label", label);
    json_.field("events", r.count());
    json_.field("bytes", r.bytes().size());
  }

  CUTRACE_NOINLINE void row(const row_key& k, const packed_records& r, std::uint32_t process_id) {
    static constexpr const char* kinds[] = {"span", "stage", "mark", "call", "call", "call", "call", "gpu"};
    std::string label;
    if (k.on_gpu()) {
      label = "GPU " + std::to_string(k.device) + " stream " + std::to_string(k.id);
    } else if (k.kind == row_kind::spans) {
      label = "spans";
    } else {
      label = thread(k.id, process_id);
      constexpr const char* what[] = {"", "stages", "marks", "runtime calls", "driver calls", "ioctls", "system", ""};
      label += std::string(" ") + what[static_cast<std::size_t>(k.kind)];
      if (k.depth > 0) label += " " + std::to_string(k.depth);
    }
    begin(kinds[static_cast<std::size_t>(k.kind)], label, r);
    if (k.on_gpu())
      json_.field("device", k.device);
    else
      json_.field("thread", k.id);
    json_.field("depth", k.depth);
    json_.end_object();
  }

  std::string thread(std::uint64_t id, std::uint32_t process_id) const {
    const auto found = t_.thread_names().find(id);
    if (found != t_.thread_names().end() && !found->second.empty())
      return found->second + " (" + std::to_string(id) + ")";
    return id == process_id ? std::string("main thread") : "thread " + std::to_string(id);
  }

  detail::json_text& json_;
  const timeline& t_;
};

/// @param title plain text; @param json the object with summary and model
CUTRACE_NOINLINE inline void write_page(detail::output_file& file, std::string_view title, std::string_view json,
                                        const model_writer& model) {
  const std::string nonce = fresh_nonce();
  file.write(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action "
      "'none'; style-src 'nonce-" +
      nonce + "'; script-src 'nonce-" + nonce +
      "'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
  file.write(escaped_markup(title));
  file.write("</title>\n<style nonce=\"" + nonce + "\">\n");
  file.write(style_css);
  file.write("</style>\n</head>\n");
  file.write(body_html);
  file.write("<script type=\"application/json\" id=\"data\">\n");
  file.write(inert_json(json));
  file.write("\n</script>\n<script type=\"text/plain\" id=\"events\">");
  base64_writer events(file);
  model.write_events(events);
  file.write("</script>\n<script nonce=\"" + nonce + "\">\n\"use strict\";\n");
  file.write(model_js);
  file.write(timeline_js);
  file.write(page_js);
  file.write(input_js);
  file.write("</script>\n</body>\n</html>\n");
}

}  // namespace html
CUTRACE_END_NAMESPACE
