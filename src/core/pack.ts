/** Packing of a tensor in place, or in new memory if the packed form is larger. */
import { canPack, packedBytes, repackRecord } from '../graph/packing.ts';
import { refuse, shape, type Tensor } from '../graph/tensor.ts';
import { firstInvalidBlock } from '../quantize/validate.ts';
import type { AllocatedRecords, Plans } from './plans.ts';
import type { TensorMemory } from './tensor-memory.ts';
import type { Turns } from './turns.ts';

/** @see Engine.pack */
export async function packTensor(memory: TensorMemory, plans: Plans, turns: Turns, t: Tensor): Promise<boolean> {
  const elements = memory.bytesOf('pack', t);
  if (t.op !== 'leaf' || t.values) refuse('pack', 'only whole matrices are packed', t);
  if (!canPack(t)) return false;
  turns.mustBeIdle('pack');
  // Packed kernels need finite scales. The plain ones give what ggml gives for others.
  if (t.type.blckSize > 1 && firstInvalidBlock(t.type, elements) >= 0) return false;
  const allocated = memory.allocated(t);
  const needed = packedBytes(t);
  const moves = needed > allocated.length;
  const to = moves ? memory.take(needed, `the packed ${shape(t)}`) : t.data;
  let records: AllocatedRecords;
  try {
    records = plans.allocate([repackRecord({ ...t, data: to })], []);
  } catch (error) {
    if (moves) memory.give(to, needed);
    throw error;
  }
  if (moves) {
    const target = memory.bytes(to, needed);
    target.set(allocated);
    target.fill(0, allocated.length);
  }
  let isDone = false;
  try {
    await turns.take(() => plans.run(records));
    isDone = true;
  } finally {
    if (!memory.disposed) {
      plans.remove(records);
      // After a lost worker a matrix that was packed in place is half packed: it is freed.
      if (!isDone && moves) memory.give(to, needed);
      else if (!isDone) memory.free(t);
    }
  }
  memory.move(t, to, needed);
  t.layout = 'packed';
  return true;
}
