/**
 * Runs the commands with every flag: each spelling is read, its value takes effect, and a senseless
 * value is refused. A flag that no case below covers fails the last test of its command.
 */
import { createHash } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request, type Server } from 'node:http';
import { request as secureRequest } from 'node:https';
import { createServer, connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { FLAGS, spellingsOf, type Flag, type FlagKey } from '../../src/cli/flags.ts';
import { parseFlags } from '../../src/cli/parse-flags.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF, type WriteValue } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { readImatrixSums, type ImatrixSums } from '../../src/quantize/imatrix.ts';
import { TYPE } from '../../src/type-traits.ts';
import { at, failure, llamaModel, patchedLlama, runCli, shippedModel, temporaryFolder, writeTo } from '../support.ts';
import { invoke, listening, never, type Args, type Said } from './commands.ts';
import { startHub } from '../hub/server.ts';
import { loadModel, type GenerateOptions, type Model } from '../../src/entry/node.ts';
import { CONVERSATION_FLAGS } from '../../src/cli/template-options.ts';
import type { Command } from '../../src/cli/command.ts';
import type { Verdict } from '../../src/engine/can-run.ts';
import { allCommands } from '../../src/cli/commands.ts';
import { run } from '../../src/cli/run.ts';
import { chat } from '../../src/cli/chat.ts';
import { serve } from '../../src/cli/serve.ts';
import { embed } from '../../src/cli/embed.ts';
import { bench } from '../../src/cli/bench.ts';
import { perplexity } from '../../src/cli/perplexity.ts';
import { imatrix } from '../../src/cli/imatrix.ts';
import { quantize } from '../../src/cli/quantize-command.ts';
import { tokenize } from '../../src/cli/tokenize.ts';
import { inspectCommand as inspect } from '../../src/cli/inspect-command.ts';
import { ggufSplit } from '../../src/cli/gguf-split.ts';
import { rotate } from '../../src/cli/rotate.ts';
import { sparsify } from '../../src/cli/sparsify.ts';
import { goldenModel } from '../arch/golden-models.ts';
import { iqModel } from '../model/iq-model.ts';
import { ggufHash } from '../../src/cli/gguf-hash.ts';
import { batch } from '../../src/cli/batch.ts';

// Calls go through to the library, and a spy records them.
vi.mock(import('../../src/entry/node.ts'), { spy: true });

const COMMANDS = await allCommands();

const folder = temporaryFolder();
const golden = (name: string): string => llamaModel.replace('llama.gguf', name);
/** A template whose mark before each message shows that the template was used. */
const template = (mark: string): string => `{% for m in messages %}${mark}{{ m.role[0] }}{{ m.content }}{% endfor %}`;
const text = writeTo(folder, 'text.txt', 'the cat sat on the mat\n'.repeat(12));
/** A batch line. */
const asked = (url: string, body: object, id = 'a'): string => `${JSON.stringify({ custom_id: id, method: 'POST', url, body })}\n`;
const iqFile = writeTo(folder, 'iq.gguf', iqModel);
const lines = writeTo(folder, 'lines.jsonl', asked('/v1/completions', { prompt: 'the cat', max_tokens: 3 }));
const answers = join(folder, 'answers.jsonl');

/** Override that gives a llama ReLU. */
const RELU = 'powerinfer.sparse_threshold=float:0';
/** A llama with predictors of firing neurons. */
const predicted = writeTo(folder, 'predicted.gguf', goldenModel('llama-predicted'));
/** A llama with its attention heads stored as rows. */
const heads = join(folder, 'heads.gguf');
await invoke(sparsify, ['-m', llamaModel, '-o', heads, '--heads']);
/** Models for flags that have no effect on the models of BASE. */
const RARE: Partial<Record<FlagKey, string>> = { sparseThreshold: predicted, neuronWindow: predicted, attnHeads: heads };
/** The usual arguments of each command, chosen to run quickly. */
const BASE: Readonly<Record<string, Args>> = {
  run: ['-m', llamaModel, '-p', 'the cat', '-n', 3, '--build', 'simd', '--no-warmup', '--json'],
  chat: ['-m', llamaModel, '-p', 'the cat', '-n', 3, '--build', 'simd', '--no-warmup', '--json', '--chat-template', template('')],
  serve: ['-m', llamaModel, '--port', 0, '--build', 'simd', '--no-warmup', '--chat-template', template('')],
  batch: ['-m', llamaModel, '-i', lines, '-o', answers, '--build', 'simd', '--no-warmup'],
  embed: ['-m', llamaModel, '-p', 'the cat', '--build', 'simd', '--no-warmup', '--embd-output-format', 'json'],
  bench: ['-m', llamaModel, '-p', 4, '-n', 2, '-r', 1, '-o', 'json', '-t', 1, '--build', 'simd', '--no-warmup'],
  perplexity: ['-m', llamaModel, '-f', text, '-c', 24, '--build', 'simd', '--json'],
  imatrix: ['-m', llamaModel, '-f', text, '-c', 24, '--build', 'simd', '--json', '-o', join(folder, 'imatrix.gguf')],
  sparsify: ['-m', llamaModel, '--override-kv', RELU, '-f', text, '-c', 24, '-t', 1, '--json', '-o', join(folder, 'sparse.gguf')],
  tokenize: ['-m', llamaModel, '-p', 'the cat', '--ids'],
  inspect: ['-m', golden('llama-moe.gguf'), '--experts', '-f', text, '--json'],
};

/** Runs a server with these arguments after the usual ones, then stops it. */
const served = <T>(args: Args, use: (url: string, stderr: () => string) => Promise<T>, base = BASE.serve): Promise<T> =>
  listening(async (said) => {
    const stop = new AbortController();
    const running = serve.run([...base, ...args].map(String), stop.signal);
    try {
      const up = async (): Promise<string> => {
        for (;;) {
          const url = /serves .* at (https?:\S+)/.exec(said().stderr)?.[1];
          if (url) return url;
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      };
      const url = await Promise.race([up(), running.then(() => Promise.reject(new Error('the server ended by itself')))]);
      return await use(url, () => said().stderr);
    } finally {
      stop.abort();
      await running.catch(() => 0);
    }
  });

/** Runs a command with these arguments after the usual ones. */
const work = (c: Command, args: Args, base = BASE[c.name]): Promise<unknown> =>
  c === serve ? served(args, () => Promise.resolve(), base) : invoke(c, [...base, ...args]);
/** Removes a flag and its value, or a switch, from arguments. */
const without = (args: Args, flag: string, n = 2): Args => (args.includes(flag) ? args.toSpliced(args.indexOf(flag), n) : args);

/** The JSON that a command prints for the usual arguments and these. */
const json = async <T>(c: Command, ...args: Args): Promise<T> => JSON.parse((await invoke(c, [...BASE[c.name], ...args])).stdout) as T;

interface RunReport {
  prompt_ids: number[];
  ids: number[];
  text: string;
  content: string;
  stop_reason: string;
  build: string;
}
const report = (c: Command, ...args: Args): Promise<RunReport> => json<RunReport>(c, ...args);

const covered = new Map<Command, Set<FlagKey>>(COMMANDS.map((c) => [c, new Set()]));
/** Defines a test for the effect of flags in a command. */
function effect(c: Command, keys: readonly FlagKey[], what: string, test: () => Promise<void>): void {
  for (const key of keys) covered.get(c)!.add(key);
  it(`${c.name}: ${keys.map((key) => `--${FLAGS[key].name}`).join(', ')}: ${what}`, test);
}
const having = (key: FlagKey, among = COMMANDS): readonly Command[] => among.filter((c) => c.flags.includes(key));

describe('spellings', () => {
  /** A value of each type, as written and as parsed. */
  const VALUES: Readonly<Record<Flag['type'], readonly [written: string, read: unknown]>> = {
    string: ['-a b=c', '-a b=c'],
    strings: ['--x', ['--x']],
    number: ['-1.5', -1.5],
    integer: ['-1', -1],
    integers: ['3,4', [3, 4]],
    boolean: ['', true],
  };

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: each is read, alone and with =, and given twice', (_, c) => {
    for (const key of c.flags) {
      const flag: Flag = FLAGS[key];
      const [written, read] = flag.value?.startsWith('[') ? ['off', 'off'] : flag.cores ? ['3', 3] : VALUES[flag.type];
      for (const spelling of spellingsOf(flag)) {
        const values = (...argv: string[]): unknown => parseFlags(argv, c.flags).values;
        if (flag.type === 'boolean') expect(values(spelling), spelling).toEqual({ [key]: !flag.off?.includes(spelling) });
        else expect(values(spelling, written), spelling).toEqual({ [key]: read });
        if (flag.type !== 'boolean' && spelling.startsWith('--'))
          expect(values(`${spelling}=${written}`), spelling).toEqual({ [key]: read });
        const twice = flag.type === 'strings' || flag.type === 'integers' ? [...(read as unknown[]), ...(read as unknown[])] : read;
        if (flag.type !== 'boolean') expect(values(spelling, written, spelling, written), spelling).toEqual({ [key]: twice });
        // A negative number means all cores, as in llama.cpp.
        if (flag.cores) expect(values(spelling, written, spelling, '-1'), spelling).toEqual({});
      }
    }
  });

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: no two flags share one', (_, c) => {
    const all = c.flags.flatMap((key) => spellingsOf(FLAGS[key]));
    expect(all.filter((s, i) => all.indexOf(s) !== i)).toEqual([]);
  });

  it("every flag of the table is some command's", () => {
    const taken = new Set(COMMANDS.flatMap((c) => c.flags));
    expect((Object.keys(FLAGS) as FlagKey[]).filter((key) => !taken.has(key))).toEqual([]);
  });

  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: what cannot be read is refused by the command itself', async (_, c) => {
    for (const key of c.flags) {
      const flag: Flag = FLAGS[key];
      const long = `--${flag.name}`;
      const wrong = {
        boolean: [[`${long}=1`]],
        string: flag.value?.startsWith('[') ? [[long, 'x']] : [[long]],
        strings: [[long]],
        number: [[long], [long, 'x'], [long, '']],
        integer: [[long], [long, 'x'], [long, ''], [long, '1.5']],
        integers: [[long], [long, '1,x'], [long, '1.5']],
      }[flag.type];
      for (const args of wrong) {
        const { code, message } = await failure(() => c.run(args, never));
        expect([code, message], args.join(' ')).toEqual([
          'ERR_USAGE',
          expect.stringContaining(flag.value?.startsWith('[') ? 'is not a flag' : long),
        ]);
      }
    }
  });
});

describe('--help', async () => {
  const { stdout: overview } = await runCli(['--help']);

  it('names all commands', () => {
    expect([...overview.matchAll(/^ {2}([\w-]+) {2,}\S/gm)].map(([, name]) => name)).toEqual(COMMANDS.map((c) => c.name));
  });

  for (const c of COMMANDS) {
    effect(c, ['help'], 'usage, flags, examples whose flags the command takes', async () => {
      const { code, stdout, stderr } = await runCli([c.name, '--help']);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout).toContain(`usage: quantlet ${c.name}`);
      const [before, examples] = stdout.split('\nexamples:\n');
      const lines = examples
        .trim()
        .split('\n')
        .filter((line) => line.includes(`quantlet ${c.name}`));
      expect(lines.length).toBeGreaterThan(0);
      const known = new Set(before.split('\n').flatMap((line) => /^ {2}(-[^ ,]+(?:, -[^ ,]+)*)/.exec(line)?.[1].split(', ') ?? []));
      for (const key of c.flags) expect(known).toContain(`--${FLAGS[key].name}`);
      const flagsOf = (line: string): string[] =>
        [...line.replace(/'[^']*'|"[^"]*"/g, '""').matchAll(/ (--?[a-z][\w-]*)/g)].map(([, flag]) => flag);
      for (const line of lines) for (const flag of flagsOf(line)) expect(known, `${flag} of: ${line}`).toContain(flag);
    });
  }
});

const LOADERS = [run, chat, serve, batch, embed, bench, perplexity, imatrix];

describe('what loadModel is given', () => {
  /** The options of every model that the command loads. */
  const loads = async (c: Command, args: Args, base = BASE[c.name]): Promise<object[]> => {
    const { calls } = vi.mocked(loadModel).mock;
    const before = calls.length;
    await work(c, args, base);
    return calls.slice(before).map(([, options]) => ({ ...options }));
  };
  const lora = golden('llama-lora.gguf');
  const OPTIONS: Partial<Record<FlagKey, readonly [args: Args, options: object]>> = {
    threads: [['-t', 2], { threads: 2 }],
    ctx: [['-c', 48], { contextLength: 48 }],
    batch: [['-b', 33], { batchSize: 33 }],
    ctxCheckpoints: [['-ctxcp', 3], { ctxCheckpoints: 3 }],
    checkpointMinStep: [['-cms', 32], { checkpointMinStep: 32 }],
    cacheTypeK: [['-ctk', 'q8_0'], { cacheTypeK: 'q8_0' }],
    cacheTypeV: [['-ctv', 'q4_0'], { cacheTypeV: 'q4_0' }],
    cacheRotation: [['--no-cache-rotation'], { cacheRotation: false }],
    actBits: [['--act-bits', 4], { actBits: 4 }],
    iqWeights: [['--iq-weights', 'fast'], { iqWeights: 'fast' }],
    sparseThreshold: [['--sparse-threshold', 0.25], { sparseThreshold: 0.25 }],
    weightsMemory: [['--weights-memory', '2.5G'], { weightsMemory: 2.5 * 2 ** 30 }],
    neuronWindow: [['--neuron-window', 5], { neuronWindow: 5 }],
    attnHeads: [['--attn-heads', 0.5], { attnHeads: 0.5 }],
    build: [['--build', 'simd-threads'], { build: 'simd-threads' }],
    threadsBatch: [['-tb', 2], { threads: 2 }],
    warmup: [['--no-warmup'], { warmUp: false }],
    ropeScaling: [['--rope-scaling', 'yarn'], { overrideKv: { 'ARCH.rope.scaling.type': 'yarn' } }],
    ropeScale: [['--rope-scale', 4], { overrideKv: { 'ARCH.rope.scaling.factor': 4 } }],
    ropeFreqBase: [['--rope-freq-base', 5000], { overrideKv: { 'ARCH.rope.freq_base': 5000 } }],
    ropeFreqScale: [['--rope-freq-scale', 0.25], { overrideKv: { 'ARCH.rope.scaling.factor': 4 } }],
    yarnOrigCtx: [['--yarn-orig-ctx', 64], { overrideKv: { 'ARCH.rope.scaling.original_context_length': 64 } }],
    yarnExtFactor: [['--yarn-ext-factor', 0], { overrideKv: { 'ARCH.rope.scaling.yarn_ext_factor': 0 } }],
    yarnAttnFactor: [['--yarn-attn-factor', 1.5], { overrideKv: { 'ARCH.rope.scaling.yarn_attn_factor': 1.5 } }],
    yarnBetaFast: [['--yarn-beta-fast', 16], { overrideKv: { 'ARCH.rope.scaling.yarn_beta_fast': 16 } }],
    yarnBetaSlow: [['--yarn-beta-slow', 2, '--yarn-ext-factor', -1], { overrideKv: { 'ARCH.rope.scaling.yarn_beta_slow': 2 } }],
    overrideKv: [
      ['--override-kv', 'a.b=int:3,c=str:x, y', '--override-kv', 'd=bool:true'],
      { overrideKv: { 'a.b': 3, c: 'x, y', d: true } },
    ],
    turbo: [['--turbo', '--no-turbo', '--turbo'], { turbo: true }],
    lora: [['--lora', `${lora},${lora}`], { lora: [{ source: lora }, { source: lora }] }],
    loraScaled: [['--lora-scaled', `${lora}:-0.5`], { lora: [{ source: lora, scale: -0.5 }] }],
    parallel: [['-np', 2], { parallel: 2 }],
    alias: [['-a', 'other'], { name: 'other' }],
    specType: [['--spec-type', 'none,ngram-mod'], { speculation: { type: ['none', 'ngram-mod'] } }],
    draftModel: [['-md', llamaModel], { speculation: { draft: { model: llamaModel } } }],
    draftMax: [['-md', llamaModel, '--spec-draft-n-max', 5], { speculation: { draft: { nMax: 5 } } }],
    draftMin: [['-md', llamaModel, '--spec-draft-n-min', 2], { speculation: { draft: { nMin: 2 } } }],
    draftPMin: [['-md', llamaModel, '--spec-draft-p-min', 0.5], { speculation: { draft: { pMin: 0.5 } } }],
    draftThreads: [['-md', llamaModel, '-td', 1], { speculation: { draft: { threads: 1 } } }],
    draftCacheTypeK: [['-md', llamaModel, '-ctkd', 'q8_0'], { speculation: { draft: { cacheTypeK: 'q8_0' } } }],
    draftCacheTypeV: [['-md', llamaModel, '-ctvd', 'q4_0'], { speculation: { draft: { cacheTypeV: 'q4_0' } } }],
    ngramSimpleN: [['--spec-ngram-simple-size-n', 4], { speculation: { ngramSimple: { sizeN: 4 } } }],
    ngramSimpleM: [['--spec-ngram-simple-size-m', 8], { speculation: { ngramSimple: { sizeM: 8 } } }],
    ngramSimpleMinHits: [['--spec-ngram-simple-min-hits', 2], { speculation: { ngramSimple: { minHits: 2 } } }],
    ngramModMatch: [['--spec-ngram-mod-n-match', 8], { speculation: { ngramMod: { nMatch: 8 } } }],
    ngramModMin: [['--spec-ngram-mod-n-min', 4], { speculation: { ngramMod: { nMin: 4 } } }],
    ngramModMax: [['--spec-ngram-mod-n-max', 50], { speculation: { ngramMod: { nMax: 50 } } }],
  };
  for (const [key, [args, want]] of Object.entries(OPTIONS) as [FlagKey, readonly [Args, object]][]) {
    // embed cannot use the adapter, which changes the output matrix of a generating model.
    for (const c of having(
      key,
      LOADERS.filter((c) => c !== embed || !args.some((arg) => String(arg).includes(lora))),
    )) {
      effect(c, [key], JSON.stringify(want).replaceAll(/"[^"]*\//g, '"'), async () => {
        const base =
          key === 'warmup'
            ? without(BASE[c.name], '--no-warmup', 1)
            : RARE[key]
              ? [...without(BASE[c.name], '-m'), '-m', RARE[key]]
              : BASE[c.name];
        const [[plain], [got]] = [await loads(c, [], base), await loads(c, args, base)];
        const model = key === 'overrideKv' ? '' : 'llama';
        const expected = JSON.parse(JSON.stringify(want).replaceAll('ARCH', model)) as object;
        expect(got).toMatchObject(expected);
        expect(plain).not.toMatchObject(expected);
      });
    }
  }

  effect(run, ['cacheRotation'], "llama.cpp's LLAMA_ATTN_ROT_DISABLE does the same where no flag says otherwise", async () => {
    vi.stubEnv('LLAMA_ATTN_ROT_DISABLE', '1');
    expect([...(await loads(run, [])), ...(await loads(run, ['--cache-rotation']))]).toMatchObject(
      [false, true].map((cacheRotation) => ({ cacheRotation })),
    );
    vi.stubEnv('LLAMA_ATTN_ROT_DISABLE', '0');
    expect((await loads(run, []))[0]).not.toMatchObject({ cacheRotation: false });
    vi.unstubAllEnvs();
  });

  effect(embed, ['lora', 'loraScaled'], 'adapters of its model', async () => {
    const bert: Args = ['-m', golden('bert.gguf')];
    const source = golden('bert-lora.gguf');
    expect(await loads(embed, [...bert, '--lora', source, '--lora-scaled', `${source}:2`])).toMatchObject([
      { lora: [{ source }, { source, scale: 2 }] },
    ]);
  });

  for (const c of having('verbose')) {
    if (c === tokenize) continue;
    effect(c, ['verbose'], 'whether turbo is on', async () => {
      const said = async (args: Args): Promise<string> =>
        c === serve ? served(args, (_, stderr) => Promise.resolve(stderr())) : (await invoke(c, [...BASE[c.name], ...args])).stderr;
      expect(await said(['--verbose'])).toMatch(/^quantlet: turbo is (on|off: .+)$/m);
      expect(await said([])).not.toContain('turbo is');
    });
  }

  effect(bench, ['benchThreads'], 'a model for each number', async () => {
    expect(await loads(bench, ['-t', '2,3'])).toMatchObject([{ threads: 1 }, { threads: 2 }, { threads: 3 }]);
  });
});

describe('which file', async () => {
  // A mixture of experts, so that inspect --experts has something to count.
  const mixture = readFileSync(golden('llama-moe.gguf'));
  const files = { 'a-Q4_K_M.gguf': mixture, 'b.gguf': mixture };
  const hub = await startHub(files);
  beforeAll(() => void vi.stubEnv('MODEL_ENDPOINT', hub.url));
  afterAll(() => void vi.unstubAllEnvs());
  let caches = 0;
  /** Requests that the hub received, with an empty cache. */
  const asked = async (c: Command, args: Args): Promise<string[]> => {
    vi.stubEnv('QUANTLET_CACHE', join(folder, `cache-${caches++}`));
    return again(c, args);
  };
  const again = async (c: Command, args: Args): Promise<string[]> => {
    const before = hub.log.length;
    await work(c, args, without(BASE[c.name], '-m'));
    return hub.log.slice(before);
  };

  for (const c of having('hf')) {
    effect(c, [c === serve || c === bench ? 'models' : 'model'], 'a path; a URL is downloaded', async () => {
      expect((await failure(() => work(c, ['-m', join(folder, 'none.gguf')]))).code).toBe('ERR_SOURCE');
      expect(await asked(c, ['-mu', `${hub.url}/org/repo/resolve/main/b.gguf`])).toContain('resolve b.gguf');
    });
    effect(c, ['hf', 'hfFile', 'hfToken', 'offline'], 'the hub is asked for this file with this token, or not at all', async () => {
      expect(await asked(c, ['-hf', 'org/repo'])).toContain('resolve a-Q4_K_M.gguf');
      expect(await again(c, ['-hf', 'org/repo'])).toEqual(['list']);
      expect(await again(c, ['-hf', 'org/repo', '--offline'])).toEqual([]);
      expect(await asked(c, ['-hf', 'org/repo', '-hff', 'b.gguf'])).toContain('resolve b.gguf');
      const tokens: (string | undefined)[] = [];
      hub.refuse = (token) => (tokens.push(token), undefined);
      await asked(c, ['-hf', 'org/repo', '-hft', 'a-token']);
      hub.refuse = () => undefined;
      expect(tokens.length).toBeGreaterThan(0);
      expect(new Set(tokens)).toEqual(new Set(['a-token']));
      expect((await failure(() => asked(c, ['-hf', 'org/repo', '--offline']))).code).toBe('ERR_DOWNLOAD');
    });
    if (!c.flags.includes('draftHf')) continue;
    effect(c, ['draftHf'], 'the hub is asked for a draft model too', async () => {
      expect(await asked(c, ['-hf', 'org/repo', '-hfd', 'org/repo', '-md', 'b.gguf'])).toEqual(
        expect.arrayContaining(['resolve a-Q4_K_M.gguf', 'resolve b.gguf']),
      );
    });
  }
});

describe('sampling', () => {
  const prompt = 'the cat the cat the cat the';
  const SEED = 7;
  const base = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: SEED, maxTokens: 24 } as const;
  const flags: Args = ['-p', prompt, '-n', 24, '--temp', 1, '--top-k', 0, '--top-p', 1, '--min-p', 0, '-s', SEED];
  /** A bias that repeats one letter, for DRY to break: id 260 is "e". */
  const again = (dryMultiplier: number) =>
    [['-l', '260+1000', '--dry-multiplier', dryMultiplier], { logitBias: { 260: 1000 }, dryMultiplier }] as const;
  /**
   * A flag's arguments, the option that it sets, and other flags or options that it needs to have
   * an effect.
   */
  const OPTIONS: Partial<Record<FlagKey, readonly [args: Args, option: GenerateOptions, withArgs?: Args, withOptions?: GenerateOptions]>> =
    {
      temp: [['--temp', 0.2], { temperature: 0.2 }],
      topK: [['--top-k', 3], { topK: 3 }],
      topP: [['--top-p', 0.2], { topP: 0.2 }],
      minP: [['--min-p', 0.6], { minP: 0.6 }],
      typical: [['--typical', 0.2], { typicalP: 0.2 }],
      topNSigma: [['--top-n-sigma', 1], { topNSigma: 1 }],
      xtcProbability: [['--xtc-probability', 1], { xtcProbability: 1 }, ['--xtc-threshold', 0.01], { xtcThreshold: 0.01 }],
      xtcThreshold: [['--xtc-threshold', 0.01], { xtcThreshold: 0.01 }, ['--xtc-probability', 1], { xtcProbability: 1 }],
      repeatPenalty: [['--repeat-penalty', 4], { repeatPenalty: 4 }],
      repeatLastN: [['--repeat-last-n', 2], { repeatLastN: 2 }, ['--repeat-penalty', 4], { repeatPenalty: 4 }],
      presencePenalty: [['--presence-penalty', 6], { presencePenalty: 6 }],
      frequencyPenalty: [['--frequency-penalty', 6], { frequencyPenalty: 6 }],
      dryMultiplier: [['--dry-multiplier', 2000], { dryMultiplier: 2000 }, ...again(0)],
      dryBase: [['--dry-base', 8], { dryBase: 8 }, ...again(100)],
      dryAllowedLength: [['--dry-allowed-length', 8], { dryAllowedLength: 8 }, ...again(2000)],
      dryPenaltyLastN: [['--dry-penalty-last-n', 2], { dryPenaltyLastN: 2 }, ...again(2000)],
      drySequenceBreaker: [
        ['--dry-sequence-breaker', 'e', '--dry-sequence-breaker', '\\n'],
        { drySequenceBreakers: ['e', '\n'] },
        ...again(2000),
      ],
      logitBias: [['-l', '9+30', '-l', '10-inf'], { logitBias: { 9: 30, 10: -Infinity } }],
      mirostat: [['--mirostat', 2], { mirostat: 2 }],
      mirostatLr: [['--mirostat-lr', 0.9], { mirostatEta: 0.9 }, ['--mirostat', 2], { mirostat: 2 }],
      mirostatEnt: [['--mirostat-ent', 1], { mirostatTau: 1 }, ['--mirostat', 2], { mirostat: 2 }],
      dynatempRange: [['--dynatemp-range', 0.9], { dynatempRange: 0.9 }],
      dynatempExp: [['--dynatemp-exp', 4], { dynatempExponent: 4 }, ['--dynatemp-range', 0.9], { dynatempRange: 0.9 }],
      seed: [['-s', 8], { seed: 8 }],
    };
  let model: Model;
  beforeAll(async () => {
    model = await loadModel(llamaModel, { build: 'simd', warmUp: false, chatTemplate: template('') });
    expect(model.detokenize([260]).trim()).toBe('e');
  });
  afterAll(() => model.dispose());
  const idsOf = async (c: Command, options: GenerateOptions): Promise<readonly number[]> =>
    (c === run ? await model.generate(prompt, options).result() : await model.chat([{ role: 'user', content: prompt }], options).result())
      .ids;

  const servedIds = (args: Args): Promise<readonly number[]> =>
    served(args, async (url) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${url}/completion`, { method: 'POST', headers, body: JSON.stringify({ prompt, return_tokens: true }) });
      return ((await answer.json()) as { tokens: number[] }).tokens;
    });

  for (const [key, [args, option, withArgs = [], withOptions = {}]] of Object.entries(OPTIONS) as [
    FlagKey,
    readonly [Args, GenerateOptions, Args?, GenerateOptions?],
  ][]) {
    for (const c of having(key, [run, chat])) {
      effect(c, [key], `ids as with ${JSON.stringify(option)}`, async () => {
        const plain = await idsOf(c, { ...base, ...withOptions });
        const want = await idsOf(c, { ...base, ...withOptions, ...option });
        expect(want).not.toEqual(plain);
        expect((await report(c, ...flags, ...withArgs)).ids).toEqual(plain);
        expect((await report(c, ...flags, ...withArgs, ...args)).ids).toEqual(want);
      });
    }
    effect(serve, [key], `ids as with ${JSON.stringify(option)}, where a request does not say otherwise`, async () => {
      const want = await idsOf(run, { ...base, ...withOptions, ...option });
      expect(await servedIds([...flags.slice(2), ...withArgs, ...args])).toEqual(want);
    });
  }
});

describe.each([[run], [chat]])('text that is made: $name', (c) => {
  const said = (r: RunReport): string => (c === run ? r.text : r.content);

  effect(c, ['predict'], 'so many tokens', async () => {
    expect((await report(c, '-n', 5)).ids).toHaveLength(5);
  });
  effect(c, ['grammar', 'grammarFile', 'jsonSchema', 'jsonSchemaFile'], 'the text follows them; two at once are refused', async () => {
    const gbnf = 'root ::= "ab" [c-e]';
    expect(said(await report(c, '-n', 20, '--grammar', gbnf)).trim()).toMatch(/^ab[cde]$/);
    expect(said(await report(c, '-n', 20, '--grammar-file', writeTo(folder, 'a.gbnf', gbnf))).trim()).toMatch(/^ab[cde]$/);
    expect(JSON.parse(said(await report(c, '-n', 40, '-j', '{"const": [1, "a"]}')))).toEqual([1, 'a']);
    const schema = writeTo(folder, 'schema.json', '{"const": [2]}');
    expect(JSON.parse(said(await report(c, '-n', 40, '-jf', schema)))).toEqual([2]);
    expect((await failure(() => invoke(c, [...BASE[c.name], '--grammar', gbnf, '-j', '{}']))).code).toBe('ERR_USAGE');
  });
  effect(c, ['stop'], 'the text ends before it', async () => {
    const whole = said(await report(c, '-n', 24, '--temp', 0));
    const stop = whole.slice(6, 8);
    const stopped = await report(c, '-n', 24, '--temp', 0, '-r', 'never to be seen', '-r', stop);
    expect([stopped.stop_reason, said(stopped).trimEnd()]).toEqual(['stop', whole.slice(0, whole.indexOf(stop)).trimEnd()]);
  });
  effect(c, ['samplers', 'samplerSeq'], 'which samplers there are, in which order', async () => {
    const args = ['-p', 'the cat the cat the', '-n', 16, '-s', 5, '--temp', 0.5, '--top-k', 3] as const;
    const whole = (await report(c, ...args)).ids;
    expect((await report(c, ...args, '--samplers', 'penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature')).ids).toEqual(
      whole,
    );
    expect((await report(c, ...args, '--sampler-seq', 'edskypmxt')).ids).toEqual(whole);
    const bare = (await report(c, ...args, '--samplers', 'top-k')).ids;
    expect(bare).not.toEqual(whole);
    expect(bare).toEqual((await report(c, ...args, '--sampling-seq', 'k')).ids);
    expect(bare).toEqual((await report(c, ...args, '--temp', 1, '--top-p', 1, '--min-p', 0)).ids);
    // One token is left when the penalties run.
    const late = [...args, '--top-k', 1, '--repeat-penalty', 5] as const;
    const greedy = (await report(c, ...args, '--temp', 0)).ids;
    expect((await report(c, ...late, '--samplers', 'top_k;penalties')).ids).toEqual(greedy);
    expect((await report(c, ...late, '--samplers', 'penalties;TOPK')).ids).not.toEqual(greedy);
  });
  effect(c, ['ignoreEos'], 'goes on behind the end of the text', async () => {
    const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
    const likely = ['-n', 6, '-l', `${eos}+1000`] as const;
    expect((await report(c, ...likely)).stop_reason).not.toBe('length');
    expect(await report(c, ...likely, '--ignore-eos')).toMatchObject({ stop_reason: 'length', ids: { length: 6 } });
  });
  effect(c, ['json'], 'one object in place of the text', async () => {
    const { stdout } = await invoke(c, [...without(BASE[c.name], '--json', 1), '--temp', 0]);
    const whole = await report(c, '--temp', 0);
    expect(stdout).toContain(said(whole).trim());
    expect(() => JSON.parse(stdout) as unknown).toThrow();
  });
});

describe('run', () => {
  const ids = async (...args: Args): Promise<number[]> => (await report(run, ...args)).prompt_ids;
  effect(run, ['prompt', 'file', 'escape'], 'the prompt, its escapes read or not; the last of -p and -f counts', async () => {
    const real = await ids('-p', 'a\nb');
    expect(await ids('-p', 'a\\nb')).toEqual(real);
    expect(await ids('-p', 'a\\nb', '-e')).toEqual(real);
    expect(await ids('-p', 'a\\nb', '--no-escape')).not.toEqual(real);
    const file = writeTo(folder, 'prompt.txt', 'a\nb\n');
    expect(await ids('-f', file)).toEqual(real);
    expect(await ids('-f', file, '-p', 'x')).toEqual(await ids('-p', 'x'));
  });
  effect(run, ['contextShift', 'keep'], 'where the context is full the older half is left out, but for what is kept', async () => {
    const args = ['-c', 24, '-n', 60, '--temp', 0, '--ignore-eos'] as const;
    expect(await report(run, ...args)).toMatchObject({ stop_reason: 'length' });
    const shifted = await report(run, ...args, '--context-shift');
    expect(shifted).toMatchObject({ stop_reason: 'length', ids: { length: 60 } });
    expect((await report(run, ...args, '--context-shift', '--keep', -1)).ids).not.toEqual(shifted.ids);
    expect((await report(run, ...args, '--context-shift', '--no-context-shift')).stop_reason).toBe('length');
  });
  effect(run, ['special'], 'control tokens are shown', async () => {
    const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
    const likely = ['-n', 3, '-l', `${eos}+1000`, '--ignore-eos'] as const;
    const plain = (await report(run, ...likely)).text;
    expect(plain).not.toContain('</s>');
    expect((await report(run, '-l', `${eos - 1}+1000`, '-n', 3, '-sp')).text).toContain('<s>');
  });
  effect(run, ['conversation', ...CONVERSATION_FLAGS, 'color'], 'a conversation, as chat has it', async () => {
    const args = ['-p', 'a dog', '-n', 8, '--temp', 0, '--json', '-m', llamaModel, '--build', 'simd', '--no-warmup'] as const;
    const said = async (c: Command, ...more: Args): Promise<unknown> => {
      const { content } = JSON.parse((await invoke(c, [...args, ...more])).stdout) as { content?: string };
      return content;
    };
    for (const more of [
      ['--chat-template', 'llama3'],
      ['--chat-template-file', writeTo(folder, 'run.jinja', template('#'))],
      ['-sys', 'Be kind.'],
      ['-sysf', writeTo(folder, 'system.txt', 'Be kind.\n')],
      ['-st'],
      ['--chat-template-kwargs', '{}'],
      ['-rea', 'off'],
      ['--reasoning-format', 'none'],
      ['--reasoning-budget', 0],
      ['--reasoning-effort', 'low'],
    ] as Args[])
      expect(await said(run, ...more), more.join(' ')).toBe(await said(chat, ...more));
    expect(await said(run, '-st', '-no-cnv')).toBeUndefined();
    // -cnv and -i then ask for messages; standard input is empty here.
    expect((await runCli(['run', ...without(args, '--json', 1), '-cnv'], { input: '' })).stdout).toBe(
      (await runCli(['chat', ...without(args, '--json', 1), '-i', '--color', 'off'], { input: '' })).stdout,
    );
  });
  effect(run, ['quiet', 'perf'], 'no summary', async () => {
    const args = without(BASE.run, '--json', 1);
    expect((await invoke(run, args)).stderr).toContain('tokens/s');
    for (const flag of ['--log-disable', '--no-perf']) expect((await invoke(run, [...args, flag])).stderr).toBe('');
  });
  effect(run, ['displayPrompt'], 'the text alone', async () => {
    const args = [...without(BASE.run, '--json', 1), '--temp', 0];
    const { text: want } = await report(run, '--temp', 0);
    expect((await invoke(run, args)).stdout).toBe(`the cat${want}\n`);
    expect((await invoke(run, [...args, '--no-display-prompt'])).stdout).toBe(`${want}\n`);
  });
  effect(
    run,
    ['promptCache', 'promptCacheAll', 'promptCacheRo'],
    'the state of the prompt, or of all, is written, or only read',
    async () => {
      const file = (name: string): string => join(folder, name);
      await report(run, '--prompt-cache', file('prompt.state'));
      await report(run, '--prompt-cache', file('all.state'), '--prompt-cache-all');
      const size = (name: string): number => readFileSync(file(name)).length;
      expect(size('all.state')).toBeGreaterThan(size('prompt.state'));
      const before = readFileSync(file('prompt.state'));
      await report(run, '-p', 'the cat sat on the mat', '--prompt-cache', file('prompt.state'), '--prompt-cache-ro');
      expect(readFileSync(file('prompt.state')).equals(before)).toBe(true);
      const { timings } = await json<{ timings: { prompt_n: number } }>(
        run,
        '-p',
        'the cat sat',
        '--prompt-cache',
        file('prompt.state'),
        '--prompt-cache-ro',
      );
      expect(timings.prompt_n).toBeLessThan((await ids('-p', 'the cat sat')).length);
    },
  );
});

describe('chat', () => {
  /** Ids of a greedy answer. Equal ids mean equal prompts. */
  const answer = async (...args: Args): Promise<number[]> => (await report(chat, '-n', 8, '--temp', 0, ...args)).ids;
  effect(
    chat,
    ['message', 'file', 'escape', 'system', 'systemFile', 'chatTemplate', 'chatTemplateFile'],
    'what is said, and how it is written',
    async () => {
      const plain = await answer();
      const other = await answer('-p', 'a dog');
      expect(other).not.toEqual(plain);
      expect(await answer('-f', writeTo(folder, 'message.txt', 'a dog\n'))).toEqual(other);
      expect(await answer('-p', 'a\\ndog')).toEqual(await answer('-p', 'a\ndog'));
      expect(await answer('-p', 'a\\ndog', '--no-escape')).not.toEqual(await answer('-p', 'a\ndog'));
      const kind = await answer('-sys', 'Be kind.');
      expect(kind).not.toEqual(plain);
      expect(await answer('-sysf', writeTo(folder, 'kind.txt', 'Be kind.\n'))).toEqual(kind);
      expect(await answer('--chat-template', 'llama3')).not.toEqual(plain);
      const marked = await answer('--chat-template', template('#'));
      expect(marked).not.toEqual(plain);
      expect(await answer('--chat-template-file', writeTo(folder, 'a.jinja', template('#')))).toEqual(marked);
    },
  );
});

describe('chat: reasoning, turns and speeds', () => {
  const show = template('').replace('{% for', '{{ enable_thinking }}{{ reasoning_effort }}{{ extra }}{% for');
  const answer = async (...args: Args): Promise<number[]> =>
    (await report(chat, '-n', 8, '--temp', 0, '--chat-template', show, ...args)).ids;
  effect(chat, ['chatTemplateKwargs', 'reasoning', 'reasoningBudget', 'reasoningEffort'], 'what the template is told', async () => {
    const off = await answer('--chat-template-kwargs', '{"enable_thinking": false}');
    expect(off).not.toEqual(await answer());
    expect(await answer('-rea', 'off')).toEqual(off);
    expect(await answer('--reasoning-budget', 0)).toEqual(off);
    expect(await answer('-rea', 'auto', '--reasoning-budget', -1)).toEqual(await answer());
    expect(await answer('--reasoning-effort', 'low')).toEqual(await answer('--chat-template-kwargs', '{"reasoning_effort": "low"}'));
  });
  effect(chat, ['reasoningBudgetMessage'], 'what stands where reasoning is cut off', async () => {
    const opened = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}'];
    const args = ['-n', 30, '--temp', 0, ...opened, '--reasoning-budget', 4];
    const { reasoning, ids } = await json<{ reasoning: string; ids: number[] }>(
      chat,
      ...args,
      '--reasoning-budget-message',
      ' ... enough.',
    );
    expect(reasoning).toMatch(/ \.\.\. enough\.$/);
    expect(ids.slice(0, 4)).toEqual((await answer(...args)).slice(0, 4));
  });
  effect(chat, ['reasoningFormat', 'color'], 'how reasoning is shown', async () => {
    const thinks: Args = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}{# <think> </think> #}'];
    const args = [...without(BASE.chat, '--json', 1), ...thinks, '-n', 60, '--grammar', 'root ::= "<think>abc</think>\\n\\nxyz"'];
    const shown = async (...more: Args): Promise<string> => (await invoke(chat, [...args, ...more])).stdout;
    // A grammar disables the parser, which test/cli/show-answer.test.ts covers. This tests only
    // that the flags are read.
    expect(await shown('--reasoning-format', 'none', '--color', 'off')).toContain('<think>abc</think>');
    expect((await failure(() => shown('--reasoning-format', 'x'))).code).toBe('ERR_USAGE');
  });
  effect(
    chat,
    ['conversation', 'interactive', 'singleTurn', 'multilineInput', 'showTimings', 'contextShift'],
    'how many turns, and what is said of them',
    async () => {
      const args = without(BASE.chat, '--json', 1);
      const typed = (more: Args, input: string) => runCli(['chat', ...without(args, '-p'), '--temp', 0, ...more], { input });
      const lines = async (more: Args, input: string): Promise<number> => (await typed(more, input)).stdout.trimEnd().split('\n').length;
      expect(await lines(['-cnv'], 'a\nb\nc\n')).toBe(3);
      expect(await lines(['-st'], 'a\nb\nc\n')).toBe(1);
      expect(await lines(['-mli'], 'a\nb\nc\n')).toBe(1);
      expect(await lines(['-p', 'x', '-i'], 'a\nb\n')).toBe(3);
      expect((await typed(['--show-timings'], 'a\n')).stderr).toMatch(/^prompt \d+ tokens, .* generation 3 tokens/);
      const long = `${'many words '.repeat(2)}\n`.repeat(5);
      expect((await typed(['-c', 64], long)).stderr).toMatch(/the context is full; the oldest/);
      expect((await typed(['-c', 64, '--no-context-shift'], long)).stderr).toContain('ERR_CONTEXT_FULL');
      expect((await failure(() => invoke(chat, [...args, '-no-cnv']))).message).toContain('quantlet run');
    },
  );
  effect(chat, ['quiet', 'perf'], 'nothing but the answer is said anyway', async () => {
    const args = without(BASE.chat, '--json', 1);
    for (const flag of ['--log-disable', '--no-perf']) expect((await invoke(chat, [...args, flag])).stderr).toBe('');
  });
});

describe('embed', () => {
  effect(embed, ['json'], 'one object', async () => {
    const args = without(BASE.embed, '--embd-output-format');
    expect((await invoke(embed, [...args, '--json'])).stdout).toBe((await invoke(embed, BASE.embed)).stdout);
  });
  const vectors = async (...args: Args): Promise<number[][]> =>
    (await json<{ data: { embedding: number[] }[] }>(embed, ...args)).data.map((d) => d.embedding);
  const rank = (separator: string, ...args: Args): Promise<Said> =>
    invoke(embed, ['-m', golden('xlm-roberta-rank.gguf'), '--build', 'simd', '-p', `the cat${separator}a hat`, ...args]);

  effect(embed, ['text', 'file', 'embdSeparator', 'escape'], 'the texts', async () => {
    const want = await vectors('-p', 'the cat\na hat', '--pooling', 'mean');
    expect(want).toHaveLength(2);
    const args = [...without(BASE.embed, '-p'), '--pooling', 'mean', '-f', writeTo(folder, 'texts.txt', 'the cat\na hat\n')];
    const fromFile = JSON.parse((await invoke(embed, args)).stdout) as { data: { embedding: number[] }[] };
    expect(fromFile.data.map((d) => d.embedding)).toEqual(want);
    expect(await vectors('-p', 'the cat\\na hat', '-e', '--pooling', 'mean')).toEqual(want);
    expect(await vectors('-p', 'the cat\\na hat', '--no-escape', '--pooling', 'mean')).toHaveLength(1);
    expect(await vectors('-p', 'the cat<>a hat', '--embd-separator', '<>', '--pooling', 'mean')).toEqual(want);
  });
  effect(embed, ['pooling', 'embdNormalize', 'embdOutputFormat'], 'which vectors, how long, how written', async () => {
    const rows = await vectors('--embd-normalize', '-1', '--pooling', 'none');
    const [mean] = await vectors('--embd-normalize', '-1', '--pooling', 'mean');
    expect(rows.length).toBeGreaterThan(1);
    mean.forEach((x, i) => expect(rows.reduce((sum, row) => sum + row[i], 0) / rows.length).toBeCloseTo(x, 4));
    const [taxi] = await vectors('--embd-normalize', 1, '--pooling', 'mean');
    expect(taxi.reduce((sum, x) => sum + Math.abs(x), 0)).toBeCloseTo(1, 4);
    expect((await invoke(embed, [...BASE.embed, '--embd-output-format', 'array', '--pooling', 'mean'])).stdout).toMatch(/^\[\[/);
  });
  effect(embed, ['clsSeparator'], 'parts a query from its document', async () => {
    const { stdout } = await rank('\t');
    expect((await rank('::', '--cls-separator', '::')).stdout).toBe(stdout);
    expect((await rank('::')).stdout).not.toBe(stdout);
  });
});

describe('bench', () => {
  interface Row {
    n_prompt: number;
    n_gen: number;
    n_depth: number;
    samples_ns: number[];
    n_batch: number;
    type_k: string;
    type_v: string;
  }
  effect(bench, ['benchPrompt', 'benchGen', 'benchBoth', 'benchDepth', 'repetitions'], 'which tests, how often', async () => {
    const rows = await json<Row[]>(bench, '-p', '5', '-n', 3, '-pg', '6,2', '-d', '0,7', '-r', 2);
    const pairs = [
      [4, 0],
      [5, 0],
      [0, 2],
      [0, 3],
      [6, 2],
    ];
    expect(rows.map((r) => [r.n_prompt, r.n_gen, r.n_depth])).toEqual([0, 7].flatMap((d) => pairs.map(([p, n]) => [p, n, d])));
    expect(rows.every((r) => r.samples_ns.length === 2)).toBe(true);
    const ranges = await json<Row[]>(bench, '-p', '8-16*2', '-n', '1-3+2');
    expect(ranges.map((r) => r.n_prompt + r.n_gen)).toEqual([4, 8, 16, 2, 1, 3]);
  });
  effect(bench, ['delay', 'json'], 'a pause before each test; JSON', async () => {
    const start = performance.now();
    const args = without(BASE.bench, '-o');
    expect(JSON.parse((await invoke(bench, [...args, '--json', '--delay', 1])).stdout)).toHaveLength(2);
    expect(performance.now() - start).toBeGreaterThan(2000);
  });
  it('a model that makes vectors reads prompts and generates nothing', async () => {
    const args = ['-m', golden('bert.gguf'), '-p', 4, '-r', 1, '-t', 1, '--build', 'simd', '--no-warmup', '-o', 'json'] as const;
    expect((JSON.parse((await invoke(bench, args)).stdout) as Row[]).map((r) => r.n_gen)).toEqual([0]);
    expect((await failure(() => invoke(bench, [...args, '-n', 2]))).code).toBe('ERR_INVALID_ARGUMENT');
  });
  effect(bench, ['batch', 'cacheTypeK', 'cacheTypeV'], 'rows say so', async () => {
    expect(await json<Row[]>(bench, '-b', 3, '-ctk', 'q8_0', '-ctv', 'f32', '-n', 0)).toMatchObject(
      Array(2).fill({ n_batch: 3, type_k: 'q8_0', type_v: 'f32' }),
    );
  });
  effect(bench, ['output'], 'md, jsonl and csv', async () => {
    const print = async (format: string): Promise<string> => (await invoke(bench, [...BASE.bench, '-o', format])).stdout;
    expect(await print('md')).toMatch(/^\| model .*\n\| -+/);
    expect(await print('csv')).toMatch(/^build,cpu_info,.*\n"/);
    expect(
      (await print('jsonl'))
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as Row).n_prompt),
    ).toEqual([4, 0]);
  });
});

describe('perplexity', () => {
  interface Measured {
    ppl: number;
    chunks: number;
    n_ctx: number;
    kl?: { kld: { mean: number } };
  }
  const measured = (...args: Args): Promise<Measured> => json<Measured>(perplexity, ...args);
  effect(perplexity, ['file', 'prompt', 'chunks', 'json'], 'which text, how much of it', async () => {
    const all = await measured();
    const args = without(BASE.perplexity, '-f');
    expect(all.n_ctx).toBe(24);
    expect(await measured('--chunks', 1)).toMatchObject({ chunks: 1 });
    expect(all.chunks).toBeGreaterThan(1);
    expect(JSON.parse((await invoke(perplexity, [...args, '-p', readFileSync(text, 'utf8')])).stdout)).toEqual(all);
    expect((await measured('-f', writeTo(folder, 'other.txt', 'a dog ran up to the old tree\n'.repeat(9)))).ppl).not.toBe(all.ppl);
    expect((await invoke(perplexity, without(BASE.perplexity, '--json', 1))).stdout).toMatch(/Final estimate: PPL = /);
  });
  effect(perplexity, ['klBase', 'kl'], 'the logits are written, and compared with', async () => {
    const file = join(folder, 'base.kld');
    expect(await measured('--kl-divergence-base', file)).not.toHaveProperty('kl');
    expect((await measured('--kl-divergence-base', file, '--kl-divergence')).kl!.kld.mean).toBeCloseTo(0, 3);
    expect((await measured('-m', golden('llama-q4_0.gguf'), '--kl-divergence-base', file, '--kl-divergence')).kl!.kld.mean).toBeGreaterThan(
      0.001,
    );
  });
});

describe('imatrix', () => {
  const measured = (...args: Args): Promise<{ ppl?: number; chunks: number; matrices: number }> => json(imatrix, ...args);
  const written = (name = 'imatrix.gguf'): Promise<ImatrixSums> => readImatrixSums(toBytes(readFileSync(join(folder, name))));
  effect(imatrix, ['file', 'prompt', 'chunks', 'fromChunk', 'ppl', 'json'], 'which text, how much of it', async () => {
    const all = await measured();
    expect((await written()).datasets).toEqual([text]);
    expect(all).toMatchObject({ ppl: expect.any(Number) as number });
    expect(all.chunks).toBeGreaterThan(4);
    expect(await measured('--no-ppl')).not.toHaveProperty('ppl');
    const said = await invoke(imatrix, [...without(BASE.imatrix, '--json', 1), '--chunk', 1, '--chunks', 3]);
    expect(said.stdout).toMatch(/^\[1\][\d.]+,.*\[3\][\d.]+,\nFinal estimate: PPL = .*\nwrote .*: 14 matrices, 3 windows of 24 tokens\n$/);
    expect(await measured('-p', readFileSync(text, 'utf8'))).toEqual(all);
    expect((await written()).datasets).toEqual([]);
  });
  effect(imatrix, ['imatrixFile', 'outputFormat'], 'where it is written, and how', async () => {
    await measured('-o', join(folder, 'named.dat'), '--output-format', 'dat');
    expect(readFileSync(join(folder, 'named.dat')).readInt32LE()).toBe(14);
  });
  effect(imatrix, ['processOutput'], 'the output matrix is measured too', async () => {
    expect([(await measured()).matrices, (await measured('--process-output')).matrices]).toEqual([14, 15]);
    expect((await written()).entries.get('output.weight')!.counts).toEqual((await written()).entries.get('blk.0.attn_q.weight')!.counts);
  });
  effect(imatrix, ['parseText'], 'control tokens are read', async () => {
    const control: Args = ['-p', '</s>'.repeat(30)];
    expect((await measured(...control)).chunks).toBeGreaterThan((await measured(...control, '--parse-special')).chunks);
  });
  effect(imatrix, ['inFile'], 'what was measured before is added', async () => {
    const before = join(folder, 'before.gguf');
    expect((await measured('-o', before, '--chunks', 2)).chunks).toBe(2);
    expect((await measured('--in-file', before, '--in-file', before, '--chunks', 1)).chunks).toBe(5);
  });
  effect(imatrix, ['outputFrequency', 'saveFrequency'], 'how often it is written, and copied', async () => {
    const kept = (): string[] => readdirSync(folder).filter((name) => name.startsWith('often'));
    await measured('-b', 24, '-o', join(folder, 'often.gguf'), '--save-frequency', 2, '--output-frequency', 100, '--chunks', 5);
    expect(kept()).toEqual(['often.gguf', 'often.gguf.at_2', 'often.gguf.at_4']);
    const stop = new AbortController();
    const args = [...without(BASE.imatrix, '--json', 1), '-b', 24, '-o', join(folder, 'early.gguf'), '--output-frequency', 2];
    const stdout = vi
      .spyOn(process.stdout, 'write')
      .mockImplementation((chunk) => (String(chunk).startsWith('[3]') && stop.abort(new Error('enough')), true));
    expect((await failure(() => imatrix.run(args.map(String), stop.signal))).message).toBe('enough');
    stdout.mockRestore();
    expect((await written('early.gguf')).chunkCount).toBe(2);
  });
});

describe('quantize', () => {
  const there = join(folder, 'quantize');
  mkdirSync(there);
  let files = 0;
  const typesOf = async (args: Args, input = llamaModel, type = 'Q4_0'): Promise<Record<string, string>> => {
    const out = join(there, `${files++}.gguf`);
    await invoke(quantize, [...args, input, out, type, 1]);
    return Object.fromEntries([...(await readGGUF(toBytes(readFileSync(out)))).tensors.values()].map((t) => [t.name, t.type.name]));
  };
  effect(
    quantize,
    ['outputTensorType', 'tokenEmbeddingType', 'tensorType', 'leaveOutputTensor', 'pure'],
    'the types of the tensors',
    async () => {
      const plain = await typesOf([]);
      expect([plain['output.weight'], plain['token_embd.weight'], plain['blk.0.attn_v.weight']]).not.toContain('q5_0');
      expect((await typesOf(['--output-tensor-type', 'q5_0']))['output.weight']).toBe('q5_0');
      expect((await typesOf(['--token-embedding-type', 'q5_0']))['token_embd.weight']).toBe('q5_0');
      const ruled = await typesOf(['--tensor-type', 'attn_v=q5_0', '--tensor-type', 'ffn_up=q8_0']);
      expect([ruled['blk.0.attn_v.weight'], ruled['blk.1.ffn_up.weight'], ruled['blk.0.attn_q.weight']]).toEqual([
        'q5_0',
        'q8_0',
        plain['blk.0.attn_q.weight'],
      ]);
      expect((await typesOf(['--leave-output-tensor']))['output.weight']).toBe('f32');
      expect(plain['output.weight']).not.toBe('q4_0');
      expect((await typesOf(['--pure']))['output.weight']).toBe('q4_0');
    },
  );
  effect(quantize, ['allowRequantize'], 'a quantised model again', async () => {
    const q4 = golden('llama-q4_0.gguf');
    expect((await failure(() => typesOf([], q4, 'Q8_0'))).code).toBe('ERR_INVALID_ARGUMENT');
    expect((await typesOf(['--allow-requantize'], q4, 'Q8_0'))['blk.0.attn_q.weight']).toBe('q8_0');
  });
  effect(quantize, ['imatrix'], 'importance is part of the rounding, and named in the file', async () => {
    const entries: [string, WriteValue][] = [
      ['general.type', { type: 'str', value: 'imatrix' }],
      ['imatrix.datasets', { type: 'arr[str]', value: ['x'] }],
      ['imatrix.chunk_count', { type: 'u32', value: 1 }],
    ];
    const source = (await readGGUF(toBytes(readFileSync(llamaModel)))).tensors.get('blk.0.attn_q.weight')!;
    const n = source.ne[0];
    const sums = Float32Array.from({ length: n }, (_, i) => (i % 4 === 0 ? 1000 : 0.001));
    const tensor = (name: string, values: Float32Array) => ({
      name,
      type: TYPE.f32,
      ne: [values.length],
      data: new Uint8Array(values.buffer),
    });
    const imatrix = writeTo(
      folder,
      'imatrix.gguf',
      writeGGUF(new Map(entries), [tensor('blk.0.attn_q.weight.in_sum2', sums), tensor('blk.0.attn_q.weight.counts', Float32Array.of(1))]),
    );
    const made = async (...args: Args): Promise<Awaited<ReturnType<typeof readGGUF>> & { bytes: Buffer }> => {
      const out = join(there, `${files++}.gguf`);
      await invoke(quantize, [...args, llamaModel, out, 'Q4_0', 1]);
      const bytes = readFileSync(out);
      return Object.assign(await readGGUF(toBytes(bytes)), { bytes });
    };
    const [plain, weighted] = [await made(), await made('--imatrix', imatrix)];
    const data = ({ tensors, bytes }: typeof plain): string => {
      const t = tensors.get('blk.0.attn_q.weight')!;
      return bytes.subarray(t.offset, t.offset + t.byteLength).toString('hex');
    };
    expect(data(weighted)).not.toBe(data(plain));
    expect(weighted.metadata.get('quantize.imatrix.file')).toBe(imatrix);
    expect(data(await made('--imatrix', imatrix, '--exclude-weights', 'attn_q'))).toBe(data(plain));
    expect(data(await made('--imatrix', imatrix, '--include-weights', 'ffn_up'))).toBe(data(plain));
    expect(data(await made('--imatrix', imatrix, '--include-weights', 'attn_q'))).toBe(data(weighted));
  });
  effect(
    quantize,
    ['tensorTypeFile', 'dryRun', 'overrideKv', 'includeWeights', 'excludeWeights'],
    'types from a file, plans, metadata, weights',
    async () => {
      const list = writeTo(there, 'types.txt', 'attn_v=q5_0\nffn_up=q8_0\n');
      const ruled = await typesOf(['--tensor-type-file', list]);
      expect([ruled['blk.0.attn_v.weight'], ruled['blk.1.ffn_up.weight']]).toEqual(['q5_0', 'q8_0']);
      const out = join(there, 'never.gguf');
      expect((await invoke(quantize, ['--dry-run', llamaModel, out, 'Q4_0'])).stdout).toMatch(/would be as Q4_0\n[^]*quant size = /);
      expect(() => readFileSync(out)).toThrow();
      const copy = join(there, 'copy.gguf');
      await invoke(quantize, ['--override-kv', 'llama.x=int:5,llama.y=str:a', llamaModel, copy, 'COPY']);
      const [before, after] = await Promise.all([llamaModel, copy].map((file) => readGGUF(toBytes(readFileSync(file)))));
      expect(new Map([...before.metadata, ['llama.x', 5], ['llama.y', 'a']])).toEqual(after.metadata);
      expect(
        (await failure(() => invoke(quantize, ['--include-weights', 'a', '--exclude-weights', 'b', llamaModel, out, 'Q4_0']))).code,
      ).toBe('ERR_USAGE');
      expect((await invoke(ggufHash, ['--no-layer', copy])).stdout.split(/\s+/)[1]).toBeTruthy();
    },
  );
  effect(quantize, ['json'], 'one object', async () => {
    const { stdout } = await invoke(quantize, ['--json', llamaModel, join(there, 'json.gguf'), 'Q8_0']);
    expect(JSON.parse(stdout)).toMatchObject({ ftype: 'Q8_0', input: llamaModel });
  });
});

describe('tokenize and inspect', () => {
  const ids = async (...args: Args): Promise<number[]> =>
    JSON.parse((await invoke(tokenize, [...BASE.tokenize, ...args])).stdout) as number[];
  effect(
    tokenize,
    ['text', 'file', 'escape', 'noBos', 'noParseSpecial', 'ids', 'showCount', 'verbose'],
    'which text, how it is read and shown',
    async () => {
      const real = await ids('-p', 'a\nb');
      expect(await ids('-p', 'a\\nb', '-e')).toEqual(real);
      expect(await ids('-p', 'a\\nb', '--no-escape')).not.toEqual(real);
      expect(await ids('-p', 'a\nb', '--no-bos')).toEqual(real.slice(1));
      expect((await invoke(tokenize, [...BASE.tokenize, '-v', '--temp', 1])).stderr).toMatch(/--temp has no effect here/);
      expect((await ids('-p', '</s>', '--no-parse-special')).length).toBeGreaterThan((await ids('-p', '</s>')).length);
      const file = await invoke(tokenize, ['-m', llamaModel, '--ids', '-f', writeTo(folder, 'tokens.txt', 'a\nb')]);
      expect(JSON.parse(file.stdout)).toEqual(real);
      const lines = (await invoke(tokenize, ['-m', llamaModel, '-p', 'a\nb', '--show-count'])).stdout.trim().split('\n');
      expect(lines.filter((line) => /^ *\d+ -> '/.test(line))).toHaveLength(real.length);
      expect(lines.at(-1)).toBe(`Total number of tokens: ${real.length}`);
    },
  );
  effect(tokenize, ['stdin'], 'standard input', async () => {
    const { code, stdout } = await runCli(['tokenize', '-m', llamaModel, '--ids', '--stdin'], { input: 'a\nb' });
    expect([code, JSON.parse(stdout)]).toEqual([0, await ids('-p', 'a\nb')]);
  });
  effect(inspect, ['experts', 'file', 'prompt', 'ctx', 'chunks', 'threads'], 'how often experts are used, over which text', async () => {
    const use = async (...args: Args): Promise<{ tokens: number; layers: { tokens: number[] }[] }> =>
      JSON.parse((await invoke(inspect, ['--experts', '--json', '-m', golden('llama-moe.gguf'), ...args])).stdout) as never;
    const whole = await use('-f', text, '-t', 1);
    expect(whole.layers.map(({ tokens }) => tokens.reduce((a, n) => a + n))).toEqual([2 * whole.tokens, 2 * whole.tokens]);
    expect((await use('-p', 'the cat')).tokens).toBeLessThan(whole.tokens);
    expect((await use('-f', text, '-c', 8, '--chunks', 2)).tokens).toBe(16);
  });
  const MEMORY = ['memory', 'cacheTypeK', 'cacheTypeV', 'weightsMemory', 'batch', 'parallel'] as const;
  effect(inspect, ['iqWeights'], 'how much weights of IQ1 to IQ3 and TQ1_0 take', async () => {
    const of = async (how: string): Promise<Verdict & { runs: true }> =>
      JSON.parse((await invoke(inspect, ['--memory', iqFile, '-c', 64, '--json', '--iq-weights', how])).stdout) as never;
    const [compact, fast] = [await of('compact'), await of('fast')];
    expect([compact.iq_weights, fast.iq_weights]).toEqual(['compact', 'fast']);
    expect(fast.memory.weights).toBeGreaterThan(1.3 * compact.memory.weights);
    expect((await invoke(inspect, ['--memory', iqFile, '-c', 64])).stdout).toMatch(/^weights of IQ1 to IQ3 and TQ1_0 are compact/m);
    expect((await invoke(run, ['-m', iqFile, '-n', 1, '-p', 'a', '--iq-weights', 'fast', '--verbose'])).stderr).toContain(
      'weights of IQ1 to IQ3 and TQ1_0 are fast',
    );
    const nll = async (how: string): Promise<string> =>
      (await invoke(perplexity, [...without(BASE.perplexity, '-m'), '-m', iqFile, '--iq-weights', how])).stdout;
    expect(await nll('fast')).toBe(await nll('compact'));
  });
  effect(inspect, MEMORY, 'how much memory a model takes, as loading it says', async () => {
    const memory = async (...args: Args): Promise<Model['stats']['memory']> =>
      (JSON.parse((await invoke(inspect, ['--memory', shippedModel, '-c', 512, '--json', ...args])).stdout) as Model['stats']).memory;
    const model = await loadModel(shippedModel, { contextLength: 512, warmUp: false });
    expect(await memory()).toEqual(model.stats.memory);
    await model.dispose();
    const { cache, compute } = await memory();
    expect((await memory('-ctk', 'f32')).cache).toBe(1.5 * cache);
    expect((await memory('-ctv', 'f32')).cache).toBe(1.5 * cache);
    expect((await memory('-np', 2)).cache).toBe(2 * cache);
    expect((await memory('-b', 256)).compute).toBeLessThan(compute);
    expect((await memory('--weights-memory', '1M')).weights).toBeLessThanOrEqual(2 ** 20);
    expect((await invoke(inspect, ['--memory', shippedModel, '-c', 512])).stdout).toMatch(
      /^memory with 512 tokens of context\n {2}weights +\d.*\n {2}cache .*\n {2}computing .*\n {2}in all .*\n$/,
    );
  });
  effect(inspect, ['overrideKv'], 'what the verdict and the memory are of', async () => {
    const said = async <T>(...args: Args): Promise<T> => JSON.parse((await invoke(inspect, ['--json', ...args])).stdout) as T;
    const overrideKv = { 'llama.context_length': 96 };
    const model = await loadModel(shippedModel, { contextLength: 0, warmUp: false, overrideKv });
    const flag: Args = ['--override-kv', 'llama.context_length=int:96'];
    expect(await said(shippedModel, '--memory', ...flag)).toMatchObject({ context_length: 96, memory: model.stats.memory });
    await model.dispose();
    // The lists show the unchanged file.
    expect(await said(llamaModel, '--override-kv', 'general.architecture=str:none')).toMatchObject({
      architecture: 'llama',
      verdict: { runs: false, code: 'ERR_UNSUPPORTED_ARCH' },
    });
    expect(
      await said('--experts', '-m', golden('llama-moe.gguf'), '-f', text, '--override-kv', 'llama.expert_used_count=int:1'),
    ).toMatchObject({
      layers: expect.arrayContaining([expect.objectContaining({ used: 1 })]) as unknown,
    });
  });
  effect(inspect, ['neuronWindow', 'ctxCheckpoints'], 'how much memory neurons and states take', async () => {
    const memory = async (...args: Args): Promise<Model['stats']['memory']> =>
      (JSON.parse((await invoke(inspect, ['--memory', '-c', 512, '--json', ...args])).stdout) as Model['stats']).memory;
    expect((await memory(predicted, '--neuron-window', 5)).weights).toBeLessThan((await memory(predicted)).weights);
    const recurrent = writeTo(folder, 'mamba.gguf', goldenModel('mamba'));
    expect((await memory(recurrent, '-ctxcp', 1)).cache).toBeLessThan((await memory(recurrent)).cache);
  });
  effect(inspect, ['json'], 'one object', async () => {
    expect(JSON.parse((await invoke(inspect, [llamaModel, '--json'])).stdout)).toMatchObject({ architecture: 'llama' });
    expect((await invoke(inspect, [llamaModel])).stdout).toMatch(/^(?!\{)/);
    expect((await invoke(inspect, [])).stdout).toBe((await invoke(inspect, [shippedModel])).stdout);
  });
});

describe('rotate', () => {
  const out = join(folder, 'rotated.gguf');
  const keysOf = async (...args: Args): Promise<string[]> => {
    await invoke(rotate, [...args, llamaModel, out]);
    const { metadata } = await readGGUF(toBytes(readFileSync(out)));
    return [...metadata].flatMap(([key, n]) => (key.startsWith('quantlet.rotation.') ? [`${key.slice(18)} ${String(n)}`] : []));
  };
  effect(rotate, ['r1', 'r2', 'r3', 'r4', 'rotationSeed'], 'what the file says of itself', async () => {
    expect(await keysOf()).toEqual(['r1 32', 'r2 8', 'seed 0']);
    expect(await keysOf('--r1', '--seed', 5)).toEqual(['r1 32', 'seed 5']);
    expect(await keysOf('--r3', '--r2', '--r4')).toEqual(['r2 8', 'r3 8', 'r4 40', 'seed 0']);
  });
  effect(rotate, ['learn', 'learnSteps', 'learnRate', 'checkpoint'], 'learned matrices, and a file to go on from', async () => {
    const text = writeTo(folder, 'learn.txt', 'One day a dog saw a big red ball and ran. '.repeat(40));
    const learning: Args = ['--learn', text, '--learn-steps', 2, '--checkpoint', join(folder, 'learned.gguf')];
    expect(await keysOf(...learning)).toEqual(['r1 32', 'r2 8', 'seed 0', 'steps 2']);
    const first = readFileSync(out);
    await keysOf(...learning);
    expect(readFileSync(out).equals(first), 'there is nothing left to do').toBe(true);
    await expect(keysOf(...learning, '--learn-rate', 0.5)).rejects.toMatchObject({
      message: expect.stringMatching(/is of another model, text/),
    });
  });
  effect(rotate, ['threads', 'json'], 'one object', async () => {
    const { stdout } = await invoke(rotate, ['--json', '-t', 2, llamaModel, out]);
    expect(JSON.parse(stdout)).toMatchObject({ input: llamaModel, output: out, r1: 32, r2: 8, seed: 0, untied_bytes: 0, threads: 2 });
  });
});

describe('sparsify', () => {
  effect(sparsify, ['heads'], 'rows of heads, of any model and without a text', async () => {
    expect((await readGGUF(toBytes(readFileSync(heads)))).tensors.has('blk.0.attn_output_t.squares')).toBe(true);
  });
  const out = join(folder, 'sparse-too.gguf');
  const args: Args = ['-m', llamaModel, '-c', 24, '-t', 1, '-o', out];
  const said = async (...more: Args): Promise<string> => (await invoke(sparsify, [...args, ...more])).stdout;
  effect(
    sparsify,
    ['model', 'overrideKv', 'file', 'prompt', 'sparseFile', 'ctx', 'chunks'],
    'windows of the text, and a file',
    async () => {
      const text100 = 'the cat '.repeat(60);
      expect((await failure(() => said('-p', text100))).message).toMatch(/nothing in this llama model/);
      expect(await said('-p', text100, '--override-kv', RELU, '--chunks', 2)).toMatch(/wrote .*sparse-too\.gguf: 48 tokens/);
      expect(await said('-f', text, '--override-kv', RELU, '--chunks', 1, '-c', 32)).toMatch(/wrote .*sparse-too\.gguf: 32 tokens/);
      expect((await readGGUF(toBytes(readFileSync(out)))).tensors.has('blk.0.ffn_down_t.weight')).toBe(true);
    },
  );
  effect(sparsify, ['hot', 'bundle'], 'neurons that are always computed, and rows that lie together', async () => {
    await json(sparsify, '--hot', 0.01, '--bundle');
    const { metadata, tensors } = await readGGUF(toBytes(readFileSync(join(folder, 'sparse.gguf'))));
    expect([metadata.has('quantlet.sparse.hot_neurons'), tensors.has('blk.0.ffn_up_down.weight')]).toEqual([true, true]);
  });
  effect(sparsify, ['predictor', 'predictorSteps', 'recall', 'threads', 'json'], 'predictors of a rank, as good as is asked', async () => {
    const found = async (recall: number): Promise<{ recall: number; threshold: number }> =>
      json(sparsify, '--predictor', 4, '--predictor-steps', 10, '--recall', recall, '-t', 2);
    const [most, few] = [await found(1), await found(0.3)];
    expect(most.recall).toBe(1);
    expect(few.recall).toBeLessThan(1);
    expect(few.threshold).toBeGreaterThan(most.threshold);
  });
});

describe('gguf-split and gguf-hash', () => {
  const there = join(folder, 'split');
  mkdirSync(there);
  const said = async (c: Command, ...args: Args): Promise<string> => (await invoke(c, args)).stdout;
  const hashOf = async (file: string): Promise<string> => (await said(ggufHash, '--no-layer', file)).split(/\s+/)[1];
  effect(
    ggufSplit,
    ['split', 'merge', 'splitMaxTensors', 'splitMaxSize', 'noTensorFirstSplit', 'dryRun'],
    'parts that are the model, and the model again',
    async () => {
      const parts = join(there, 'parts');
      const plan = await said(ggufSplit, '--dry-run', '--split-max-tensors', 5, llamaModel, parts);
      const names = plan
        .trim()
        .split('\n')
        .map((line) => line.split(': ')[0]);
      expect(names.length).toBeGreaterThan(2);
      expect(() => readFileSync(names[0])).toThrow();
      expect(await said(ggufSplit, '--split', '--split-max-tensors', 5, llamaModel, parts)).toBe(plan);
      const answer = await report(run, '--temp', 0);
      expect((await report(run, '--temp', 0, '-m', names[0])).ids).toEqual(answer.ids);
      const whole = join(there, 'whole.gguf');
      await said(ggufSplit, '--merge', names[0], whole);
      expect(await hashOf(whole)).toBe(await hashOf(llamaModel));
      expect((await readGGUF(toBytes(readFileSync(whole)))).metadata).toEqual((await readGGUF(toBytes(readFileSync(llamaModel)))).metadata);
      expect((await failure(() => invoke(ggufSplit, ['--merge', names[0], whole]))).message).toContain('already exists');
      expect(await said(ggufSplit, '--dry-run', '--split-max-size', '1M', llamaModel, parts)).toContain('-00001-of-00001.gguf');
      expect(await said(ggufSplit, '--dry-run', '--no-tensor-first-split', llamaModel, parts)).toMatch(/-00001-of-00002.gguf: 0 tensors/);
    },
  );
  effect(ggufHash, ['sha1', 'sha256', 'uuid', 'hashAll', 'noLayer', 'check'], 'which hashes of what; a manifest is checked', async () => {
    const tensors = [...(await readGGUF(toBytes(readFileSync(llamaModel)))).tensors.values()];
    const bytes = readFileSync(llamaModel);
    const data = tensors.map(({ offset, byteLength }) => bytes.subarray(offset, offset + byteLength));
    const sha = (kind: string, ...parts: Uint8Array[]): string => createHash(kind).update(Buffer.concat(parts)).digest('hex');
    expect(await said(ggufHash, '--no-layer', '--sha1', '--sha256', llamaModel)).toBe(
      `sha1      ${sha('sha1', ...data)}  ${llamaModel}\nsha256    ${sha('sha256', ...data)}  ${llamaModel}\n`,
    );
    const manifest = await said(ggufHash, '--all', llamaModel);
    expect(manifest).toContain(`sha256    ${sha('sha256', data[0])}  ${llamaModel}:${tensors[0].name}\n`);
    expect(await said(ggufHash, '--uuid', '--no-layer', llamaModel)).toMatch(/^uuid {6}[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab]/);
    const file = writeTo(there, 'manifest', manifest);
    expect((await invoke(ggufHash, ['-c', file, llamaModel])).code).toBe(0);
    const windows = writeTo(there, 'windows', `\ufeff${manifest.replaceAll('\n', '\r\n')}`);
    expect((await invoke(ggufHash, ['-c', windows, llamaModel])).code).toBe(0);
    const wrong = writeTo(there, 'wrong', manifest.replace(sha('sha256', data[0]), '0'.repeat(64)));
    expect(await invoke(ggufHash, ['-c', wrong, llamaModel])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Mismatch') as string,
    });
  });
});

describe('serve', () => {
  const post = (url: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
  const complete = (url: string, prompt: string, n = 2, headers = {}): Promise<Response> =>
    post(url, '/completion', { prompt, n_predict: n }, headers);
  const say = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 1 });
  /** Sends a request without its body, which fetch cannot do. */
  const bodyless = (url: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      let answer = '';
      socket
        .on('data', (chunk) => {
          answer += String(chunk);
          socket.end(); // the server would wait for the rest of the body
        })
        .on('close', () => resolve(answer))
        .on('error', () => resolve(answer));
      socket.write('POST /completion HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{');
    });

  effect(serve, ['host', 'port'], 'where it listens', async () => {
    const free = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => free.once('listening', resolve));
    const { port } = free.address() as AddressInfo;
    expect((await failure(() => serve.run([...BASE.serve, '--port', port].map(String), never))).message).toMatch(
      `127.0.0.1:${port}: the port is in use`,
    );
    await new Promise((resolve) => free.close(resolve));
    expect(await served(['--port', port], (url) => Promise.resolve(url))).toBe(`http://127.0.0.1:${port}`);
    // An address that RFC 5737 reserves for documentation.
    expect((await failure(() => serve.run([...BASE.serve, '--host', '203.0.113.7'].map(String), never))).message).toMatch(
      '203.0.113.7:0: this machine has no such address',
    );
  });
  effect(serve, ['alias'], "the model's name", () =>
    served(['-a', 'other'], async (url) => {
      expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'other' }] });
    }),
  );
  effect(serve, ['apiKey', 'apiKeyFile'], 'who has none of the keys is refused', () =>
    served(['--api-key', 'a', '--api-key', 'b', '--api-key-file', writeTo(folder, 'keys', 'c\nd\n')], async (url) => {
      const status = async (key: string): Promise<number> => (await complete(url, 'a', 1, { authorization: `Bearer ${key}` })).status;
      expect(await Promise.all(['a', 'b', 'c', 'd', 'e'].map(status))).toEqual([200, 200, 200, 200, 401]);
    }),
  );
  effect(serve, ['cors'], 'pages of those origins alone; by default those of this machine', async () => {
    const asking = [
      'http://localhost:5173',
      'https://127.0.0.1',
      'http://[::1]:80',
      'http://localhost.example',
      'null',
      'https://a.example',
      'https://b.example',
    ];
    const allowed = (...args: Args): Promise<unknown[]> =>
      served(args, async (url) => {
        const answer = async (origin: string): Promise<string | null> =>
          (await fetch(`${url}/health`, { headers: { origin } })).headers.get('access-control-allow-origin');
        const answers = await Promise.all(asking.map(answer));
        return answers.flatMap((answer, i) =>
          answer === null ? [] : [answer === '*' ? '*' : asking.indexOf(answer) === i ? i : 'another'],
        );
      });
    expect(await allowed()).toEqual([0, 1, 2]);
    expect(await allowed('--cors', 'https://a.example')).toEqual([5]);
    expect(await allowed('--cors-origins', 'https://a.example, https://b.example', '--cors', 'localhost')).toEqual([0, 1, 2, 5, 6]);
    expect(await allowed('--cors', 'none')).toEqual([]);
    expect(await allowed('--cors', '*')).toEqual(['*', '*', '*', '*', '*', '*', '*']);
  });
  effect(serve, ['maxBody', 'maxText', 'maxMessages'], 'what is larger gets 413', async () => {
    const status = (args: Args, body: unknown): Promise<number> =>
      served(args, async (url) => (await post(url, '/v1/chat/completions', body)).status);
    const long = say('a'.repeat(60));
    expect(await status([], long)).toBe(200);
    expect(await status(['--max-body', 80], long)).toBe(413);
    expect(await status(['--max-text', 50], long)).toBe(413);
    expect(await status(['--max-messages', 1], { ...long, messages: [...long.messages, ...long.messages] })).toBe(413);
  });
  effect(serve, ['maxBuffered'], 'too much at once gets 503', () =>
    served(['--max-buffered', 100_000], async (url) => {
      const status = async (user: string): Promise<number> => (await post(url, '/completion', { prompt: 'a', n_predict: 1, user })).status;
      expect([await status('a'.repeat(200_000)), await status('a')]).toEqual([503, 200]);
    }),
  );
  effect(serve, ['maxQueue'], 'who would wait gets 429', () =>
    served(['-np', 1, '--max-queue', 1], async (url) => {
      const long = { prompt: 'the cat', n_predict: 200, ignore_eos: true };
      const answers = await Promise.all(Array.from({ length: 8 }, () => post(url, '/completion', long)));
      expect(new Set(answers.map((a) => a.status))).toEqual(new Set([200, 429]));
    }),
  );
  effect(serve, ['ssePingInterval'], 'so long is a stream silent', async () => {
    // 16,000 tokens take longer than a second on any machine.
    const long = writeTo(folder, 'long.gguf', await patchedLlama({ metadata: { 'llama.context_length': 16384 } }));
    const begins = (...args: Args): Promise<string> =>
      served(
        ['-m', long, '-c', 16384, ...args],
        async (url) => {
          const leaving = new AbortController();
          const { signal } = leaving;
          const body = JSON.stringify({ prompt: 'the cat '.repeat(4000), n_predict: 1, stream: true });
          const response = await fetch(`${url}/completion`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body,
            signal,
          });
          const { value } = await response.body!.getReader().read();
          leaving.abort();
          return new TextDecoder().decode(value);
        },
        without(BASE.serve, '-m'),
      );
    expect(await begins('--sse-ping-interval', 1)).toBe(':\n\n');
    expect(await begins('--sse-ping-interval', -1)).toMatch(/^data: /);
  });
  effect(serve, ['bodyTimeout', 'timeout', 'answerTimeout'], 'a request, a part of it and an answer take so long at most', async () => {
    expect(await served(['--body-timeout', 1], bodyless)).toMatch(/^HTTP\/1.1 408 [^]*did not arrive in 1000 ms/);
    expect(await served(['-to', 1], bodyless)).toMatch(/^HTTP\/1.1 408 [^]*Nothing of the body arrived for 1000 ms/);
    // Node's own limit must not come first.
    let nodesLimit = 0;
    const look = (message: unknown): void => void (nodesLimit = (message as { server: Server }).server.requestTimeout);
    subscribe('http.server.request.start', look);
    await served(['--body-timeout', 3600], async (url) => (await fetch(`${url}/health`)).status);
    unsubscribe('http.server.request.start', look);
    expect(nodesLimit).toBeGreaterThan(3_600_000);
    // 16,000 tokens take longer than a second on any machine.
    const long = writeTo(folder, 'long.gguf', await patchedLlama({ metadata: { 'llama.context_length': 16384 } }));
    const status = await served(
      ['-m', long, '-c', 16384, '--answer-timeout', 1],
      async (url) => (await post(url, '/completion', { prompt: 'a', ignore_eos: true })).status,
      without(BASE.serve, '-m'),
    );
    expect(status).toBe(504);
  });
  effect(serve, ['allowedHosts'], 'requests for another name', async () => {
    const status = (url: string): Promise<number | undefined> =>
      new Promise((resolve, reject) => {
        request(url, { path: '/props', headers: { host: 'name.example' } }, (response) => resolve(response.resume().statusCode))
          .on('error', reject)
          .end();
      });
    expect(await served([], status)).toBe(403);
    expect(await served(['--allowed-hosts', 'name.example'], status)).toBe(200);
  });
  effect(serve, ['parseSpecial'], 'control tokens in messages', async () => {
    const tokens = (url: string): Promise<number> =>
      post(url, '/v1/chat/completions', say('</s></s></s>')).then(
        async (r) => ((await r.json()) as { usage: { prompt_tokens: number } }).usage.prompt_tokens,
      );
    expect(await served(['--parse-special'], tokens)).toBeLessThan(await served([], tokens));
  });
  effect(serve, ['accessLog'], 'a line a request', async () => {
    const log = (args: Args): Promise<string> =>
      served(args, async (url, stderr) => {
        await (await fetch(`${url}/health`)).text();
        await new Promise((resolve) => setTimeout(resolve, 20));
        return stderr();
      });
    expect(await log(['--access-log'])).toMatch(/ GET \/health 200 [\d.]+ ms\n/);
    expect(await log([])).not.toContain('/health');
  });
  effect(serve, ['noWebui'], 'no page', async () => {
    const page = (url: string): Promise<number> => fetch(url).then((r) => r.status);
    expect([await served([], page), await served(['--no-webui'], page)]).toEqual([200, 404]);
  });
  effect(serve, ['predict'], 'so many tokens, unless a request says otherwise', () =>
    served(['-n', 3], async (url) => {
      const count = async (more: object): Promise<number> =>
        ((await (await post(url, '/completion', { prompt: 'a', ignore_eos: true, ...more })).json()) as { tokens_predicted: number })
          .tokens_predicted;
      expect([await count({}), await count({ n_predict: 5 })]).toEqual([3, 5]);
    }),
  );
  effect(
    serve,
    ['samplers', 'samplerSeq', 'ignoreEos', 'stop', 'grammar', 'grammarFile', 'jsonSchema', 'jsonSchemaFile'],
    'how text is made, unless a request says otherwise',
    async () => {
      type Answer = { content: string; tokens: number[]; stop_type: string };
      const complete = async (args: Args, more: object = {}): Promise<Answer> =>
        served(args, async (url) => {
          const request = { prompt: 'the cat', n_predict: 12, seed: 7, return_tokens: true, ...more };
          return (await (await post(url, '/completion', request)).json()) as Answer;
        });
      const flat = ['--temp', 3, '--min-p', 0, '--top-p', 1];
      const few = await complete([...flat, '--top-k', 1, '--samplers', 'top_k']);
      expect(few.tokens).toEqual((await complete([...flat, '--top-k', 1, '--sampler-seq', 'k'])).tokens);
      expect(few.tokens).not.toEqual((await complete([...flat, '--top-k', 1, '--samplers', 'temperature'])).tokens);
      for (const samplers of ['k', ['top_k']])
        expect((await complete([...flat, '--top-k', 1, '--samplers', 'temp'], { samplers })).tokens).toEqual(few.tokens);
      const gbnf = 'root ::= "ab" [c-e]';
      for (const given of [
        ['--grammar', gbnf],
        ['--grammar-file', writeTo(folder, 'serve.gbnf', gbnf)],
      ])
        expect((await complete(given)).content.trim()).toMatch(/^ab[cde]$/);
      for (const given of [
        ['-j', '{"const": [2]}'],
        ['-jf', writeTo(folder, 'serve.json', '{"const": [2]}')],
      ]) {
        expect(JSON.parse((await complete(given)).content)).toEqual([2]);
        expect(JSON.parse((await complete(given, { json_schema: { const: [3] } })).content)).toEqual([3]);
        expect((await complete(given, { grammar: gbnf })).content.trim()).toMatch(/^ab[cde]$/);
      }
      const word = few.content.slice(2, 4);
      expect(await complete([...flat, '--top-k', 1, '-r', word])).toMatchObject({
        stop_type: 'word',
        content: few.content.slice(0, few.content.indexOf(word)),
      });
      expect((await complete([...flat, '--top-k', 1, '-r', word], { stop: [] })).tokens).toEqual(few.tokens);
      const eos = ['-l', '2+1000', '--temp', 0];
      const ends = [
        await complete(eos),
        await complete([...eos, '--ignore-eos']),
        await complete([...eos, '--ignore-eos'], { ignore_eos: false }),
      ];
      expect(ends.map(({ tokens }) => tokens.length)).toEqual([0, 12, 0]);
    },
  );
  effect(
    serve,
    ['chatTemplateKwargs', 'reasoning', 'reasoningEffort', 'reasoningBudget', 'reasoningBudgetMessage', 'reasoningFormat'],
    'what conversations are told, unless a request says otherwise',
    async () => {
      const show = template('').replace('{% for', '{{ enable_thinking }},{{ reasoning_effort }},{{ extra }}{% for');
      const shown = (args: Args, more: object = {}): Promise<string> =>
        served(['--chat-template', show, ...args], async (url) => {
          const request = { messages: [{ role: 'user', content: '' }], ...more };
          return ((await (await post(url, '/apply-template', request)).json()) as { prompt: string }).prompt;
        });
      expect(await shown(['--chat-template-kwargs', '{"extra": 5}', '-rea', 'off', '--reasoning-effort', 'low'])).toMatch(/^false,low,5/i);
      expect(await shown(['-rea', 'off'], { chat_template_kwargs: { enable_thinking: 'yes' } })).toMatch(/^yes,,/);
      expect(await shown(['--reasoning-budget', 0])).toMatch(/^false,,/i);
      expect(await shown(['--reasoning-budget', 0], { reasoning_budget_tokens: 5 })).toMatch(/^,,/);

      const opened = ['--chat-template', '{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}'];
      type Answer = { choices: [{ message: { content: string; reasoning_content?: string } }] };
      const said = (args: Args, more: object = {}): Promise<Answer['choices'][0]['message']> =>
        served([...opened, '--temp', 0, ...args], async (url) => {
          const request = { messages: [{ role: 'user', content: 'the cat' }], max_tokens: 30, ignore_eos: true, ...more };
          return ((await (await post(url, '/v1/chat/completions', request)).json()) as Answer).choices[0].message;
        });
      const budget = ['--reasoning-budget', 4, '--reasoning-budget-message', ' ... enough.'];
      const cut = await said(budget);
      expect(cut.reasoning_content).toMatch(/ \.\.\. enough\.$/);
      expect(cut.content).not.toBe('');
      expect((await said(budget, { reasoning_budget_message: '' })).reasoning_content).not.toMatch(/enough/);
      expect((await said([...budget, '--reasoning-format', 'none'])).content).toMatch(/ \.\.\. enough\. ?<\/think>/);
      expect((await said([...budget, '--reasoning-format', 'none'], { reasoning_format: 'auto' })).content).toBe(cut.content);
    },
  );
  const statusAt = async (url: string, path: string): Promise<number> => (await fetch(url + path)).status;
  effect(serve, ['path', 'apiPrefix'], 'files of a folder; everything behind a prefix', async () => {
    const site = join(folder, 'site');
    mkdirSync(site);
    writeTo(site, 'index.html', 'mine');
    await served(['--path', site, '--api-prefix', '/api'], async (url) => {
      expect(await (await fetch(`${url}/api/`)).text()).toBe('mine');
      expect([await statusAt(url, '/api/health'), await statusAt(url, '/health')]).toEqual([200, 404]);
    });
  });
  effect(serve, ['metrics', 'noMetrics', 'slots', 'noSlots', 'props'], 'endpoints that there are', async () => {
    const both = (args: Args): Promise<number[]> =>
      served(args, async (url) => [await statusAt(url, '/metrics'), await statusAt(url, '/slots'), (await post(url, '/props', {})).status]);
    expect(await both(['--metrics', '--slots', '--props'])).toEqual([200, 200, 200]);
    expect(await both(['--no-metrics', '--no-slots'])).toEqual([404, 501, 501]);
  });
  effect(serve, ['slotSavePath'], 'sequences are saved and restored', async () => {
    const path = join(folder, 'saved');
    const action = (url: string, what: string, body: object): Promise<unknown> => post(url, `/slots/${what}`, body).then((r) => r.json());
    const prompt = 'the cat sat on the mat';
    const ask = async (url: string): Promise<{ content: string; timings: { prompt_n: number } }> =>
      (await (await post(url, '/completion', { prompt, n_predict: 4, temperature: 0 })).json()) as never;
    const first = await served(['-np', 1, '--slot-save-path', path], async (url) => {
      const answer = await ask(url);
      expect(await action(url, '0?action=save', { filename: 'a.bin' })).toMatchObject({ id_slot: 0, filename: 'a.bin' });
      return answer;
    });
    await served(['-np', 2, '--slot-save-path', path], async (url) => {
      expect(await action(url, '1?action=restore', { filename: 'a.bin' })).toMatchObject({ id_slot: 1 });
      const again = await ask(url);
      expect([again.content, again.timings.prompt_n, first.timings.prompt_n > 1]).toEqual([first.content, 1, true]);
      const slots = (await (await fetch(`${url}/slots`)).json()) as { n_prompt_tokens: number }[];
      expect(await action(url, '1?action=erase', {})).toEqual({ id_slot: 1, n_erased: slots[1].n_prompt_tokens });
      expect((await ask(url)).timings.prompt_n).toBe(first.timings.prompt_n);
      writeTo(path, 'bad.slot', 'qltstate');
      expect(await action(url, '0?action=restore', { filename: 'bad' })).toMatchObject({ error: { code: 'invalid_state' } });
    });
    expect(await served([], async (url) => (await post(url, '/slots/0?action=erase', {})).status)).toBe(501);
  });
  effect(serve, ['prefillAssistant'], "an assistant's message at the end is how the answer begins", async () => {
    const messages = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'once' },
    ];
    const prompt = (args: Args): Promise<string> =>
      served(
        [...args, '--chat-template', 'chatml'],
        async (url) => ((await (await post(url, '/apply-template', { messages })).json()) as { prompt: string }).prompt,
      );
    for (const args of [[], ['--prefill-assistant']]) expect(await prompt(args)).toMatch(/once$/);
    expect(await prompt(['--no-prefill-assistant'])).not.toMatch(/once$/);
  });
  effect(serve, ['spmInfill'], 'the suffix goes first', async () => {
    const [prefix, suffix, middle] = [260, 261, 262];
    const metadata = {
      'tokenizer.ggml.fim_pre_token_id': prefix,
      'tokenizer.ggml.fim_suf_token_id': suffix,
      'tokenizer.ggml.fim_mid_token_id': middle,
    };
    const file = writeTo(folder, 'fim.gguf', await patchedLlama({ metadata }));
    const fill = (args: Args): Promise<{ prompt: string; tokens_predicted: number }> =>
      served(
        ['-m', file, ...args],
        async (url) =>
          (await (
            await post(url, '/infill', { input_prefix: 'the', input_suffix: 'mat', n_predict: 2, ignore_eos: true })
          ).json()) as never,
        without(BASE.serve, '-m'),
      );
    const [plain, first] = [await fill([]), await fill(['--spm-infill'])];
    expect([plain.tokens_predicted, plain.prompt.indexOf('the') < plain.prompt.indexOf('mat')]).toEqual([2, true]);
    expect([first.tokens_predicted, first.prompt.indexOf('the') > first.prompt.indexOf('mat')]).toEqual([2, true]);
    expect(await served([], async (url) => (await post(url, '/infill', { input_prefix: '', input_suffix: '' })).status)).toBe(501);
  });
  effect(serve, ['sslKeyFile', 'sslCertFile'], 'HTTPS', async () => {
    const file = (name: string): string => at(`test/cli/tls/${name}`);
    const args: Args = ['--ssl-key-file', file('localhost-key.pem'), '--ssl-cert-file', file('localhost.pem')];
    await served(args, async (url) => {
      expect(url).toMatch(/^https:/);
      const body = await new Promise<string>((resolve, reject) => {
        secureRequest(`${url}/health`, { ca: readFileSync(file('localhost.pem')) }, (response) =>
          response.on('data', (text) => resolve(String(text))),
        )
          .on('error', reject)
          .end();
      });
      expect(JSON.parse(body)).toEqual({ status: 'ok' });
    });
    expect((await failure(() => work(serve, args.slice(0, 2)))).message).toMatch('both --ssl-key-file and --ssl-cert-file');
    expect((await failure(() => work(serve, ['--ssl-key-file', text, '--ssl-cert-file', text]))).message).toMatch('PEM');
  });
  effect(serve, ['embeddings', 'pooling'], 'vectors of a model that could generate', async () => {
    const vector = (args: Args): Promise<number[]> =>
      served(args, async (url) => {
        const { data } = (await (await post(url, '/v1/embeddings', { input: 'the cat' })).json()) as { data: { embedding: number[] }[] };
        return data[0].embedding;
      });
    const last = await vector(['--embeddings']);
    expect([last.length > 8, last]).toEqual([true, await vector(['--embeddings', '--pooling', 'last'])]);
    expect(await vector(['--embeddings', '--pooling', 'mean'])).not.toEqual(last);
    await served(['--embeddings'], async (url) => expect((await complete(url, 'a')).status).toBe(400));
    await served([], async (url) => {
      const refused = (await (await post(url, '/v1/embeddings', { input: 'a' })).json()) as { error: { message: string } };
      expect(refused.error.message).toContain('--embeddings');
    });
  });
  effect(serve, ['contextShift', 'keep'], 'where the context is full an answer goes on', async () => {
    type Answer = { content: string; tokens_predicted: number; truncated: boolean };
    const answer = (args: Args, more: object = {}): Promise<Answer> =>
      served(['-c', 32, ...args], async (url) => {
        const request = { prompt: 'the cat', n_predict: 60, temperature: 0, ignore_eos: true, ...more };
        return (await (await post(url, '/completion', request)).json()) as Answer;
      });
    expect((await answer([])).tokens_predicted).toBeLessThan(32);
    const shifted = await answer(['--context-shift']);
    expect(shifted).toMatchObject({ tokens_predicted: 60, truncated: true });
    const kept = await answer(['--context-shift', '--keep', -1]);
    expect(kept.content).not.toBe(shifted.content);
    expect((await answer(['--context-shift'], { n_keep: -1 })).content).toBe(kept.content);
    expect((await answer(['--context-shift', '--no-context-shift'])).tokens_predicted).toBeLessThan(32);
  });
  effect(serve, ['special'], 'control tokens are shown', async () => {
    const [, eos] = await json<number[]>(tokenize, '-p', '</s>');
    const said = (args: Args): Promise<string> =>
      served(args, async (url) => {
        const request = { prompt: 'the cat', n_predict: 3, logit_bias: [[eos - 1, 1000]] };
        return ((await (await post(url, '/completion', request)).json()) as { content: string }).content;
      });
    expect([await said([]), await said(['-sp'])]).toEqual(['', '<s><s><s>']);
  });
  effect(serve, ['embdNormalize'], 'how long vectors are, unless a request says otherwise', async () => {
    const vector = (args: Args, more: object = {}): Promise<number[]> =>
      served(['--embeddings', ...args], async (url) => {
        const { data } = (await (await post(url, '/v1/embeddings', { input: 'the cat', ...more })).json()) as {
          data: { embedding: number[] }[];
        };
        return data[0].embedding;
      });
    const [unit, raw, taxi] = [await vector([]), await vector(['--embd-normalize', -1]), await vector(['--embd-normalize', 1])];
    const length = Math.hypot(...raw);
    unit.forEach((x, i) => expect(raw[i] / length).toBeCloseTo(x, 5));
    expect(length).not.toBeCloseTo(1, 1);
    expect(taxi.reduce((sum, x) => sum + Math.abs(x), 0)).toBeCloseTo(1, 5);
    expect(await vector(['--embd-normalize', 1], { embd_normalize: -1 })).toEqual(raw);
    expect(await vector([], { embd_normalize: 1, dimensions: 4 })).toHaveLength(4);
  });
  effect(serve, ['reranking'], 'a model that does not rank is refused', async () => {
    expect((await failure(() => work(serve, ['--reranking']))).message).toMatch('is not a reranker');
  });
  effect(serve, ['modelsDir', 'modelsMax', 'modelsMemory'], 'several models, so many of them at once', async () => {
    const path = join(folder, 'models');
    mkdirSync(path);
    for (const name of ['a.gguf', 'b.gguf']) writeFileSync(join(path, name), readFileSync(llamaModel));
    const states = async (url: string): Promise<Record<string, string>> => {
      const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; status: { value: string } }[] };
      return Object.fromEntries(data.map(({ id, status }) => [id, status.value]));
    };
    const both = (args: Args): Promise<Record<string, string>> =>
      served(
        ['--models-dir', path, '-np', 1, ...args],
        async (url) => {
          expect(await states(url)).toEqual({ a: 'unloaded', b: 'unloaded' });
          for (const model of ['a', 'b']) {
            const answer = (await (await post(url, '/v1/completions', { prompt: 'the', max_tokens: 2, model })).json()) as {
              model: string;
            };
            expect(answer.model).toBe(model);
          }
          expect((await post(url, '/v1/completions', { prompt: 'the', model: 'c' })).status).toBe(404);
          return states(url);
        },
        without(BASE.serve, '-m'),
      );
    expect(await both([])).toEqual({ a: 'loaded', b: 'loaded' });
    expect(await both(['--models-max', 1])).toEqual({ a: 'unloaded', b: 'loaded' });
    // Memory for one of these models, with its cache and its kernels' memory.
    const one = await loadModel(llamaModel, { build: 'simd', warmUp: false, contextLength: 0 });
    const { memoryBytes } = one.stats;
    await one.dispose();
    expect(await both(['--models-memory', Math.ceil(1.5 * memoryBytes)])).toEqual({ a: 'unloaded', b: 'loaded' });
    await served(['-m', join(path, 'a.gguf')], async (url) => expect(Object.keys(await states(url))).toEqual(['llama', 'a']));
    expect((await failure(() => work(serve, ['-m', join(path, 'a.gguf'), '-a', 'x']))).message).toMatch('--alias names one model');
  });
  effect(serve, ['chatTemplate', 'chatTemplateFile'], 'how messages are written', async () => {
    const written = (url: string): Promise<string> =>
      post(url, '/apply-template', say('x')).then(async (r) => ((await r.json()) as { prompt: string }).prompt);
    expect(await served(['--chat-template', template('#')], written)).toContain('#ux');
    expect(await served(['--chat-template-file', writeTo(folder, 'b.jinja', template('%'))], written)).toContain('%ux');
  });
});

describe('batches', () => {
  const records = (
    file = answers,
  ): { custom_id: string | null; response: { status_code: number; body: object } | null; error: object | null }[] =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as never);
  const batched = async (content: string, ...args: Args): Promise<ReturnType<typeof records>> => {
    await invoke(batch, [...BASE.batch, '-i', writeTo(folder, 'in.jsonl', content), ...args]);
    return records();
  };
  const three = ['a', 'b', 'c'].map((id) => asked('/v1/completions', { prompt: id, max_tokens: 2 }, id)).join('');

  effect(batch, ['batchInput', 'batchOutput', 'errorsFile'], 'lines, answers, and what is wrong, apart or among them', async () => {
    expect((await batched(`${three}x\n`)).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c', null]);
    const errors = join(folder, 'errors.jsonl');
    expect((await batched(`${three}x\n`, '--errors', errors)).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c']);
    expect(records(errors)).toMatchObject([{ custom_id: null, error: { code: 'invalid_json', line: 4 } }]);
  });
  effect(batch, ['shard', 'resume'], 'some of the lines, and the rest', async () => {
    expect((await batched(three, '--shard', '1/3')).map((record) => record.custom_id)).toEqual(['b']);
    expect((await batched(three, '--resume')).map((record) => record.custom_id).sort()).toEqual(['a', 'b', 'c']);
    expect(await batched(three, '--shard', '0/3')).toHaveLength(1);
  });
  effect(batch, ['embeddings'], 'vectors of a model that could generate', async () => {
    const line = asked('/v1/embeddings', { input: 'the cat' });
    expect((await batched(line, '--embeddings'))[0]).toMatchObject({ response: { status_code: 200 }, error: null });
    expect((await batched(line))[0].error).toMatchObject({ message: expect.stringContaining('--embeddings') as string });
  });
  effect(batch, ['chatTemplate', 'chatTemplateFile'], 'how messages are written', async () => {
    const line = asked('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }], max_tokens: 1 });
    const tokens = async (...args: Args): Promise<unknown> => (await batched(line, ...args))[0].response!.body;
    const short = { usage: { prompt_tokens: await tokenCount(template('#')) } };
    expect(await tokens('--chat-template', template('#'))).toMatchObject(short);
    expect(await tokens('--chat-template-file', writeTo(folder, 'c.jinja', template('#')))).toMatchObject(short);
    expect(await tokens('--chat-template', template('# # # #'))).not.toMatchObject(short);
  });
  /** Number of tokens of the message "x" in a template. */
  const tokenCount = async (source: string): Promise<number> => {
    const model = await loadModel(llamaModel, { build: 'simd', warmUp: false, chatTemplate: source });
    const { promptIds } = await model.chat([{ role: 'user', content: 'x' }], { maxTokens: 1 }).result();
    await model.dispose();
    return promptIds.length;
  };
  effect(serve, ['batchDir', 'maxFile', 'maxFiles'], 'files and batches', async () => {
    const dir = join(folder, 'batches');
    const upload = (url: string, size: number): Promise<Response> => {
      const form = new FormData();
      form.set('purpose', 'batch');
      form.set('file', new Blob(['x'.repeat(size)]), 'in.jsonl');
      return fetch(`${url}/v1/files`, { method: 'POST', body: form });
    };
    const statuses = (...args: Args): Promise<number[]> =>
      served(args, async (url) => [(await upload(url, 100)).status, (await upload(url, 50)).status, (await upload(url, 50)).status]);
    expect(await statuses('--batch-dir', dir, '--max-file', 60, '--max-files', 90)).toEqual([413, 200, 507]);
    expect(await statuses('--batch-dir', dir)).toEqual([200, 200, 200]);
    expect(await statuses()).toEqual([501, 501, 501]);
  });
});

describe('values that make no sense', () => {
  const missing = join(folder, 'none');
  const range = (name: string) => new RegExp(`${name}.* is .*expected`);
  /**
   * Wrong values per flag, tested in every command that has the flag, and the expected error. Flags
   * without a row take any text or are switches.
   */
  const WRONG: Partial<Record<FlagKey, readonly (readonly [value: string, message: RegExp])[]>> = {
    model: [[missing, /none/]],
    models: [[missing, /none/]],
    modelsDir: [[missing, /none/]],
    modelsMax: [['0', /maxLoaded is 0/]],
    modelsMemory: [['-1', range('maxBytes')]],
    path: [[missing, /none/]],
    apiPrefix: [['api', /apiPrefix is "api"/]],
    sslKeyFile: [[missing, /both/]],
    sslCertFile: [[missing, /both/]],
    slotSavePath: [[join(text, 'x'), /--slot-save-path/]],
    batchDir: [[join(text, 'x'), /--batch-dir/]],
    maxFile: [['-1', range('maxFileBytes')]],
    maxFiles: [['-1', range('maxStoredBytes')]],
    batchInput: [[missing, /the lines .*none/]],
    batchOutput: [[join(text, 'x'), /text.txt/]],
    errorsFile: [[join(text, 'x'), /text.txt/]],
    shard: [['2/2', /--shard is "2\/2"/]],
    hf: [['repo', /repo/]],
    hfFile: [['../x.gguf', /-hf|takes one file/]],
    file: [[missing, /none/]],
    threads: [['0', range('threads')]],
    ctx: [['-1', /(contextLength|-c) is -1/]],
    batch: [
      ['0', /(batchSize|-b) is 0/],
      ['-3', /(batchSize|-b) is -3/],
    ],
    sparseFile: [[join(missing, 'out.gguf'), /opening .*none/]],
    predictor: [['0', /--predictor is 0/]],
    predictorSteps: [['0', /--predictor-steps is 0/]],
    hot: [['0', /--hot is 0/]],
    recall: [
      ['0', /--recall is 0/],
      ['1.5', /--recall is 1.5/],
    ],
    rotationSeed: [['-1', /--seed is -1/]],
    learn: [[missing, /none/]],
    learnSteps: [['0', /--learn-steps/]],
    learnRate: [['0', /--learn-rate/]],
    checkpoint: [[missing, /give the text with --learn/]],
    actBits: [['5', /actBits is 5; expected 4 or 8/]],
    sparseThreshold: [['0', /sparseThreshold is 0, and the model has no predictors/]],
    attnHeads: [
      ['0', /attn-?heads is 0; expected a share/i],
      ['0.5', /no layer of this llama model has rows of heads/],
    ],
    ctxCheckpoints: [['-1', /(ctxCheckpoints|-ctxcp) is -1/]],
    checkpointMinStep: [['0', /(checkpointMinStep|-cms) is 0/]],
    neuronWindow: [
      ['-1', /neuron-?window is -1/i],
      ['5', /no such layers; leave it out/],
    ],
    cacheTypeK: [['q5_K', /cacheTypeK is "q5_K"/]],
    iqWeights: [['small', /iqWeights is "small"/]],
    cacheTypeV: [['x', /cacheTypeV is "x"/]],
    weightsMemory: [
      ['2Q', /--weights-memory is "2Q".*512M/],
      ['0', /--weights-memory is "0"/],
      ['9', /weightsMemory is 9 .*at least \d+/],
    ],
    build: [['avx2', /"avx2"/]],
    lora: [[missing, /none/]],
    loraScaled: [
      ['x.gguf', /FILE:SCALE/],
      ['x.gguf:y', /FILE:SCALE/],
    ],
    predict: [['-3', range('maxTokens')]],
    topK: [['-2', range('topK')]],
    topP: [['1.1', range('topP')]],
    minP: [['-0.1', range('minP')]],
    typical: [['2', range('typicalP')]],
    temp: [['1e9', range('temperature')]],
    topNSigma: [['1e9', range('topNSigma')]],
    xtcProbability: [['2', range('xtcProbability')]],
    xtcThreshold: [['-1', range('xtcThreshold')]],
    repeatPenalty: [['0', range('repeatPenalty')]],
    repeatLastN: [['-2', range('repeatLastN')]],
    presencePenalty: [['1e9', range('presencePenalty')]],
    frequencyPenalty: [['1e9', range('frequencyPenalty')]],
    dryMultiplier: [['-1', range('dryMultiplier')]],
    dryBase: [['0.5', range('dryBase')]],
    dryAllowedLength: [['-1', range('dryAllowedLength')]],
    dryPenaltyLastN: [['-2', range('dryPenaltyLastN')]],
    drySequenceBreaker: [['', /drySequenceBreakers/]],
    logitBias: [
      ['5', /--logit-bias is "5"/],
      ['9999+1', /token 9999/],
    ],
    mirostat: [['3', range('mirostat')]],
    mirostatLr: [['-1', range('mirostatEta')]],
    mirostatEnt: [['-1', range('mirostatTau')]],
    dynatempRange: [['-1', range('dynatempRange')]],
    dynatempExp: [['-1', range('dynatempExponent')]],
    seed: [['-2', /seed is -2/]],
    threadsBatch: [['0', range('threads')]],
    samplers: [['top_k;nothing', /--samplers has "nothing"/]],
    samplerSeq: [['kq', /--sampler-seq has "q"/]],
    keep: [['-2', /--keep is -2/]],
    ropeScaling: [['4', /--rope-scaling is "4"/]],
    ropeScale: [['0', /above 0/]],
    ropeFreqBase: [['x', /rope-freq-base is "x"/]],
    ropeFreqScale: [['-1', /above 0/]],
    yarnOrigCtx: [['-1', /original_context_length/]],
    yarnExtFactor: [['x', /yarn-ext-factor is "x"/]],
    yarnAttnFactor: [['x', /yarn-attn-factor is "x"/]],
    yarnBetaFast: [['x', /yarn-beta-fast is "x"/]],
    yarnBetaSlow: [['x', /yarn-beta-slow is "x"/]],
    overrideKv: [
      ['a=b', /--override-kv is "a=b"/],
      ['a=int:x', /--override-kv/],
    ],
    systemFile: [[missing, /the system message .*none/]],
    chatTemplateKwargs: [['{', /not JSON/]],
    reasoning: [['x', /"x"/]],
    reasoningFormat: [['x', /"x"/]],
    reasoningBudget: [['-2', /--reasoning-budget is -2/]],
    color: [['x', /"x" is not a flag/]],
    jsonSchemaFile: [[missing, /the JSON schema .*none/]],
    delay: [['-1', /--delay is -1/]],
    tensorTypeFile: [[missing, /the tensor types .*none/]],
    splitMaxTensors: [['0', /--split-max-tensors is 0/]],
    splitMaxSize: [['5', /--split-max-size is "5"/]],
    check: [[missing, /the manifest .*none/]],
    stop: [['', /stop string is empty/]],
    grammar: [['root ::= (', /grammar/]],
    grammarFile: [[missing, /the grammar .*none/]],
    jsonSchema: [
      ['{', /not JSON/],
      ['{"type": 5}', /type/],
    ],
    promptCache: [[text, /not a saved state/]],
    chatTemplate: [['{% for %}', /template/]],
    chatTemplateFile: [[missing, /the chat template .*none/]],
    benchPrompt: [['-1', /must be 0 or more/]],
    benchGen: [['-1', /must be 0 or more/]],
    benchDepth: [['-1', /must be 0 or more/]],
    benchBoth: [
      ['5', /-pg is "5"/],
      ['1,x', /-pg is/],
    ],
    benchThreads: [['0', range('threads')]],
    repetitions: [['0', /-r is 0/]],
    output: [['xml', /-o is "xml"/]],
    chunks: [['0', /chunks|window/]],
    imatrixFile: [[join(missing, 'x'), /none/]],
    outputFormat: [['xml', /--output-format is "xml"/]],
    fromChunk: [['-1', /--chunk is -1/]],
    inFile: [[missing, /none/]],
    outputFrequency: [['0', /--output-frequency is 0/]],
    saveFrequency: [['-1', /--save-frequency is -1/]],
    klBase: [[join(missing, 'x'), /none/]],
    specType: [
      ['ngram-simpel', /"ngram-simpel"/],
      ['draft-simple', /draft/],
    ],
    draftModel: [[missing, /none/]],
    draftHf: [['repo', /repo/]],
    draftMax: [['-1', range('nMax')]],
    draftMin: [['-1', range('nMin')]],
    draftPMin: [['2', range('pMin')]],
    draftThreads: [['0', range('threads')]],
    draftCacheTypeK: [['x', /cacheTypeK is "x"/]],
    draftCacheTypeV: [['x', /cacheTypeV is "x"/]],
    ngramSimpleN: [['0', range('sizeN')]],
    ngramSimpleM: [['0', range('sizeM')]],
    ngramSimpleMinHits: [['0', range('minHits')]],
    ngramModMatch: [['0', range('nMatch')]],
    ngramModMin: [['-1', range('nMin')]],
    ngramModMax: [['-1', range('nMax')]],
    pooling: [['sum', /--pooling is "sum"/]],
    embdNormalize: [['-2', /--embd-normalize is -2/]],
    embdOutputFormat: [['xml', /--embd-output-format is "xml"/]],
    embdSeparator: [['', /--embd-separator is empty/]],
    host: [['203.0.113.7', /203\.0\.113\.7/]],
    port: [['70000', /--port is 70000/]],
    parallel: [['0', range('parallel')]],
    apiKey: [['', /apiKey is empty/]],
    apiKeyFile: [[missing, /the keys .*none/]],
    timeout: [['-1', /--timeout is -1/]],
    answerTimeout: [['-1', range('timeoutMs')]],
    ssePingInterval: [['-2', /--sse-ping-interval is -2/]],
    maxQueue: [['-1', range('maxQueue')]],
    maxBody: [['-1', range('maxBodyBytes')]],
    maxBuffered: [['-1', range('maxBufferedBytes')]],
    maxText: [['-1', range('maxTextChars')]],
    maxMessages: [['-1', range('maxMessages')]],
    bodyTimeout: [['-1', range('bodyTimeoutMs')]],
    imatrix: [[missing, /none/]],
    outputTensorType: [['q7', /"q7"/]],
    tokenEmbeddingType: [['q7', /"q7"/]],
    tensorType: [
      ['attn_v', /NAME=TYPE/],
      ['(=q4_0', /regular expression/],
    ],
  };
  /** Flags that accept any text, or a name that only the receiver can check. */
  const ANY: readonly FlagKey[] = [
    'includeWeights',
    'excludeWeights',
    'reasoningEffort',
    'reasoningBudgetMessage',
    'prompt',
    'message',
    'text',
    'system',
    'hfToken',
    'alias',
    'cors',
    'allowedHosts',
    'clsSeparator',
  ];

  it('every flag with a value has a row', () => {
    const lacking = (Object.keys(FLAGS) as FlagKey[]).filter(
      (key) => FLAGS[key].type !== 'boolean' && !(key in WRONG) && !ANY.includes(key),
    );
    expect(lacking).toEqual([]);
  });

  const out = join(folder, 'wrong.gguf');
  /** Arguments after the flags. */
  const MORE = new Map<Command, Args>([
    [quantize, [llamaModel, out, 'Q4_0']],
    [ggufSplit, [llamaModel, out]],
    [ggufHash, [llamaModel]],
    [rotate, [llamaModel, out]],
  ]);
  /** The usual arguments, except for those that exclude the flag. */
  const base = (c: Command, key: FlagKey): Args => {
    if (MORE.has(c)) return [];
    // Flags of the draft model need a draft model.
    if (/^draft(?!Model|Hf)/.test(key)) return [...BASE[c.name], '-md', llamaModel];
    if (/^maxFiles?$/.test(key)) return [...BASE[c.name], '--batch-dir', join(folder, 'batches')];
    if (c === inspect && key === 'parallel') return ['-m', llamaModel, '--memory'];
    // Limits for several models need more than one.
    if (/^models(Max|Memory)$/.test(key)) return [...BASE[c.name], '-m', shippedModel];
    return without(
      BASE[c.name],
      { file: '-p', keep: '--json', hf: '-m', hfFile: '-m', chatTemplateFile: '--chat-template' }[key as string] ?? '',
    );
  };
  const rows = (Object.entries(WRONG) as [FlagKey, readonly (readonly [string, RegExp])[]][]).flatMap(([key, values]) =>
    having(key).map((c) => [c.name, `--${FLAGS[key].name}`, c, key, values] as const),
  );
  it.each(rows)('%s %s', async (_, flag, c, key, values) => {
    for (const [value, message] of values) {
      const args = [...base(c, key), flag, value, ...(MORE.get(c) ?? [])].map(String);
      const got = await listening(() => failure(() => c.run(args, AbortSignal.timeout(20_000))));
      expect([value, got.code, got.message]).toEqual([value, expect.stringMatching(/^ERR_/), expect.stringMatching(message)]);
    }
  });
});

describe('nothing is advertised that does nothing', () => {
  it.each(COMMANDS.map((c) => [c.name, c] as const))('%s: every flag has a case above', (_, c) => {
    expect(c.flags.filter((key) => !covered.get(c)!.has(key))).toEqual([]);
  });
  it('the model that ships is the one that runs without -m', async () => {
    await invoke(run, ['-p', 'x', '-n', 1, '--build', 'simd', '--no-warmup', '--json']);
    expect(vi.mocked(loadModel).mock.calls.at(-1)![0]).toBe(shippedModel);
  });
});
