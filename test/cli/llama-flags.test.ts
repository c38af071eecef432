/**
 * Command lines of llama.cpp. Every flag of its tools is known and takes the same number of values
 * (test/golden/flags). Forty everyday lines from its documents run unchanged, except for the names
 * of models, texts and folders.
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { LLAMA_ROWS, wayOf } from '../../scripts/flag-table.ts';
import { parseFlags } from '../../src/cli/parse-flags.ts';
import { LLAMA_FLAGS } from '../../src/cli/llama-flags.ts';
import { cliPath, failure, llamaModel, runCli, runProgram, shippedModel, temporaryFolder, writeTo } from '../support.ts';
import { allCommands, loadCommand } from '../../src/cli/commands.ts';
import { invoke } from './commands.ts';
import { startHub } from '../hub/server.ts';

const COMMANDS = await allCommands();

describe('every flag of the ten tools', () => {
  it('is known, and takes as many values', () => {
    const wrong = LLAMA_ROWS.flatMap(({ spellings, values, tools }) =>
      tools.flatMap((tool) =>
        spellings.flatMap((spelling) => {
          const way = wayOf(spelling, tool);
          if (!way) return [`${tool} ${spelling} is not known`];
          return way.way !== 'refused' && way.values !== values ? [`${tool} ${spelling} takes ${way.values} values, there ${values}`] : [];
        }),
      ),
    );
    expect(wrong).toEqual([]);
    expect(new Set(LLAMA_ROWS.flatMap(({ tools }) => tools)).size).toBe(10);
  });

  it('has no row among those without effect where it works everywhere', () => {
    const stands = COMMANDS.filter(({ llama }) => llama !== undefined);
    const useless = LLAMA_FLAGS.flatMap(({ spellings, commands }) =>
      spellings.filter((spelling) =>
        stands.filter(({ name }) => commands?.includes(name) ?? true).every(({ llama }) => wayOf(spelling, llama!)?.way === 'works'),
      ),
    );
    expect(useless, 'remove these rows from src/cli/llama-flags.ts').toEqual([]);
  });

  it('what has no effect is passed over with its values, and told of with --verbose', () => {
    const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    const run = COMMANDS.find(({ name }) => name === 'run')!;
    const argv = ['-ngl', '99', '-fa', '-p', 'a', '-fa', 'on', '--mlock', '--no-mmap', '--numa', 'distribute', '--prio', '2', '-n', '3'];
    expect(parseFlags(argv, run.flags, 'run').values).toEqual({ prompt: 'a', predict: 3 });
    expect(said).not.toHaveBeenCalled();
    parseFlags([...argv, '-v'], run.flags, 'run');
    expect(said.mock.calls.flat().join('')).toMatch(/-ngl has no effect here: models run on the CPU.*\n[^]*--prio has no effect here/);
    said.mockRestore();
  });

  it('what is not supported says what to do instead; underscores are dashes; other commands refuse them', async () => {
    const run = COMMANDS.find(({ name }) => name === 'run')!;
    const { code, stderr } = await runCli(['run', '-p', 'x', '--video', 'x.mp4']);
    expect([code, stderr]).toEqual([2, 'quantlet: --video is not supported here: quantlet reads no films (ERR_USAGE)\n']);
    expect(parseFlags(['--ctx_size', '64', '--n_gpu_layers', '3'], run.flags, 'run').values).toEqual({ ctx: 64 });
    const { message } = await failure(() => Promise.resolve(parseFlags(['-ngl', '3'], ['json'])));
    expect(message).toMatch(/unknown flag -ngl/);
  });

  it('suggestions are near', async () => {
    const said = async (...args: string[]): Promise<string> => (await runCli(args)).stderr;
    expect(await said('run', '--tempp', '1')).toContain('did you mean --temp?');
    expect(await said('run', '--grammer-file', 'x')).toContain('did you mean --grammar-file?');
    expect(await said('run', '--nonsense')).not.toContain('did you mean');
    expect(await said('serv')).toContain('did you mean serve?');
    expect(await said('frobnicate')).not.toContain('did you mean');
  });
});

const folder = temporaryFolder();
const text = writeTo(folder, 'wiki.test.raw', 'the cat sat on the mat and the dog ran\n'.repeat(40));
const prompt = writeTo(folder, 'prompt.txt', 'Once upon a time\n');
const schema = writeTo(folder, 'schema.json', '{"const": 5}');
const grammar = writeTo(folder, 'list.gbnf', 'root ::= "- " [a-z]+ "\\n"');
mkdirSync(join(folder, 'out'));
const bert = llamaModel.replace('llama.gguf', 'bert.gguf');

/**
 * Lines as in the documents, except for names such as MODEL and TEXT, and for numbers of tokens
 * small enough for a test. The working directory is a test folder. Conversations get one message
 * from a pipe.
 */
const LINES: readonly (readonly [line: string, want?: RegExp])[] = [
  // README.md, docs/build.md, docs/backend/*.md
  ['llama-cli -m MODEL', /\S/],
  ['llama-cli -m MODEL -cnv --chat-template chatml', /\S/],
  ['llama-cli -m MODEL -p "Building a website can be done in 10 steps:" -n 5', /\S/],
  ['llama-cli -m MODEL -p "Hi you how are you" -ngl 99 -n 5', /\S/],
  ['llama-cli -m MODEL -p "Building a website can be done in 10 simple steps:" -n 5 -e -ngl 33 -sm none -mg 0', /\S/],
  ['llama-cli -m MODEL -ngl 200000 -p "Please sir, may I have some " -n 5', /\S/],
  ['llama-cli -m MODEL --split-mode tensor -ngl 99 -p "Hello" -n 5', /\S/],
  ['llama-cli --load-mode none -m MODEL -t 2 -p "Hello" -n 5 -st --no-warmup', /\S/],
  ['llama-cli -hf org/repo --temp 0.1 -p Hello -n 5', /\S/],
  ['llama-cli -m MODEL -n 24 --grammar-file GRAMMAR -p "Request: schedule a call at 8pm; Command:"', /^- [a-z]+/],
  ['llama-cli -m MODEL -j "{}" -p "A thing" -n 200 --temp 0 -st', /\S/],
  ['llama-cli -m MODEL -jf SCHEMA -p "A number" -st', /^5$/m],
  ['llama-cli -m MODEL -sysf PROMPT -st --jinja -fa on --color auto -p Hello -n 5', /\S/],
  // tools/completion/README.md
  ['llama-completion -m MODEL --no-conversation -p "I believe the meaning of life is" -n 8', /^I believe the meaning of life is/],
  ['llama-completion -m MODEL -no-cnv --prompt "Once upon a time" -n 5', /^Once upon a time/],
  ['llama-completion -m MODEL --ignore-eos -n -1 -c 48', /\S/],
  ['llama-completion -m MODEL -f PROMPT --seed 42 -n 5 -tb 2 -b 64 -ub 32 --keep -1', /^Once upon a time/],
  ['llama-completion -m MODEL --jinja --single-turn -sys "You are a helpful assistant" -p "Hello" -n 5', /\S/],
  ['llama-completion -m MODEL --prompt-cache out/cache.bin --prompt-cache-all -p "Once" -n 4', /^Once/],
  ['llama-completion -m MODEL -n -2 -c 40 --context-shift --no-context-shift -p "The" --mlock --no-mmap', /^The/],
  ['llama-completion -m MODEL -p "a" -n 4 --samplers "top_k;top_p;min_p;temperature" --no-perf -s 1', /^a/],
  ['llama-completion -m MODEL -p "a" -n 4 --rope-freq-base 20000 --rope-scale 2 --override-kv llama.context_length=int:256', /^a/],
  ['llama-completion -m MODEL -p "a" -n 4 -ctk q8_0 -ctv q8_0 -fa 1 --log-disable --numa isolate --prio 2 --poll 50', /^a/],
  // tools/llama-bench/README.md
  ['llama-bench -m MODEL -p 0 -n 2,4,8 -r 1', /tg8/],
  ['llama-bench -m MODEL -n 0 -p 16 -b 32 -r 1', /pp16/],
  ['llama-bench -m MODEL -n 0 -n 4 -p 8 -t 1,2 -r 1', /tg4/],
  ['llama-bench -m MODEL -m MODEL -p 8-16*2 -n 0 -ngl 10 -r 1', /pp16/],
  ['llama-bench -m MODEL -d 0,16 -p 8 -n 2 -r 1 --delay 0 -mmp 0 -fa 0,1', /tg2 @ d16/],
  ['llama-bench -m MODEL -o csv -r 1 -p 8 -n 2', /^build,cpu_info/],
  ['llama-bench -o jsonl -m MODEL -pg 8,2 -p 0 -n 0 -r 1', /"n_prompt":8/],
  // tools/perplexity/README.md, docs
  ['llama-perplexity -m MODEL -f TEXT -c 32', /Final estimate: PPL = /],
  ['llama-perplexity --file TEXT -ngl 999 --model MODEL -c 32 --chunks 1', /Final estimate/],
  ['llama-perplexity -m MODEL -f TEXT -c 32 --kl-divergence-base out/new.kld --chunks 2', /Final estimate/],
  ['llama-perplexity -m MODEL -c 32 --kl-divergence-base base.kld --kl-divergence', /Mean/],
  // tools/imatrix/README.md
  ['llama-imatrix -m MODEL -f TEXT -c 32 -ngl 99', /Final estimate: PPL = .*\nwrote imatrix\.gguf/],
  ['llama-imatrix -m MODEL -f TEXT -c 32 --no-ppl -o out/one.dat --output-format dat --chunk 2 --chunks 3', /^wrote out\/one\.dat/],
  ['llama-imatrix -m MODEL -f TEXT -c 32 --process-output --save-frequency 2 --output-frequency 2 -o out/b.gguf --parse-special', /PPL/],
  // tools/quantize/README.md
  ['llama-quantize MODEL q8_0 2', /as Q8_0/],
  ['llama-quantize --leave-output-tensor --pure MODEL out/pure.gguf q4_0', /as Q4_0/],
  ['llama-quantize --tensor-type attn_v=q5_0 --tensor-type ffn_down=q8_0 MODEL out/mixed.gguf q4_0 2', /2 q5_0/],
  ['llama-quantize --override-kv llama.expert_used_count=int:16 MODEL out/copy.gguf copy', /as COPY/],
  ['llama-quantize --dry-run MODEL Q4_K_M', /quant size/],
  // examples/embedding/README.md, tools/tokenize, tools/gguf-split/README.md,
  // examples/gguf-hash/README.md
  ['llama-embedding -m BERT --pooling mean --log-disable -p "the cat"', /embedding 0:/],
  [
    "llama-embedding -p 'a cat<#sep#>a dog' --pooling mean --embd-separator '<#sep#>' --embd-normalize 2 --embd-output-format '' -m BERT --n-gpu-layers 99 --log-disable",
    /cosine similarity matrix/,
  ],
  ['llama-tokenize -m MODEL -p "Hello world" --log-disable', /-> '/],
  ['llama-gguf-split --split --split-max-tensors 8 MODEL out/part', /00001-of-/],
  ['llama-gguf-hash --sha256 MODEL', /^sha256 /],
  // tools/server/README.md
  ['llama-server -m MODEL -c 256 --port 0', /serves .* at http/],
  ['llama-server -m MODEL --port 0 -np 2 -cb --jinja -fa -ngl 99 --metrics --no-webui', /serves .* at http/],
  ['llama-server -hf org/repo --host 127.0.0.1 --port 0 -c 256 --api-key secret --alias tiny -t 2', /serves .* at http/],
];

describe('everyday command lines run unchanged', async () => {
  const hub = await startHub({ 'tiny-Q4_K_M.gguf': readFileSync(shippedModel) });
  it('there are forty', () => expect(LINES.length).toBeGreaterThanOrEqual(40));
  beforeAll(async () => {
    const args = ['-m', llamaModel, '-f', text, '-c', 32, '--chunks', 2, '--kl-divergence-base', join(folder, 'base.kld')];
    expect((await runCli(['perplexity', ...args])).code).toBe(0);
  });
  const NAMES: Readonly<Record<string, string>> = {
    MODEL: writeTo(folder, 'model.gguf', readFileSync(llamaModel)),
    BERT: bert,
    TEXT: text,
    PROMPT: prompt,
    GRAMMAR: grammar,
    SCHEMA: schema,
  };
  const toolOf = (line: string): string => line.split(' ')[0];
  const conversation = (line: string): boolean => /^llama-cli -m MODEL( -cnv.*)?$/.test(line);
  const serves = (line: string): boolean => toolOf(line) === 'llama-server';
  const argsOf = (line: string): string[] => {
    const args = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => {
      const word = a ?? b ?? c;
      return NAMES[word] ?? word;
    });
    const quick = /^llama-(cli|completion|server)/.test(line) && !line.includes('--no-warmup') ? ['--no-warmup'] : [];
    return [...args, ...quick, ...(conversation(line) ? ['-n', '5'] : [])];
  };
  const env = { MODEL_ENDPOINT: hub.url, QUANTLET_CACHE: join(folder, 'cache'), QUANTLET_TURBO: '0' };

  /**
   * Run as processes: lines that read messages, lines that a signal ends, and the first line of
   * each tool. The others run in this process, which is a second faster.
   */
  const rows = LINES.map(([line, want = /\S/]) => [line, want] as const);
  const asProcess = ([line]: (typeof rows)[number]): boolean =>
    conversation(line) || serves(line) || line === rows.find(([other]) => toolOf(other) === toolOf(line))![0];

  it.concurrent.each(rows.filter(asProcess))('%s', async (line, want) => {
    const { code, stdout, stderr } = await runProgram(process.execPath, [cliPath, ...argsOf(line)], {
      env,
      cwd: folder,
      timeout: 120_000,
      input: conversation(line) ? 'Hello\n' : '',
      onStderr: (said, kill) => void (serves(line) && want.test(said) && kill('SIGTERM')),
    });
    expect(serves(line) ? stderr : stdout, stderr).toMatch(want);
    // On Windows a signal ends the process at once.
    expect(code, stderr).toBe(serves(line) && process.platform === 'win32' ? 'SIGTERM' : 0);
  });

  describe('in this process', () => {
    const before = process.cwd();
    beforeAll(() => {
      for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
      process.chdir(folder);
    });
    afterAll(() => {
      process.chdir(before);
      vi.unstubAllEnvs();
    });
    it.each(rows.filter((row) => !asProcess(row)))('%s', async (line, want) => {
      const [tool, ...args] = argsOf(line);
      const { code, stdout, stderr } = await invoke((await loadCommand(tool))!, args);
      expect(stdout, stderr).toMatch(want);
      expect(code, stderr).toBe(0);
    });
  });
});
