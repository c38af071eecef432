/**
 * Bytes of the golden models: committed files, and models made from test/golden/arch/models.mjs.
 */
import { readFileSync } from 'node:fs';

export const folder = new URL('../golden/arch/', import.meta.url);

const { write } = (await import(new URL('gguf.mjs', folder).href)) as { write: (model: unknown) => Uint8Array };
type Models = Readonly<Record<string, () => unknown>>;
const { made, sparse } = (await import(new URL('models.mjs', folder).href)) as { made: Models; sparse: Models };
/** Models that native has answered for: name (without an ending) -> function that makes it. */
export const MADE = made;
/** The same for models with ReLU in PowerInfer's layout. */
export const SPARSE = sparse;

const written = new Map<string, Uint8Array>();

/** @param name a file of the folder, or a model that tests make */
export function goldenModel(name: string): Uint8Array {
  const make = MADE[name] ?? SPARSE[name];
  if (!make) return readFileSync(new URL(name, folder));
  const bytes = written.get(name) ?? write(make());
  written.set(name, bytes);
  return bytes;
}
