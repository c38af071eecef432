/**
 * Turbo sets V8's flags for a moment, so every case runs in its own process. It is on by default on
 * the command line, on request elsewhere, and gives a reason if it is off.
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { TURBO_FLAGS } from '../../src/turbo/compile.ts';
import { newSeed, told, type CampaignResult } from '../fuzz/campaign.ts';
import {
  BUILDS,
  at,
  greedyFault,
  hasShared,
  llamaModel,
  root,
  runCli,
  runNode,
  runScript,
  shared,
  shippedModel,
  temporaryFolder,
  TOLERANCE,
  type Greedy,
} from '../support.ts';

const hasRevectoriser = process.arch === 'x64' && Number.parseInt(process.versions.node) >= 24;

/**
 * The committed quantised llama. Its margins count from twice the tolerance
 * (test/golden/arch/README.md).
 */
const golden = new URL('test/golden/arch/', root);
const { cases } = JSON.parse(readFileSync(new URL('golden.json', golden), 'utf8')) as {
  cases: { model: string; ids: number[]; greedy: number[]; margins: number[]; largest: number }[];
};
const committed = cases.find((c) => c.model === 'llama-q4_0.gguf')!;
const want: Greedy = {
  prompt_ids: committed.ids,
  ids: committed.greedy,
  margins: committed.margins,
  noise: TOLERANCE.quantised * committed.largest,
};

/** Greedy ids of a model, in a process of its own that must print nothing else. */
async function idsOf(path: string, { prompt_ids, ids }: Greedy, options: object): Promise<number[]> {
  const { code, stdout, stderr } = await runScript(`
    const model = await loadModel(${JSON.stringify(path)}, ${JSON.stringify({ ...options, turbo: 'auto' })});
    const { ids } = await model.generate(${JSON.stringify(prompt_ids)}, { temperature: 0, maxTokens: ${ids.length}, ignoreEos: true }).result();
    console.log(JSON.stringify({ turbo: model.turbo, ids }));
    await model.dispose();`);
  expect([code, stderr]).toEqual([0, '']);
  const said = JSON.parse(stdout) as { turbo: boolean; ids: number[] };
  expect(said.turbo).toBe(hasRevectoriser);
  return said.ids;
}

if (hasRevectoriser) {
  describe('the revectoriser', () => {
    const flags = [...TURBO_FLAGS, '--import', 'tsx'];

    it.each(BUILDS.filter((build) => !build.endsWith('-threads')))('kernels of %s: random cases give what f64 gives', async (build) => {
      const seed = newSeed();
      const { code, stdout, stderr } = await runNode(
        [
          ...flags,
          '--input-type=module',
          '-e',
          `
      import { campaign } from ${JSON.stringify(new URL('test/fuzz/kernels.ts', root).href)};
      console.log(JSON.stringify(await campaign({ build: ${JSON.stringify(build)}, threads: 1, seed: ${seed}, seconds: 60, cases: 150 })));`,
        ],
        { timeout: 60_000 },
      );
      expect([code, stderr], `QUANTLET_FUZZ_SEED=${seed}`).toEqual([0, '']);
      expect(told(`kernels of ${build} with turbo`, JSON.parse(stdout) as CampaignResult)).toBe('');
    });
  });
}

describe('loadModel', () => {
  it.each(['simd', 'relaxed', 'simd-threads', 'relaxed-threads'] as const)(
    "%s, turbo: 'auto': ids as native gives them, and not a word",
    async (build) => {
      const ids = await idsOf(at('test/golden/arch/llama-q4_0.gguf'), want, { build });
      expect(greedyFault(ids, want)).toBe('');
    },
  );

  it('off unless asked for; on beside models without, and before and after it the flags of the process are the same', async () => {
    const { code, stdout, stderr } = await runScript(`
      import { cachedDataVersionTag } from 'node:v8'; // a number made of V8's flags, among other things
      const flags = cachedDataVersionTag(), seen = [], logits = [];
      for (const turbo of [undefined, 'auto', false, 'auto']) {
        const model = await loadModel(llama, turbo === undefined ? {} : { turbo });
        seen.push(model.turbo);
        logits.push((await model.generate([1, 2, 3], { temperature: 0, maxTokens: 8, ignoreEos: true, logprobs: 5 }).result()).logprobs);
        await model.dispose();
      }
      console.log(JSON.stringify({ seen, sameFlags: cachedDataVersionTag() === flags, sameBits: new Set(logits.map((l) => JSON.stringify(l))).size === 1 }));`);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout)).toEqual({ seen: [false, hasRevectoriser, false, hasRevectoriser], sameFlags: true, sameBits: true });
  });

  it('true: a coded warning where it is not to be had', async () => {
    const { code, stdout, stderr } = await runScript(`
      process.removeAllListeners('warning').on('warning', (w) => console.log(w.name, w.code, w.message));
      const model = await loadModel(llama, { turbo: true });
      await model.dispose();`);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(hasRevectoriser ? /^$/ : /^QuantletWarning QUANTLET_TURBO_OFF turbo is off: it needs .*\n$/);
  });

  it('anything else is refused', async () => {
    const { code, stderr } = await runScript("await loadModel(llama, { turbo: 'on' });");
    expect([code, stderr.includes('turbo is "on"; expected "auto", true or false')]).toEqual([1, true]);
  });
});

describe('createEngine', () => {
  it('the same option', async () => {
    const { code, stdout, stderr } = await runNode([
      '--input-type=module',
      '-e',
      `
      const { createEngine } = await import(${JSON.stringify(new URL('dist/entry/core-node.js', root).href)});
      for (const turbo of [undefined, 'auto']) {
        const engine = await createEngine({ turbo });
        console.log(engine.turbo);
        await engine.dispose();
      }`,
    ]);
    expect([code, stderr, stdout]).toEqual([0, '', `false\n${hasRevectoriser}\n`]);
  });
});

describe('the command line', () => {
  const args = ['run', '-m', shippedModel, '-p', 'Once upon a time', '-n', 8, '--temp', 0, '--ignore-eos', '--json'];
  const answer = (stdout: string): { turbo: boolean; ids: number[] } => JSON.parse(stdout) as { turbo: boolean; ids: number[] };

  it('on by itself, the same text without; --verbose says which', async () => {
    const [on, off] = [await runCli([...args, '--verbose']), await runCli([...args, '-v', '--no-turbo'])];
    expect([on.code, off.code]).toEqual([0, 0]);
    expect(answer(on.stdout).turbo).toBe(hasRevectoriser);
    expect(on.stderr).toMatch(hasRevectoriser ? /^quantlet: turbo is on\n$/ : /^quantlet: turbo is off: it needs .*\n$/);
    expect([answer(off.stdout).turbo, off.stderr]).toEqual([false, 'quantlet: turbo is off: it was turned off\n']);
    expect(answer(on.stdout).ids).toEqual(answer(off.stdout).ids);
    // A request that cannot be met prints one line, even without --verbose.
    expect((await runCli([...args, '--turbo'])).stderr).toBe(hasRevectoriser ? '' : on.stderr);
  });

  it('bench says whether it is on', async () => {
    const rows = await Promise.all(
      [[], ['--no-turbo']].map(async (flags) => {
        const { code, stdout } = await runCli(['bench', '-m', llamaModel, '-p', 8, '-n', 2, '-t', 1, '-r', 1, '-o', 'json', ...flags]);
        expect(code).toBe(0);
        return (JSON.parse(stdout) as { turbo: boolean }[]).map(({ turbo }) => turbo);
      }),
    );
    expect(rows).toEqual([
      [hasRevectoriser, hasRevectoriser],
      [false, false],
    ]);
  });

  if (hasRevectoriser) {
    it('what the self-test said is kept, and followed', async () => {
      const cache = temporaryFolder();
      const folder = join(cache, 'turbo');
      expect(answer((await runCli(args, { env: { QUANTLET_CACHE: cache } })).stdout).turbo).toBe(true);
      const [file, ...others] = readdirSync(folder);
      expect(others).toEqual([]);
      writeFileSync(join(folder, file), '{ "why": "its self-test gave different bits for packed q4_0" }');
      const { code, stdout, stderr } = await runCli([...args, '--verbose'], { env: { QUANTLET_CACHE: cache } });
      expect([code, answer(stdout).turbo, stderr]).toEqual([
        0,
        false,
        'quantlet: turbo is off: its self-test gave different bits for packed q4_0\n',
      ]);
    });
  }
});

if (hasShared) {
  describe('stories260K of ../shared with turbo', () => {
    it.each(['-Q4_0', '-Q8_0', ''])('stories260K%s: ids as native gives them', async (format) => {
      const { greedy } = JSON.parse(readFileSync(shared(`golden/stories260K${format}.json`), 'utf8')) as { greedy: Greedy };
      expect(greedyFault(await idsOf(shared(`models/stories260K/stories260K${format}.gguf`), greedy, {}), greedy)).toBe('');
    });
  });
}
