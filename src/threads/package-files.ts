/**
 * Files of the package outside its modules: kernels, workers, Piscina. They lie next to these
 * modules, unless a bundler has moved the modules. Then they are those of the installed package,
 * resolved from the bundle's folder or from the process's working directory.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Piscina as PiscinaClass } from 'piscina';
import { QuantletError } from '../errors.ts';

/** Version of these modules; undefined when sources run. */
declare const QUANTLET_VERSION: string | undefined;

/** The error if files of the package are missing. */
export const bundledError = (missing: string, cause?: unknown): QuantletError =>
  new QuantletError(
    'ERR_BUNDLED',
    `${missing}: a bundler left out files of quantlet or Piscina; install quantlet where the bundle runs, or keep it out of the bundle (Next: serverExternalPackages: ['quantlet'], esbuild: --external:quantlet)`,
    { cause },
  );

/** This module's address. A bundle in CommonJS has no import.meta.url, but __filename. */
const here = import.meta.url || pathToFileURL(__filename).href;
/**
 * Named `require`, so that tools that list a deployment's files (Vercel's nft, in Next) see that
 * Piscina is needed.
 */
const require = createRequire(import.meta.url || __filename);

/**
 * Folder of the installed package.
 * @throws ERR_BUNDLED if its version differs from that of these modules
 */
function packageFolder(): string | undefined {
  for (const from of [here, pathToFileURL(join(process.cwd(), 'package.json')).href]) {
    let manifest: string;
    try {
      manifest = createRequire(from).resolve('quantlet/package.json');
    } catch {
      continue;
    }
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    if (typeof QUANTLET_VERSION === 'string' && version !== QUANTLET_VERSION)
      throw bundledError(`the bundle has quantlet ${QUANTLET_VERSION}, ${dirname(manifest)} has ${version}`);
    return dirname(manifest);
  }
  return undefined;
}

/**
 * Path of a file of the package.
 * @param literal its address next to this package's modules, in a constant, for bundlers and nft:
 * `import.meta.url ? new URL('../../dist/...', import.meta.url) : undefined`
 * @param path the same from the package's folder
 * @throws ERR_BUNDLED if it is in neither place
 */
export function packageFile(literal: URL | undefined, path: string): string {
  const own = literal?.protocol === 'file:' ? fileURLToPath(literal) : path;
  if (existsSync(own)) return own;
  const folder = packageFolder();
  const found = folder === undefined ? own : join(folder, path);
  if (existsSync(found)) return found;
  throw bundledError(`${found} is missing`);
}

interface PiscinaModule {
  readonly Piscina: typeof PiscinaClass;
}
let piscina: typeof PiscinaClass | undefined;

/**
 * Loads Piscina from its installation, never from a bundle: it starts workers from a file of its
 * own, and esbuild's modules cannot require() its dependencies.
 * @throws ERR_BUNDLED if it is not installed
 */
export function loadPiscina(): typeof PiscinaClass {
  if (piscina) return piscina;
  try {
    piscina = (require('piscina') as PiscinaModule).Piscina;
  } catch (error) {
    const folder = packageFolder();
    if (folder === undefined) throw bundledError('Piscina is missing', error);
    piscina = (createRequire(join(folder, 'package.json'))('piscina') as PiscinaModule).Piscina;
  }
  return piscina;
}
