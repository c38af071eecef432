// The package itself: publint, Are The Types Wrong, sizes.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { publint } from 'publint';
import { app, run, tool, work } from '../lib/consumer.mjs';

const BUDGET = { tarball: 1_000_000, wasm: 200 * 1024 };

export const manifest = (packed) => [
  {
    name: 'publint',
    async run() {
      const { messages } = await publint({ pkgDir: join(app, 'node_modules/quantlet'), pack: false });
      return { faults: messages.map((m) => `${m.type} ${m.code} at ${m.path.join('.')}: ${JSON.stringify(m.args)}`), checked: `${packed.entryCount} files` };
    },
  },
  {
    name: 'Are The Types Wrong',
    async run() {
      // ESM only, and ./worker, ./wasm and ./models are files, not modules with types.
      const args = ['--profile', 'esm-only', '--no-emoji', '--no-color', '--format', 'json', '--exclude-entrypoints', './worker'];
      const { stdout } = await run(process.execPath, [tool('@arethetypeswrong/cli/dist/index.js'), join(work, packed.filename), ...args], { cwd: work }).catch((error) => error);
      const { analysis } = JSON.parse(stdout);
      const problems = (analysis.problems ?? []).filter((p) => !['node10', 'node16-cjs'].includes(p.resolutionKind) && !/^\.\/(wasm|models)\//.test(p.entrypoint ?? ''));
      return { faults: problems.map((p) => `${p.kind} ${p.entrypoint ?? ''} ${p.resolutionKind ?? ''}`), checked: Object.keys(analysis.entrypoints ?? {}).join(' ') };
    },
  },
  {
    name: 'sizes',
    async run() {
      const faults = [];
      const models = packed.files.filter((f) => f.path.endsWith('.gguf')).reduce((n, f) => n + f.size, 0);
      if (packed.size - models > BUDGET.tarball) faults.push(`the tarball without models has ${packed.size - models} bytes, the budget is ${BUDGET.tarball}`);
      const folder = join(app, 'node_modules/quantlet/dist/wasm');
      const sizes = readdirSync(folder).filter((f) => f.endsWith('.wasm')).map((f) => [f, statSync(join(folder, f)).size]);
      for (const [file, size] of sizes) if (size >= BUDGET.wasm) faults.push(`${file} has ${size} bytes, the budget is ${BUDGET.wasm}`);
      return { faults, checked: `tarball ${((packed.size - models) / 1000).toFixed(0)} KB without the model; ${sizes.map(([f, n]) => `${f} ${(n / 1024).toFixed(0)} KB`).join(', ')}` };
    },
  },
];
