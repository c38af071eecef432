// Bundles the compiled modules of dist/ into few files.
import { mkdirSync, readFileSync, readdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';

/** All files under a folder. */
export const files = (folder) =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((e) => e.isFile())
    .map((e) => join(e.parentPath ?? e.path, e.name))
    .sort();

/** Entry points of users and of Node's own processes. */
const entries = [
  ...new Set(readFileSync('package.json', 'utf8').match(/(?<="(?:\.\/)?dist\/)(cli|entry\/[\w-]+)(?=\.js")/g)),
  'worker/turbo',
];

/** Entry points of Node's worker threads. */
const workers = ['worker/node', 'worker/quantize'];

/** Start of a run from the command line: modules evaluated before its model loads. */
const RUN = ['cli', 'cli/main', 'cli/run'];
/** Entries for Node only; all others are for any runtime. */
const FOR_NODE = ['cli', 'entry/node', 'entry/core-node', 'entry/hub-node', 'entry/tools', 'worker/turbo'];

/**
 * Bundles the modules into entries and chunks shared by several entries, since importing hundreds
 * of modules is slow. Start-up code is two chunks, portable and Node-only, because a chunk for each
 * set of entries was slow as well.
 *
 * Docstrings are only in the declarations, where editors look for them. Function names stay, for
 * stack traces, and so do lines, since Node prints the one that throws. Local names are shortened,
 * which makes the tarball a tenth smaller. (esbuild's lineLimit breaks strings, and bundlers then
 * miss the address of a worker in them.) Chunks lie in a subfolder of dist/, as the modules of src/
 * do in src/, so that addresses like ../../dist/wasm/ hold in both.
 */
export async function bundleModules({ build }, { rolldown }) {
  const chunks = await chunksOf(rolldown);
  // Node's worker threads start sooner from one file each. It must be CommonJS: Piscina require()s
  // it, and Node 20 crashes if a worker is terminated while require() instantiates an ES module
  // ("v8::Module::IsGraphAsync must be used on an instantiated module").
  const { outputFiles } = await build({
    bundle: true,
    target: 'esnext',
    packages: 'external',
    write: false,
    legalComments: 'none',
    minifySyntax: true,
    minifyWhitespace: true,
    entryPoints: Object.fromEntries(workers.map((name) => [name, `dist/${name}.js`])),
    outdir: 'dist',
    outExtension: { '.js': '.cjs' },
    platform: 'node',
    format: 'cjs',
  });
  const isModule = (file) => file.endsWith('.js') && !file.startsWith(join('dist', 'inline')) && file !== join('dist/worker/web.js');
  for (const file of files('dist').filter(isModule)) rmSync(file);
  for (const { path, text } of [...chunks, ...outputFiles]) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  removeEmptyFolders('dist');
}

function removeEmptyFolders(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removeEmptyFolders(join(folder, entry.name));
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

/** Files of all entries, and their chunks. */
async function chunksOf(rolldown) {
  const pathOf = (name) => resolve('dist', `${name}.js`);
  const bundle = await rolldown({
    input: Object.fromEntries(entries.map((name) => [name, pathOf(name)])),
    // Packages, Node's own modules, and files that exist as such: kernels and their texts.
    external: (id) => (!/^[./]/.test(id) && !isAbsolute(id) ? true : /[\\/]inline[\\/]|\.wasm(\?module)?$/.test(id)),
    preserveEntrySignatures: 'allow-extension',
    transform: { define: { QUANTLET_VERSION: JSON.stringify(JSON.parse(readFileSync('package.json', 'utf8')).version) } },
  });
  /** Modules that the named ones import, directly or not; `later`: by import() too. */
  const reached = (names, context, later = false) => {
    const found = new Set(names.map(pathOf));
    for (const id of found) {
      const { importedIds = [], dynamicallyImportedIds = [] } = context.getModuleInfo(id) ?? {};
      for (const imported of later ? [...importedIds, ...dynamicallyImportedIds] : importedIds) found.add(imported);
    }
    return found;
  };
  const anywhere = entries.filter((name) => !FOR_NODE.includes(name));
  let sets;
  const groupOf = (id, context) => {
    sets ??= {
      // This module finds V8's cached code of the last run, so it must load before the modules that
      // use it.
      first: reached(['cli'], context),
      run: reached(RUN, context),
      anywhere: reached(anywhere, context),
      // Pages import these when they need them, so they must not bring the command line along.
      later: reached(anywhere, context, true),
    };
    if (!sets.run.has(id) || sets.first.has(id)) return null;
    return sets.anywhere.has(id) ? 'engine' : sets.later.has(id) ? null : 'run';
  };
  const { output } = await bundle.generate({
    dir: 'dist',
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: groupOf, debugName: 'what a run begins with' }] },
    minify: { mangle: { toplevel: false, keepNames: { function: true, class: true } }, compress: true, codegen: false },
    comments: { legal: false, annotation: true, jsdoc: false },
  });
  await bundle.close();
  return output.map(({ fileName, code }) => ({ path: join('dist', fileName), text: code }));
}
