/**
 * Code of a Piscina worker in Node. A task serves as one thread until no more steps come
 * (threads/serve.ts), or reads weights (threads/loading.ts).
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { QuantletError } from '../errors.ts';
import { changedWhileRead, cutWhileRead, type FileIdentity } from '../io/source.ts';
import { HEAD_BYTES, LOADING, PIECE_SIZE, type LoadFailure, type LoadTask } from '../threads/loading.ts';
import { serveSteps, type Compute, type ServeTask } from '../threads/serve.ts';
import type { Kernels } from '../wasm/abi.ts';
import { instantiate } from '../wasm/load.ts';
import { bytesIn, memoryOf } from '../wasm/memory.ts';

let made: readonly Kernels[] | undefined;
const kernelsOf = ({ module, memories }: Compute): readonly Kernels[] => (made ??= memories.map((memory) => instantiate(module, memory)));

/** An empty task, which shows that the worker takes tasks. */
export function start(): void {}

/** Serves as a thread. `compute` is sent with every task; the first one needs it. */
export function serve({ compute, ...task }: ServeTask & { compute: Compute }): void {
  serveSteps(kernelsOf(compute), compute, task);
}

/** @throws ERR_SOURCE if the file is not the one that the host opened, or has changed since */
function mustBeSame(fd: number, { path, ino, byteLength, mtimeMs }: FileIdentity): void {
  const now = fstatSync(fd);
  if (now.ino !== ino || now.size !== byteLength || now.mtimeMs !== mtimeMs) throw changedWhileRead(path);
}

/** @throws ERR_SOURCE, or what node:fs throws */
function openAgain(file: FileIdentity): number {
  const fd = openSync(file.path, 'r');
  try {
    mustBeSame(fd, file);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Reads pieces until none are left. If one cannot be read, all workers stop. */
export function load({ files, pieces, heads, words, ith, compute }: LoadTask & { compute: Compute }): LoadFailure | undefined {
  const { memories } = compute;
  const kernels = kernelsOf(compute);
  const opened: number[] = [];
  const count = pieces.length / PIECE_SIZE;
  let path = '';
  try {
    for (let i; Atomics.load(words, LOADING.stop) === 0 && (i = Atomics.add(words, LOADING.next, 1)) < count;) {
      const piece = pieces.subarray(i * PIECE_SIZE, (i + 1) * PIECE_SIZE);
      const [number, offset, bytes, head, at, type, to, ne0, rows, broken, scratch, scratchBytes] = piece;
      ({ path } = files[number]);
      const fd = (opened[number] ??= openAgain(files[number]));
      // Read weights that need packing into this thread's scratch, which stays in its L2 cache, and
      // pack from there to the final address.
      const plain = scratch + ith * scratchBytes;
      const target = bytesIn(memories, type < 0 ? at : plain, bytes);
      for (let done = 0; done < bytes;) {
        const n = readSync(fd, target, done, bytes - done, offset + done);
        if (n === 0) throw cutWhileRead(path, offset + done, bytes - done);
        done += n;
      }
      if (head >= 0) heads!.set(target.subarray(0, HEAD_BYTES), head);
      if (type >= 0 && kernels[memoryOf(at)].repack(type, to, plain, at, ne0, rows) !== 0) bytesIn(memories, broken, 1)[0] = 1;
      Atomics.add(words, LOADING.done, 1);
    }
    opened.forEach((fd, number) => mustBeSame(fd, files[number]));
    return undefined;
  } catch (error) {
    Atomics.store(words, LOADING.stop, 1);
    if (error instanceof QuantletError) return [error.code, error.message];
    return ['ERR_SOURCE', `cannot read ${path}: ${(error as Error).message}`];
  } finally {
    opened.forEach((fd) => closeSync(fd));
  }
}
