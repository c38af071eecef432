/** The scheduler alone, over a step function that records what it is asked and answers with numbers made from it. */
import { describe, expect, it } from 'vitest';
import { createScheduler, type Batch, type Scheduler } from '../../src/scheduler.ts';
import { failure, randomIds } from '../support.ts';

interface SeenStep { ids: number[]; pos: number[]; cells: number[]; first: number[]; visible: number[]; outputs: number[] }

interface Setup { nBatch?: number; nSlots?: number; maxOutputs?: number; before?: (n: number, signal: AbortSignal | undefined) => Promise<void> | void }

/** Output i's logits are [id, position] of its token. Steps take a turn of the event loop, as real ones do. */
function setup({ nBatch = 8, nSlots = 3, maxOutputs = nSlots, before }: Setup = {}): { scheduler: Scheduler; steps: SeenStep[] } {
  const steps: SeenStep[] = [];
  let running = false;
  const step = async (batch: Batch, signal: AbortSignal | undefined): Promise<(i: number) => Float32Array> => {
    expect(running, 'one step at a time').toBe(false);
    running = true;
    const { nTokens, nOutputs } = batch;
    expect([nTokens > 0, nTokens <= nBatch, nOutputs <= maxOutputs]).toEqual([true, true, true]);
    const part = (a: Int32Array, n: number): number[] => [...a.subarray(0, n)];
    const seen = { ids: part(batch.ids, nTokens), pos: part(batch.pos, nTokens), cells: part(batch.cells, nTokens), first: part(batch.first, nTokens), visible: part(batch.visible, nTokens), outputs: part(batch.outputs, nOutputs) };
    steps.push(seen);
    try {
      await new Promise((resolve) => setImmediate(resolve));
      await before?.(steps.length, signal);
      return (i) => Float32Array.of(seen.ids[seen.outputs[i]], seen.pos[seen.outputs[i]]);
    } finally {
      running = false;
    }
  };
  return { scheduler: createScheduler({ nBatch, nSlots, slotCells: 256, maxOutputs, step }), steps };
}

/** All logits of a sequence, in the order they were given. */
async function sequence(scheduler: Scheduler, ids: readonly number[], { from = 0, start = 0, signal = undefined as AbortSignal | undefined } = {}): Promise<{ rows: number[][]; indices: number[] }> {
  const slot = await scheduler.acquire(signal);
  const rows: number[][] = [], indices: number[] = [];
  try {
    await scheduler.submit(slot, start, ids, from, (logits, index) => {
      rows.push([...logits]);
      indices.push(index);
    }, signal);
    return { rows, indices };
  } finally {
    scheduler.release(slot);
  }
}

describe('steps', () => {
  it('a prompt is cut into steps of nBatch; positions, cells and what each token sees', async () => {
    const { scheduler, steps } = setup({ nBatch: 4, nSlots: 2 });
    await scheduler.acquire(); // slot 0 is someone else's, who has nothing to compute
    const ids = [10, 11, 12, 13, 14, 15];
    await sequence(scheduler, ids, { from: 5, start: 20 });
    expect(steps.map((s) => s.ids)).toEqual([[10, 11, 12, 13], [14, 15]]);
    expect(steps.flatMap((s) => s.pos)).toEqual([20, 21, 22, 23, 24, 25]);
    expect(steps.flatMap((s) => s.cells)).toEqual([276, 277, 278, 279, 280, 281]);
    expect(steps.flatMap((s) => s.first)).toEqual([256, 256, 256, 256, 256, 256]);
    expect(steps.flatMap((s) => s.visible)).toEqual([21, 22, 23, 24, 25, 26]);
    expect(steps.map((s) => s.outputs)).toEqual([[], [1]]);
  });

  it('begin when the last that holds a slot has come: nobody waits for a timer', async () => {
    const { scheduler, steps } = setup();
    const slots = [await scheduler.acquire(), await scheduler.acquire()];
    const both: Promise<void>[] = [];
    for (const [i, slot] of slots.entries()) {
      expect(steps).toEqual([]);
      both.push(scheduler.submit(slot, 0, [i], 0, () => {}));
    }
    expect(steps.map((s) => s.ids)).toEqual([[0, 1]]);
    await Promise.all(both);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(steps.length, 'the timer of the first is gone').toBe(1);
  });

  it('logits come for every index from outputsFrom on, in order, however few fit a step', async () => {
    for (const maxOutputs of [1, 2, 3, 7]) {
      const { scheduler } = setup({ nBatch: 5, nSlots: 1, maxOutputs });
      const ids = randomIds(23, 1000, maxOutputs);
      const { rows, indices } = await sequence(scheduler, ids, { from: 9 });
      expect(indices, `maxOutputs ${maxOutputs}`).toEqual(Array.from({ length: 14 }, (_, i) => 9 + i));
      expect(rows).toEqual(ids.slice(9).map((id, i) => [id, 9 + i]));
    }
  });

  it('everybody hears of their own tokens, whatever the mix', async () => {
    for (let seed = 1; seed <= 30; seed++) {
      const [nBatch, nSlots, outputs] = randomIds(3, 6, seed);
      const { scheduler } = setup({ nBatch: nBatch + 1, nSlots: nSlots + 1, maxOutputs: outputs + 1 });
      const lengths = randomIds(8, 40, seed + 100);
      const all = await Promise.all(lengths.map((n, i) => sequence(scheduler, randomIds(n + 1, 1000, seed * 50 + i), { from: n >> 1 })));
      all.forEach(({ rows, indices }, i) => {
        const ids = randomIds(lengths[i] + 1, 1000, seed * 50 + i), from = lengths[i] >> 1;
        expect(indices, `seed ${seed}, sequence ${i}`).toEqual(ids.map((_, j) => j).slice(from));
        expect(rows, `seed ${seed}, sequence ${i}`).toEqual(ids.slice(from).map((id, j) => [id, from + j]));
      });
      expect(scheduler.active, `seed ${seed}`).toBe(0);
    }
  });

  it('a next token does not wait for another\'s long prompt', async () => {
    const { scheduler, steps } = setup({ nBatch: 8, nSlots: 2 });
    const prompt = sequence(scheduler, randomIds(80, 100, 1), { from: 79 });
    const slot = await scheduler.acquire();
    for (let i = 0; i < 5; i++) await scheduler.submit(slot, i, [500 + i], 0, () => {});
    const shared = steps.filter((s) => s.ids.some((id) => id >= 500));
    expect(shared).toHaveLength(5);
    expect(shared.every((s) => s.ids[0] >= 500), 'the single token comes first').toBe(true);
    expect(shared.some((s) => s.ids.length > 1), 'and the prompt fills the rest of the step').toBe(true);
    scheduler.release(slot);
    await prompt;
  });

  it('a long prompt goes in small steps while another generates, and in large ones when it is alone', async () => {
    const { scheduler, steps } = setup({ nBatch: 200, nSlots: 2 });
    const [long, other] = [await scheduler.acquire(), await scheduler.acquire()];
    const prompt = scheduler.submit(long, 0, randomIds(250, 1000, 1), 249, () => {});
    for (let i = 0; i < 3; i++) await scheduler.submit(other, i, [7], 0, () => {});
    scheduler.release(other);
    await prompt;
    const own = steps.map((s) => s.ids.filter((_, i) => s.first[i] === 0).length), others = steps.map((s) => s.ids.length - s.first.filter((cell) => cell === 0).length);
    expect(others.filter((n) => n > 0)).toEqual([1, 1, 1]);
    steps.forEach((s, i) => others[i] > 0 && expect(s.ids.length, `step ${i}: ${own}`).toBeLessThanOrEqual(65));
    expect(own.reduce((a, b) => a + b)).toBe(250);
  });

  it('two prompts both go on', async () => {
    const { scheduler, steps } = setup({ nBatch: 4, nSlots: 2 });
    const ends: string[] = [];
    await Promise.all([
      sequence(scheduler, Array.from({ length: 40 }, (_, i) => i), { from: 39 }).then(() => ends.push('first')),
      sequence(scheduler, Array.from({ length: 4 }, (_, i) => 100 + i), { from: 3 }).then(() => ends.push('second')),
    ]);
    expect(ends).toHaveLength(2);
    expect(steps.length, 'no step is wasted').toBe(11);
  });
});

describe('slots', () => {
  it('first come, first served', async () => {
    const { scheduler } = setup({ nSlots: 1 });
    const slot = await scheduler.acquire();
    const order: number[] = [];
    const waiting = [1, 2, 3].map((n) => scheduler.acquire().then((s) => { order.push(n); scheduler.release(s); }));
    expect(scheduler.active).toBe(1);
    scheduler.release(slot);
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3]);
    expect(scheduler.active).toBe(0);
  });

  it('whoever gives up waiting is passed over', async () => {
    const { scheduler } = setup({ nSlots: 1 });
    const slot = await scheduler.acquire();
    const controller = new AbortController(), reason = { gave: 'up' };
    const first = failure(scheduler.acquire(controller.signal)), second = scheduler.acquire();
    controller.abort(reason);
    expect((await first).error).toBe(reason);
    expect((await failure(scheduler.acquire(controller.signal))).error, 'a signal that was aborted before').toBe(reason);
    scheduler.release(slot);
    expect(await second).toBe(slot);
  });

  it('more tokens than a slot has cells are refused', async () => {
    const { scheduler, steps } = setup({ nSlots: 1 });
    expect((await failure(sequence(scheduler, randomIds(10, 9, 1), { start: 250 }))).code).toBe('ERR_CONTEXT_FULL');
    expect(steps).toEqual([]);
  });
});

describe('what goes wrong stays with whom it concerns', () => {
  it('an abort of one among many: the others\' answers are whole', async () => {
    const controller = new AbortController(), reason = new Error('mine');
    const { scheduler } = setup({ nBatch: 4, before: (n) => { if (n === 2) controller.abort(reason); } });
    const ids = randomIds(20, 1000, 1);
    const aborted = failure(sequence(scheduler, randomIds(30, 1000, 2), { from: 29, signal: controller.signal }));
    const others = await Promise.all([sequence(scheduler, ids), sequence(scheduler, ids)]);
    expect((await aborted).error).toBe(reason);
    for (const { rows } of others) expect(rows).toEqual(ids.map((id, i) => [id, i]));
    expect(scheduler.active).toBe(0);
  });

  it('a signal reaches the step only where the step is its owner\'s alone', async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const { scheduler } = setup({ nBatch: 64, nSlots: 2, before: (_, signal) => void signals.push(signal) });
    const { signal } = new AbortController();
    await sequence(scheduler, [1], { signal });
    const slots = [await scheduler.acquire(), await scheduler.acquire()];
    await Promise.all(slots.map((s) => scheduler.submit(s, 0, [1], 0, () => {}, signal)));
    expect(signals[0]).toBe(signal);
    expect(signals.at(-1)).toBeUndefined();
  });

  it('an error in one callback', async () => {
    const { scheduler } = setup({ nSlots: 2 });
    const slots = [await scheduler.acquire(), await scheduler.acquire()];
    const mine = new Error('in the callback');
    const bad = failure(scheduler.submit(slots[0], 0, [1], 0, () => { throw mine; }));
    let got = 0;
    await scheduler.submit(slots[1], 0, [2, 3], 0, () => got++);
    expect((await bad).error).toBe(mine);
    expect(got).toBe(2);
    await scheduler.submit(slots[0], 0, [4], 0, () => got++);
    expect(got).toBe(3);
  });

  it('a step that fails: all who took part hear it, the next step runs', async () => {
    const lost = new Error('lost');
    const { scheduler } = setup({ nSlots: 2, before: (n) => { if (n === 1) throw lost; } });
    const slots = [await scheduler.acquire(), await scheduler.acquire()];
    const failed = await Promise.all(slots.map((s) => failure(scheduler.submit(s, 0, [1, 2], 1, () => {}))));
    expect(failed.map((f) => f.error)).toContain(lost);
    let rows = 0;
    await Promise.all(slots.map((s) => scheduler.submit(s, 0, [1, 2], 1, () => rows++)));
    expect(rows).toBe(2);
  });

  it('close ends those who compute, those who wait and those who come', async () => {
    const closed = new Error('closed');
    const { scheduler } = setup({ nSlots: 1, nBatch: 2 });
    const computing = failure(sequence(scheduler, randomIds(50, 9, 1)));
    const waiting = failure(scheduler.acquire());
    await new Promise((resolve) => setImmediate(resolve));
    scheduler.close(closed);
    expect((await computing).error).toBe(closed);
    expect((await waiting).error).toBe(closed);
    expect((await failure(scheduler.acquire())).error).toBe(closed);
    expect((await failure(scheduler.submit(0, 0, [1], 0, () => {}))).error).toBe(closed);
  });
});
