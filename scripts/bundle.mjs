// The compiled modules of dist/ put into few files.
import { mkdirSync, readFileSync, readdirSync, rmSync, rmdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** All files under a folder. */
export const files = (folder) =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((e) => e.isFile())
    .map((e) => join(e.parentPath ?? e.path, e.name))
    .sort();

/** What users and Node's own processes begin with. */
const entries = [
  ...new Set(readFileSync('package.json', 'utf8').match(/(?<="(?:\.\/)?dist\/)(cli|entry\/[\w-]+)(?=\.js")/g)),
  'worker/turbo',
];

/** What worker threads of Node run. */
const workers = ['worker/node', 'worker/quantize'];

/**
 * What several entries share becomes chunks: some 270 modules took a fifth of a second to import. Docstrings are in the declarations,
 * where editors look for them. Names stay, for stack traces. (With lineLimit esbuild breaks texts, and bundlers lose addresses.) Chunks lie in a folder of
 * dist/ as the modules of src/ do in theirs, so that addresses like ../../dist/wasm/ hold in both.
 */
export async function bundleModules({ build }) {
  const shared = {
    bundle: true,
    format: 'esm',
    target: 'esnext',
    packages: 'external',
    write: false,
    legalComments: 'none',
    minifySyntax: true,
    minifyWhitespace: true,
  };
  const { outputFiles } = await build({
    ...shared,
    entryPoints: Object.fromEntries(entries.map((name) => [name, `dist/${name}.js`])),
    outdir: 'dist',
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    external: ['../inline/*', '../../dist/wasm/*'],
  });
  // Node's worker threads start sooner from one file each, and of CommonJS: Piscina require()s it, and Node 20 ends the process where a worker is terminated while
  // require() instantiates an ES module ("v8::Module::IsGraphAsync must be used on an instantiated module").
  const alone = await build({
    ...shared,
    entryPoints: Object.fromEntries(workers.map((name) => [name, `dist/${name}.js`])),
    outdir: 'dist',
    outExtension: { '.js': '.cjs' },
    platform: 'node',
    format: 'cjs',
  });
  const isModule = (file) => file.endsWith('.js') && !file.startsWith(join('dist', 'inline')) && file !== join('dist/worker/web.js');
  for (const file of files('dist').filter(isModule)) rmSync(file);
  for (const { path, text } of [...outputFiles, ...alone.outputFiles]) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  removeEmptyFolders('dist');
}

function removeEmptyFolders(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removeEmptyFolders(join(folder, entry.name));
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}
