import type { BatchStore } from '../../src/server/batch/batch-state.ts';

/**
 * A store in memory that tests can inspect. `fail` makes the next append fail, as on a full disk.
 */
export function memoryStore(): BatchStore & { readonly kept: Map<string, Uint8Array>; fail: boolean; text(name: string): string } {
  const kept = new Map<string, Uint8Array>();
  return {
    kept,
    fail: false,
    text: (name) => new TextDecoder().decode(kept.get(name)),
    list: () => Promise.resolve([...kept.keys()]),

    async *read(name) {
      const bytes = kept.get(name);
      for (let at = 0; bytes && at < bytes.length; at += 100) yield bytes.subarray(at, at + 100);
    },
    size: (name) => Promise.resolve(kept.get(name)?.length ?? 0),
    put: (name, bytes) => Promise.resolve(void kept.set(name, bytes)),
    append(name, bytes) {
      const before = kept.get(name) ?? new Uint8Array();
      const written = this.fail ? bytes.subarray(0, bytes.length >> 1) : bytes;
      const all = new Uint8Array(before.length + written.length);
      all.set(before);
      all.set(written, before.length);
      kept.set(name, all);
      if (!this.fail) return Promise.resolve();
      this.fail = false;
      return Promise.reject(new Error('there is no space left'));
    },
    truncate: (name, size) => Promise.resolve(void kept.set(name, kept.get(name)!.subarray(0, size))),
    remove: (name) => Promise.resolve(void kept.delete(name)),
  };
}
