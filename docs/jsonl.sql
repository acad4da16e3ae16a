-- SPDX-License-Identifier: Apache-2.0
-- Loads trace.jsonl of the current folder into DuckDB 1.1 or newer, each field of docs/jsonl.md with its exact type, so
-- that nothing is inferred from the first lines and no integer becomes a floating-point number:
--
--   duckdb trace.db < docs/jsonl.sql        or in DuckDB: .read docs/jsonl.sql
--
-- A trace of several files is loaded by a pattern in place of the name, such as 'cutrace-out/*.jsonl'.
create table lines as select row_number() over () as id, * from read_json('trace.jsonl',
  format = 'newline_delimited', columns = {
  -- each line
  v: 'INTEGER', type: 'VARCHAR', ts_ns: 'BIGINT', dur_ns: 'BIGINT',
  -- each event
  name: 'VARCHAR', pid: 'UINTEGER', tid: 'UINTEGER', correlation: 'UBIGINT', stage: 'VARCHAR', stage_id: 'UBIGINT',
  requests: 'UBIGINT[]', request_names: 'VARCHAR[]', request_total: 'UINTEGER', late: 'BOOLEAN', skewed: 'BOOLEAN',
  by_events: 'BOOLEAN', incomplete: 'BOOLEAN',
  -- work of the GPU
  device: 'UINTEGER', context: 'UINTEGER', stream: 'UBIGINT', attribution: 'VARCHAR', call: 'VARCHAR',
  call_ts_ns: 'BIGINT', graph_id: 'UINTEGER', graph_node_id: 'UBIGINT', capture_stage: 'VARCHAR',
  capture_stage_id: 'UBIGINT',
  -- stages and marks; a payload of NVTX may be any number, so it keeps its text
  depth: 'UINTEGER', parent: 'UBIGINT', adopted: 'BOOLEAN', span: 'BOOLEAN', file: 'VARCHAR', line: 'UINTEGER',
  origin: 'VARCHAR', domain: 'VARCHAR', payload: 'JSON', category: 'UINTEGER', category_name: 'VARCHAR',
  color: 'VARCHAR',
  -- counters; `value` also of sets of memory
  value: 'BIGINT', change: 'BIGINT', gauge: 'BOOLEAN',
  -- calls; `bytes` and `direction` also of copies
  api: 'VARCHAR', function: 'UINTEGER', runtime: 'VARCHAR', result: 'BIGINT', result_name: 'VARCHAR',
  direction: 'VARCHAR', bytes: 'UBIGINT', args: 'JSON',
  -- calls, ioctls, and what the kernel did or a probe saw; `args` and `result` of the latter too
  enclosing: 'UBIGINT', joined: 'UBIGINT', cpu: 'UINTEGER',
  -- ioctls; `bytes` too
  node: 'VARCHAR', device_kind: 'VARCHAR', request_word: 'VARCHAR', errno: 'INTEGER', status: 'VARCHAR',
  status_name: 'VARCHAR', command: 'VARCHAR', command_name: 'VARCHAR', client: 'VARCHAR', parent_object: 'VARCHAR',
  object: 'VARCHAR', transferred: 'BOOLEAN',
  -- kernels
  grid: 'UINTEGER[]', block: 'UINTEGER[]', cluster: 'UINTEGER[]', registers_per_thread: 'UINTEGER',
  static_shared_bytes: 'UINTEGER', dynamic_shared_bytes: 'UINTEGER', local_bytes_per_thread: 'UINTEGER',
  priority: 'INTEGER', mangled_name: 'VARCHAR', queued_ts_ns: 'BIGINT', submitted_ts_ns: 'BIGINT',
  -- copies, sets, synchronisations, allocations, losses
  source: 'VARCHAR', destination: 'VARCHAR', async: 'BOOLEAN', source_device: 'UINTEGER',
  destination_device: 'UINTEGER', memory: 'VARCHAR', sync: 'VARCHAR', event_id: 'UINTEGER', operation: 'VARCHAR',
  address: 'VARCHAR', cause: 'VARCHAR', count: 'UBIGINT',
  -- alarms; also `result`, listed with calls, and `rank`, listed with the header
  alarm: 'VARCHAR', work: 'VARCHAR', why: 'VARCHAR', candidates: 'UINTEGER', behind: 'UINTEGER',
  unfinished_ns: 'BIGINT',
  -- descriptions of devices, contexts and streams
  memory_bytes: 'UBIGINT', memory_bandwidth_bytes_per_s: 'UBIGINT', multiprocessors: 'UINTEGER',
  compute_major: 'UINTEGER', compute_minor: 'UINTEGER', core_clock_khz: 'UINTEGER', uuid: 'VARCHAR',
  derived: 'BOOLEAN', flags: 'UINTEGER',
  -- the header
  schema: 'VARCHAR', cutrace_version: 'VARCHAR', process: 'VARCHAR', command_line: 'VARCHAR', host: 'VARCHAR',
  boot_id: 'VARCHAR', backend: 'VARCHAR', backend_detail: 'VARCHAR', clock: 'VARCHAR', rank: 'UINTEGER',
  world_size: 'INTEGER',
  -- header and footer
  clocks: 'STRUCT(trace_ns BIGINT, realtime_ns UBIGINT, monotonic_ns UBIGINT, boottime_ns UBIGINT, error_ns UBIGINT)',
  -- the footer
  produced: 'UBIGINT', delivered: 'UBIGINT', lacking: 'UBIGINT', pending: 'UBIGINT', lost_total: 'UBIGINT',
  lost: 'MAP(VARCHAR, UBIGINT)', quality: 'MAP(VARCHAR, UBIGINT)', unattributed: 'MAP(VARCHAR, UBIGINT)',
  kinds: 'MAP(VARCHAR, UBIGINT)',
  memory_limit_bytes: 'UBIGINT', clock_error_ns: 'UBIGINT', launches_seen: 'UBIGINT', gpu_records_seen: 'UBIGINT',
  collector_cpu_ns: 'UBIGINT',
  sinks: 'STRUCT(name VARCHAR, delivered UBIGINT, written UBIGINT, lost UBIGINT, failed BOOLEAN, failure VARCHAR)[]',
  notes: 'VARCHAR[]', lines: 'UBIGINT'});

create view header as select clocks, schema, cutrace_version, pid, process, command_line, host, boot_id, backend,
  backend_detail, clock, rank, world_size from lines where type = 'header';
create view footer as select produced, delivered, lacking, pending, lost_total, lost, quality, unattributed, kinds,
  memory_bytes, memory_limit_bytes, clock_error_ns, launches_seen, gpu_records_seen, collector_cpu_ns, sinks, notes,
  clocks, lines
  from lines where type = 'footer';
create view events as select * from lines where type not in ('header', 'footer');
create view work as select * from lines where type in ('kernel', 'memcpy', 'memset', 'graph_launch');
create view served as select id, unnest(requests) as request from lines;
