// SPDX-License-Identifier: Apache-2.0
// Traces in DuckDB: docs/jsonl.sql loads them, no field is missing from it or loses a digit, and SQL finds what the
// trace's own footer, the report for the terminal, the Chrome JSON and the traced program say of the same run.
//
//   duckdb.mjs <folder of the clients> <source folder> <folder of traces>
import fs from 'node:fs';
import {createRequire} from 'node:module';

const [clients, source, traces] = process.argv.slice(2);
const {DuckDBInstance} = createRequire(`${clients}/node_modules/`)('@duckdb/node-api');

let failures = 0, checks = 0;
let trace = '';
function check(what, holds, ...seen) {
  ++checks;
  if (holds) return;
  ++failures;
  console.log(`FAILED: ${trace}: ${what}`, ...seen);
}
function same(what, seen, expected) { check(what, seen === expected, seen, 'is not', expected); }

let database;
async function rows(sql) { return (await database.runAndReadAll(sql)).getRowObjects(); }
async function row(sql) { return (await rows(sql))[0]; }
async function value(sql) { return Object.values(await row(sql))[0]; }
/// {key: value} of a query with two columns.
async function table(sql) {
  return Object.fromEntries((await rows(sql)).map((r) => Object.values(r)).map(([key, n]) => [key, n]));
}
/// Numbers of a query as one text, to be compared as a whole.
async function text(sql) {
  return JSON.stringify(await rows(sql), (_, v) => typeof v === 'bigint' ? v.toString() : v);
}

// ---- The report: three digits with a unit stand for a number, off by half of the last digit at most.
const units = {
  ns: 1, us: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9,
  B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50, EiB: 2 ** 60,
};
function agrees(figure, exact) {
  const m = /^([\d,]+)(?:\.(\d+))? (\w+)$/.exec(figure);
  if (!m || !(m[3] in units)) return false;
  const shown = Number(`${m[1].replaceAll(',', '')}.${m[2] ?? 0}`);
  return Math.abs(shown * units[m[3]] - Number(exact)) <= 0.5000001 * 10 ** -(m[2] ?? '').length * units[m[3]];
}
const count = (shown) => BigInt(shown.replaceAll(',', ''));
function section(report, heading) {
  const m = new RegExp(`^${heading}\\b.*\\n((?:.+\\n)*)`, 'm').exec(report);
  return m ? m[1] : '';
}
const FIGURE = '([\\d.,]+ \\w+)';

// ---- What holds for each trace.
const declared = new Set();  // all columns of jsonl.sql but `id`
async function every_field_is_declared_and_exact() {
  await database.run(`create temp table raw as select row_number() over () as id, json from
                      read_json_objects('trace.jsonl', format = 'newline_delimited')`);
  const columns = (await rows('describe lines')).filter((c) => c.column_name !== 'id');
  for (const c of columns) declared.add(c.column_name);
  for (const {key} of await rows('select distinct unnest(json_keys(json)) as key from raw'))
    check(`jsonl.sql declares the field ${key}`, declared.has(key));
  // The text of each value as it stands in the file, and as it comes back from the typed column.
  const changed = columns.filter((c) => c.column_name !== 'sinks').map(({column_name: c}) =>
    `count(*) filter (where (json -> '$."${c}"')::varchar is distinct from
                            case when l."${c}" is not null then to_json(l."${c}")::varchar end) as "${c}"`);
  for (const [field, n] of Object.entries(await row(
      `select ${changed.join(',')} from raw join lines as l using (id)`)))
    check(`the column ${field} holds what the file says`, n === 0n, n, 'lines differ');
  for (const c of columns)
    check(`${c.column_name} has an exact type`, !/DOUBLE|FLOAT|DECIMAL/.test(c.column_type), c.column_type);
}

async function footer_agrees() {
  const lines = fs.readFileSync('trace.jsonl', 'utf8').split('\n').length - 1;
  same('all lines are read', await value('select count(*) from lines'), BigInt(lines));
  same('the header is the first line', await value(`select id from lines where type = 'header'`), 1n);
  same('the footer is the last one', await value(`select id from lines where type = 'footer'`), BigInt(lines));
  const end = await row('select * from footer');
  const map = (m) => Object.fromEntries(m.entries.map((e) => [e.key, e.value]));
  same('lines before the footer', end.lines, BigInt(lines - 1));
  same('delivered', await value('select count(*) from events'), end.delivered);
  const kinds = await table('select type, count(*) from events group by type');
  for (const [kind, n] of Object.entries(map(end.kinds))) same(`events of kind ${kind}`, kinds[kind] ?? 0n, n);
  const lost = await table(`select cause, sum(count) from events where type = 'loss' group by cause`);
  for (const [cause, n] of Object.entries(map(end.lost))) same(`lost by ${cause}`, BigInt(lost[cause] ?? 0), n);
  same('lost in all', Object.values(lost).reduce((a, b) => a + BigInt(b), 0n), end.lost_total);
  same('produced', end.delivered + end.lost_total + end.pending, end.produced);
  const quality = map(end.quality);
  same('late', await value('select count(late) from events'), quality.late);
  same('skewed', await value('select count(skewed) from events'), quality.skew);
  return end;
}

async function report_agrees(end, busy_recipe) {
  const report = fs.readFileSync('report.txt', 'utf8');
  const exact_times = !report.includes('approximate');
  const numbers = section(report, 'SUMMARY').replaceAll(/\s+/g, ' ');
  const shown = (what, pattern) => {
    const m = new RegExp(pattern).exec(numbers);
    check(`the report says: ${what}`, m !== null, numbers);
    return m ?? [];
  };
  const counted = (what, pattern, seen) => same(what, seen, count(shown(what, pattern)[1] ?? '0'));
  const figured = (what, figure, seen) => check(what, agrees(figure ?? '', seen), figure, 'is not', seen);

  counted('driver calls', 'driver ([\\d,]+)', await value(`select count(*) from events where api = 'driver'`));
  counted('runtime calls', 'runtime ([\\d,]+)', await value(`select count(*) from events where api = 'runtime'`));
  const failed = await value(`select count(*) from events where type = 'api' and result not in (0, 600)`);
  same('failed calls', failed, count(/FAILED ([\d,]+)/.exec(numbers)?.[1] ?? '0'));
  counted('launches', 'launches ([\\d,]+)', await value(`select count(*) from events where type = 'api' and
    (name like 'cuLaunch%' or name like 'cuGraphLaunch%')`));
  for (const [word, type] of [['kernels', 'kernel'], ['graphs', 'graph_launch'], ['memsets', 'memset']])
    counted(word, `${word} ([\\d,]+)`, await value(`select count(*) from work where type = '${type}'`));
  counted('stages', 'stages ([\\d,]+)', await value(`select count(*) - count(adopted) from events where type = 'stage'`));
  counted('marks', 'marks ([\\d,]+)', await value(`select count(*) from events where type = 'mark'`));

  const copies = await rows(`select direction, count(*) as copies, sum(bytes) as bytes, sum(greatest(dur_ns, 0)) as ns
                             from work where type = 'memcpy' group by direction`);
  same('directions of copies', copies.length, [...numbers.matchAll(/ in [\d.,]+ \w+/g)].length);
  for (const c of copies) {
    const m = shown(`copies ${c.direction}`, `${c.direction}: ([\\d,]+), ${FIGURE} in ${FIGURE}`);
    same(`copies ${c.direction}`, c.copies, count(m[1] ?? '0'));
    figured(`bytes ${c.direction}`, m[2], c.bytes);
    figured(`time of copies ${c.direction}`, m[3], c.ns);
  }
  const waits = shown('waits', `synchronising calls ([\\d,]+), time in them ${FIGURE}`);
  const wait = await row(`select count(*) as calls, coalesce(sum(dur_ns), 0) as ns from events
                          where type = 'api' and name like '%Synchronize%'`);
  same('synchronising calls', wait.calls, count(waits[1] ?? '0'));
  figured('time in synchronising calls', waits[2], wait.ns);
  if (/device: allocations/.test(numbers)) {
    const m = shown('allocations', `device: allocations ([\\d,]+) \\(${FIGURE}\\), frees ([\\d,]+), live at the end ${FIGURE}`);
    const a = await row(`select count(*) filter (operation = 'allocate') as allocations,
      sum(bytes) filter (operation = 'allocate') as bytes, count(*) filter (operation = 'free') as frees,
      sum(case operation when 'allocate' then bytes::hugeint else -bytes::hugeint end) as live
      from events where type = 'memory' and memory not in ('Pinned', 'Pageable')`);
    same('allocations', a.allocations, count(m[1] ?? '0'));
    figured('bytes allocated', m[2], a.bytes);
    same('frees', a.frees, count(m[3] ?? '0'));
    figured('bytes still allocated', m[4], a.live);
  } else {
    same('memory events', await value(`select count(*) from events where type = 'memory'`), 0n);
  }

  // Operations by name, as far as they are called in the report as they are in the trace. Kernels go by short names there:
  // without return type, namespaces and parameters, and with the template arguments that distinguish them.
  const short = (name) => {
    let s = name.replaceAll('(anonymous namespace)::', '');
    for (let before = ''; before !== s;) [before, s] = [s, s.replace(/<[^<>]*>/g, '')];
    return s.replace(/\(.*$/s, '').split(' ').pop().split('::').pop();
  };
  for (const [heading, type] of [['HOST CALLS', 'api'], ['GPU OPERATIONS', 'kernel']]) {
    const seen = await rows(`select name, count(*) as n, sum(greatest(dur_ns, 0)) as ns, quantile_disc(dur_ns, 0.5) as half
                             from events where type = '${type}' group by name`);
    let found = 0;
    for (const line of section(report, heading).split('\n')) {
      const m = new RegExp(`^  . (.+?)(?: \\([\\d,]+ FAILED\\))?  +([\\d,]+) +${FIGURE} +${FIGURE} +${FIGURE} `).exec(line);
      const like = m ? seen.filter((s) => s.name === m[1] || (type === 'kernel' && short(s.name) === short(m[1]))) : [];
      const o = like.find((s) => s.name === m[1]) ?? (like.length === 1 ? like[0] : undefined);
      if (!o) continue;
      ++found;
      same(`number of ${o.name}`, o.n, count(m[2]));
      figured(`time of ${o.name}`, m[3], o.ns);
      // Percentiles are middles of histogram buckets, and one of them is shown with three digits.
      const [, p50, unit] = /^([\d.,]+) (\w+)$/.exec(m[4]);
      const off = Math.abs(Number(p50.replaceAll(',', '')) * units[unit] - Number(o.half));
      check(`half of ${o.name}`, off <= 0.04 * Number(o.half) + 1, m[4], 'is not about', o.half);
    }
    // Whole graphs, which have names of their own, may take most of the ten rows.
    check(`${heading} are known to the trace`, found >= Math.min(type === 'api' ? 3 : 1, seen.length), found);
  }

  const stages = await table(`select name, count(*) - count(adopted) from events where type = 'stage' group by name`);
  let known = 0;
  for (const m of section(report, 'STAGES').matchAll(/^ +\d+ (\S+) +([\d,]+) /gm)) {
    if (m[1] in stages) ++known, same(`calls of the stage ${m[1]}`, stages[m[1]], count(m[2]));
  }
  check('stages are known to the trace', known > 0);

  const devices = await rows(busy_recipe);
  check('GPUs at work', devices.length > 0);
  const gpus = new Map([...section(report, 'GPUS').matchAll(
    new RegExp(`^ +(\\d+) .+?  +${FIGURE} +\\S+ % +\\S+ % +${FIGURE} +${FIGURE} +([\\d,]+) +[\\d,]+$`, 'gm'))].map((m) => [m[1], m]));
  same('GPUs in the report', gpus.size, devices.length);
  for (const d of exact_times ? devices : []) {
    const m = gpus.get(String(d.device)) ?? [];
    figured(`busy time of GPU ${d.device}`, m[2], d.busy_ns);
    figured(`idle time of GPU ${d.device}`, m[4], d.span_ns - d.busy_ns);
    same(`gaps of GPU ${d.device}`, BigInt(d.gaps), count(m[5] ?? '0'));
  }

  const losses = section(report, 'LOSSES AND NOTES').replaceAll(/\s+/g, ' ');
  if (end.lost_total === 0n) {
    const m = /nothing lost: ([\d,]+) produced, ([\d,]+) delivered/.exec(losses) ?? [];
    same('produced, in the report', count(m[1] ?? '0'), end.produced);
    same('delivered, in the report', count(m[2] ?? '0'), end.delivered);
  } else {
    const m = /([\d,]+) of ([\d,]+) records LOST; ([\d,]+) delivered/.exec(losses) ?? [];
    const lost = await rows(`select cause, sum(count) as n from events where type = 'loss' group by cause`);
    same('lost, in the report', count(m[1] ?? '0'), lost.reduce((sum, l) => sum + BigInt(l.n), 0n));
    same('produced, in the report', count(m[2] ?? '0'), end.produced);
    for (const l of lost)
      check(`lost by ${l.cause}, in the report`,
            new RegExp(`(^| )${Number(l.n).toLocaleString('en-US')} [^,]*?\\(${l.cause}\\)`).test(losses), l.n);
  }
  console.log(`${trace}: ${end.delivered} events, ${end.lost_total} lost, ` +
    `${exact_times ? devices.map((d) => `GPU ${d.device} busy ${d.busy_ns} ns`).join(', ') : 'busy times not compared: approximate in the report'}`);
}

/// Slices of the Chrome JSON, as text with integer nanoseconds, against the lines of the JSONL.
async function chrome_agrees() {
  await database.run(`create temp table slices as
    select e ->> 'cat' as cat, e ->> 'name' as name, ((e ->> 'dur')::decimal(30, 3) * 1000)::hugeint as dur_ns,
           ((e ->> 'ts')::decimal(30, 3) * 1000)::hugeint as ts_ns, (e -> 'args' ->> 'bytes')::ubigint as bytes,
           (e -> 'args' ->> 'device')::uinteger as device, (e -> 'args' ->> 'correlation')::ubigint as correlation
    from (select unnest(traceEvents) as e from read_json('trace.json', maximum_object_size = 1000000000,
                                                         columns = {traceEvents: 'JSON[]'}))
    where e ->> 'ph' = 'X'`);
  const sums = 'count(*) as n, sum(dur_ns) as dur_ns, sum(ts_ns) as ts_ns, sum(correlation) as correlations';
  for (const [cat, type] of [['kernel', 'kernel'], ['gpu_memcpy', 'memcpy'], ['gpu_memset', 'memset'], ['cuda_driver', 'api']]) {
    const gpu = type === 'api' ? 'null' : 'device';
    const graphs = type === 'kernel' ? `and name not like 'CUDA graph%'` : '';
    same(`slices of ${cat}`,
         await text(`select ${gpu} as device, ${sums} from slices where cat = '${cat}' ${graphs} group by 1 order by 1`),
         await text(`select ${gpu} as device, ${sums} from events where type = '${type}' group by 1 order by 1`));
  }
  same('kernels by name', await text(`select name, count(*) as n, sum(dur_ns) as ns from slices
                                      where cat = 'kernel' and name not like 'CUDA graph%' group by name order by name`),
       await text(`select name, count(*) as n, sum(dur_ns) as ns from events where type = 'kernel' group by name order by name`));
  same('bytes of copies', await text(`select split_part(name, ' ', 2) as direction, sum(bytes) as bytes from slices
                                      where cat = 'gpu_memcpy' group by 1 order by 1`),
       await text(`select direction, sum(bytes) as bytes from events where type = 'memcpy' group by 1 order by 1`));
  same('bytes of sets', await text(`select sum(bytes) as bytes from slices where cat = 'gpu_memset'`),
       await text(`select sum(bytes) as bytes from events where type = 'memset'`));
  same('graphs', await value(`select count(*) from slices where cat = 'kernel' and name like 'CUDA graph%'`),
       await value(`select count(*) from events where type = 'graph_launch'`));
  same('the summary of the Chrome JSON', await value(`select (cutraceSummary ->> 'delivered')::ubigint from
    read_json('trace.json', maximum_object_size = 1000000000, columns = {cutraceSummary: 'JSON'})`),
    await value('select delivered from footer'));
  return value('select sum(bytes) from slices');
}

/// What the traced program itself counted of its copies, sets and kernels; of a trace that lost nothing.
async function program_agrees() {
  const own = JSON.parse(/^counted (.*)$/m.exec(fs.readFileSync('out.txt', 'utf8'))[1]);
  const graphs = await value(`select count(*) from work where type = 'graph_launch'`);
  const copies = await row(`select count(*) filter (direction = 'HtoD') as htod,
    sum(bytes) filter (direction = 'HtoD') as htod_bytes, count(*) filter (direction = 'DtoH') as dtoh,
    sum(bytes) filter (direction = 'DtoH') as dtoh_bytes, sum(bytes) filter (direction = 'DtoD') as dtod_bytes
    from work where type = 'memcpy'`);
  const sets = await row(`select count(*) as memsets, sum(bytes) as memset_bytes from work where type = 'memset'`);
  const kernels = await value(`select count(*) from work where type = 'kernel'`);
  // Reported node by node they are not in the trace as such, but their launches are.
  const launched = graphs || await value(`select count(*) from events where type = 'api' and name like 'cuGraphLaunch%'`);
  same('graphs that the program launched', launched, BigInt(own.graph_launches));
  if (graphs === 0n) for (const [what, n] of Object.entries(copies)) same(`${what} of the program`, BigInt(n), BigInt(own[what]));
  for (const [what, n] of Object.entries(sets)) same(`${what} of the program`, BigInt(n), BigInt(own[what]));
  same('kernels of the program', kernels + (graphs === 0n ? 0n : BigInt(own.kernels_in_graphs)), BigInt(own.kernels));
  same('requests of the program', await value('select count(distinct request) from served'), BigInt(own.requests));
}

// ---- What single traces are for.
async function limits() {
  const kernel = async (name, column) => await value(`select ${column} from events where type = 'kernel' and name = '${name}'`);
  same('stream 2^64-1', await kernel('stream 2^64-1', 'stream'), 18446744073709551615n);
  same('stream over 2^32', await kernel('stream over 2^32', 'stream'), 4294967303n);
  same('device 2^32-1', await kernel('device 2^32-1', 'device'), 4294967295);
  same('begin beyond 2^53', await kernel('2^53', 'ts_ns'), 9007199254740993n);
  same('end before begin', await kernel('ends before it starts', 'dur_ns'), -1000n);
  same('before the session', await kernel('before the session', 'ts_ns'), -5500n);
  same('the first moment', await kernel('all of time', 'ts_ns'), -9223372036854775808n);
  same('the last moment', await kernel('all of time', 'call_ts_ns'), 9223372036854775807n);
  same('bytes', await value(`select max(bytes) from events where type = 'memcpy'`), 18446744073709551615n);
  same('losses', await value(`select count from events where type = 'loss'`), 18446744073709551615n);
  same('correlation', await value(`select correlation from events where name = 'arguments'`), 18446744073709551615n);
  same('stage', await value(`select stage_id from events where name = 'requests lost'`), 18446744073709551615n);
  same('the least counter', await value(`select value from events where name = 'least'`), -9223372036854775808n);
  same('the largest counter', await value(`select change from events where name = 'most'`), 9223372036854775807n);
  same('arguments', await value(`select args::varchar from events where name = 'arguments'`),
       '{"arg0":null,"arg1":"0xffffffffffffffff","n":18446744073709551615,"m":-9223372036854775808}');
}

async function names() {
  const all = (await rows(`select coalesce(name, '') as name from events where type = 'kernel' order by id`)).map((r) => r.name);
  same('names', all.length, 25);
  for (const name of ['quote " in the middle', 'back\\slash\\', 'line\nbreak\rreturn\ttab', 'zero\0byte', '\u2028',
                      '\x01\x02\x1b[31mred\x1b[0m\x1f', 'umlaut \u00e4, kanji \u6f22, emoji \u{1f680}',
                      'lone continuation \ufffd\ufffd', '</script><b>&amp;', 'x'.repeat(10000)])
    check(`the name ${JSON.stringify(name.slice(0, 40))}`, all.some((n) => name === '\u2028' ? n.includes(name) : n === name));
  same('requests by name', await value(`select count(*) from events where type = 'kernel' and request_names = [name]`), 24n);
}

async function recipes() {
  const page = fs.readFileSync(`${source}/docs/recipes.md`, 'utf8');
  const all = new Map();
  let title = '';
  for (const m of page.matchAll(/^### (.*)$|^```sql\n([^]*?)^```/gm)) m[1] ? title = m[1] : all.set(title, m[2]);
  check('recipes are found', all.size >= 10, all.size);
  return all;
}

const schema = fs.readFileSync(`${source}/docs/jsonl.sql`, 'utf8');
const asked = await recipes();
const busy = [...asked].find(([title]) => title.startsWith('Busy time'))[1];
let most_bytes = 0n;
for (trace of fs.readdirSync(traces).sort()) {
  process.chdir(`${traces}/${trace}`);
  database = await (await DuckDBInstance.create(':memory:', {threads: '2'})).connect();
  await database.run(schema);
  await every_field_is_declared_and_exact();
  const end = trace === 'limits' ? undefined : await footer_agrees();
  if (trace === 'limits') await limits();
  if (trace === 'names') await names();
  if (trace === 'limits' || trace === 'names') {
    for (const [title, sql] of asked) {
      // Sums of such times do not fit: that is an error, never a wrong sum.
      try { await rows(sql); } catch (e) { check(`recipe: ${title}`, /Out of Range/.test(e.message), e.message); }
    }
    continue;
  }
  await report_agrees(end, busy);
  const bytes = await chrome_agrees();
  if (bytes > most_bytes) most_bytes = bytes;
  if (fs.existsSync('out.txt') && end.lost_total === 0n) await program_agrees();
  for (const [title, sql] of asked) {
    const needs_memory = title.startsWith('Allocations') && trace !== 'plain' && trace !== 'long';
    const found = await rows(sql).catch((e) => check(`recipe: ${title}`, false, e.message) ?? []);
    if (trace === 'plain') check(`recipe finds something: ${title}`, found.length > 0 || needs_memory);
  }
}
trace = 'all';
check('some sum is beyond 2^53', most_bytes > 2n ** 53n, most_bytes);
const page = fs.readFileSync(`${source}/docs/jsonl.md`, 'utf8');
for (const column of declared) check(`docs/jsonl.md reports of ${column}`, page.includes(`\`${column}\``));
console.log(`${checks} checks, ${failures} failed`);
process.exit(failures === 0 && checks > 500 ? 0 : 1);
