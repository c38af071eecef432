/**
 * The programs of README.md and docs/ work: every JavaScript and TypeScript program is checked
 * against the package's types, those marked `js run` are run, and every command line is parsed by
 * the table of flags. Comments after a program's console.log() say what it prints.
 */
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { allCommands } from '../src/cli/commands.ts';
import { parseFlags } from '../src/cli/parse-flags.ts';
import { startHub } from './hub/server.ts';
import { projectFolder, root, runNode, shippedModel } from './support.ts';

const documents = ['README.md', ...readdirSync(new URL('docs', root)).map((name) => `docs/${name}`)].filter((name) => name.endsWith('.md'));

interface Sample {
  /** The document and line, as an editor opens it. */
  readonly at: string;
  /** `js`, `js run`, `ts`, `sh` ... */
  readonly kind: string;
  readonly code: string;
}
const samples = documents.flatMap((document): Sample[] => {
  const text = readFileSync(new URL(document, root), 'utf8');
  return [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)].map(({ index, 1: kind, 2: code }) => ({
    at: `${document}:${text.slice(0, index).split('\n').length}`,
    kind,
    code,
  }));
});
const ofKind = (...kinds: readonly string[]): readonly Sample[] => samples.filter(({ kind }) => kinds.includes(kind));

/** A project with the package, and the other packages that programs of the documents use. */
const folder = projectFolder('openai', '@anthropic-ai/sdk', '@ai-sdk/provider', 'ai', '@langchain/core', '@types/node');
for (const name of ['model.gguf', 'small.gguf']) copyFileSync(shippedModel, join(folder, name));

it('every block of code names its kind', () => {
  expect(samples.filter(({ kind }) => !['js', 'js run', 'ts', 'sh', 'text', ''].includes(kind))).toEqual([]);
  expect(ofKind('js', 'js run', 'ts').length).toBeGreaterThan(20);
});

it('every program fits the types', () => {
  const programs = ofKind('js', 'js run', 'ts').map(({ at, kind, code }, i) => {
    const file = join(folder, `program-${i}.mts`);
    writeFileSync(file, `${code}\nexport {};\n`);
    return { at, file, untyped: kind !== 'ts' };
  });
  for (const untyped of [true, false]) {
    const files = programs.filter((p) => p.untyped === untyped);
    const program = ts.createProgram(
      files.map(({ file }) => file),
      {
        noEmit: true,
        strict: true,
        noImplicitAny: !untyped,
        skipLibCheck: true,
        types: ['node'],
        typeRoots: [join(folder, 'node_modules/@types')],
        lib: ['lib.es2024.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
        target: ts.ScriptTarget.ES2022,
        module: ts.ModuleKind.ESNext,
        moduleResolution: ts.ModuleResolutionKind.Bundler,
      },
    );
    const faults = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
      const at = files.find((f) => f.file === file?.fileName)?.at ?? file?.fileName;
      return `${at}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`;
    });
    expect(faults).toEqual([]);
  }
});

describe('programs run and print what their comments say', async () => {
  const hub = await startHub({ 'tiny-Q4_K_M.gguf': readFileSync(shippedModel) }, 'ggml-org/Qwen3-0.6B-GGUF');
  it.concurrent.each(ofKind('js run').map(({ at, code }) => [at, code] as const))('%s', async (at, code) => {
    const path = join(folder, `${at.replaceAll(/\W+/g, '-')}.mjs`);
    writeFileSync(path, code);
    const {
      code: exit,
      stdout,
      stderr,
    } = await runNode([path], {
      cwd: folder,
      // A separate cache, because one of the programs removes what it downloaded.
      env: { HF_ENDPOINT: hub.url, QUANTLET_CACHE: `${path}.cache` },
      timeout: 50_000,
    });
    expect(exit, stderr).toBe(0);
    expect(stdout).not.toBe('');
    const lines = stdout.split('\n');
    for (const [, said] of code.matchAll(/^ *console\.log\(.*\); *\/\/ (.*)$/gm)) expect(lines).toContain(said);
  });
});

/** Words of the first command of a shell line; variables are not expanded. */
const words = (line: string): readonly string[] =>
  [...line.matchAll(/(?:"([^"]*)"|'([^']*)'|[^\s"']+)+/g)].map(([word]) => word.replaceAll(/["'](.*?)["']/g, '$1'));

it('every command line uses existing flags', async () => {
  const commands = await allCommands();
  const lines = ofKind('sh').flatMap(({ at, code }) =>
    code
      .replaceAll('\\\n', ' ')
      .split('\n')
      .flatMap((line) => {
        const [, rest] = /(?:^|\s|\()quantlet (.*)$/.exec(line.replace(/(^|\s)#.*$/, '')) ?? [];
        return rest === undefined || line.startsWith('npm ') ? [] : [{ at, argv: words(rest.replace(/(?: [|>] |\)).*$/, '')) }];
      }),
  );
  expect(lines.length).toBeGreaterThan(20);
  for (const { at, argv } of lines) {
    const command = commands.find(({ name, llama, alsoLlama = [] }) => [name, llama, ...alsoLlama].includes(argv[0]));
    expect(command, `${at}: quantlet ${argv[0]}`).toBeDefined();
    expect(() => parseFlags(argv.slice(1), command!.flags, command!.name), `${at}: quantlet ${argv.join(' ')}`).not.toThrow();
  }
});
