// SPDX-License-Identifier: Apache-2.0
// The frame of the HTML report: headings and empty places, which page_js.hpp fills.
#pragma once

#include <cutrace/config.hpp>

CUTRACE_BEGIN_NAMESPACE
namespace html {

inline constexpr char body_html[] = R"html(<body>
<noscript><p>This report draws itself with the script that it carries; the browser has scripts turned off.</p></noscript>
<header>
  <div class="titles"><div><h1 id="title"></h1><p class="sub" id="sub"></p></div><a class="chip" id="losses" href="#notes"></a></div>
  <p class="answer" id="answer"></p>
  <ul class="figures" id="figures"></ul>
</header>
<main>
<section aria-labelledby="h-findings" id="s-findings" hidden><h2 id="h-findings">What to fix, by the time to be won</h2></section>
<div class="first">
<section aria-labelledby="h-time">
  <h2 id="h-time">Where the time went</h2>
  <div class="bar" id="bar" role="img"></div>
  <div id="owners"></div>
</section>
<div class="side" id="side"></div>
</div>
<section aria-labelledby="h-timeline">
  <h2 id="h-timeline">Timeline</h2>
  <div class="tools">
    <input type="search" id="search" placeholder="Search by name" aria-label="Search the timeline by name" autocomplete="off" spellcheck="false">
    <button type="button" id="previous">Previous</button>
    <button type="button" id="next">Next</button>
    <output id="found"></output>
    <output id="range" class="right"></output>
    <button type="button" id="in" aria-label="Zoom in">+</button>
    <button type="button" id="out" aria-label="Zoom out">&minus;</button>
    <button type="button" id="all">All</button>
  </div>
  <canvas id="canvas" tabindex="0" role="application" aria-label="Timeline of stages, calls and GPU work"></canvas>
  <p id="empty" class="quiet" hidden>No stage, call or GPU work was recorded.</p>
  <div id="legend"></div>
  <p class="hint">Wheel or + and &minus; zoom, dragging or the arrow keys move, Shift with the wheel scrolls the rows. A click
    shows an event; then Shift with the arrow keys goes to its neighbours, Enter zooms to it, 0 shows everything.</p>
  <div id="details" aria-live="polite" hidden></div>
  <ul class="unseen" id="rows" aria-label="Rows of the timeline"></ul>
</section>
<div class="two" id="charts"></div>
<section aria-labelledby="h-stages" id="s-stages"><h2 id="h-stages">Stages</h2></section>
<section aria-labelledby="h-gpu" id="s-gpu"><h2 id="h-gpu">GPU operations</h2></section>
<section aria-labelledby="h-calls" id="s-calls"><h2 id="h-calls">Host calls</h2></section>
<div class="two">
<section aria-labelledby="h-copies" id="s-copies"><h2 id="h-copies">Copies</h2></section>
<section aria-labelledby="h-devices" id="s-devices"><h2 id="h-devices">GPUs</h2></section>
</div>
<section aria-labelledby="h-gaps" id="s-gaps"><h2 id="h-gaps">Idle gaps of the GPU</h2></section>
<section aria-labelledby="h-notes" id="notes"><h2 id="h-notes">Losses and notes</h2><ul class="notes" id="note-list"></ul></section>
</main>
<footer id="footer"></footer>
<div id="tip" role="status" hidden></div>
)html";

}  // namespace html
CUTRACE_END_NAMESPACE
