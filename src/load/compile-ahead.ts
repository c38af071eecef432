/**
 * Compiles the kernels of a run's first step while its weights are read. (Only with turbo, whose
 * kernels are optimised when they are first called.)
 */
import { TYPE } from '../type-traits.ts';
import type { OpRecord } from '../graph/lower.ts';
import type { Tensor } from '../graph/tensor.ts';
import { yieldToEventLoop } from '../event-loop.ts';
import type { Executor } from '../threads/executor.ts';
import { dummyBatch, writeInputs } from '../run/batch-inputs.ts';
import type { ModelPlan } from '../plan/model-plan.ts';

/**
 * Beyond this many tokens, kernels depend only on the number of tokens modulo 4
 * (packed-products.ts).
 */
const WIDE_STEP = 16;

/**
 * Computes one record of each kind, with the first step's number of tokens and then with one, so
 * that V8 has compiled their kernels before the first step. In that step, all threads would compile
 * the same kernels. Neither operands nor results matter, because the first step writes everything
 * that it reads.
 * @param isOver true when the weights have been read: the first step need not wait any longer
 */
export async function compileAhead(
  executor: Executor,
  { encoder, passes, inputs, tokenRows, inputSums, batchSize }: ModelPlan,
  firstTokens: number,
  isOver: () => boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (!executor.compileAhead || encoder.length > 0 || tokenRows.length > 0 || inputSums.size > 0) return;
  const records = oneOfEachKind({ passes, inputs });
  const wide = WIDE_STEP + (firstTokens % 4 || 4);
  for (const n of new Set([Math.min(firstTokens, wide, batchSize), 1])) {
    await writeInputs(executor, inputs, dummyBatch(n));
    for (const { at, record } of records) {
      await yieldToEventLoop();
      signal?.throwIfAborted();
      if (isOver()) return;
      executor.compileAhead(at, record, n, 1);
    }
  }
}

/**
 * First record of each kind in a step; records of a kind run the same kernels. Records that read
 * other indices than the step's inputs, such as products of experts, are left out: their indices
 * have to be valid, and the memory may hold anything.
 */
function oneOfEachKind({
  passes,
  inputs,
}: Pick<ModelPlan, 'passes' | 'inputs'>): readonly { readonly at: number; readonly record: number }[] {
  const given = new Set<Tensor>(Object.values(inputs).flat());
  const hasIndices = ({ dst, src }: OpRecord): boolean => [dst, ...src].some((t) => t?.type === TYPE.i32 && !given.has(t));
  const found = new Map<string, { at: number; record: number }>();
  for (const { plan, placed, neurons, streams } of passes) {
    if (neurons ?? streams) continue;
    for (const [record, op] of plan.records.entries()) {
      const kind = kindOf(op);
      if (!found.has(kind) && !hasIndices(op)) found.set(kind, { at: placed.at, record });
    }
  }
  return [...found.values()];
}

/** Key that is the same for records which run the same kernels. */
const kindOf = ({ code, dst, src, casts = [] }: OpRecord): string =>
  [code, ...[dst, ...src, ...casts].map((t) => t && `${t.type.name} ${t.layout}`)].join();
