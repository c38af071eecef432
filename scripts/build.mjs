#!/usr/bin/env node
// One build step for everything under dist/: four wasm builds through the asc API, then the TypeScript.
// Stamped with a hash of its inputs, so that prepare, prestart and pretest may all call it and only the first works.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
process.chdir(root);
const force = process.argv.includes('--force');
const wasmOnly = process.argv.includes('--wasm');

const files = (dir) => readdirSync(dir, { withFileTypes: true, recursive: true }).filter((e) => e.isFile()).map((e) => join(e.parentPath ?? e.path, e.name)).sort();
const stampOf = (inputs) => inputs.reduce((h, f) => h.update(f).update(readFileSync(f)), createHash('sha256')).digest('hex');
const isCurrent = (name, stamp) => !force && existsSync(join('dist', name)) && readFileSync(join('dist', name), 'utf8') === stamp;
const setStamp = (name, stamp) => writeFileSync(join('dist', name), stamp);

const need = async (name) => {
  try {
    return await import(name);
  } catch {
    console.error(`quantlet: building needs the devDependency "${name}"; run "npm ci" (without --omit=dev) first.`);
    process.exit(1);
  }
};

async function buildWasm() {
  const stamp = stampOf(['asconfig.json', 'scripts/build.mjs', ...files('assembly')]);
  if (isCurrent('.stamp-wasm', stamp)) return;
  const asc = await need('assemblyscript/asc');
  mkdirSync('dist/wasm', { recursive: true });
  rmSync('dist/.stamp-wasm', { force: true });
  for (const target of Object.keys(JSON.parse(readFileSync('asconfig.json', 'utf8')).targets)) {
    const out = `dist/wasm/${target}.wasm`;
    rmSync(out, { force: true }); // asc reports errors in its result and does not throw: a stale file must not look like success
    const { error, stderr } = await asc.main(['assembly/index.ts', '--config', 'asconfig.json', '--target', target]);
    if (error || !existsSync(out)) {
      console.error(stderr.toString());
      throw error ?? new Error(`asc wrote no ${out}`);
    }
  }
  setStamp('.stamp-wasm', stamp);
}

async function buildTypeScript() {
  const stamp = stampOf(['tsconfig.json', 'package.json', 'scripts/build.mjs', ...files('src')]);
  if (isCurrent('.stamp-ts', stamp)) return;
  const { default: ts } = await need('typescript');
  rmSync('dist/.stamp-ts', { force: true });
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (d) => { throw new Error(ts.flattenDiagnosticMessageText(d.messageText, '\n')); } };
  const { options, fileNames } = ts.getParsedCommandLineOfConfigFile('tsconfig.json', {}, host);
  const program = ts.createProgram(fileNames, options);
  const diagnostics = [...ts.getPreEmitDiagnostics(program), ...program.emit().diagnostics];
  if (diagnostics.length) {
    console.error(ts.formatDiagnostics(diagnostics, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => root, getNewLine: () => '\n' }));
    process.exit(1);
  }
  setStamp('.stamp-ts', stamp);
}

mkdirSync('dist', { recursive: true });
await buildWasm();
if (!wasmOnly) await buildTypeScript();
