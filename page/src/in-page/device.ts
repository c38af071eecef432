/** What this device has and can hold, and the models that are kept on it. */
import { signal } from '@preact/signals';
import { keptFiles, removeFile, type KeptFile } from '../../../src/web/kept.ts';
import { PageError } from '../backend.ts';

/** A page's memory is addressed by 32 bits. */
export const MOST_MEMORY = 2 ** 32;
/** Beside the weights, which are packed: the cache of a conversation and the engine's own, less with the smallest models. */
const PACKED = 1.15;
const BESIDE = 60e6;

/** About what a model of this size takes while it runs. */
export const memoryFor = (fileBytes: number): number => fileBytes * PACKED + Math.min(BESIDE, 2 * fileBytes);

/** What the browser says of the device's memory; it never says more than 8 GB, and some say nothing. */
export const deviceMemory = (): number | undefined => {
  const { deviceMemory } = navigator as Navigator & { deviceMemory?: number };
  return deviceMemory === undefined ? undefined : deviceMemory * 2 ** 30;
};

/** Why a model of this size will hardly run here; undefined where it should. */
export function tooLarge(fileBytes: number): string | undefined {
  const needed = memoryFor(fileBytes);
  const memory = deviceMemory();
  if (needed > MOST_MEMORY) return 'more than a page may have';
  if (memory !== undefined && needed > memory * 0.6) return 'too much for this device';
  return undefined;
}

export interface Storage {
  readonly models: readonly KeptFile[];
  /** Bytes that all of this page's site takes, and may take. */
  readonly usage: number;
  readonly quota: number;
  /** The browser does not clear it by itself when room gets short. */
  readonly persistent: boolean;
}

export const storage = signal<Storage | undefined>(undefined);

export async function lookAtStorage(): Promise<void> {
  const models = await keptFiles();
  const { usage = 0, quota = 0 } = (await navigator.storage?.estimate?.().catch(() => undefined)) ?? {};
  const persistent = (await navigator.storage?.persisted?.().catch(() => false)) ?? false;
  storage.value = { models: models.sort((a, b) => b.used - a.used), usage, quota, persistent };
}

/** @throws PageError where another tab loads it just now */
export async function removeKept(file: KeptFile): Promise<void> {
  if (!(await removeFile(file))) throw new PageError('This model is being loaded, here or in another tab. Try again once that is done.');
  await lookAtStorage();
}

/** A model's name in its address. */
export const nameOf = (url: string): string => {
  const last = url.split(/[?#]/)[0].split('/').at(-1) ?? url;
  try {
    return decodeURIComponent(last).replace(/\.gguf$/i, '');
  } catch {
    return last;
  }
};
