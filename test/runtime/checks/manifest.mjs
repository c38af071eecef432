// The package itself: publint, Are The Types Wrong, sizes.
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { app, project, root, run, tool, work } from '../lib/consumer.mjs';

const BUDGET = { tarball: 1_200_000, wasm: 240 * 1024 };

/** A program that uses every entry that needs no other package. */
const USE = `import { loadModel, type LoadOptions, type Model } from 'quantlet';
import { createEngine, mul_mat, type Tensor } from 'quantlet/core';
import { download, list, remove } from 'quantlet/hub';
import { createHandler } from 'quantlet/openai';
import { klDivergence, quantize } from 'quantlet/tools';
import bytes from 'quantlet/models/tiny-stories-q4_0.bin';
export async function use(options: LoadOptions): Promise<string> {
  const model: Model = await loadModel(await download('hf:owner/repo'), options);
  createHandler(model);
  const tools = { add: { parameters: {}, execute: ({ a }: { a: number }) => a + 1 } };
  for await (const event of model.chat([], { tools })) if (event.type === 'toolResult') await remove(event.text);
  await loadModel(bytes);
  const state: Uint8Array = await model.saveState();
  const tensor: Tensor = (await createEngine()).tensor('f32', [2]);
  mul_mat(tensor, tensor);
  const { fallbacks } = await quantize('f16.gguf', 'q4.gguf', { type: 'Q4_K_M', onProgress: ({ done, tensor: name }) => void name.at(done) });
  const mean: number = (await klDivergence('q4.gguf', 'base.kld')).kl.kld.mean;
  return fallbacks.length + mean + (await list()).length + state.length + (await model.generate('x', { onContextFull: 'shift' }).result()).text;
}
`;

export const manifest = (packed) => [
  {
    name: 'publint',
    async run() {
      const { messages } = await publint({ pkgDir: join(app, 'node_modules/quantlet'), pack: false });
      return {
        faults: messages.map((m) => `${m.type} ${m.code} at ${m.path.join('.')}: ${JSON.stringify(m.args)}`),
        checked: `${packed.entryCount} files`,
      };
    },
  },
  {
    name: 'Are The Types Wrong',
    async run() {
      // ESM only. ./worker, ./wasm and ./models are files. Only Workers import models as modules,
      // which are named .bin.
      const args = ['--profile', 'esm-only', '--no-emoji', '--no-color', '--format', 'json', '--exclude-entrypoints', './worker'];
      const { stdout } = await run(process.execPath, [tool('@arethetypeswrong/cli/dist/index.js'), join(work, packed.filename), ...args], {
        cwd: work,
      }).catch((error) => error);
      const { analysis } = JSON.parse(stdout);
      const problems = (analysis.problems ?? []).filter(
        (p) => !['node10', 'node16-cjs'].includes(p.resolutionKind) && !/^\.\/(wasm\/|models\/.*\.gguf)/.test(p.entrypoint ?? ''),
      );
      return {
        faults: problems.map((p) => `${p.kind} ${p.entrypoint ?? ''} ${p.resolutionKind ?? ''}`),
        checked: Object.keys(analysis.entrypoints ?? {}).join(' '),
      };
    },
  },
  {
    name: 'types, libraries checked too',
    async run() {
      const folder = project('types');
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
      writeFileSync(join(folder, 'use.mts'), USE);
      const typeRoots = join(root, 'node_modules/@types');
      const faults = [];
      const checked = [];
      for (const compiler of ['typescript-5.4', 'typescript-6'])
        for (const [name, lib, types] of [
          ['DOM', ['ES2022', 'DOM'], []],
          ['no DOM', ['ES2022'], ['node']],
        ]) {
          const compilerOptions = {
            noEmit: true,
            strict: true,
            skipLibCheck: false,
            target: 'ES2022',
            module: 'NodeNext',
            lib,
            types,
            typeRoots: [typeRoots],
          };
          writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.mts'] }));
          const { stdout = '' } = await run(process.execPath, [tool(`${compiler}/bin/tsc`), '-p', folder]).catch((error) => error);
          for (const line of stdout
            .split('\n')
            .filter((text) => text.includes('error TS'))
            .slice(0, 5))
            faults.push(`${compiler}, ${name}: ${line}`);
          checked.push(`${compiler} (${name})`);
        }
      return { faults, checked: checked.join(', ') };
    },
  },
  {
    name: 'sizes',
    async run() {
      const faults = [];
      const models = packed.files.filter((f) => f.path.endsWith('.gguf')).reduce((n, f) => n + f.size, 0);
      if (packed.size - models > BUDGET.tarball)
        faults.push(`the tarball without models has ${packed.size - models} bytes, the budget is ${BUDGET.tarball}`);
      const folder = join(app, 'node_modules/quantlet/dist/wasm');
      const sizes = readdirSync(folder)
        .filter((f) => f.endsWith('.wasm'))
        .map((f) => [f, statSync(join(folder, f)).size]);
      for (const [file, size] of sizes) if (size >= BUDGET.wasm) faults.push(`${file} has ${size} bytes, the budget is ${BUDGET.wasm}`);
      return {
        faults,
        checked: `tarball ${((packed.size - models) / 1000).toFixed(0)} KB without the model; ${sizes.map(([f, n]) => `${f} ${(n / 1024).toFixed(0)} KB`).join(', ')}`,
      };
    },
  },
];
