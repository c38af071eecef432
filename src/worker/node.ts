/** What a Piscina worker runs: a task serves as one thread until no more steps come (threads/shared.ts), or reads weights (threads/loading.ts). */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { QuantletError } from '../errors.ts';
import { cutWhileRead, type FileIdentity } from '../io/source.ts';
import { LOADING, PIECE_SIZE, type LoadFailure, type LoadTask } from '../threads/loading.ts';
import type { Compute } from '../threads/node.ts';
import type { ServeTask } from '../threads/shared.ts';
import type { Kernels } from '../wasm/abi.ts';
import { instantiate } from '../wasm/load.ts';

let made: Kernels | undefined;
const kernelsOf = ({ module, memory }: Compute): Kernels => (made ??= instantiate(module, memory));

/** A task that says no more than that this worker takes tasks. */
export function start(): void {}

export function serve({ sync, ith, last, idleMs, compute }: ServeTask & { compute: Compute }): void {
  kernelsOf(compute).serve(sync, ith, last, BigInt(idleMs) * 1_000_000n);
}

/** @throws ERR_SOURCE where it is not the file that the host has opened, or what node:fs throws */
function openAgain({ path, ino, byteLength }: FileIdentity): number {
  const fd = openSync(path, 'r');
  const now = fstatSync(fd);
  if (now.ino === ino && now.size === byteLength) return fd;
  closeSync(fd);
  throw new QuantletError('ERR_SOURCE', `${path} was replaced by another file while it was read; load the model again`);
}

/** Takes pieces until there are no more, or one cannot be read: then the other workers stop too. */
export function load({ files, pieces, words, scratch, compute }: LoadTask & { compute: Compute }): LoadFailure | undefined {
  const { buffer } = compute.memory;
  const kernels = kernelsOf(compute);
  const opened: number[] = [];
  const count = pieces.length / PIECE_SIZE;
  let path = '';
  try {
    for (let i; Atomics.load(words, LOADING.stop) === 0 && (i = Atomics.add(words, LOADING.next, 1)) < count;) {
      const [number, offset, bytes, at, type, matrix, ne0, ne1, from, to, broken] = pieces.subarray(i * PIECE_SIZE, (i + 1) * PIECE_SIZE);
      ({ path } = files[number]);
      const fd = (opened[number] ??= openAgain(files[number]));
      const target = new Uint8Array(buffer, at, bytes);
      for (let done = 0; done < bytes;) {
        const n = readSync(fd, target, done, bytes - done, offset + done);
        if (n === 0) throw cutWhileRead(path, offset + done, bytes - done);
        done += n;
      }
      if (type >= 0 && kernels.repack(type, matrix, ne0, ne1, from, to, scratch) !== 0)
        Atomics.store(new Int32Array(buffer), broken >> 2, 1);
      Atomics.add(words, LOADING.done, 1);
    }
    return undefined;
  } catch (error) {
    Atomics.store(words, LOADING.stop, 1);
    if (error instanceof QuantletError) return [error.code, error.message];
    return ['ERR_SOURCE', `cannot read ${path}: ${(error as Error).message}`];
  } finally {
    opened.forEach((fd) => closeSync(fd));
  }
}
