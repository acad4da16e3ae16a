// SPDX-License-Identifier: Apache-2.0
// What the HTML report shows around its timeline: head, bar of the owners of time, tables that sort, charts, and the
// details of an event.

function button(className, text, action) {
  const b = el("button", className, text);
  b.type = "button";
  b.addEventListener("click", action);
  return b;
}
function lookFor(name) {
  $("search").value = legible(name);
  search($("search").value);
  step(true);
  $("h-timeline").scrollIntoView({block: "start"});
}

// columns: {title, text(row), key(row) to sort by, name(row): what a click on the cell does, left: aligned so, hint}
function table(parent, columns, list, options = {}) {
  const limit = options.limit || 12;
  const node = el("table"), head = el("tr"), body = el("tbody"), more = button("more", "", () => { all = !all; fill(); });
  let all = false, by = options.by === undefined ? -1 : options.by, down = true;
  const fill = () => {
    const shown = list.slice();
    const key = by >= 0 && (columns[by].key || columns[by].text);
    if (key) shown.sort((a, b) => {
      const x = key(a), y = key(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
    });
    body.replaceChildren();
    for (const item of all ? shown : shown.slice(0, limit)) {
      const line = el("tr", options.className && options.className(item));
      for (const c of columns) {
        const cell = el("td", c.left || c.name ? "text" : "");
        cell.dataset.title = c.title;
        if (c.full) cell.title = c.full(item);
        if (c.swatch && c.swatch(item)) {
          const s = el("span", "swatch");
          s.style.background = c.swatch(item);
          cell.append(s);
        }
        const text = c.text(item);
        if (c.name && text !== "") cell.append(button("find", text, () => c.name(item)));
        else cell.append(text);
        if (c.mark && c.mark(item)) cell.append(el("span", "mark", c.mark(item)));
        line.append(cell);
      }
      body.append(line);
    }
    for (const [i, th] of [...head.children].entries())
      if (i === by) th.setAttribute("aria-sort", down ? "descending" : "ascending"); else th.removeAttribute("aria-sort");
    more.hidden = list.length <= limit;
    more.textContent = all ? "Show fewer" : "Show all " + count(list.length);
  };
  columns.forEach((c, i) => {
    const th = el("th", c.left || c.name ? "text" : "");
    th.scope = "col";
    if (options.still) th.textContent = c.title;
    else th.append(button("", c.title, () => {
      down = by === i ? !down : !(c.left || c.name);
      by = i;
      fill();
    }));
    if (c.hint) th.title = c.hint;
    head.append(th);
  });
  const thead = el("thead"), scroll = el("div", "scroll");
  thead.append(head);
  node.append(thead, body);
  scroll.append(node);
  parent.append(scroll, more);
  fill();
}

function showHead() {
  const who = legible(data.process) + " (pid " + data.pid + ")";
  $("title").textContent = who + (data.rank !== undefined ? ", rank " + data.rank + " of " + (data.world_size || "?") : "");
  const gpus = [...new Set(data.devices.map(d => legible(d.name)))].join(", ");
  $("sub").textContent = [legible(data.host), gpus, data.backend,
      data.clock ? "clock " + legible(data.clock) + (data.clock_error_ns ? ", within " + duration(data.clock_error_ns) : "")
          : "clock not known",
      new Date(data.ended_realtime_ms).toLocaleString()].filter(s => s).join("  \u00b7  ");
  const bad = data.lost_total > 0 || data.missing !== undefined;
  $("losses").textContent = data.lost_total > 0 ? count(data.lost_total) + " records LOST"
      : bad ? "INCOMPLETE" : "nothing lost";
  $("losses").classList.toggle("bad", bad);
  $("notes").classList.toggle("bad", bad);
  $("answer").textContent = data.answer[0].toUpperCase() + data.answer.slice(1) + ".";
  const figures = [[duration(whole.end - whole.start), "traced"]];
  if (data.pieces) figures.push([duration(data.recorded_ns), "recorded, in " + count(data.pieces) + " windows"]);
  figures.push([count(data.delivered), "events"]);
  if (data.gpu_seen) figures.push([share(data.gpu_busy_ns, data.recorded_ns), "GPU busy"], [count(data.kernels), "kernels"]);
  figures.push([count(data.launches), "launches"]);
  if (data.peak_bytes) figures.push([bytes(data.peak_bytes), "peak of GPU memory"]);
  if (data.failed_calls) figures.push([count(data.failed_calls), "calls FAILED"]);
  for (const [value, what] of figures) {
    const li = el("li");
    li.append(el("b", "", value), el("span", "", what));
    $("figures").append(li);
  }
  for (const note of data.notes) $("note-list").append(el("li", "", note));
  $("footer").textContent = "cutrace " + data.version + ". Times are " + (data.clock ? "of CLOCK_MONOTONIC, since the session began." : "since the trace began.");
}

// Only in pages that `cutrace report` made, which reads the whole trace. A click on an event that proves a finding
// shows it in the timeline.
function showFindings() {
  if (!data.findings) return;
  $("s-findings").hidden = false;
  if (data.findings.length === 0) $("s-findings").append(el("p", "quiet", "Nothing stands out."));
  const list = el("ol", "findings");
  for (const [title, what, advice, win, proof] of data.findings) {
    const li = el("li"), p = el("p");
    p.append(el("b", "", title));
    if (win > 0) p.append(": win up to " + duration(win) + " (" + share(win, data.recorded_ns) + ")");
    li.append(p, el("p", "", what), el("p", "", "\u2192 " + advice));
    for (const [start, end, words] of proof) li.append(button("find", words, () => {
      const room = Math.max(end - start, SMALLEST);
      show(start - room, end + room);
      $("h-timeline").scrollIntoView({block: "start"});
    }));
    list.append(li);
  }
  $("s-findings").append(list);
}

function showOwners() {
  const words = o => (!data.gpu_seen ? "" : o[1] ? "GPU at work: " : "GPU idle, host: ") + o[0];
  for (const o of data.owners) {
    if (o[2] <= 0) continue;
    const part = el("i");
    part.style.flexGrow = o[2] / Math.max(data.recorded_ns, 1);
    part.style.background = OWNER[o[8]] || "var(--none)";
    part.title = words(o) + ": " + duration(o[2]) + ", " + permille(o[3]);
    $("bar").append(part);
  }
  $("bar").setAttribute("aria-label", data.owners.map(o => words(o) + " " + permille(o[3])).join("; "));
  const columns = [
    {title: "", left: true, text: words, swatch: o => OWNER[o[8]] || "var(--none)", mark: o => o[7] ? "  bottleneck" : ""},
    {title: "Events", text: o => o[8] === 11 ? "" : count(o[4])},
    {title: "Time", text: o => duration(o[2])},
    {title: "Share", text: o => permille(o[3])}];
  if (data.gpu_seen) columns.push({title: "Host alone", text: o => o[1] ? "" : duration(o[5]), hint: "Time of the host by owner, whether or not the GPU worked"},
                                  {title: "Share", text: o => o[1] ? "" : permille(o[6])});
  table($("owners"), columns, data.owners, {still: true});
}

// Only in pages that `cutrace report` made: tables whose cells are text already.
function showWhole() {
  for (const t of data.tables || []) {
    const part = el("section");
    part.append(el("h2", "", t.title));
    table(part, t.columns.map((title, i) => ({title, left: i === 0, text: row => i === 0 ? legible(row[i]) : row[i]})), t.rows,
          {still: true, limit: 20});
    if (t.hint) part.append(el("p", "hint", t.hint));
    $("s-stages").before(part);
  }
}

function section(id, list, make) {
  if (list.length === 0) $(id).hidden = true; else make($(id));
}
const longCount = s => s.requests ? s.requests_about + count(s.requests) : "-";
function showTables() {
  section("s-stages", data.stages, node => {
    const time = (title, key, hint) => ({title, hint, key: s => s[key], text: s => (s.approximate ? "~" : "") + duration(s[key])});
    const columns = [
      {title: "Stage", name: s => lookFor(s.name), text: s => legible(s.name), swatch: s => colors.stage[data.names.indexOf(s.name)]},
      {title: "Calls", key: s => s.calls, text: s => count(s.calls)},
      {title: "Mean", key: s => s.host_sum_ns / s.calls || 0, text: s => s.calls ? duration(s.host_sum_ns / s.calls) : "-"},
      {title: "Longest", key: s => s.longest_ns, text: s => duration(s.longest_ns)},
      time("Host", "host_ns", "Union over threads")];
    if (data.gpu_seen) columns.push(time("GPU own", "gpu_own_ns", "Work issued in the stage itself"),
        time("GPU all", "gpu_all_ns", "With the work of nested stages"),
        time("GPU idle", "gpu_idle_ns", "Part of the host time in which no GPU was at work"));
    columns.push({title: "Requests", key: s => s.requests, text: longCount});
    table(node, columns, data.stages, {by: 4});
    if (data.gpu_outside_ns > 0) node.append(el("p", "hint", "GPU work in no stage: " + duration(data.gpu_outside_ns)));
  });
  const operations = (id, list, kind, wholeNs) => section(id, list, node => {
    const time = (title, k, hint) => ({title, hint, key: o => o[k] || 0, text: o => o[k] === undefined ? "-" : duration(o[k])});
    const within = "By nearest rank, within 3 %";
    const short = new Map(list.map((o, i) => [o[0], data[id === "s-gpu" ? "gpu_short" : "calls_short"][i]]));
    const columns = [
      {title: "Name", name: o => lookFor(o[0]), text: o => legible(short.get(o[0])), full: o => o[0], swatch: o => colors[kind][data.names.indexOf(o[0])],
       mark: o => o[7] ? "  " + count(o[7]) + " FAILED" : ""},
      {title: "Count", key: o => o[2], text: o => count(o[2])}, time("Total", 3), time("Mean", 4), time("p50", 8, within),
      time("p90", 9, within), time("p99", 10, within), time("Longest", 6),
      {title: "Share", key: o => o[3], text: o => share(o[3], wholeNs)}];
    table(node, columns, list, {by: 2});
    const names = data[id === "s-gpu" ? "gpu_names" : "calls_names"];
    if (names > list.length) node.append(el("p", "hint", "and " + count(names - list.length) + " more names"));
  });
  operations("s-gpu", data.gpu, "gpu", data.gpu_total_ns);
  operations("s-calls", data.calls, "call", data.calls_total_ns);
  section("s-copies", data.copies, node => table(node, [
    {title: "Direction", left: true, text: c => c[0]},
    {title: "Count", key: c => c[1], text: c => count(c[1])},
    {title: "Bytes", key: c => c[2], text: c => bytes(c[2])},
    {title: "Mean size", key: c => c[2] / c[1], text: c => bytes(Math.round(c[2] / c[1]))},
    {title: "Time", key: c => c[3], text: c => duration(c[3])},
    {title: "Bandwidth", key: c => c[2] / c[3] || 0, text: c => bandwidth(c[2], c[3]), hint: "All bytes over all time"}], data.copies, {by: 2}));
  section("s-devices", data.devices, node => table(node, [
    {title: "GPU", left: true, key: d => d.device, text: d => d.device + "  " + legible(d.name)},
    {title: "Busy", key: d => d.busy_ns, text: d => (d.approximate ? "~" : "") + duration(d.busy_ns)},
    {title: "Of trace", key: d => d.busy_ns, text: d => share(d.busy_ns, data.recorded_ns)},
    {title: "Of its span", key: d => d.busy_ns / d.active_ns, text: d => share(d.busy_ns, d.active_ns), hint: "From its first work to its last"},
    {title: "Idle", key: d => d.idle_ns, text: d => (d.idle_approximate ? "~" : "") + duration(d.idle_ns), hint: "Gaps in its span"},
    {title: "Gaps", key: d => d.gaps, text: d => count(d.gaps)}], data.devices));
  const idleNs = data.idle.reduce((sum, i) => sum + i[2], 0);
  section("s-idle", data.idle, node => table(node, [
    {title: "Cause", left: true, text: i => i[0]},
    {title: "Gaps", key: i => i[1], text: i => i[1] ? count(i[1]) : "-"},
    {title: "Time", key: i => i[2], text: i => duration(i[2])},
    {title: "Share", key: i => i[2], text: i => share(i[2], idleNs)},
    {title: "Mostly", left: true, text: i => i[3] && legible(i[3])}], data.idle, {by: 2}));
  section("s-gaps", data.gaps, node => {
    table(node, [
      {title: "Begins at", left: true, key: g => g[1], text: g => duration(g[1] - whole.start), name: g => {
        const row = rows.find(r => r.kind === "gap" && r.device === g[0]), lane = row && row.lanes[0];
        if (row) select({row, lane, i: first(lane.start, lane.n, g[1])});
        showAround(g[1], g[1] + g[2]);  // also where the device's streams found no row of their own
        $("h-timeline").scrollIntoView({block: "start"});
      }},
      {title: "GPU", key: g => g[0], text: g => String(g[0])},
      {title: "Length", key: g => g[2], text: g => duration(g[2])},
      {title: "The host meanwhile", left: true, text: g => g[3], swatch: g => OWNER[g[4]] || "var(--none)"},
      {title: "Most of it in", left: true, text: g => legible(g[5] || "-")},
      {title: "Ended by", left: true, text: g => g[6] ? legible(g[6]) : "the end of the trace"}], data.gaps, {by: 2, limit: 8});
    if (data.gap_count > data.gaps.length) node.append(el("p", "hint", "The longest of " + count(data.gap_count) + "."));
  });
}

function chart(title, points, top, topText, color) {  // points: [time, value], drawn as steps
  const W = 520, H = 138, L = 54, R = 8, T = 10, B = 22, ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  const make = (tag, attributes, text) => {
    const node = document.createElementNS(ns, tag);
    for (const k in attributes) node.setAttribute(k, attributes[k]);
    if (text !== undefined) node.textContent = text;
    svg.append(node);
  };
  svg.setAttribute("viewBox", "0 0 " + W + " " + H);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  const x = t => L + (W - L - R) * Math.min(Math.max((t - whole.start) / (whole.end - whole.start), 0), 1);
  const y = v => H - B - (H - T - B) * Math.min(v / top, 1);
  for (const part of [0, 0.5, 1]) {
    make("line", {class: "grid", x1: L, x2: W - R, y1: y(top * part), y2: y(top * part)});
    make("text", {x: L - 7, y: y(top * part) + 4, "text-anchor": "end"}, topText(top * part));
  }
  for (const part of [0, 0.25, 0.5, 0.75, 1])
    make("text", {x: L + (W - L - R) * part, y: H - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle"},
         part === 0 ? "0" : duration((whole.end - whole.start) * part));
  let line = "M" + x(points[0][0]) + " " + y(0), last = 0;
  for (const [t, v] of points) { line += "L" + x(t) + " " + y(last) + "L" + x(t) + " " + y(v); last = v; }
  line += "L" + x(whole.end) + " " + y(last) + "L" + x(whole.end) + " " + y(0) + "Z";
  make("path", {d: line, fill: color, "fill-opacity": "0.35", stroke: color, "stroke-width": "1.2", "stroke-linejoin": "round"});
  const node = el("section");
  node.append(el("h2", "", title), svg);
  $($("side").children.length < 2 ? "side" : "charts").append(node);
}
function showCharts() {
  const busy = data.devices.slice(0, 16).map(d => () => {
    const n = d.busy_permille.length, step = (whole.end - whole.start) / n;
    if (n) chart("GPU " + d.device + " busy over time", d.busy_permille.map((p, i) => [whole.start + i * step, p / 10]), 100,
                 v => v + " %", OWNER[0]);
  });
  const peak = data.memory.reduce((most, m) => Math.max(most, m[1]), 0), first = busy.shift();
  if (first) first();
  if (peak > 0) chart("GPU memory allocated over time", data.memory, peak, v => bytes(Math.round(v)), OWNER[2]);
  for (const draw of busy) draw();
}

function select(s) {
  selected = s;
  const box = $("details");
  box.hidden = s === null;
  box.replaceChildren();
  if (s === null) return redraw();
  const {row, lane, i} = s, list = el("dl");
  const field = (title, text) => {
    const item = el("div");
    item.append(el("dt", "", title), el("dd", "", text));
    list.append(item);
  };
  box.append(el("h3", "", nameOf(row, lane, i)), list);
  field("Begins at", duration(lane.start[i] - whole.start) + " (" + count(lane.start[i]) + " ns)");
  field("Lasts", duration(lane.end[i] - lane.start[i]));
  field("Row", legible(row.label));
  box.append(button("more", "Zoom to it", () => zoomTo(s)));
  if (row.kind === "gap") {
    const g = data.gaps[lane.name[i]];
    field("The host meanwhile", g[3] + (g[5] ? ", most of it in " + legible(g[5]) : ""));
    field("Ended by", g[6] ? legible(g[6]) : "the end of the trace");
  } else {
    const more = extras(lane, i);
    if (more.joined) field("Stands for", count(more.joined) + " events, busy for " + duration(lane.busy[i]));
    if (more.context) {
      const stage = data.names[more.context[0]];  // a mark outside of stages may name requests
      if (!named(row) && !(row.kind === "mark" && stage === "")) field("Stage", legible(stage));
      if (more.context[1]) field("Requests", legible(more.context[1]));
    } else if (!more.joined && !named(row) && row.kind !== "mark") {
      field("Stage", row.kind === "gpu" && more.call === undefined ? "not known" : "none");
    }
    if (more.bytes !== undefined) {
      field("Bytes", bytes(more.bytes) + " (" + count(more.bytes) + ")");
      if (row.kind === "gpu") field("Bandwidth", bandwidth(more.bytes, lane.end[i] - lane.start[i]));
    }
    if (row.kind === "call" && more.detail) field("Result", String(more.detail | 0));
    if (row.kind === "gpu" && more.detail) {
      const k = data.shapes[more.detail - 1], three = at => k.slice(at, at + 3).join(" \u00d7 ");
      field("Grid", three(0));
      field("Block", three(3));
      if (k[6]) field("Cluster", three(6));
      field("Registers a thread", String(k[9]));
      field("Shared memory", bytes(k[10]) + " static, " + bytes(k[11]) + " dynamic");
    }
    if (more.call !== undefined) {
      field("Launched by", legible(data.names[more.call]));
      field("Delay from launch", duration(more.delay));
      const origin = launchOf(lane.start[i] - more.delay, more.call);
      if (origin) box.append(" ", button("more", "Go to its launch", () => { select(origin); reveal(origin); }));
    }
  }
  reveal(s);
}
const named = row => row.kind === "stage" || row.kind === "span";  // after its stage
function launchOf(start, name) {
  for (const row of rows) if (row.kind === "call") for (const lane of row.lanes)
    for (let i = first(lane.start, lane.n, start); i < lane.n && lane.start[i] === start; ++i)
      if (lane.name[i] === name) return {row, lane, i};
  return null;
}
