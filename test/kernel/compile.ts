/** Compiles kernels that no build has, from sources of a test's own and those of the package. */
import { readFileSync } from 'node:fs';
import asc from 'assemblyscript/asc';
import { at } from '../support.ts';
import type { Build } from './harness.ts';

/** Text of a source, by its path in the project. */
export const source = (path: string): string => readFileSync(at(path), 'utf8');

/**
 * Compiles a source for a build.
 * @param own sources that replace the package's or are added to them, by path
 * @throws what the compiler says
 */
export async function compileKernels(entry: string, build: Build, own: ReadonlyMap<string, string>): Promise<WebAssembly.Module> {
  let binary: Uint8Array<ArrayBuffer> | undefined;
  const { error, stderr } = await asc.main([entry, '--config', 'asconfig.json', '--target', build, '--optimizeLevel', '1'], {
    readFile(name) {
      try {
        return own.get(name) ?? source(name);
      } catch {
        return null;
      }
    },
    writeFile(name, contents) {
      if (name.endsWith('.wasm')) binary = contents as Uint8Array<ArrayBuffer>;
    },
  });
  if (error || !binary) throw new Error(stderr.toString(), { cause: error });
  return new WebAssembly.Module(binary);
}
