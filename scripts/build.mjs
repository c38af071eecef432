#!/usr/bin/env node
// Builds everything in dist/. The asc API makes the wasm builds with threads and the quantisers'
// module, and each build with threads gives the one without. Then come the TypeScript, kernels and
// worker as text for browsers, and the page that servers have at /.
//
// A stamp has the hash of the inputs. So prepare, prestart and pretest may all call this script,
// and only the first call works:
//
//   node scripts/build.mjs [--force] [--wasm] [--only relaxed,simd] [--watch]
//
// --force | ignores stamps
// --wasm  | skips the TypeScript
// --only  | makes some of the wasm builds. The others stay as they were, and the next build without
//         | it makes all of them again
// --watch | builds again whenever a source changes
//
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, watch, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { deflateRawSync } from 'node:zlib';
import { bundleModules, files } from './bundle.mjs';
import { pruneDeclarations } from './declarations.mjs';
import { pageHtml } from './page.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
process.chdir(root);
const { values: flags } = parseArgs({
  options: { force: { type: 'boolean' }, wasm: { type: 'boolean' }, only: { type: 'string' }, watch: { type: 'boolean' } },
});
const { force = false } = flags;
process.argv.length = 2; // asc reads the command line on its own, and has another --wasm

/** Builds of the kernels with threads, and the quantisers' module, which all runtimes use. */
const BUILDS = Object.keys(JSON.parse(readFileSync('asconfig.json', 'utf8')).targets);
const QUANTIZE = 'quantize';
const TARGETS = [...BUILDS, QUANTIZE];
/** A build without threads is made together with the one that has them. */
const targets = flags.only?.split(',').map((name) => (TARGETS.includes(name) ? name : `${name}-threads`)) ?? TARGETS;
const unknown = targets.findIndex((target) => !TARGETS.includes(target));
if (unknown >= 0) {
  console.error(`quantlet: there is no build "${flags.only.split(',')[unknown]}"; expected some of ${TARGETS.join(', ')}`);
  process.exit(2);
}

/**
 * Functions that must not be inlined, as wildcards of their names. Binaryen inlines functions of
 * less than 70 nodes, which was 6 KB of each build; hot loops have @inline where they need it.
 * (Attention and recurrent states lack some @inline, so they are left alone.)
 */
const CALLED = [
  ...['type', 'matmul'].map((folder) => `assembly/${folder}/*`),
  ...files('assembly/ops').flatMap((file) =>
    /attention|recurrent/.test(file) ? [] : `${file.replaceAll('\\', '/').slice(0, -'.ts'.length)}/*`,
  ),
];

/** A transform for asc, which sets the transform's properties (such as binaryen). */
class KeepCalls {
  afterCompile(module) {
    for (const pattern of CALLED) {
      this.binaryen.setPassArgument('no-inline', pattern);
      module.runPasses(['no-inline']);
    }
  }
}

/**
 * Functions whose vector constants may be written as splats. Loops of products and attention need
 * the constants: otherwise V8's revectoriser does not join them.
 */
const SMALL = /^ \(func \$"?assembly\/(type|log_softmax|math|ops\/unary)\//;

/**
 * Returns the module without names, and with each vector constant of four equal lanes in SMALL
 * functions as a splat of one, of 4 to 8 bytes. It goes through text, because Binaryen's own passes
 * fold splats to constants and never back.
 */
function splatConstants(binaryen, code) {
  const features = binaryen.Features.All & ~binaryen.Features.GC;
  binaryen.setDebugInfo(true);
  const whole = binaryen.readBinary(code);
  whole.setFeatures(features);
  const functions = whole.emitText().split(/\n(?= \(func )/);
  const small = binaryen.parseText(
    functions
      .map((text) =>
        SMALL.test(text) ? text.replace(/\(v128\.const i32x4 (0x[0-9a-f]{8}) \1 \1 \1\)/g, '(i32x4.splat (i32.const $1))') : text,
      )
      .join('\n'),
  );
  small.setFeatures(features);
  binaryen.setDebugInfo(false);
  const bytes = Buffer.from(small.emitBinary());
  for (const module of [whole, small]) module.dispose();
  return bytes;
}

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

/**
 * A wasm custom section that names the build, so that callers with a file of their own need not say
 * which build it is. Names have less than 128 bytes.
 */
const customSection = (name, text) => {
  const payload = Buffer.from([name.length, ...Buffer.from(name + text)]);
  return Buffer.from([0, payload.length, ...payload]);
};

async function buildWasm() {
  const stamp = stampOf(['asconfig.json', 'scripts/build.mjs', ...files('assembly')]);
  const some = targets.length < TARGETS.length;
  // With --only, each build has its own stamp, so that the common stamp stays true.
  const stamps = some ? targets.map((target) => `.stamp-wasm-${target}`) : ['.stamp-wasm'];
  if (isCurrent('.stamp-wasm', stamp) || stamps.every((name) => isCurrent(name, stamp))) return;
  const asc = await need('assemblyscript/asc');
  const { default: binaryen } = await need('assemblyscript/binaryen');
  mkdirSync('dist/wasm', { recursive: true });
  // The other files in the folder come from src/wasm/.
  const made = (name) => name.endsWith('.wasm') && (!some || targets.includes(name.slice(0, -'.wasm'.length)));
  for (const old of readdirSync('dist/wasm').filter(made)) rmSync(join('dist/wasm', old));
  for (const old of readdirSync('dist').filter((name) => name === '.stamp-wasm' || (!some && name.startsWith('.stamp-wasm'))))
    rmSync(join('dist', old));
  for (const target of targets) {
    const out = `dist/wasm/${target}.wasm`;
    const what =
      target === QUANTIZE
        ? ['assembly/quantize/index.ts', '--enable', 'simd', '--outFile', out]
        : ['assembly/index.ts', '--target', target, '--debug'];
    const transforms = target === QUANTIZE ? [] : [KeepCalls];
    const { error, stderr } = await asc.main([...what, '--config', 'asconfig.json'], { transforms });
    if (error || !existsSync(out)) {
      // asc returns errors and does not throw
      console.error(stderr.toString());
      throw error ?? new Error(`asc wrote no ${out}`);
    }
    const code = target === QUANTIZE ? readFileSync(out) : splatConstants(binaryen, readFileSync(out));
    writeFileSync(out, Buffer.concat([code, customSection('quantlet', target)]));
    if (target !== QUANTIZE) writeUnshared(code, target.replace('-threads', ''));
  }
  inlineWasm();
  for (const name of stamps) setStamp(name, stamp);
}

/**
 * Writes the build without threads: the same code, over a memory that is not shared but has a
 * maximum (src/wasm/shared-memory.ts).
 */
function writeUnshared(code, name) {
  const memory = '\x03env\x06memory\x02';
  code[code.indexOf(memory) + memory.length] = 1;
  writeFileSync(`dist/wasm/${name}.wasm`, Buffer.concat([code, customSection('quantlet', name)]));
}

async function buildTypeScript() {
  const stamp = stampOf([
    'tsconfig.json',
    'package.json',
    'scripts/build.mjs',
    'scripts/bundle.mjs',
    'scripts/declarations.mjs',
    ...files('src'),
  ]);
  if (isCurrent('.stamp-ts', stamp)) return;
  const { default: ts } = await need('typescript');
  rmSync('dist/.stamp-ts', { force: true });
  const host = {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (d) => {
      throw new Error(ts.flattenDiagnosticMessageText(d.messageText, '\n'));
    },
  };
  const { options, fileNames } = ts.getParsedCommandLineOfConfigFile('tsconfig.json', {}, host);
  const program = ts.createProgram(fileNames, options);
  const diagnostics = [...ts.getPreEmitDiagnostics(program)];
  if (diagnostics.length === 0) {
    // Outputs of deleted sources would be bundled with the rest.
    const kept = (path) => /^(wasm\/[^/]+\.wasm|inline\/.*|\.stamp-(wasm.*|page))$/.test(path);
    for (const old of files('dist')) if (!kept(old.slice('dist/'.length).replaceAll('\\', '/'))) rmSync(old);
    diagnostics.push(...program.emit().diagnostics);
  }
  if (diagnostics.length) {
    console.error(
      ts.formatDiagnostics(diagnostics, { getCanonicalFileName: (f) => f, getCurrentDirectory: () => root, getNewLine: () => '\n' }),
    );
    process.exit(1);
  }
  const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));
  pruneDeclarations(
    ts,
    Object.values(exports).flatMap(({ types }) => types ?? []),
  );
  await buildWorker();
  await bundleModules(await need('esbuild'), await need('rolldown'));
  setStamp('.stamp-ts', stamp);
}

/**
 * Builds the browsers' worker as one classic script without imports: a file of its own, and a
 * string for blob workers.
 */
async function buildWorker() {
  const { build } = await need('esbuild');
  const file = 'dist/worker/web.js';
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    write: false,
    legalComments: 'none',
  });
  writeFileSync(file, outputFiles[0].text);
  mkdirSync('dist/inline', { recursive: true });
  writeFileSync('dist/inline/worker.js', `export const source = ${JSON.stringify(outputFiles[0].text)};\n`);
}

/**
 * Writes the kernels as text, base64 of the deflated bytes, which a page can load with any bundler.
 * A build with threads and the one without share a text.
 */
function inlineWasm() {
  mkdirSync('dist/inline', { recursive: true });
  for (const old of readdirSync('dist/inline').filter((f) => !/^(worker|page)\.js$/.test(f))) rmSync(join('dist/inline', old));
  for (const name of readdirSync('dist/wasm').filter((f) => f.endsWith('-threads.wasm'))) {
    const bytes = readFileSync(join('dist/wasm', name));
    const deflated = deflateRawSync(bytes, { level: 9 }).toString('base64');
    writeFileSync(join('dist/inline', name.replace('-threads.wasm', '.js')), `export const deflated = "${deflated}";\n`);
  }
}

/** Builds the page of servers with scripts/page.mjs. */
async function buildPage() {
  const stamp = stampOf(['package.json', 'scripts/page.mjs', ...files('page'), 'src/errors.ts', ...files('src/sample')]);
  if (isCurrent('.stamp-page', stamp)) return;
  const { build } = await need('vite');
  mkdirSync('dist/inline', { recursive: true });
  writeFileSync('dist/inline/page.js', `export const html = ${JSON.stringify(await pageHtml(build))};\n`);
  setStamp('.stamp-page', stamp);
}

/**
 * Builds whenever a source changes, each time in a new process. A failure is printed, and the next
 * change tries again.
 */
function buildOnChange() {
  const again = Object.entries(flags).flatMap(([name, value]) =>
    name === 'watch' || name === 'force' ? [] : value === true ? [`--${name}`] : [`--${name}`, value],
  );
  const build = () => {
    const start = performance.now();
    const { status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), ...again], { stdio: 'inherit' });
    console.log(`${status === 0 ? 'built' : 'not built'} in ${((performance.now() - start) / 1000).toFixed(1)} s; waiting for changes`);
  };
  let timer;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(build, 100); // editors write a file in several steps
  };
  for (const folder of ['assembly', 'src', 'page']) watch(folder, { recursive: true }, soon);
  build();
}

mkdirSync('dist', { recursive: true });
if (flags.watch) buildOnChange();
else {
  await buildWasm();
  if (!flags.wasm) {
    await buildTypeScript();
    await buildPage();
  }
}
