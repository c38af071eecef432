/** Turbo is state of a process, so every case runs in one of its own: accepted everywhere, silent where it means nothing, late with a coded warning. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { newSeed, told, type CampaignResult } from '../fuzz/campaign.ts';
import { BUILDS, greedyFault, hasShared, llamaModel, root, runCli, runNode, runScript, shared, shippedModel, TOLERANCE, type Greedy } from '../support.ts';

const hasRevectoriser = process.arch === 'x64' && Number.parseInt(process.versions.node) >= 24;

/** The committed quantised llama; its margins count from twice the tolerance on (test/golden/arch/README.md). */
const golden = new URL('test/golden/arch/', root);
const { cases } = JSON.parse(readFileSync(new URL('golden.json', golden), 'utf8')) as { cases: { model: string; ids: number[]; greedy: number[]; margins: number[]; largest: number }[] };
const committed = cases.find((c) => c.model === 'llama-q4_0.gguf')!;
const want: Greedy = { prompt_ids: committed.ids, ids: committed.greedy, margins: committed.margins, noise: TOLERANCE.quantised * committed.largest };

/** Greedy ids of a model in a process of its own; fails where that process says anything but them. */
async function idsOf(path: string, { prompt_ids, ids }: Greedy, options: object): Promise<number[]> {
  const { code, stdout, stderr } = await runScript(`
    const model = await loadModel(${JSON.stringify(path)}, ${JSON.stringify(options)});
    const { ids } = await model.generate(${JSON.stringify(prompt_ids)}, { temperature: 0, maxTokens: ${ids.length}, ignoreEos: true }).result();
    console.log(JSON.stringify(ids));
    await model.dispose();`);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as number[];
}

describe.runIf(hasRevectoriser)('the revectoriser', () => {
  // All code from the optimising compiler at once: as a model has it that has run for a while.
  const flags = ['--experimental-wasm-revectorize', '--no-liftoff', '--import', 'tsx'];

  it.each(BUILDS.filter((build) => !build.endsWith('-threads')))('kernels of %s: random cases give what f64 gives', async (build) => {
    const seed = newSeed(), { code, stdout, stderr } = await runNode([...flags, '--input-type=module', '-e', `
      import { campaign } from ${JSON.stringify(new URL('test/fuzz/kernels.ts', root).href)};
      console.log(JSON.stringify(await campaign({ build: ${JSON.stringify(build)}, threads: 1, seed: ${seed}, seconds: 60, cases: 150 })));`], { timeout: 60_000 });
    expect([code, stderr], `QUANTLET_FUZZ_SEED=${seed}`).toEqual([0, '']);
    expect(told(`kernels of ${build} with turbo`, JSON.parse(stdout) as CampaignResult)).toBe('');
  });
});

describe('{ turbo: true }', () => {
  it.each(['simd', 'relaxed', 'simd-threads', 'relaxed-threads'] as const)('%s: ids as native gives them, and not a word', async (build) => {
    const ids = await idsOf(new URL('llama-q4_0.gguf', golden).pathname, want, { turbo: true, build });
    expect(greedyFault(ids, want)).toBe('');
  });

  it('a second load with it is as good as the first', async () => {
    const { code, stderr } = await runScript('for (let i = 0; i < 2; i++) await (await loadModel(llama, { turbo: true })).dispose();');
    expect([code, stderr]).toEqual([0, '']);
  });

  it('after a load without it: a coded warning where it would have meant something, and a model that works', async () => {
    const { code, stdout, stderr } = await runScript(`
      process.on('warning', ({ name, code }) => console.log(name, code));
      await (await loadModel(llama)).dispose();
      const model = await loadModel(llama, { turbo: true });
      console.log((await model.generate([1, 2, 3], { maxTokens: 4, ignoreEos: true }).result()).ids.length);
      await model.dispose();`);
    expect(code, stderr).toBe(0);
    expect(stdout.split('\n').filter(Boolean).sort()).toEqual(['4', ...(hasRevectoriser ? ['QuantletWarning QUANTLET_TURBO_TOO_LATE'] : [])]);
    expect(stderr === '').toBe(!hasRevectoriser);
  });
});

describe('--turbo', () => {
  it('run takes it, and tells the same beginning', async () => {
    const args = ['run', '-m', shippedModel, '-p', 'Once upon a time', '-n', 8, '--temp', 0, '--json'];
    const [plain, turbo] = await Promise.all([runCli(args), runCli([...args, '--turbo'])]);
    expect([turbo.code, turbo.stderr]).toEqual([0, '']);
    expect((JSON.parse(turbo.stdout) as { ids: number[] }).ids.slice(0, 4)).toEqual((JSON.parse(plain.stdout) as { ids: number[] }).ids.slice(0, 4));
  });

  it('bench takes it', async () => {
    const { code, stdout, stderr } = await runCli(['bench', '-m', llamaModel, '-p', 8, '-n', 2, '-t', 1, '-r', 1, '-o', 'json', '--turbo']);
    expect([code, stderr]).toEqual([0, '']);
    expect((JSON.parse(stdout) as { avg_ts: number }[]).every((row) => row.avg_ts > 0)).toBe(true);
  });
});

describe.runIf(hasShared)('stories260K of ../shared with turbo', () => {
  it.each(['-Q4_0', '-Q8_0', ''])('stories260K%s: ids as native gives them', async (format) => {
    const { greedy } = JSON.parse(readFileSync(shared(`golden/stories260K${format}.json`), 'utf8')) as { greedy: Greedy };
    expect(greedyFault(await idsOf(shared(`models/stories260K/stories260K${format}.gguf`), greedy, { turbo: true }), greedy)).toBe('');
  });
});
