#!/usr/bin/env node
// One build step for everything under dist/: six wasm builds through the asc API, then the TypeScript, then both as text for browsers.
// Stamped with a hash of its inputs, so that prepare, prestart and pretest may all call it and only the first works.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
process.chdir(root);
const force = process.argv.includes('--force');
const wasmOnly = process.argv.includes('--wasm');
process.argv.length = 2; // asc reads the command line by itself, and has a --wasm of its own

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

/** A wasm custom section: a module says which build it is, so that whoever brings their own file need not. Names stay below 128 bytes. */
const customSection = (name, text) => {
  const payload = Buffer.from([name.length, ...Buffer.from(name + text)]);
  return Buffer.from([0, payload.length, ...payload]);
};

async function buildWasm() {
  const stamp = stampOf(['asconfig.json', 'scripts/build.mjs', ...files('assembly')]);
  if (isCurrent('.stamp-wasm', stamp)) return;
  const asc = await need('assemblyscript/asc');
  mkdirSync('dist/wasm', { recursive: true });
  for (const old of readdirSync('dist/wasm').filter((name) => name.endsWith('.wasm'))) rmSync(join('dist/wasm', old)); // the rest is of src/wasm/
  rmSync('dist/.stamp-wasm', { force: true });
  for (const target of Object.keys(JSON.parse(readFileSync('asconfig.json', 'utf8')).targets)) {
    const out = `dist/wasm/${target}.wasm`;
    const { error, stderr } = await asc.main(['assembly/index.ts', '--config', 'asconfig.json', '--target', target]);
    if (error || !existsSync(out)) { // asc reports errors in its result and does not throw
      console.error(stderr.toString());
      throw error ?? new Error(`asc wrote no ${out}`);
    }
    writeFileSync(out, Buffer.concat([readFileSync(out), customSection('quantlet', target)]));
  }
  inlineWasm();
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
  const diagnostics = [...ts.getPreEmitDiagnostics(program)];
  if (diagnostics.length === 0) {
    // What a source that is gone had become would be packed with the rest.
    const kept = (path) => /^(wasm\/[^/]+\.wasm|inline\/.*|\.stamp-wasm)$/.test(path);
    for (const old of files('dist')) if (!kept(old.slice('dist/'.length).replaceAll('\\', '/'))) rmSync(old);
    diagnostics.push(...program.emit().diagnostics);
  }
  if (diagnostics.length) {
    console.error(ts.formatDiagnostics(diagnostics, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => root, getNewLine: () => '\n' }));
    process.exit(1);
  }
  await buildWorker();
  setStamp('.stamp-ts', stamp);
}

/** The browsers' worker as one classic script without imports: a file of its own, and a string for blob workers. */
async function buildWorker() {
  const { build } = await need('esbuild');
  const file = 'dist/worker/web.js';
  const { outputFiles } = await build({ entryPoints: [file], bundle: true, minify: true, format: 'iife', target: 'es2022', write: false, legalComments: 'none' });
  writeFileSync(file, outputFiles[0].text);
  mkdirSync('dist/inline', { recursive: true });
  writeFileSync('dist/inline/worker.js', `export const source = ${JSON.stringify(outputFiles[0].text)};\n`);
}

/**
 * Kernels as text, what a page can load whatever its bundler does with files: base64 of the deflated bytes. Only the builds with threads:
 * their atomic operations run on memory that is not shared too, so one byte, the flags of the imported memory, makes the single-threaded ones.
 */
function inlineWasm() {
  mkdirSync('dist/inline', { recursive: true });
  for (const old of readdirSync('dist/inline').filter((f) => f !== 'worker.js')) rmSync(join('dist/inline', old));
  for (const name of readdirSync('dist/wasm').filter((f) => f.endsWith('-threads.wasm'))) {
    const bytes = readFileSync(join('dist/wasm', name)), deflated = deflateRawSync(bytes, { level: 9 }).toString('base64');
    writeFileSync(join('dist/inline', name.replace('-threads.wasm', '.js')), `export const deflated = "${deflated}";\nexport const memoryFlags = ${memoryFlags(bytes)};\n`);
  }
}

/** Where a module says that its imported memory has a maximum (1) and is shared (2). */
function memoryFlags(bytes) {
  let at = 8;
  const leb = () => {
    for (let value = 0, shift = 0; ; shift += 7) {
      value |= (bytes[at] & 127) << shift;
      if (bytes[at++] < 128) return value;
    }
  };
  const skip = () => {
    const n = leb();
    at += n;
  };
  while (at < bytes.length) {
    const section = bytes[at++], end = leb() + at;
    if (section === 2) {
      for (let left = leb(); left > 0; left--) {
        skip(); // the module's name, and below the import's
        skip();
        if (bytes[at++] === 2 && bytes[at] === 3) return at;
        leb(); // a function's type: there are no imports but that and the memory
      }
    }
    at = end;
  }
  throw new Error('a build with threads imports no shared memory');
}

mkdirSync('dist', { recursive: true });
await buildWasm();
if (!wasmOnly) await buildTypeScript();
