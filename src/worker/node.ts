/** What a Piscina worker runs: one task = one thread's life, from the first step of a run to its going home. */
import { workerData } from 'piscina';
import type { ServeTask } from '../threads/shared.ts';
import { instantiate } from '../wasm/load.ts';

const { module, memory } = workerData as { module: WebAssembly.Module; memory: WebAssembly.Memory };
const kernels = instantiate(module, memory);

export function serve({ sync, ith, last, idleMs }: ServeTask): void {
  kernels.serve(sync, ith, last, BigInt(idleMs) * 1_000_000n);
}
