/**
 * The package's types as a strict editor or a page's bundler sees them: in a project without Node's
 * types, with an older target, and with libraries checked.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';
import { projectFolder } from './support.ts';

// The peer dependencies are installed by users of quantlet/ai-sdk and quantlet/langchain.
const folder = projectFolder('@ai-sdk/provider', '@langchain/core');

/** A program for each entry alone: declarations of one entry must not hide what another lacks. */
const PROGRAMS: Readonly<Record<string, string>> = {
  quantlet: `import { loadModel, QuantletError, type LoadOptions, type Model, type Generation } from 'quantlet';
    type Internals = Extract<keyof Model, 'internals'> | Extract<keyof LoadOptions, 'maxOutputs'>;
    export const internals: [Internals] extends [never] ? true : false = true;
    export async function tell(): Promise<string> {
      await using model: Model = await loadModel('model.gguf', { contextLength: 512 });
      const generation: Generation = model.generate('Once', { maxTokens: 8, temperature: 0 });
      for await (const part of generation) if (part.text === '') throw new QuantletError('ERR_INVALID_ARGUMENT', 'no text');
      return (await generation.result()).text;
    }`,
  'quantlet/core': `import { createEngine, mul_mat, type Engine, type Tensor } from 'quantlet/core';
    type Internals = Extract<keyof Tensor, 'data' | 'layout' | 'owner' | 'values' | 'batch'>;
    export const internals: [Internals] extends [never] ? true : false = true;
    export async function product(): Promise<Engine> {
      await using engine: Engine = await createEngine({ threads: 1 });
      const w: Tensor = engine.tensor('f32', [2, 2], Float32Array.of(1, 2, 3, 4)), plan = engine.plan(mul_mat(w, w));
      await engine.compute(plan);
      return engine;
    }`,
  'quantlet/openai': `import { createHandler, type Backend } from 'quantlet/openai';
    export const handle = (backend: Backend) => createHandler(backend);`,
  'quantlet/grammar': `import { createMatcher, jsonSchemaToGrammar, type Matcher, type MatcherState } from 'quantlet/grammar';
    const matcher: Matcher = createMatcher({ schema: { type: 'integer' }, strict: true });
    export const state: MatcherState | undefined = matcher.start.read('1')?.step(48);
    export const grammar: string = jsonSchemaToGrammar({ type: 'integer' });
    export const keywords: readonly string[] = matcher.relaxed.map(({ keyword }) => keyword);`,
  'quantlet/ai-sdk': `import { languageModel, type Backend } from 'quantlet/ai-sdk';
    export const model = (backend: Backend) => languageModel(backend);`,
  'quantlet/langchain': `import { ChatQuantlet, QuantletEmbeddings, QuantletLLM, type Backend } from 'quantlet/langchain';
    export const models = (model: Backend) => [new ChatQuantlet({ model, temperature: 0 }), new QuantletLLM({ model }), new QuantletEmbeddings({ model })];
    export const answer = async (model: Backend): Promise<string> => (await new ChatQuantlet({ model }).invoke('Hi', { topK: 1 })).text;`,
};

// Each takes seconds: libraries are checked, including the DOM.
it.each([...Object.keys(PROGRAMS).map((entry) => [entry, 'a bundler'] as const), ['quantlet', 'Node'] as const])(
  '%s as %s resolves it',
  (entry, resolver) => {
    const file = join(folder, `${entry.replace('/', '-')}.mts`);
    writeFileSync(file, PROGRAMS[entry]);
    const options: ts.CompilerOptions = {
      noEmit: true,
      strict: true,
      skipLibCheck: false,
      types: [],
      target: ts.ScriptTarget.ES2022,
      // LangChain's own declarations name Symbol.asyncDispose.
      ...(entry === 'quantlet/langchain' ? { lib: ['lib.es2022.d.ts', 'lib.esnext.disposable.d.ts', 'lib.dom.d.ts'] } : {}),
      ...(resolver === 'Node'
        ? { module: ts.ModuleKind.NodeNext }
        : { module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler }),
    };
    const program = ts.createProgram([file], options);
    const found = ts.getPreEmitDiagnostics(program);
    expect(ts.formatDiagnostics(found, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => folder, getNewLine: () => '\n' })).toBe(
      '',
    );
    expect(
      program
        .getSourceFiles()
        .filter((f) => f.fileName.includes('@types/node'))
        .map((f) => f.fileName),
      'no types of Node are there to lean on',
    ).toEqual([]);
  },
);
