/**
 * Image encoders against native llama.cpp's with AVX2: random towers of real shapes, one and two
 * threads, milliseconds of an image and peak memory.
 *
 * Usage:
 *
 *   node --import tsx bench/vision.ts [--only smolvlm,gemma3,qwen3vl] [--type q8_0] [--threads 1,2]
 *     [--rounds 5] [--node PATH] [--no-native]
 *
 * The two sides alternate: a process of each for every round, each with an image that is not timed.
 * Needs what bench/peers/install.ts needs, and g++. Goal: 1.3 times native's speed.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { TYPE, type TypeName } from '../src/type-traits.ts';
import { installPeers } from './peers/install.ts';
import { installVisionPeer } from './peers/vision.ts';
import { cache, describeMachine, flags, machine, median, numbers, root, run, show, table, warnIfBusy } from './support.ts';
import { TOWERS, writeTower, type Tower } from './vision/towers.ts';

interface Sample {
  readonly ms: readonly number[];
  readonly peakBytes: number;
  readonly tokens: number;
}

const options = flags('bench/vision.ts: image encoders against native llama.cpp', {
  only: Object.keys(TOWERS).join(),
  type: 'q8_0',
  threads: '1,2',
  rounds: '5',
  node: process.execPath,
  'no-native': false,
});
if (!(options.type in TYPE)) throw new Error(`--type is "${options.type}"; expected one of ${Object.keys(TYPE).join(', ')}`);
const names = options.only.split(',');
const unknown = names.find((name) => !(name in TOWERS));
if (unknown !== undefined) throw new Error(`--only has "${unknown}"; expected some of ${Object.keys(TOWERS).join(', ')}`);
const TIMEOUT_MS = 1_800_000;

/** Samples of both sides, in turns. */
async function measure(
  path: string,
  tower: Tower,
  threads: number,
  native: ((...args: (string | number)[]) => Promise<string>) | undefined,
) {
  const width = tower.out * (1 + (tower.deepstack?.length ?? 0));
  const child = ['--import', 'tsx', resolve(root, 'bench/vision/child.ts'), path, width, tower.side, threads, 1, 'turbo'];
  const own: Sample[] = [];
  const theirs: Sample[] = [];
  for (let i = 0; i < Number(options.rounds); i++) {
    own.push(JSON.parse(await run(options.node, child, { timeoutMs: TIMEOUT_MS })) as Sample);
    if (native) theirs.push(JSON.parse(await native(path, tower.side, tower.side, threads, 1)) as Sample);
  }
  return { own, theirs };
}

const msOf = (samples: readonly Sample[]): number => median(samples.flatMap(({ ms }) => ms));
const peakOf = (samples: readonly Sample[]): number => median(samples.map(({ peakBytes }) => peakBytes));
const mib = (bytes: number): string => (Number.isFinite(bytes) ? `${Math.round(bytes / 2 ** 20)} MiB` : '-');

const about = machine();
warnIfBusy(about);
const peers = options['no-native'] ? undefined : await installPeers();
const program = peers && (await installVisionPeer(peers));
const native =
  peers && program
    ? (...args: (string | number)[]) => run(program, args, { env: { BACKENDS: peers.avx2 }, timeoutMs: TIMEOUT_MS })
    : undefined;
mkdirSync(cache, { recursive: true });
const rows: string[][] = [];
for (const name of names) {
  const tower = TOWERS[name];
  const path = resolve(cache, `mmproj-bench-${name}-${options.type}.gguf`);
  if (!existsSync(path)) writeTower(path, tower, options.type as TypeName);
  for (const threads of numbers(options.threads)) {
    const { own, theirs } = await measure(path, tower, threads, native);
    // Ratios of a round's two samples: other work on the machine slows both.
    const ratio = median(own.map((sample, i) => msOf(theirs.slice(i, i + 1)) / msOf([sample])));
    rows.push([
      `${tower.about}, ${options.type}`,
      `${threads}`,
      `${own[0].tokens}`,
      show(msOf(own)),
      show(msOf(theirs)),
      show(ratio),
      mib(peakOf(own)),
      mib(peakOf(theirs)),
    ]);
    console.error(rows.at(-1)!.join(' | '));
  }
}
console.log(
  `${describeMachine(about)}\n\n${table(['encoder', 'threads', 'tokens', 'ms', 'native AVX2 ms', 'ratio', 'peak', 'native peak'], rows)}`,
);
