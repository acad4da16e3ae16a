// SPDX-License-Identifier: Apache-2.0
// What wheel, pointer and keys do to the HTML report, and its start.

let drag = null;
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  if (e.shiftKey) return scrollRows(e.deltaY || e.deltaX);
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) return pan(e.deltaX / canvas.inner.width);
  zoom(Math.pow(1.0018, e.deltaY), view.start + Math.max(e.offsetX - LABELS, 0) / scale());
}, {passive: false});
canvas.addEventListener("pointerdown", e => {
  if (e.button !== 0) return;
  drag = {x: e.offsetX, y: e.offsetY, start: view.start, end: view.end, top: view.top, moved: false};
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener("pointermove", e => {
  if (drag === null) return hover(e);
  const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
  if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
  drag.moved = true;
  $("tip").hidden = true;
  canvas.classList.add("dragging");
  const by = -dx / scale();
  view.top = Math.min(Math.max(drag.top - dy, 0), canvas.inner.scroll);
  show(drag.start + by, drag.end + by);
});
canvas.addEventListener("pointerup", e => {
  if (drag !== null && !drag.moved) select(eventAt(e.offsetX, e.offsetY));
  drag = null;
  canvas.classList.remove("dragging");
});
canvas.addEventListener("pointercancel", () => { drag = null; canvas.classList.remove("dragging"); });
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("dblclick", e => {
  const s = eventAt(e.offsetX, e.offsetY);
  if (s) zoomTo(s);
});
function hover(e) {
  const s = eventAt(e.offsetX, e.offsetY), tip = $("tip");
  tip.hidden = s === null;
  if (s === null) return;
  tip.textContent = nameOf(s.row, s.lane, s.i) + "  \u00b7  " + duration(s.lane.end[s.i] - s.lane.start[s.i]);
  tip.style.left = Math.min(e.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(e.clientY + 16, window.innerHeight - tip.offsetHeight - 8) + "px";
}

function neighbour(along) {  // the event beside the selected one in its row
  const i = selected.i + along;
  if (i >= 0 && i < selected.lane.n) select({row: selected.row, lane: selected.lane, i});
}
function otherRow(by) {  // what runs in the next row at the same time
  const t = selected.lane.start[selected.i];
  for (let k = rows.indexOf(selected.row) + by; k >= 0 && k < rows.length; k += by) {
    const lane = rows[k].lanes[0];
    if (lane.n === 0) continue;
    const i = Math.max(Math.min(first(lane.start, lane.n, t + 1) - 1, lane.n - 1), 0);
    return select({row: rows[k], lane, i});
  }
}
canvas.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const middle = (view.start + view.end) / 2, neighbours = e.shiftKey && selected;
  const keys = {
    "ArrowLeft": () => neighbours ? neighbour(-1) : pan(-0.15), "ArrowRight": () => neighbours ? neighbour(1) : pan(0.15),
    "ArrowUp": () => neighbours ? otherRow(-1) : scrollRows(-40), "ArrowDown": () => neighbours ? otherRow(1) : scrollRows(40),
    "PageUp": () => scrollRows(-300), "PageDown": () => scrollRows(300),
    "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1 / 0.7, middle), "_": () => zoom(1 / 0.7, middle),
    "0": () => show(whole.start, whole.end), "Home": () => show(whole.start, whole.end),
    "Enter": () => selected && zoomTo(selected), "Escape": () => select(null), "n": () => step(true), "N": () => step(false),
    "/": () => $("search").focus()
  };
  if (!Object.prototype.hasOwnProperty.call(keys, e.key)) return;
  e.preventDefault();
  keys[e.key]();
});
$("search").addEventListener("input", e => search(e.target.value));
$("search").addEventListener("keydown", e => {
  if (e.key === "Enter") step(!e.shiftKey);
  if (e.key === "Escape") { e.target.value = ""; search(""); canvas.focus(); }
});
$("previous").addEventListener("click", () => step(false));
$("next").addEventListener("click", () => step(true));
$("in").addEventListener("click", () => zoom(0.5, (view.start + view.end) / 2));
$("out").addEventListener("click", () => zoom(2, (view.start + view.end) / 2));
$("all").addEventListener("click", () => show(whole.start, whole.end));

function showTimeline() {
  for (const row of rows) $("rows").append(el("li", "", legible(row.label) + ": " + count(row.events) + (row.events === 1 ? " event" : " events")));
  const entry = (name, color) => {
    const li = el("li"), s = el("span", "swatch");
    s.style.background = color || PALETTE[PALETTE.length - 1];
    li.append(s, legible(name));
    return li;
  };
  const line = (title, entries) => {
    if (entries.length === 0) return;
    const ul = el("ul", "legend");
    ul.append(el("li", "", title), ...entries);
    $("legend").append(ul);
  };
  const colorOfName = (kind, name) => colors[kind][data.names.indexOf(name)];
  line("Stages", data.stages.slice(0, 8).map(s => entry(s.name, colorOfName("stage", s.name))));
  const used = new Set(data.calls.map(c => c[1]));
  line("Calls", Object.keys(CATEGORY).filter(c => used.has(c)).map(c => entry(c === "kernel" ? "launch" : c, CATEGORY[c])));
  line("GPU", data.gpu.slice(0, 8).map(g => entry(g[0], colorOfName("gpu", g[0]))));
  $("empty").hidden = rows.length > 0;
  if (rows.length === 0) canvas.hidden = $("range").hidden = true;
  placeRows();
  size();
  draw();
}
readStyle();
assignColors();
showHead();
showFindings();
showWhole();
showOwners();
showTimeline();
showCharts();
showTables();
window.addEventListener("resize", () => { size(); redraw(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readStyle(); redraw(); });
// For tests and the curious: how many events the timeline holds, and when the page was ready.
document.documentElement.dataset.events = String(rows.reduce((n, row) => n + (row.kind === "gap" ? 0 : row.events), 0));
document.documentElement.dataset.readyMs = performance.now().toFixed(0);
