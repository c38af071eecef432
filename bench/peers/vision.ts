/** Builds bench/peers/vision.cpp with the sources of llama.cpp's libmtmd, which has no library. */
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { cache, root, run } from '../support.ts';
import type { Peers } from './install.ts';

/** The program's path. It is compiled once, in a few minutes. */
export async function installVisionPeer({ best }: Peers, folder = resolve(cache, 'peers')): Promise<string> {
  const program = resolve(folder, 'vision');
  const source = resolve(root, 'bench/peers/vision.cpp');
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return program;
  console.error('compiling libmtmd ...');
  const headers = resolve(folder, 'llama-headers');
  const mtmd = resolve(headers, 'tools/mtmd');
  const objects = resolve(folder, 'vision-objects');
  mkdirSync(objects, { recursive: true });
  const include = ['include', 'ggml/include', 'vendor', 'tools/mtmd', 'src'].map((path) => `-I${resolve(headers, path)}`);
  const files = [
    ...['clip', 'mtmd', 'mtmd-audio', 'mtmd-image', 'mtmd-helper'].map((name) => resolve(mtmd, `${name}.cpp`)),
    ...readdirSync(resolve(mtmd, 'models'))
      .filter((name) => name.endsWith('.cpp'))
      .map((name) => resolve(mtmd, 'models', name)),
    ...['hash.cpp', 'sha1/sha1.c', 'xxhash/xxhash.c', 'sha256/sha256.c'].map((name) => resolve(headers, 'vendor/hash', name)),
  ].filter(existsSync);
  const made = files.map((file, i) => resolve(objects, `${i}-${basename(file)}.o`));
  for (const [i, file] of files.entries())
    if (!existsSync(made[i]))
      // hash.cpp expects sha1.c as C++, and the others as C.
      await run(file.endsWith('.c') && !file.endsWith('sha1.c') ? 'gcc' : 'g++', [
        ...(file.endsWith('.cpp') ? ['-std=c++17'] : file.endsWith('sha1.c') ? ['-x', 'c++'] : []),
        '-O2',
        ...include,
        `-I${resolve(headers, 'vendor/hash')}`,
        '-c',
        file,
        '-o',
        made[i],
      ]);
  const library = (prefix: string): string => `-l:${readdirSync(best).find((f) => f.startsWith(prefix) && f.endsWith('.so'))}`;
  const libraries = ['libllama.v', 'libggml.v', 'libggml-base'].map(library);
  const link = [`-L${best}`, ...libraries, `-Wl,-rpath,${best}`, '-lpthread'];
  await run('g++', ['-std=c++17', '-O2', ...include, '-o', program, source, ...made, ...link]);
  return program;
}
