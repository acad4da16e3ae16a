// SPDX-License-Identifier: Apache-2.0
// The look of the HTML report, light and dark as the reader's system asks for.
#pragma once

#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace html {

inline constexpr char style_css[] = R"css(:root {
  color-scheme: light dark;
  --bg: #f6f7f8; --surface: #ffffff; --ink: #1c2127; --muted: #5c6672; --line: #dfe3e8; --soft: #eef1f4;
  --accent: #1f5fbf; --good: #1d7a46; --bad: #b3261e; --bad-soft: #fbe9e7; --none: #d5dae0; --hatch: #c4cbd3;
  --track: #f1f3f5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --bg: #14171b; --surface: #1b1f25; --ink: #e4e8ec; --muted: #9ba5b1; --line: #2d333b; --soft: #242a31;
    --accent: #7fb0f5; --good: #6cc691; --bad: #ff8a80; --bad-soft: #3a2220; --none: #39414a; --hatch: #4a535e;
    --track: #20252b;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--bg); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, header, footer { max-width: 1480px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 22px; }
h1 { font-size: 22px; line-height: 1.25; font-weight: 650; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 15px; font-weight: 650; margin: 0 0 10px; }
.sub { color: var(--muted); margin: 3px 0 0; overflow-wrap: anywhere; }
.titles { display: flex; gap: 16px; align-items: flex-start; justify-content: space-between; }
.chip {
  flex: none; border: 1px solid var(--line); border-radius: 999px; padding: 3px 12px; font-weight: 600;
  color: var(--good); background: var(--surface); text-decoration: none;
}
.chip.bad { color: var(--bad); background: var(--bad-soft); border-color: var(--bad); }
.answer { margin: 14px 0 0; font-size: 15px; max-width: 110ch; overflow-wrap: anywhere; }
.figures { display: flex; flex-wrap: wrap; gap: 0 36px; margin: 14px 0 4px; padding: 0; list-style: none; }
.figures b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
.figures span { color: var(--muted); font-size: 12.5px; }
section {
  background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px; margin: 16px 0;
}
.first { display: flex; gap: 16px; margin: 16px 0; }
.first section { margin: 0; flex: 3 1 0; min-width: 0; }
.side { flex: 2 1 0; min-width: 0; display: flex; flex-direction: column; gap: 16px; }
.side section { flex: 1 1 0; }
.side:empty, .two:empty { display: none; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 16px; margin: 16px 0; }
.two section { min-width: 0; margin: 0; }
.bar { display: flex; height: 26px; border-radius: 5px; overflow: hidden; background: var(--none); margin-bottom: 12px; }
.bar i { display: block; min-width: 1px; flex-basis: 0; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 8px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { font-weight: 500; color: var(--muted); font-size: 12.5px; padding-top: 0; vertical-align: bottom; }
td.text, th.text { text-align: left; white-space: normal; overflow-wrap: anywhere; }
td.text { min-width: 180px; }
th:first-child, td:first-child { padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:hover { background: var(--soft); }
tr.total td { font-weight: 600; }
th button {
  all: unset; cursor: pointer; border-radius: 3px;
}
th button:hover { color: var(--ink); }
th[aria-sort="ascending"] button::after { content: " \2191"; }
th[aria-sort="descending"] button::after { content: " \2193"; }
.scroll { overflow-x: auto; }
.find {
  all: unset; cursor: pointer; overflow-wrap: anywhere; border-radius: 3px;
  font: 12.5px/1.5 ui-monospace, "SF Mono", "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
.find:hover { color: var(--accent); text-decoration: underline; }
.mark { color: var(--bad); font-weight: 600; }
.more, .tools button {
  font: inherit; color: var(--ink); background: var(--soft); border: 1px solid var(--line); border-radius: 5px;
  padding: 3px 10px; cursor: pointer;
}
.more { margin-top: 10px; }
.more:hover, .tools button:hover { border-color: var(--muted); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.tools { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin-bottom: 10px; }
.tools input {
  font: inherit; color: var(--ink); background: var(--bg); border: 1px solid var(--line); border-radius: 5px;
  padding: 3px 10px; width: 260px;
}
.tools output { color: var(--muted); font-variant-numeric: tabular-nums; }
.tools .right { margin-left: auto; }
#canvas { display: block; width: 100%; border-radius: 4px; cursor: grab; touch-action: none; }
#canvas.dragging { cursor: grabbing; }
.findings { margin: 0; padding-left: 22px; }
.findings li { margin: 0 0 12px; overflow-wrap: anywhere; }
.findings p { margin: 2px 0; max-width: 110ch; }
.findings .find { display: block; color: var(--muted); }
.hint { color: var(--muted); font-size: 12.5px; margin: 8px 0 0; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; margin: 4px 0 0; padding: 0; list-style: none; font-size: 12.5px; }
.legend li:first-child { color: var(--muted); width: 44px; }
#legend { margin-top: 10px; }
.legend li { max-width: 320px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#tip {
  position: fixed; z-index: 2; pointer-events: none; max-width: 460px; background: var(--surface); color: var(--ink);
  border: 1px solid var(--line); border-radius: 5px; padding: 5px 9px; font-size: 12.5px; overflow-wrap: anywhere;
  box-shadow: 0 2px 10px rgb(0 0 0 / 18%);
}
#details { border-top: 1px solid var(--line); margin-top: 12px; padding-top: 12px; }
#details h3 {
  margin: 0 0 8px; font: 600 13px/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere;
}
#details dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(240px, 1fr)); gap: 6px 24px; margin: 0 0 10px; }
#details dt { color: var(--muted); font-size: 12.5px; }
#details dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--muted); font-size: 11px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
.notes { margin: 0; padding-left: 18px; overflow-wrap: anywhere; }
section.bad { border-color: var(--bad); }
.quiet { color: var(--muted); }
footer { color: var(--muted); font-size: 12.5px; padding-bottom: 28px; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
[hidden] { display: none !important; }
@media (max-width: 1000px) { .first { flex-direction: column; } }
@media (max-width: 700px) { main, header, footer { padding: 0 12px; } .two { grid-template-columns: 1fr; } }
@media print { section { break-inside: avoid; } .tools, .hint, .more { display: none; } }
)css";

}  // namespace html
CUTRACE_END_NAMESPACE
