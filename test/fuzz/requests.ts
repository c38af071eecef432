/**
 * Hostile requests of the list and random requests to `quantlet serve`. Meanwhile a thread asks for
 * /health every few milliseconds. Every request must get an answer in OpenAI's shape that is not an
 * internal error, and no other client may wait longer than the limit.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Build } from '../../src/wasm/load.ts';
import { startServer, type Served } from '../server/server.ts';
import { shippedModel } from '../support.ts';
import { seeded } from '../web/server.ts';
import { runCases, type CampaignOptions, type CampaignResult } from './campaign.ts';
import { hostileRequests, textOf, type HostileRequest } from './hostile-requests.ts';

/** Milliseconds that other clients may wait, on an idle machine. */
export const LATE_MS = 50;
/** Time-out of an answer. */
const ANSWER_MS = 120_000;
const KEY = 'key';

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/**
 * Sends a request as it is (fetch would refuse some). @throws Error if the connection ends without
 * an answer
 */
export function send(url: string, { method = 'POST', path, key = true, headers = {}, body }: HostileRequest): Promise<Answer> {
  const text = body === undefined ? undefined : textOf(body);
  return new Promise((resolve, reject) => {
    const all = {
      ...(key ? { authorization: `Bearer ${KEY}` } : {}),
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
      ...headers,
    };
    const to = new URL(url);
    const asked = request(
      { host: to.hostname, port: to.port, method, path: textOf(path), headers: all, agent: false, timeout: ANSWER_MS },
      (response) => {
        let got = '';
        response
          .setEncoding('utf8')
          .on('data', (chunk: string) => (got += chunk))
          .on('end', () => resolve({ status: response.statusCode!, text: got }))
          .on('error', () => resolve({ status: response.statusCode!, text: got }));
      },
    );
    asked.on('timeout', () => asked.destroy(new Error(`no answer in ${ANSWER_MS} ms`)));
    // A server that refuses a body may close before it has read all of it. Its answer arrives first
    // and is what we take.
    asked.on('error', reject).end(text);
  });
}

/** Describes the fault of an answer; undefined if it is right. */
export function wrong({ method }: HostileRequest, { status, text }: Answer): string | undefined {
  if (status >= 500 && status !== 501 && status !== 503) return `status ${status}: ${text.slice(0, 200)}`;
  if (status < 400 || method === 'HEAD') return undefined;
  try {
    if (typeof (JSON.parse(text) as { error: { message: string } }).error.message === 'string') return undefined;
  } catch {
    // Reported below.
  }
  return `status ${status} without an error in OpenAI's shape: ${text.slice(0, 200)}`;
}

/** Asks for /health repeatedly, and reports the longest time of an answer since the last report. */
const PROBE = `const { parentPort, workerData } = require('node:worker_threads'), { Agent, get } = require('node:http');
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
let longest = 0, began = 0;
const ask = () => { began = performance.now(); get(workerData + '/health', { agent }, (r) => r.resume().on('end', next)).on('error', next); };
const next = () => { longest = Math.max(longest, performance.now() - began); began = 0; setTimeout(ask, 3); };
parentPort.on('message', () => { parentPort.postMessage(Math.max(longest, began && performance.now() - began)); longest = 0; });
ask();`;

export interface Probe {
  /** Longest time that /health took since the last call. */
  longest(): Promise<number>;
  stop(): Promise<unknown>;
}

export function startProbe(url: string): Probe {
  const worker = new Worker(PROBE, { eval: true, workerData: url });
  return {
    longest: () => new Promise((resolve) => worker.once('message', resolve).postMessage(0)),
    stop: () => worker.terminate(),
  };
}

/** Longest turn of a server's event loop in processor time, and the most memory it had. */
export interface Load {
  readonly turnMs: number;
  readonly rssMiB: number;
}

/**
 * Reads the load since the last call of a server started with the environment of {@link measuring}.
 */
export async function loadOf(file: string): Promise<Load> {
  for (const end = performance.now() + 10_000; ; await new Promise((resolve) => setTimeout(resolve, 5))) {
    try {
      const load = JSON.parse(readFileSync(file, 'utf8')) as Load;
      rmSync(file);
      return load;
    } catch (error) {
      if (performance.now() > end) throw error;
    }
  }
}

/**
 * A file for {@link loadOf}, and the environment of a server that writes it. The young generation
 * has Node 20's size: newer versions keep more garbage before they collect it, which would count as
 * memory of a request.
 */
export function measuring(): { file: string; env: NodeJS.ProcessEnv } {
  const file = join(mkdtempSync(join(tmpdir(), 'quantlet-turns-')), 'load.json');
  return {
    file,
    env: {
      NODE_OPTIONS: `--max-semi-space-size=16 --import ${JSON.stringify(new URL('turns.mjs', import.meta.url).href)}`,
      QUANTLET_TURNS: file,
    },
  };
}

/**
 * Starts a server mostly with default limits, so that the limits stated in SECURITY.md are the ones
 * tested.
 */
export const hostileServer = (
  threads = 1,
  build: Build = 'simd',
  env: NodeJS.ProcessEnv = {},
  flags: readonly (string | number)[] = [],
): Promise<Served> => {
  const args = [
    '-m',
    shippedModel,
    '-c',
    2048,
    '-np',
    2,
    '-t',
    threads,
    '--build',
    build,
    '--no-warmup',
    '--api-key',
    KEY,
    '--timeout',
    60,
    '--slot-save-path',
    mkdtempSync(join(tmpdir(), 'quantlet-slots-')),
    '--batch-dir',
    mkdtempSync(join(tmpdir(), 'quantlet-batches-')),
  ];
  return startServer([...args, ...flags], env);
};

/** Values that often break the reading of fields. */
const oddities: readonly string[] = [
  'null',
  'true',
  '-1',
  '1e308',
  '1e-320',
  '""',
  '"x"',
  '[]',
  '{}',
  '[[]]',
  '[1]',
  '["a"]',
  '[{}]',
  '{"a":1}',
  '"\\ud800"',
  '"<|im_end|>"',
  '{"$ref":"#"}',
  '9007199254740993',
  '[null]',
  '{"type":"object"}',
  '"root ::= root"',
];
const seeds: readonly (readonly [path: string, body: string])[] = [
  [
    '/v1/chat/completions',
    '{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"c"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1,"x"]}},"required":["a"]}}}],"tool_choice":"auto","max_tokens":3,"n":1,"stop":["x"],"temperature":0.5,"logprobs":true,"top_logprobs":2,"seed":1,"stream":false}',
  ],
  [
    '/v1/chat/completions',
    '{"messages":[{"role":"user","content":"b"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"a":{"type":"integer","minimum":1},"b":{"anyOf":[{"type":"string","pattern":"^a+$"},{"$ref":"#/$defs/c"}]}},"$defs":{"c":{"type":"array","items":{"const":null},"maxItems":3}}}}},"max_tokens":3,"stream":true}',
  ],
  [
    '/v1/completions',
    '{"prompt":["a",[1,2]],"max_tokens":3,"logit_bias":{"5":1},"echo":true,"n":2,"grammar":"root ::= [a-z]{2,3} | \\"x\\"*","stream_options":{"include_usage":true}}',
  ],
  [
    '/completion',
    '{"prompt":"a","n_predict":3,"n_probs":2,"json_schema":{"type":"string","maxLength":3},"mirostat":2,"dry_multiplier":0.5,"xtc_probability":0.5}',
  ],
  [
    '/v1/responses',
    '{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"b"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"c"}],"instructions":"d","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{"enum":[1,"x"]}}}}],"tool_choice":"auto","text":{"format":{"type":"text"}},"max_output_tokens":3,"metadata":{"a":"b"},"reasoning":{"effort":"low"},"stream":true}',
  ],
  [
    '/v1/batches',
    '{"input_file_id":"file-x","endpoint":"/v1/completions","completion_window":"24h","metadata":{"a":"b"},"output_expires_after":{"anchor":"created_at","seconds":3600}}',
  ],
  ['/v1/batches/batch_x/cancel', '{}'],
  ['/v1/files', '{"file":"x","purpose":"batch"}'],
  [
    '/v1/messages',
    '{"system":[{"type":"text","text":"a"}],"messages":[{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"c","signature":""},{"type":"tool_use","id":"1","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"d"}]}],"tools":[{"name":"f","description":"g","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}],"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"max_tokens":3,"stop_sequences":["x"],"thinking":{"type":"disabled"},"output_config":{"effort":"low"},"stream":false}',
  ],
  ['/v1/messages/count_tokens', '{"system":"a","messages":[{"role":"user","content":"b"}]}'],
  ['/infill', '{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"c","text":"d"}],"prompt":"e","n_predict":3}'],
  ['/slots/0?action=save', '{"filename":"a.bin"}'],
  ['/slots/1?action=restore', '{"filename":"a.bin"}'],
  ['/slots/1?action=erase', '{}'],
  ['/models/load', '{"model":"a"}'],
  ['/lora-adapters', '[{"id":0,"scale":0.5}]'],
  ['/tokenize', '{"content":"a<s>b","add_special":true,"parse_special":true,"with_pieces":true}'],
  ['/detokenize', '{"tokens":[1,2,300]}'],
  ['/apply-template', '{"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"a":[1,{"b":"c"}]}}'],
  ['/v1/embeddings', '{"input":["a",[1]],"dimensions":2}'],
  ['/v1/rerank', '{"query":"a","documents":["b",{"text":"c"}],"top_n":1}'],
];

/** A request of the list, or one with values, bytes and lengths changed at random. */
export function requestOf(seed: number): HostileRequest {
  const next = seeded(seed);
  const below = (n: number): number => Math.floor(next() * n);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)];
  if (next() < 0.1) return pick(hostileRequests);
  const [path, whole] = pick(seeds);
  let body = whole;
  for (let changes = 1 + below(4); changes > 0; changes--) {
    const values = [...body.matchAll(/"(?:\\.|[^"\\])*"(?!:)|-?\d[\d.e+-]*|true|false|null|\[\]|\{\}/g)];
    const value = values.length > 0 ? pick(values) : undefined;
    const kind = below(6);
    if (kind <= 2 && value) body = body.slice(0, value.index) + pick(oddities) + body.slice(value.index + value[0].length);
    else if (kind === 3 && value?.[0].startsWith('"'))
      body =
        body.slice(0, value.index + 1) +
        pick(['a', ' ', '<', '\\n', '\u{1f999}', '<s>', '(', '\\\\']).repeat(1 + below(20_000)) +
        body.slice(value.index + 1);
    else if (kind === 4) body = body.slice(0, below(body.length));
    else
      body =
        body.slice(0, below(body.length)) +
        pick(['{', '}', '[', ']', '"', ',', ':', '\\', '\0', '\ufffd']) +
        body.slice(below(body.length));
  }
  return { name: `random ${seed}`, path, body: [body] };
}

/** @param lateMs Infinity if the machine is not idle */
export async function campaign(options: CampaignOptions, lateMs = LATE_MS): Promise<CampaignResult> {
  const { file, env } = measuring();
  const server = await hostileServer(options.threads, options.build, env);
  const probe = startProbe(server.url);
  const worst = { health: 0, turn: 0, rss: 0 };
  const of = { health: '', turn: '' };
  try {
    await probe.longest();
    await loadOf(file);
    const result = await runCases(options, async (seed) => {
      const hostile = requestOf(seed);
      const what = `${hostile.name} to ${textOf(hostile.path).slice(0, 80)}`;
      const fault = wrong(hostile, await send(server.url, hostile));
      const longest = await probe.longest();
      const { turnMs, rssMiB } = await loadOf(file);
      if (longest > worst.health) [worst.health, of.health] = [longest, what];
      if (turnMs > worst.turn) [worst.turn, of.turn] = [turnMs, what];
      worst.rss = Math.max(worst.rss, rssMiB);
      if (fault !== undefined) throw new Error(`${what}: ${fault}\n${textOf(hostile.body ?? '').slice(0, 500)}`);
      if (longest > lateMs) throw new Error(`${what}: /health took ${longest.toFixed(0)} ms\n${textOf(hostile.body ?? '').slice(0, 500)}`);
    });
    const measured = `/health took ${worst.health.toFixed(0)} ms at most (${of.health}), a turn ${worst.turn.toFixed(0)} ms of processor time (${of.turn}), memory was ${worst.rss.toFixed(0)} MiB`;
    return { ...result, measured };
  } finally {
    await probe.stop();
    server.kill('SIGTERM');
    await server.exit;
  }
}
