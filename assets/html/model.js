// SPDX-License-Identifier: Apache-2.0
// The HTML report's data in the browser: numbers as people read them, and the packed events (sinks/html/timeline.hpp)
// as typed arrays with coarser levels above, eight to one, so that drawing touches no more than there are pixels.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;  // names come from the traced program: never as markup
  return node;
}

// The same figures as in the terminal report: three digits and a unit.
const three = v => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function duration(ns) {
  if (ns < 0) return "-" + duration(-ns);
  if (ns < 999.5) return ns.toFixed(0) + " ns";
  const units = [[999.5e3, 1e3, " us"], [999.5e6, 1e6, " ms"], [999.5e9, 1e9, " s"], [99.95 * 60e9, 60e9, " min"],
                 [99.95 * 3600e9, 3600e9, " h"]];
  for (const [below, one, name] of units) if (ns < below) return three(ns / one) + name;
  return count(Math.round(ns / 86400e9)) + " d";
}
function bytes(n) {
  if (n < 1024) return n + " B";
  const units = [" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
  let u = 0;
  for (n /= 1024; n >= 1023.5 && u < 5; n /= 1024) ++u;
  return three(n) + units[u];
}
function bandwidth(size, ns) {
  if (!(ns > 0)) return "-";
  const units = [" B/s", " kB/s", " MB/s", " GB/s", " TB/s"];
  let v = size * 1e9 / ns, u = 0;
  for (; v >= 999.5 && u < 4; v /= 1000) ++u;
  return three(v) + units[u];
}
const permille = p => (p / 10).toFixed(1) + " %";
function share(part, whole) {
  if (!(whole > 0)) return "-";
  const p = 100 * part / whole;
  return p > 0 && p < 0.05 ? "<0.1 %" : p.toFixed(1) + " %";
}
// Control characters would be invisible, and some turn the direction of the text around them.
const legible = name => name === "" ? "(unnamed)"
    : name.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g,
                   c => "\\u{" + c.codePointAt(0).toString(16) + "}");

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) out[i] = binary.charCodeAt(i);
  return out;
}

const packed = decodeBase64($("events").textContent);
let at = 0;
function varint() {
  let b = packed[at++];
  if (b < 128) return b;
  let n = b & 127, one = 128;
  do {
    b = packed[at++];
    n += (b & 127) * one;
    one *= 128;
  } while (b >= 128);
  return n;
}
function signed() {
  const n = varint();
  if (n < 0x7fffffff) return (n >>> 1) ^ -(n & 1);
  return n % 2 ? -(n + 1) / 2 : n / 2;
}
const HAS_CONTEXT = 1, HAS_DETAIL = 2, HAS_CALL = 4, HAS_BYTES = 8, IS_JOINED = 16;

// Events of a row without overlap: start, end, name, busy time, place of the rest in the packed bytes.
function newLane(n) {
  return {n, start: new Float64Array(n), end: new Float64Array(n), busy: new Float64Array(n), name: new Uint32Array(n),
          place: new Uint32Array(n), hit: null, levels: []};
}

function readRow(row) {
  const lane = newLane(row.events), stop = at + row.bytes;
  let start = 0, sorted = true;
  for (let i = 0; at < stop; ++i) {
    lane.name[i] = varint();
    const flags = varint();
    start += signed();
    const length = varint();
    lane.start[i] = start;
    lane.end[i] = start + length;
    lane.busy[i] = length;
    lane.place[i] = at;
    if (flags !== 0) {
      if (flags & HAS_CONTEXT) varint();
      if (flags & HAS_DETAIL) varint();
      if (flags & HAS_CALL) { varint(); varint(); }
      if (flags & HAS_BYTES) varint();
      if (flags & IS_JOINED) { varint(); lane.busy[i] = varint(); }
    }
    if (i > 0 && start < lane.start[i - 1]) sorted = false;
  }
  return sorted ? lane : reordered(lane, Uint32Array.from(lane.start.keys()).sort((a, b) => lane.start[a] - lane.start[b]));
}

function reordered(from, order) {
  const to = newLane(order.length);
  for (let i = 0; i < order.length; ++i) {
    const k = order[i];
    to.start[i] = from.start[k];
    to.end[i] = from.end[k];
    to.busy[i] = from.busy[k];
    to.name[i] = from.name[k];
    to.place[i] = from.place[k];
  }
  return to;
}

// What overlaps goes to the next lane; what finds none of eight, into the last.
const LANES = 8;
function split(lane) {
  const number = new Uint8Array(lane.n), ends = [-Infinity], sizes = [0];
  for (let i = 0; i < lane.n; ++i) {
    let k = 0;
    while (k < ends.length && ends[k] > lane.start[i]) ++k;
    if (k === ends.length) {
      if (k < LANES) { ends.push(-Infinity); sizes.push(0); } else k = LANES - 1;
    }
    ends[k] = Math.max(ends[k], lane.end[i]);
    number[i] = k;
    ++sizes[k];
  }
  if (sizes.length === 1) return [lane];
  const orders = sizes.map(n => new Uint32Array(n)), filled = sizes.map(() => 0);
  for (let i = 0; i < lane.n; ++i) orders[number[i]][filled[number[i]]++] = i;
  return orders.map(order => reordered(lane, order));
}

const WAYS = 8;
function addLevels(lane) {
  let below = lane;
  while (below.n > WAYS) {
    const level = {n: Math.ceil(below.n / WAYS)};
    level.start = new Float64Array(level.n);
    level.end = new Float64Array(level.n);
    level.busy = new Float64Array(level.n);
    level.name = new Uint32Array(level.n);
    for (let i = 0, k = 0; i < level.n; ++i) {
      let end = -Infinity, busy = 0, most = -1;
      level.start[i] = below.start[k];
      for (const stop = Math.min(k + WAYS, below.n); k < stop; ++k) {
        if (below.end[k] > end) end = below.end[k];
        busy += below.busy[k];
        if (below.busy[k] > most) { most = below.busy[k]; level.name[i] = below.name[k]; }
      }
      level.end[i] = end;
      level.busy[i] = Math.min(busy, end - level.start[i]);
    }
    lane.levels.push(level);
    below = level;
  }
  return lane;
}

// The idle gaps stand above the streams of their device; their "name" is their place in data.gaps.
function gapRow(device) {
  const own = [];
  data.gaps.forEach((g, i) => { if (g[0] === device) own.push(i); });
  const lane = newLane(own.length);
  own.forEach((g, i) => {
    lane.start[i] = data.gaps[g][1];
    lane.end[i] = data.gaps[g][1] + data.gaps[g][2];
    lane.busy[i] = data.gaps[g][2];
    lane.name[i] = g;
  });
  return {kind: "gap", label: "GPU " + device + " idle", device, events: own.length, lanes: [addLevels(lane)]};
}

const rows = [];
for (const row of data.rows) {
  const before = rows[rows.length - 1];
  if (row.kind === "gpu" && row.device !== undefined && !(before && before.device === row.device)) rows.push(gapRow(row.device));
  row.lanes = split(readRow(row)).map(addLevels);
  rows.push(row);
}

function first(array, n, value) {  // index of the first element that is not less
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

const nameOf = (row, lane, i) => {
  if (row.kind !== "gap") return legible(data.names[lane.name[i]]);
  const g = data.gaps[lane.name[i]];
  return "idle: " + g[3] + (g[5] ? ", " + legible(g[5]) : "");
};

// What the packed bytes say beyond the arrays. lane.place is behind flags, start and length: the flags are read
// again after three steps back, a number each, which ends with a byte below 128.
function extras(lane, i) {
  const end = lane.place[i];
  let back = end;
  const step = () => { --back; while (back > 0 && packed[back - 1] >= 128) --back; };
  step(); step(); step();
  at = back;
  const flags = varint(), more = {};
  at = end;
  if (flags & HAS_CONTEXT) more.context = data.contexts[varint() - 1];
  if (flags & HAS_DETAIL) more.detail = varint();
  if (flags & HAS_CALL) { more.call = varint(); more.delay = signed(); }
  if (flags & HAS_BYTES) more.bytes = varint();
  if (flags & IS_JOINED) more.joined = varint();
  return more;
}
