// SPDX-License-Identifier: Apache-2.0
// Why a request took as long as it did, as a page of its own: no script, no external resources, for small screens
// and dark mode, too. The same words and numbers as the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/pages/why_text.hpp"
#include "report/why.hpp"

CUTRACE_BEGIN_NAMESPACE
namespace why_page {

/// Escapes text for element content and attributes in double quotes.
CUTRACE_NOINLINE inline std::string html_text(std::string_view s) {
  std::string out;
  for (const char c : s) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  return out;
}

CUTRACE_NOINLINE inline std::string percent(std::int64_t part, std::int64_t whole) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f%%",
                whole <= 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

/// Appends the stretches as boxes, placed relative to `life`, the request's span.
CUTRACE_NOINLINE inline void boxes(std::string& out, const std::vector<analysis::interval>& list,
                                   analysis::interval life, const char* kind) {
  constexpr std::size_t most = 2000;  // more cannot be distinguished on a screen
  const std::size_t step = list.size() / most + 1;
  for (std::size_t i = 0; i < list.size(); i += step) {
    const analysis::interval v =
        analysis::clip({list[i].start_ns, list[std::min(i + step, list.size()) - 1].end_ns}, life);
    out += "<i class=" + std::string(kind) + " style=\"left:" + percent(v.start_ns - life.start_ns, life.length_ns()) +
           ";width:" + percent(v.length_ns(), life.length_ns()) + "\"></i>";
  }
}

CUTRACE_NOINLINE inline void one_request(std::string& out, const analysis::why_report& r) {
  using ascii::duration;
  const auto time = [](std::int64_t ns) { return std::string(duration(ns).view()); };
  out += "<section><h2>" + html_text(ascii::why_answer(r)) + ".</h2>";
  if (r.account.unended)
    out += "<p class=alarm>A stage of it has no end in the trace: what came after is not known.</p>";
  out += "<h3>Why</h3><ol>";
  for (std::size_t i = 0; i < r.shown_causes(); ++i) {
    const analysis::why_cause& c = r.causes[i];
    out += "<li>" + (c.stands_out() ? "<b>+" + time(c.excess_ns()) + "</b> " : std::string()) +
           html_text(ascii::cause_words(c)) + "</li>";
  }
  out += "</ol><h3>Its life</h3><div class=life>";
  for (const analysis::why_row& row : r.rows) {
    out += "<div class=name title=\"" + html_text(row.site) + "\">" + html_text(row.name) + "<small> " +
           std::to_string(row.count) + " &times;, host " + time(row.host_ns) +
           (row.gpu.empty() ? std::string() : ", GPU " + time(row.gpu_ns)) + "</small></div><div class=bar>";
    boxes(out, row.host, r.account.span, row.span ? "span" : "host");
    boxes(out, row.gpu, r.account.span, "gpu");
    out += "</div>";
  }
  out +=
      "</div><p><i class=\"key host\"></i> a stage is open <i class=\"key span\"></i> a span is open <i class=\"key "
      "gpu\"></i> its work on the GPU</p><h3>Where its time went</h3><table><tr><th>part<th>time<th>share<th>median"
      "<th>beyond it</tr>";
  for (std::size_t p = 0; p < analysis::request_part_count; ++p)
    for (const analysis::why_cause& c : r.causes) {
      if (static_cast<std::size_t>(c.is) != p) continue;
      const bool more = c.stands_out();
      out += std::string("<tr") + (more ? " class=more" : "") + "><td>" + html_text(ascii::words_of(c.is)) + "<td>" +
             time(c.ns) + "<td>" +
             std::string(
                 ascii::share_of(static_cast<double>(c.ns), static_cast<double>(r.account.span.length_ns())).view()) +
             "<td>" + (r.cohort == 0 ? "-" : time(c.typical_ns)) + "<td>" + (more ? "+" + time(c.excess_ns()) : "") +
             "</tr>";
    }
  out += "</table><h3>Not looked at</h3><ul>";
  for (const std::string& s : r.not_looked_at) out += "<li>" + html_text(s) + "</li>";
  if (r.not_looked_at.empty()) out += "<li>nothing that this version knows of</li>";
  out += "</ul></section>";
}

}  // namespace why_page

CUTRACE_NOINLINE inline std::string why_html(const std::vector<analysis::why_report>& reports, std::string_view title) {
  std::string out =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>" +
      why_page::html_text(title) +
      "</title><style>"
      ":root{--page:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--host:#9ecae1;--span:#d9d9d9;--gpu:#b35806;--"
      "more:#a40e26}"
      "@media(prefers-color-scheme:dark){:root{--page:#0d1117;--ink:#e6edf3;--soft:#9198a1;--line:#3d444d;--host:#"
      "31688e;"
      "--span:#4a4f57;--gpu:#fdb863;--more:#ff7b72}}"
      "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);margin:1rem "
      "auto;max-width:72rem;"
      "padding:0 "
      "1rem}h1{font-size:1.1rem;color:var(--soft);overflow-wrap:anywhere}h2{font-size:1.2rem;overflow-wrap:anywhere}"
      "h3{font-size:1rem;margin:1.2rem 0 .4rem}small{color:var(--soft)}li{overflow-wrap:anywhere}"
      ".life{display:grid;grid-template-columns:minmax(8rem,18rem) 1fr;gap:.3rem .8rem}.name{overflow-wrap:anywhere}"
      ".bar{position:relative;min-height:1.3rem;border-bottom:1px solid var(--line)}"
      ".bar i{position:absolute;min-width:1px;top:0;bottom:0}.host{background:var(--host)}.span{background:var(--span)}"
      ".bar .gpu{top:35%}.gpu{background:var(--gpu)}.key{display:inline-block;width:1.2rem;height:.8rem}"
      "table{border-collapse:collapse;width:100%}td,th{text-align:right;padding:.15rem .5rem;border-bottom:1px solid "
      "var(--line)}td:first-child,th:first-child{text-align:left}.more td,.alarm,li b{color:var(--more)}"
      "@media(max-width:40rem){.life{grid-template-columns:1fr}td,th{padding:.15rem .2rem;font-size:.85rem}}"
      "</style><h1>" +
      why_page::html_text(title) + "</h1>";
  for (const analysis::why_report& r : reports) why_page::one_request(out, r);
  return out + "</html>\n";
}

CUTRACE_END_NAMESPACE
