// SPDX-License-Identifier: Apache-2.0
// The timeline of the HTML report: a canvas on which only what is visible is drawn, moved by wheel, pointer and keys.

const canvas = $("canvas"), paint = canvas.getContext("2d");
const whole = {start: data.start_ns, end: Math.max(data.end_ns, data.start_ns + 1)};
const view = {start: whole.start, end: whole.end, top: 0};
let wanted = null;     // numbers of the names that are searched for
let selected = null;   // {row, lane, i}
const LABELS = innerWidth < 700 ? 150 : 232, AXIS = 24, PAD = 5, SMALLEST = 20;
const HEIGHT = {gpu: 20, stage: 20, span: 11, call: 15, mark: 12, gap: 12};

// No two of a list look alike, no kernel like a copy or memset, to the colour-blind, too (tests/style/colors.py).
const PALETTE = ["#35656e", "#cb7ef1", "#339966", "#b81430", "#75c2d1", "#dcbc18", "#a824a8", "#9fd1b8", "#c3c383", "#8d949c"];
// By owner of time (analysis/breakdown.hpp): GPU kernel, transfer, memset, unfinished; host init, memory, transfer,
// launch, other, sync, the program's own code; nothing.
const OWNER = ["#3f78c2", "#dd8a37", "#7135e9", "#a58950", "#b83d66", "#8a428a", "#935210", "#18dcdc", "#87909b", "#caca2b", "#83c398", null];
const CATEGORY = {init: OWNER[4], memory: OWNER[5], transfer: OWNER[6], kernel: OWNER[7], sync: OWNER[9], other: OWNER[8]};
const style = {};
function readStyle() {
  const s = getComputedStyle(document.documentElement);
  for (const name of ["ink", "muted", "line", "soft", "surface", "accent", "none", "hatch", "track"])
    style[name] = s.getPropertyValue("--" + name).trim();
}

// A colour a name: stages and GPU work by their rank in the tables, calls by their category.
const colors = {stage: [], gpu: [], call: []};
function assignColors() {
  const number = new Map(data.names.map((name, i) => [name, i]));
  const give = (list, names) => names.forEach((name, k) => {
    if (number.has(name)) list[number.get(name)] = PALETTE[Math.min(k, PALETTE.length - 1)];
  });
  give(colors.stage, data.stages.map(s => s.name));
  const work = data.gpu.filter(g => g[1] === "kernel").map(g => g[0]);
  give(colors.gpu, work);
  for (const g of data.gpu)
    if (number.has(g[0]) && g[1] !== "kernel") colors.gpu[number.get(g[0])] = OWNER[g[1] === "transfer" ? 1 : 2];
  for (const c of data.calls) if (number.has(c[0])) colors.call[number.get(c[0])] = CATEGORY[c[1]];
}
function colorOf(row, name) {
  if (row.kind === "gap") return OWNER[data.gaps[name][4]] || style.hatch;
  if (row.kind === "mark") return style.accent;
  return colors[row.kind === "span" ? "stage" : row.kind][name] || PALETTE[PALETTE.length - 1];
}
function inkOn(color) {
  const c = parseInt(color.slice(1), 16);
  return 0.299 * (c >> 16) + 0.587 * (c >> 8 & 255) + 0.114 * (c & 255) > 128 ? "#14181c" : "#ffffff";
}

const rowHeight = row => HEIGHT[row.kind] * row.lanes.length + PAD;
let total = 0;
function placeRows() {
  let y = 0, group = null;
  for (const row of rows) {
    const own = row.device !== undefined ? "gpu" + row.device : "host" + row.thread;
    if (group !== null && own !== group) y += 8;
    group = own;
    row.y = y;
    y += rowHeight(row);
  }
  total = y;
}
function size() {
  const width = canvas.clientWidth, limit = Math.max(260, Math.round(window.innerHeight * 0.62));
  const height = AXIS + Math.min(total, limit) + 2, ratio = window.devicePixelRatio || 1;
  canvas.style.height = height + "px";
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  canvas.inner = {width, height, scroll: Math.max(0, total + AXIS + 2 - height)};
  view.top = Math.min(view.top, canvas.inner.scroll);
}
const scale = () => (canvas.inner.width - LABELS) / (view.end - view.start);
const xOf = t => LABELS + (t - view.start) * scale();

let due = false;
function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function shortenLabel(text, width) {  // a thread's name loses its end; its id and what the row has stay
  const [, name, rest] = /^(.*?)( \(\d+\) .*)$/.exec(text) || [];
  if (rest === undefined) return shorten(text, width);
  for (let n = name.length; n > 0; --n) {
    const cut = name.slice(0, n) + (n < name.length ? "\u2026" : "") + rest;
    if (paint.measureText(cut).width <= width) return cut;
  }
  return shorten(text, width);
}
function shorten(text, width) {  // in the middle: the ends of C++ names say more
  if (paint.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  const cut = n => text.slice(0, Math.ceil(n / 2)) + "\u2026" + text.slice(text.length - Math.floor(n / 2));
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (paint.measureText(cut(middle)).width <= width) low = middle; else high = middle - 1;
  }
  return low < 7 ? "" : cut(low);
}

function drawLane(row, lane, y, height) {
  const one = scale(), right = canvas.inner.width, levels = [lane, ...lane.levels];
  const dense = {x: -1, part: 0, name: 0, most: 0, hit: false};
  const flush = () => {
    if (dense.x < 0) return;
    paint.globalAlpha = wanted && !dense.hit ? 0.15 : 0.3 + 0.7 * Math.min(1, dense.part);
    paint.fillStyle = colorOf(row, dense.name);
    paint.fillRect(dense.x, y, 1, height);
    paint.globalAlpha = 1;
    dense.x = -1;
  };
  const visit = (depth, i) => {
    const at = levels[depth], start = at.start[i], end = at.end[i];
    if (end < view.start || start > view.end) return;
    const x = LABELS + (start - view.start) * one, width = (end - start) * one;
    const hit = !wanted || at.hit[i] === 1;
    if (width < 1.5) {  // into its column of pixels
      const column = Math.floor(Math.max(x, LABELS)), busy = at.busy[i] * one;
      if (column !== dense.x) {
        flush();
        Object.assign(dense, {x: column, part: 0, most: -1, hit: false});
      }
      dense.part += busy;
      if (busy > dense.most || (hit && !dense.hit && wanted)) { dense.most = busy; dense.name = at.name[i]; }
      dense.hit = dense.hit || hit;
      return;
    }
    if (depth > 0) {
      for (let k = i * WAYS, stop = Math.min(k + WAYS, levels[depth - 1].n); k < stop; ++k) visit(depth - 1, k);
      return;
    }
    flush();
    const x0 = Math.max(x, LABELS), x1 = Math.min(x + width, right), color = colorOf(row, lane.name[i]);
    const joined = lane.busy[i] < end - start;
    paint.globalAlpha = wanted && !hit ? 0.15 : joined ? 0.3 + 0.6 * lane.busy[i] / (end - start) : 1;
    paint.fillStyle = color;
    paint.fillRect(x0, y, Math.max(x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0), 0.5), height);
    paint.globalAlpha = 1;
    if (height >= 14 && x1 - x0 > 34 && !(wanted && !hit)) {
      paint.fillStyle = color[0] === "#" ? inkOn(color) : style.ink;
      paint.fillText(shorten(nameOf(row, lane, i), x1 - x0 - 8), x0 + 4, y + height / 2 + 0.5);
    }
  };
  const top = levels.length - 1;
  for (let i = 0; i < levels[top].n; ++i) visit(top, i);
  flush();
  if (selected && selected.lane === lane) {
    const x0 = Math.max(xOf(lane.start[selected.i]), LABELS), x1 = Math.min(xOf(lane.end[selected.i]), right);
    if (x1 >= LABELS && x0 <= right) {
      paint.strokeStyle = style.ink;
      paint.lineWidth = 2;
      paint.strokeRect(x0, y - 1, Math.max(x1 - x0, 2), height + 2);
    }
  }
}

function drawAxis() {
  const {width, height} = canvas.inner, span = view.end - view.start;
  let step = Math.pow(10, Math.floor(Math.log10(span / ((width - LABELS) / 110))));
  for (const k of [1, 2, 5, 10]) if (step * k * scale() >= 90) { step *= k; break; }
  const [one, unit] = step >= 1e9 ? [1e9, " s"] : step >= 1e6 ? [1e6, " ms"] : step >= 1e3 ? [1e3, " us"] : [1, " ns"];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / one) - 1e-9));
  paint.textAlign = "center";
  for (let k = Math.ceil((view.start - whole.start) / step); whole.start + k * step <= view.end; ++k) {
    const x = Math.round(xOf(whole.start + k * step)) + 0.5, [digits, behind] = (k * step / one).toFixed(decimals).split(".");
    paint.fillStyle = style.line;
    paint.fillRect(x - 0.5, AXIS - 5, 1, height - AXIS + 5);
    paint.fillStyle = style.muted;
    if (x > LABELS + 24 && x < width - 24) paint.fillText(count(digits) + (behind ? "." + behind : "") + unit, x, 9);
  }
  paint.textAlign = "left";
}

function draw() {
  const {width, height} = canvas.inner;
  paint.clearRect(0, 0, width, height);
  paint.textBaseline = "middle";
  paint.font = "11.5px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
  paint.save();
  paint.beginPath();
  paint.rect(0, AXIS, width, height - AXIS);
  paint.clip();
  for (const row of rows) {
    const y = AXIS + row.y - view.top;
    if (y + rowHeight(row) < AXIS || y > height) continue;
    paint.fillStyle = style.track;
    paint.fillRect(LABELS, y, width - LABELS, rowHeight(row) - PAD);
  }
  paint.restore();
  drawAxis();
  paint.save();
  paint.beginPath();
  paint.rect(0, AXIS, width, height - AXIS);
  paint.clip();
  for (const row of rows) {
    const y = AXIS + row.y - view.top, h = rowHeight(row) - PAD;
    if (y + h < AXIS || y > height) continue;
    paint.fillStyle = selected && selected.row === row ? style.ink : style.muted;
    paint.fillText(shortenLabel(legible(row.label), LABELS - 14), 0, y + h / 2 + 0.5);
    row.lanes.forEach((lane, k) => drawLane(row, lane, y + k * HEIGHT[row.kind], HEIGHT[row.kind] - (row.lanes.length > 1 ? 1 : 0)));
  }
  if (canvas.inner.scroll > 0) {  // how far the rows are scrolled
    const room = height - AXIS, part = room / (room + canvas.inner.scroll);
    paint.fillStyle = style.hatch;
    paint.fillRect(width - 4, AXIS + view.top * part, 4, room * part);
  }
  paint.restore();
  $("range").textContent = duration(view.end - view.start) + " from " + duration(view.start - whole.start);
}

function show(start, end) {
  const span = Math.min(Math.max(end - start, SMALLEST), whole.end - whole.start);
  const middle = (start + end) / 2;
  view.start = Math.min(Math.max(middle - span / 2, whole.start), whole.end - span);
  view.end = view.start + span;
  redraw();
}
function zoom(factor, at) {
  const span = Math.max((view.end - view.start) * factor, SMALLEST), part = (at - view.start) / (view.end - view.start);
  show(at - part * span, at - part * span + span);
}
function pan(share) {
  const by = share * (view.end - view.start);
  show(view.start + by, view.end + by);
}
function scrollRows(by) {
  view.top = Math.min(Math.max(view.top + by, 0), canvas.inner.scroll);
  redraw();
}

// The event at a point: of those within three pixels the nearest, the shorter one where several are.
function eventAt(x, y) {
  if (x < LABELS || y < AXIS) return null;
  const inner = y - AXIS + view.top, t = view.start + (x - LABELS) / scale(), near = 3 / scale();
  for (const row of rows) {
    const k = Math.floor((inner - row.y) / HEIGHT[row.kind]);
    if (inner < row.y || k >= row.lanes.length) continue;
    const lane = row.lanes[k];
    let best = null, least = near, length = Infinity;
    // In the last lane events overlap: any earlier one may reach to here.
    for (let i = k === LANES - 1 ? 0 : Math.max(first(lane.start, lane.n, t) - 2, 0);
         i < lane.n && lane.start[i] <= t + near; ++i) {
      const away = t < lane.start[i] ? lane.start[i] - t : Math.max(t - lane.end[i], 0), own = lane.end[i] - lane.start[i];
      if (away < least || (away === least && own <= length)) { least = away; length = own; best = {row, lane, i}; }
    }
    return best;
  }
  return null;
}

function reveal(s) {  // scrolls and moves until the selection is in sight
  const y = s.row.y, room = canvas.inner.height - AXIS, {start, end} = {start: s.lane.start[s.i], end: s.lane.end[s.i]};
  if (y < view.top) view.top = y;
  if (y + rowHeight(s.row) > view.top + room) view.top = Math.min(y + rowHeight(s.row) - room, canvas.inner.scroll);
  if (end < view.start || start > view.end) {
    const half = Math.max((view.end - view.start) / 2, (end - start) / 2);
    show((start + end) / 2 - half, (start + end) / 2 + half);
  }
  redraw();
}
function zoomTo(s) { showAround(s.lane.start[s.i], s.lane.end[s.i]); }
function showAround(start, end) {
  const room = Math.max((end - start) * 2, 40 * SMALLEST);
  show(start - room, end + room);
}

// Which names match, and for each level whether something below it does.
function search(text) {
  const part = text.trim().toLowerCase();
  wanted = null;
  let found = 0;
  if (part) {
    wanted = data.names.map(name => legible(name).toLowerCase().includes(part));
    for (const row of rows) for (const lane of row.lanes) {
      lane.hit = new Uint8Array(lane.n);
      for (let i = 0; i < lane.n; ++i)
        if (row.kind !== "gap" && wanted[lane.name[i]]) { lane.hit[i] = 1; ++found; }
      let below = lane;
      for (const level of lane.levels) {
        level.hit = new Uint8Array(level.n);
        for (let i = 0; i < below.n; ++i) if (below.hit[i]) level.hit[i / WAYS | 0] = 1;
        below = level;
      }
    }
  }
  $("found").textContent = part ? count(found) + (found === 1 ? " match" : " matches") : "";
  redraw();
}
function step(forward) {  // to the next match in time, over all rows
  if (!wanted) return;
  const from = selected ? selected.lane.start[selected.i] : forward ? -Infinity : Infinity;
  const order = s => rows.indexOf(s.row) * LANES + s.row.lanes.indexOf(s.lane);
  let best = null;
  const better = (a, b) =>
    (a.lane.start[a.i] - b.lane.start[b.i] || order(a) - order(b) || a.i - b.i) * (forward ? 1 : -1) < 0;
  for (const row of rows) for (const lane of row.lanes) {
    let i = forward ? first(lane.start, lane.n, from) : first(lane.start, lane.n, from + 1) - 1;
    for (; i >= 0 && i < lane.n; i += forward ? 1 : -1) {
      if (!lane.hit[i]) continue;
      const s = {row, lane, i};
      if (selected && !better(selected, s)) continue;
      if (best === null || better(s, best)) best = s;
      break;
    }
  }
  if (best) select(best);
}
