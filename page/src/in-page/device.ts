/** This device's memory and storage, and the models stored in this browser. */
import { signal } from '@preact/signals';
import { keptFiles, removeFile, type KeptFile } from '../../../src/web/kept.ts';
import { PageError } from '../backend.ts';

/** Memory limit of a page: wasm addresses are 32 bits. */
export const MOST_MEMORY = 2 ** 32;
/**
 * Memory estimate: packed weights take PACKED times the size of the file, the conversation's cache
 * and the engine BESIDE bytes (less for the smallest models).
 */
const PACKED = 1.15;
const BESIDE = 60e6;

/** Estimated memory of a running model with a file of this size. */
export const memoryFor = (fileBytes: number): number => fileBytes * PACKED + Math.min(BESIDE, 2 * fileBytes);

/** Device memory as the browser reports it: at most 8 GB, and some browsers do not report it. */
export const deviceMemory = (): number | undefined => {
  const { deviceMemory } = navigator as Navigator & { deviceMemory?: number };
  return deviceMemory === undefined ? undefined : deviceMemory * 2 ** 30;
};

/** The reason why a model of this size will hardly run here; undefined if it should run. */
export function tooLarge(fileBytes: number): string | undefined {
  const needed = memoryFor(fileBytes);
  const memory = deviceMemory();
  if (needed > MOST_MEMORY) return 'more than a page may have';
  if (memory !== undefined && needed > memory * 0.6) return 'too much for this device';
  return undefined;
}

export interface Storage {
  readonly models: readonly KeptFile[];
  /** Bytes that this site uses in total, and its limit. */
  readonly usage: number;
  readonly quota: number;
  /** True if the browser does not clear the storage by itself when space runs short. */
  readonly persistent: boolean;
}

export const storage = signal<Storage | undefined>(undefined);

export async function lookAtStorage(): Promise<void> {
  const models = await keptFiles();
  const { usage = 0, quota = 0 } = (await navigator.storage?.estimate?.().catch(() => undefined)) ?? {};
  const persistent = (await navigator.storage?.persisted?.().catch(() => false)) ?? false;
  storage.value = { models: models.sort((a, b) => b.used - a.used), usage, quota, persistent };
}

/** @throws PageError if this or another tab is loading the file */
export async function removeKept(file: KeptFile): Promise<void> {
  if (!(await removeFile(file))) throw new PageError('This model is being loaded, here or in another tab. Try again once that is done.');
  await lookAtStorage();
}

/** A model's name, taken from its address. */
export const nameOf = (url: string): string => {
  const last = url.split(/[?#]/)[0].split('/').at(-1) ?? url;
  try {
    return decodeURIComponent(last).replace(/\.gguf$/i, '');
  } catch {
    return last;
  }
};
