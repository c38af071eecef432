/**
 * Compares this checkout with another revision in one run: every packed product, attention, and
 * tokens per second of a model. Run it before each commit that touches a kernel. It ends with exit
 * code 1 if a ratio is below --least.
 *
 * Usage:
 *
 *   node --import tsx bench/against.ts REV [--least 0.98] [--rounds 7] [--builds relaxed]
 *     [--types q4_0,q4_K] [--what gemm,gemv,attention,model] [--repeat 3] [--threads 1,2]
 *     [--node PATH] [--model FILE] [--turbo]
 *
 * REV (a commit, tag or branch) is checked out and built once, in a folder of its own under
 * .cache/against. Each side is a process that keeps its tensors for the whole run. The two sides
 * alternate in every case, and the one that begins changes from round to round.
 *
 * A sample is the fastest piece of work in about 60 ms, because other work on the machine can only
 * make it slower. A ratio is the median of the ratios within a round. A case whose ratio is below
 * --least is measured for as many rounds again, up to --repeat times, and the median of all its
 * rounds decides. Disturbances by other processes average out; the cost of a change stays.
 *
 * With --turbo both sides run 256-bit code, otherwise neither does.
 */
import { fork, spawnSync, type ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { namesOf, typesWith } from '../src/type-traits.ts';
import { benchModel, cache, describeMachine, machine, median, numbers, root, run, show, table, warnIfBusy } from './support.ts';
import { TURBO_FLAGS } from '../src/turbo/compile.ts';
import type { Answer, Case, Request } from './against/side.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    least: { type: 'string', default: '0.98' },
    rounds: { type: 'string', default: '7' },
    repeat: { type: 'string', default: '3' },
    builds: { type: 'string', default: 'relaxed' },
    types: { type: 'string', default: '' },
    what: { type: 'string', default: 'gemm,narrow,gemv,memory,attention,model' },
    threads: { type: 'string', default: '1,2' },
    node: { type: 'string', default: process.execPath },
    model: { type: 'string', default: '' },
    turbo: { type: 'boolean', default: false },
  },
});
const [rev] = positionals;
if (!rev) {
  console.error(
    'usage: node --import tsx bench/against.ts REV [--least 0.98] [--rounds 7] [--repeat 3] [--builds relaxed,simd] [--types LIST] [--what gemm,narrow,gemv,memory,attention,model,prompt,generate,depth] [--threads 1,2] [--node PATH] [--model FILE] [--turbo]',
  );
  process.exit(2);
}
const TYPES = namesOf(typesWith((k) => k.packed));
const types = values.types ? values.types.split(',') : TYPES;
const what = values.what.split(',');
const rounds = Number(values.rounds);
const repeat = Number(values.repeat);
const least = Number(values.least);

/** Checks out and builds the revision in a folder named after its commit. */
async function checkout(): Promise<{ folder: string; commit: string }> {
  const commit = (await run('git', ['rev-parse', '--verify', `${rev}^{commit}`])).trim();
  const folder = resolve(cache, 'against', commit);
  if (existsSync(resolve(folder, 'dist/cli.js'))) return { folder, commit };
  console.error(`building ${commit.slice(0, 10)} in ${folder} ...`);
  const making = `${folder}.part`;
  rmSync(making, { recursive: true, force: true });
  mkdirSync(making, { recursive: true });
  const { status } = spawnSync('sh', ['-c', 'git archive "$1" | tar -x -C "$2"', 'sh', commit, making], { cwd: root, stdio: 'inherit' });
  if (status !== 0) throw new Error(`git archive ${commit} ended with ${status}`);
  // Links node_modules if the dependencies are the same, else installs them.
  const same = spawnSync('cmp', ['-s', resolve(root, 'package-lock.json'), resolve(making, 'package-lock.json')]).status === 0;
  if (same) symlinkSync(resolve(root, 'node_modules'), resolve(making, 'node_modules'));
  else await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: making, timeoutMs: 600_000 });
  await run(process.execPath, ['scripts/build.mjs'], { cwd: making, timeoutMs: 600_000 });
  renameSync(making, folder);
  return { folder, commit };
}

/** The process of one revision. */
class Side {
  readonly #child: ChildProcess;

  constructor(folder: string) {
    const old = /^v20\./.test(spawnSync(values.node, ['-v'], { encoding: 'utf8' }).stdout);
    this.#child = fork(fileURLToPath(new URL('against/side.ts', import.meta.url)), [folder], {
      execPath: values.node,
      execArgv: [...(old ? ['--experimental-wasm-relaxed-simd'] : []), ...(values.turbo ? TURBO_FLAGS : []), '--import', 'tsx'],
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  }

  /** Seconds of the fastest piece, or what this revision lacks for the case. */
  ask(request: Request): Promise<Answer> {
    return new Promise((done, fail) => {
      const onExit = (code: number | null): void => fail(new Error(`a side ended with ${code}`));
      this.#child.once('exit', onExit);
      this.#child.once('message', (answer: Answer) => {
        this.#child.off('exit', onExit);
        done(answer);
      });
      this.#child.send(request);
    });
  }

  end(): void {
    this.#child.kill();
  }
}

const here = machine((await run(values.node, ['-p', 'process.versions.node'])).trim());
const then = await checkout();
await run(process.execPath, ['scripts/build.mjs'], { timeoutMs: 600_000 });
warnIfBusy(here);
console.log(
  `${describeMachine(here)}\nthis checkout against ${then.commit.slice(0, 10)}, median of ${rounds} rounds; above 1: this checkout is faster\n`,
);

const rows: string[][] = [];
let missed = 0;
/**
 * Takes rounds of rates, before and now, until their median ratio reaches --least or --repeat is
 * used up.
 */
async function compare(
  name: string,
  unit: string,
  warmUps: number,
  sample: (round: number) => Promise<[before: number, now: number]>,
): Promise<void> {
  for (let round = -warmUps; round < 0; round++) await sample(round);
  const pairs: [number, number][] = [];
  const ratio = (): number => median(pairs.map(([before, now]) => now / before));
  do for (let i = 0; i < rounds; i++) pairs.push(await sample(pairs.length));
  while (ratio() < least && pairs.length < rounds * (1 + repeat));
  const ok = !(ratio() < least);
  if (!ok) missed++;
  rows.push([
    name,
    `${show(median(pairs.map(([before]) => before)))} ${unit}`,
    `${show(median(pairs.map(([, now]) => now)))} ${unit}`,
    `${ratio().toFixed(3)}${ok ? '' : ` below ${least}`}`,
    String(pairs.length),
  ]);
  console.error(rows.at(-1)!.join('  '));
}

const turns = async <T>(round: number, before: () => Promise<T>, now: () => Promise<T>): Promise<[before: T, now: T]> => {
  if (round % 2 === 0) return [await before(), await now()];
  const b = await now();
  return [await before(), b];
};

const kinds = (['gemm', 'narrow', 'gemv', 'memory', 'attention'] as const).filter((k) => what.includes(k));
for (const build of values.builds.split(',')) {
  if (kinds.length === 0) break;
  const sides = [new Side(then.folder), new Side(root)] as const;
  const cases = kinds.flatMap((kind): Case[] =>
    kind === 'attention' ? [{ build, kind, type: 'f16' }] : types.map((type) => ({ build, kind, type })),
  );
  for (const c of cases) {
    const answers = await Promise.all(sides.map((side) => side.ask({ ...c, ms: 1 })));
    const lacking = answers.findIndex((answer) => answer.lacks !== undefined);
    if (lacking >= 0) {
      console.error(
        `${c.build} ${c.type} ${c.kind}: left out, ${lacking === 0 ? then.commit.slice(0, 10) : 'this checkout'} has no kernel for it`,
      );
      continue;
    }
    const rate = async (side: Side): Promise<number> => {
      const answer = await side.ask({ ...c, ms: 60 });
      if (answer.lacks !== undefined) throw new Error(answer.lacks);
      return answer.work / answer.seconds / 1e9;
    };
    // wasm starts in the baseline compiler, so the first rounds only warm up.
    await compare(`${build} ${c.type} ${c.kind}`, 'G/s', 2, (round) =>
      turns(
        round,
        () => rate(sides[0]),
        () => rate(sides[1]),
      ),
    );
    for (const side of sides) await side.ask({ ...c, ms: 0 });
  }
  for (const side of sides) side.end();
}

const ofModel = (['prompt', 'generate', 'depth'] as const).filter((kind) => what.includes('model') || what.includes(kind));
if (ofModel.length > 0) {
  const model = values.model || (await benchModel());
  const tests = [
    ['prompt', 'prompt 256', ['-p', 256, '-n', 0, '-r', 2]],
    ['generate', 'generate 64', ['-p', 0, '-n', 64, '-r', 4]],
    ['depth', 'generate 32 at depth 1024', ['-p', 0, '-n', 32, '-d', 1024, '-r', 1]],
  ] as const;
  // Revisions that know --no-turbo use turbo by default; older ones do not.
  const flagsOf = new Map<string, string[]>();
  for (const folder of [then.folder, root]) {
    const help = await run(values.node, [resolve(folder, 'dist/cli.js'), 'bench', '--help']);
    flagsOf.set(folder, values.turbo ? ['--turbo'] : help.includes('--no-turbo') ? ['--no-turbo'] : []);
  }
  const rate = async (folder: string, args: readonly (string | number)[], nth: number): Promise<number> => {
    const cli = resolve(folder, 'dist/cli.js');
    const flags = flagsOf.get(folder)!;
    const [row] = JSON.parse(await run(values.node, [cli, 'bench', '-m', model, ...args, '-t', nth, '-o', 'json', ...flags])) as {
      avg_ts: number;
    }[];
    return row.avg_ts;
  };
  for (const nth of numbers(values.threads)) {
    for (const [, name, args] of tests.filter(([kind]) => ofModel.includes(kind))) {
      await compare(`${name}, ${nth} threads`, 'tokens/s', 0, (round) =>
        turns(
          round,
          () => rate(then.folder, args, nth),
          () => rate(root, args, nth),
        ),
      );
    }
  }
}
console.log(table(['case', then.commit.slice(0, 10), 'this checkout', 'ratio', 'rounds'], rows));
console.log(missed === 0 ? `\nall ${rows.length} ratios are at least ${least}` : `\n${missed} of ${rows.length} ratios are below ${least}`);
process.exit(missed === 0 ? 0 : 1);
