/** The npm package: what the manifest promises is in the tarball, runs from there, and is small. */
import { execFileSync, execSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { root, runNode, temporaryFolder } from './support.ts';

const at = (path: string): string => fileURLToPath(new URL(path, root));
interface Manifest {
  name: string;
  version: string;
  type: string;
  exports: Record<string, string | Record<string, string>>;
  files: string[];
  bin: Record<string, string>;
  sideEffects: string[];
  engines: { node: string };
  scripts: Record<string, string>;
  dependencies: Record<string, string>;
}
const manifest = JSON.parse(readFileSync(at('package.json'), 'utf8')) as Manifest;

/** Most bytes of one wasm build. */
const MAX_WASM = 240 * 1024;
/**
 * Largest tarball without the shipped model. A step, to notice growth; 1.3 MB is the hard limit.
 * (npm's size less the model's bytes is a tenth less.)
 */
const MAX_TARBALL = 1_200_000;
/**
 * A page that loads a model and generates, minified and gzipped: the first chunks if chunks are
 * split, and everything in one file.
 */
const MAX_FIRST_LOAD = 150_000;
const MAX_ONE_FILE = 480_000;

/** Order in which runtimes must find the conditions: the first match wins. */
const CONDITIONS = ['types', 'workerd', 'edge-light', 'browser', 'node', 'default'];

/** Files of a ustar archive: name -> bytes. */
function untar(archive: Uint8Array): Map<string, Buffer> {
  const tar = gunzipSync(archive);
  const files = new Map<string, Buffer>();
  const text = (from: number, n: number): string => tar.toString('utf8', from, from + n).replace(/\0.*$/s, '');
  for (let p = 0; tar[p] !== 0;) {
    const size = parseInt(text(p + 124, 12), 8);
    const prefix = text(p + 345, 155);
    if (text(p + 156, 1) === '0') files.set((prefix ? `${prefix}/` : '') + text(p, 100), tar.subarray(p + 512, p + 512 + size));
    p += 512 + Math.ceil(size / 512) * 512;
  }
  return files;
}

const folder = temporaryFolder();
const npm = process.env.npm_execpath;
const pack = ['pack', '--ignore-scripts', '--json', '--silent', '--pack-destination', folder];
const options = { cwd: at('.'), encoding: 'utf8' as const, stdio: ['ignore' as const, 'pipe' as const, 'ignore' as const] };
const [{ filename }] = JSON.parse(
  npm?.endsWith('.js')
    ? execFileSync(process.execPath, [npm, ...pack], options)
    : execSync(['npm', ...pack.map((word) => `"${word}"`)].join(' '), options),
) as { filename: string }[];
const packed = untar(readFileSync(join(folder, filename)));
const has = (path: string): boolean => packed.has(`package/${path.replace(/^\.\//, '')}`);

describe('the manifest', () => {
  it('exports and bin name files that are there', () => {
    const targets = Object.values(manifest.exports).flatMap((e) => (typeof e === 'string' ? [e] : Object.values(e)));
    for (const target of [...targets, ...Object.values(manifest.bin)]) {
      if (!target.includes('*')) expect(has(target), target).toBe(true);
      else
        expect(
          [...packed.keys()].some((f) => f.startsWith(`package/${target.slice(2, target.indexOf('*'))}`)),
          target,
        ).toBe(true);
    }
    for (const [name, e] of Object.entries(manifest.exports)) {
      if (typeof e === 'string') continue;
      const order = Object.keys(e).map((c) => CONDITIONS.indexOf(c));
      expect(order, `${name}: conditions are known and in order`).toEqual([...order].sort((a, b) => a - b));
      expect(order).not.toContain(-1);
    }
  });

  it('files exist, and hold the model that ships, the licence and the documents', () => {
    for (const file of manifest.files) if (!/^!|\*/.test(file)) expect(existsSync(at(file)), file).toBe(true);
    for (const file of [
      'models/tiny-stories-q4_0.gguf',
      'models/README.md',
      'LICENSE',
      'README.md',
      'docs/api.md',
      'dist/worker/node.cjs',
      'dist/wasm/quantize.wasm',
    ])
      expect(has(file), file).toBe(true);
  });

  it('documents that help and messages name are there', () => {
    const sources = [...packed].filter(([name]) => name.endsWith('.js') && !name.includes('/inline/')).map(([, bytes]) => bytes.toString());
    const named = new Set(sources.flatMap((source) => source.match(/\b(?:docs\/)?[\w-]+\.md\b/g) ?? []));
    expect(named).toContain('docs/flags.md');
    for (const file of named) expect(has(file), file).toBe(true);
  });

  it.each([...packed.keys()].filter((name) => name.endsWith('.md')))('%s links to files of the package alone', (name) => {
    // The manifest names no repository in which npm would look for other files. A picture's text
    // takes its place.
    const links = [
      ...packed
        .get(name)!
        .toString()
        .matchAll(/(?<!!)\[[^\]]*\]\((?!https?:|#)([^)#]+)/g),
    ].map(([, link]) => link);
    expect(links.filter((link) => !packed.has(posix.join(posix.dirname(name), link)))).toEqual([]);
    if (name === 'package/README.md') expect(links.length).toBeGreaterThan(20);
  });

  it('nothing is packed that users have no use for', () => {
    const odd = [...packed.keys()].filter((f) => /\.stamp|\.tsbuildinfo|\.map$|^package\/(test|bench|assembly|scripts|src)\//.test(f));
    expect(odd).toEqual([]);
  });

  it('has the declarations that its exports refer to, and no others', () => {
    const reached = new Set(
      Object.values(manifest.exports).flatMap((e) => (typeof e === 'string' || !e.types ? [] : [posix.join('package', e.types)])),
    );
    for (const file of reached) {
      const text = packed.get(file)?.toString() ?? '';
      for (const [, path] of text.matchAll(/(?:from|import\() ?['"](\.[^'"]+)\.[jt]s['"]/g))
        reached.add(posix.join(posix.dirname(file), `${path}.d.ts`));
    }
    expect([...packed.keys()].filter((name) => name.endsWith('.d.ts')).sort()).toEqual([...reached].sort());
  });

  it('is an ES module for the stated Node versions, and its scripts build first', () => {
    expect([manifest.type, manifest.engines.node]).toEqual(['module', '>=20.19']);
    for (const hook of ['postprepare', 'prepack', 'prestart', 'pretest']) expect(manifest.scripts[hook]).toBe(manifest.scripts.build);
    // npm 11 warns users about packages with these hooks. postprepare runs like prepare, for us and
    // for git dependencies.
    for (const hook of ['preinstall', 'install', 'postinstall', 'prepare']) expect(manifest.scripts).not.toHaveProperty(hook);
    expect(Object.keys(manifest.dependencies)).toEqual(expect.arrayContaining(['@assemblyscript/loader', 'piscina']));
  });
});

describe('sizes', () => {
  it('each wasm build', () => {
    // A build with threads is made from the one without.
    for (const build of ['simd', 'relaxed', 'dotadd']) {
      const { length } = packed.get(`package/dist/wasm/${build}.wasm`)!;
      expect(length, `${build}.wasm`).toBeLessThan(MAX_WASM);
    }
  });

  it('the tarball without the model', () => {
    const files = [...packed].filter(([name]) => !name.endsWith('.gguf'));
    // One stream, as npm makes it: text repeated across files is compressed once.
    expect(gzipSync(Buffer.concat(files.map(([, bytes]) => bytes))).length).toBeLessThan(MAX_TARBALL);
  });
});

describe('from the tarball, with only its dependencies', () => {
  for (const [name, bytes] of packed) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), bytes);
  }
  mkdirSync(join(folder, 'node_modules'));
  for (const name of readdirSync(at('node_modules'))) {
    if (Object.keys(manifest.dependencies).some((d) => d.split('/')[0] === name))
      symlinkSync(join(at('node_modules'), name), join(folder, 'node_modules', name), 'junction');
  }
  symlinkSync(join(folder, 'package'), join(folder, 'node_modules', manifest.name), 'junction');
  const cli = join(folder, 'package', manifest.bin.quantlet);

  it('the command runs and tells a story with the model that ships', async () => {
    expect(readFileSync(cli, 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/);
    const { code, stdout, stderr } = await runNode([
      cli,
      'run',
      '-p',
      'Once upon a time',
      '-n',
      '12',
      '--temp',
      '0',
      '--no-warmup',
      '-t',
      '2',
    ]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^Once upon a time,? \w+/);
  });

  it.each([
    [true, MAX_FIRST_LOAD],
    [false, MAX_ONE_FILE],
  ])('a page of it is small (chunks split: %s)', async (splitting, budget) => {
    const contents = `import { loadModel } from '${manifest.name}';\nexport const tell = async (url) => (await (await loadModel(url)).generate('Once').result()).text;`;
    const { outputFiles, metafile } = await build({
      stdin: { contents, resolveDir: folder },
      bundle: true,
      splitting,
      minify: true,
      format: 'esm',
      outdir: join(folder, 'out'),
      write: false,
      metafile: true,
      logLevel: 'error',
    });
    const first = new Set<string>();
    const follow = (path: string): void => {
      if (first.has(path)) return;
      first.add(path);
      for (const { path: imported, kind } of metafile.outputs[path].imports) if (kind === 'import-statement') follow(imported);
    };
    // Chunks that are loaded later have entry points of their own. The page is the one given by
    // stdin.
    follow(Object.keys(metafile.outputs).find((path) => metafile.outputs[path].entryPoint === '<stdin>')!);
    const names = [...first].map((path) => path.split('/').at(-1));
    const loaded = outputFiles.filter(({ path }) => names.includes(path.split('/').at(-1)));
    const bytes = loaded.reduce((n, { contents }) => n + gzipSync(contents, { level: 9 }).length, 0);
    // Code for images comes with the first projector: names of a PNG chunk and of a tensor tell it.
    const withImages = (files: typeof outputFiles): boolean => files.some(({ text }) => /IDAT|mm\.model\.fc/.test(text));
    expect([withImages(loaded), withImages(outputFiles)]).toEqual([!splitting, true]);
    expect(bytes).toBeGreaterThan(10_000);
    expect(bytes).toBeLessThan(budget);
  });

  it.each([
    ['NodeNext', ts.ModuleKind.NodeNext, ts.ModuleResolutionKind.NodeNext],
    ['Bundler', ts.ModuleKind.ESNext, ts.ModuleResolutionKind.Bundler],
  ])('a model that a Worker imports has a type, with moduleResolution %s', (name, module, moduleResolution) => {
    const file = join(folder, `import-${name}.mts`);
    const use = (type: string): string => {
      writeFileSync(file, `import bytes from 'quantlet/models/tiny-stories-q4_0.bin';\nexport const given: ${type} = bytes;\n`);
      const options = { noEmit: true, strict: true, module, moduleResolution, target: ts.ScriptTarget.ES2022, types: [] };
      return ts
        .getPreEmitDiagnostics(ts.createProgram([file], options))
        .map(({ code }) => code)
        .join();
    };
    expect(use('ArrayBuffer')).toBe('');
    expect(use('string')).toBe('2322');
  });

  it('the entry can be imported by name, and no entry has a default export', async () => {
    // quantlet/langchain is for those who have LangChain.
    symlinkSync(at('node_modules/@langchain'), join(folder, 'node_modules', '@langchain'), 'junction');
    const names = Object.keys(manifest.exports)
      .filter((e) => !e.includes('*') && !e.endsWith('.json') && e !== './worker')
      .map((e) => manifest.name + e.slice(1));
    writeFileSync(
      join(folder, 'use.mjs'),
      `${names.map((n, i) => `import * as m${i} from ${JSON.stringify(n)};`).join('\n')}\nconsole.log(JSON.stringify([${names.map((_, i) => `Object.keys(m${i})`)}]));`,
    );
    const { code, stdout, stderr } = await runNode([join(folder, 'use.mjs')]);
    expect(code, stderr).toBe(0);
    const all = JSON.parse(stdout) as string[][];
    all.forEach((keys, i) => expect(keys, names[i]).not.toContain('default'));
    expect(all[0], 'nothing internal').toEqual(['QuantletError', 'loadModel', 'similarity', 'topK']);
  });
});

/** Files that git tracks. A tarball of the sources has no git to ask. */
describe.runIf(existsSync(at('.git')))('tracked files', () => {
  it('name no path of a machine and no registry host', () => {
    const files = execFileSync('git', ['ls-files'], { cwd: at('.'), encoding: 'utf8' })
      .split('\n')
      .filter((f) => /\.(ts|mts|js|mjs|json|md|c|py|html|ya?ml|sh)$|^[^.]+$|^\.ci\//.test(f) && existsSync(at(f)));
    // Folders of a machine, spelled in parts so that this file does not name one.
    const paths = new RegExp(`(?<![\\w.])/(${['work', 'home', 'root', 'tmp', 'Users'].join('|')})/\\w`);
    const found = files.flatMap((f) =>
      readFileSync(at(f), 'utf8')
        .split('\n')
        .flatMap((line, i) => (paths.test(line) ? [`${f}:${i + 1}: ${line.trim().slice(0, 120)}`] : [])),
    );
    expect(found).toEqual([]);
    const lock = JSON.parse(readFileSync(at('package-lock.json'), 'utf8')) as { packages: Record<string, { resolved?: string }> };
    const hosts = new Set(
      Object.values(lock.packages).flatMap(({ resolved }) => (resolved?.startsWith('http') ? [new URL(resolved).host] : [])),
    );
    expect([...hosts].filter((h) => h !== 'registry.npmjs.org')).toEqual([]);
  });

  it('no source file has a default export', () => {
    const sources = execFileSync('git', ['ls-files', 'src', 'assembly', 'bench', 'test'], { cwd: at('.'), encoding: 'utf8' })
      .split('\n')
      .filter((f) => f.endsWith('.ts') && existsSync(at(f)));
    expect(sources.filter((f) => /^export default\b/m.test(readFileSync(at(f), 'utf8')))).toEqual([]);
  });
});
