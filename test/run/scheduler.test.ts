/**
 * The scheduler alone, with a step function that records its input and returns numbers made from
 * it.
 */
import { describe, expect, it } from 'vitest';
import type { Batch } from '../../src/run/batch.ts';
import { Scheduler } from '../../src/run/scheduler.ts';
import { createSlots } from '../../src/run/slots.ts';
import { failure, randomIds } from '../support.ts';

interface SeenStep {
  ids: number[];
  pos: number[];
  cells: number[];
  first: number[];
  visible: number[];
  outputs: number[];
}

interface Setup {
  nBatch?: number;
  nSlots?: number;
  maxOutputs?: number;
  before?: (n: number, signal: AbortSignal | undefined) => Promise<void> | void;
}

/**
 * The logits of output i are [id, position] of its token. Steps yield to the event loop, as real
 * ones do.
 */
function setup({ nBatch = 8, nSlots = 3, maxOutputs = nSlots, before }: Setup = {}) {
  const steps: SeenStep[] = [];
  let running = false;
  const step = async (batch: Batch, signal: AbortSignal | undefined): Promise<(i: number) => Float32Array> => {
    expect(running, 'one step at a time').toBe(false);
    running = true;
    const { nTokens, nOutputs } = batch;
    expect([nTokens > 0, nTokens <= nBatch, nOutputs <= maxOutputs]).toEqual([true, true, true]);
    const part = (a: Int32Array, n: number): number[] => [...a.subarray(0, n)];
    const seen = {
      ids: part(batch.ids, nTokens),
      pos: part(batch.pos, nTokens),
      cells: part(batch.cells, nTokens),
      first: part(batch.first, nTokens),
      visible: part(batch.visible, nTokens),
      outputs: part(batch.outputs, nOutputs),
    };
    steps.push(seen);
    try {
      await new Promise((resolve) => setImmediate(resolve));
      await before?.(steps.length, signal);
      return (i) => Float32Array.of(seen.ids[seen.outputs[i]], seen.pos[seen.outputs[i]]);
    } finally {
      running = false;
    }
  };
  const slots = createSlots(nSlots, 256);
  const scheduler = new Scheduler({ nBatch, slots, maxOutputs, step });

  /**
   * Computes ids in a slot that holds `start` tokens. Returns all their logits in the order of the
   * callbacks.
   */
  async function sequence(
    ids: readonly number[],
    { from = 0, start = 0, signal = undefined as AbortSignal | undefined } = {},
  ): Promise<{ rows: number[][]; indices: number[] }> {
    const slot = await slots.acquire(signal);
    const rows: number[][] = [];
    const indices: number[] = [];
    try {
      slot.truncate(0);
      slot.append(randomIds(start, 1000, start));
      await scheduler.submit(
        slot,
        ids,
        from,
        (logits, index) => {
          rows.push([...logits]);
          indices.push(index);
        },
        signal,
      );
      return { rows, indices };
    } finally {
      slots.release(slot);
    }
  }
  return { scheduler, slots, steps, sequence };
}

describe('steps', () => {
  it('a prompt is cut into steps of nBatch; positions, cells and visible cells of each token', async () => {
    const { slots, steps, sequence } = setup({ nBatch: 4, nSlots: 2 });
    await slots.acquire(); // Slot 0 belongs to another sequence, which has nothing to compute.
    const ids = [10, 11, 12, 13, 14, 15];
    await sequence(ids, { from: 5, start: 20 });
    expect(steps.map((s) => s.ids)).toEqual([
      [10, 11, 12, 13],
      [14, 15],
    ]);
    expect(steps.flatMap((s) => s.pos)).toEqual([20, 21, 22, 23, 24, 25]);
    expect(steps.flatMap((s) => s.cells)).toEqual([276, 277, 278, 279, 280, 281]);
    expect(steps.flatMap((s) => s.first)).toEqual([256, 256, 256, 256, 256, 256]);
    expect(steps.flatMap((s) => s.visible)).toEqual([21, 22, 23, 24, 25, 26]);
    expect(steps.map((s) => s.outputs)).toEqual([[], [1]]);
  });

  it('begin as soon as every sequence with a slot has submitted: no timer', async () => {
    const { scheduler, slots, steps } = setup();
    const taken = [await slots.acquire(), await slots.acquire()];
    const both: Promise<void>[] = [];
    for (const [i, slot] of taken.entries()) {
      expect(steps).toEqual([]);
      both.push(scheduler.submit(slot, [i], 0, () => {}));
    }
    expect(steps.map((s) => s.ids)).toEqual([[0, 1]]);
    await Promise.all(both);
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(steps.length, 'the timer of the first is gone').toBe(1);
  });

  it('logits come for every index from outputsFrom on, in order, even if few fit in a step', async () => {
    for (const maxOutputs of [1, 2, 3, 7]) {
      const { sequence } = setup({ nBatch: 5, nSlots: 1, maxOutputs });
      const ids = randomIds(23, 1000, maxOutputs);
      const { rows, indices } = await sequence(ids, { from: 9 });
      expect(indices, `maxOutputs ${maxOutputs}`).toEqual(Array.from({ length: 14 }, (_, i) => 9 + i));
      expect(rows).toEqual(ids.slice(9).map((id, i) => [id, 9 + i]));
    }
  });

  it('every sequence gets its own logits, whatever the mix', async () => {
    for (let seed = 1; seed <= 30; seed++) {
      const [nBatch, nSlots, outputs] = randomIds(3, 6, seed);
      const { slots, sequence } = setup({ nBatch: nBatch + 1, nSlots: nSlots + 1, maxOutputs: outputs + 1 });
      const lengths = randomIds(8, 40, seed + 100);
      const all = await Promise.all(lengths.map((n, i) => sequence(randomIds(n + 1, 1000, seed * 50 + i), { from: n >> 1 })));
      all.forEach(({ rows, indices }, i) => {
        const ids = randomIds(lengths[i] + 1, 1000, seed * 50 + i);
        const from = lengths[i] >> 1;
        expect(indices, `seed ${seed}, sequence ${i}`).toEqual(ids.map((_, j) => j).slice(from));
        expect(rows, `seed ${seed}, sequence ${i}`).toEqual(ids.slice(from).map((id, j) => [id, from + j]));
      });
      expect(slots.active, `seed ${seed}`).toBe(0);
    }
  });

  it('a callback that ends a sequence: the slot holds the tokens up to there, the rest is not computed', async () => {
    for (const maxOutputs of [2, 3, 20]) {
      for (let last = 0; last < 10; last++) {
        const { scheduler, slots, steps } = setup({ nBatch: 16, nSlots: 1, maxOutputs });
        const slot = await slots.acquire();
        slot.append([1, 2, 3]);
        const ids = randomIds(10, 1000, last);
        const heard: number[] = [];
        await scheduler.submit(slot, ids, 0, (_, index) => (heard.push(index), index < last));
        expect(heard).toEqual(Array.from({ length: last + 1 }, (_, i) => i));
        expect(slot.tokens).toEqual([1, 2, 3, ...ids.slice(0, last + 1)]);
        expect(steps).toHaveLength(Math.ceil((last + 1) / Math.min(maxOutputs, 10)));
        await scheduler.submit(slot, [7], 0, () => {});
        expect(steps.at(-1)!.pos, 'the next token takes the place of the first that was not wanted').toEqual([4 + last]);
      }
    }
  });

  it('a next token and its draft stay in one step, before prompts, however many steps a prompt takes', async () => {
    const { scheduler, slots, steps, sequence } = setup({ nBatch: 16, nSlots: 2, maxOutputs: 16 });
    const prompt = sequence(randomIds(90, 100, 1), { from: 89 });
    const slot = await slots.acquire();
    for (let i = 0; i < 4; i++) await scheduler.submit(slot, [500, 501, 502, 503, 504], 0, (_, index) => index < 2);
    const shared = steps.filter((s) => s.ids.includes(500));
    expect(shared.map((s) => s.ids.slice(0, 5))).toEqual(Array.from({ length: 4 }, () => [500, 501, 502, 503, 504]));
    expect(shared[1].pos.slice(0, 5)).toEqual([3, 4, 5, 6, 7]);
    expect(
      shared.every((s) => s.ids.length === 16),
      'and the prompt fills the rest of the step',
    ).toBe(true);
    slots.release(slot);
    expect((await prompt).indices).toEqual([89]);
  });

  it('only steps with logits for all tokens measure step costs', async () => {
    const { scheduler, slots } = setup({ nBatch: 16, nSlots: 1, maxOutputs: 16 });
    const slot = await slots.acquire();
    const unknown = scheduler.costs.of(3);
    await scheduler.submit(slot, [1, 2, 3], 2, () => {});
    expect(scheduler.costs.of(3)).toBe(unknown);
    await scheduler.submit(slot, [1, 2, 3], 0, () => {});
    expect(scheduler.costs.of(3)).not.toBe(unknown);
  });

  it("a next token does not wait for another's long prompt", async () => {
    const { scheduler, slots, steps, sequence } = setup({ nBatch: 8, nSlots: 2 });
    const prompt = sequence(randomIds(80, 100, 1), { from: 79 });
    const slot = await slots.acquire();
    for (let i = 0; i < 5; i++) await scheduler.submit(slot, [500 + i], 0, () => {});
    const shared = steps.filter((s) => s.ids.some((id) => id >= 500));
    expect(shared).toHaveLength(5);
    expect(
      shared.every((s) => s.ids[0] >= 500),
      'the single token comes first',
    ).toBe(true);
    expect(
      shared.some((s) => s.ids.length > 1),
      'and the prompt fills the rest of the step',
    ).toBe(true);
    slots.release(slot);
    await prompt;
  });

  it('a long prompt goes in small steps while another generates, and in large ones when it is alone', async () => {
    const { scheduler, slots, steps } = setup({ nBatch: 200, nSlots: 2 });
    const [long, other] = [await slots.acquire(), await slots.acquire()];
    const prompt = scheduler.submit(long, randomIds(250, 1000, 1), 249, () => {});
    for (let i = 0; i < 3; i++) await scheduler.submit(other, [7], 0, () => {});
    slots.release(other);
    await prompt;
    const own = steps.map((s) => s.ids.filter((_, i) => s.first[i] === 0).length);
    const others = steps.map((s) => s.ids.length - s.first.filter((cell) => cell === 0).length);
    expect(others.filter((n) => n > 0)).toEqual([1, 1, 1]);
    steps.forEach((s, i) => others[i] > 0 && expect(s.ids.length, `step ${i}: ${own}`).toBeLessThanOrEqual(65));
    expect(own.reduce((a, b) => a + b)).toBe(250);
  });

  it('two prompts both progress', async () => {
    const { steps, sequence } = setup({ nBatch: 4, nSlots: 2 });
    const ends: string[] = [];
    await Promise.all([
      sequence(
        Array.from({ length: 40 }, (_, i) => i),
        { from: 39 },
      ).then(() => ends.push('first')),
      sequence(
        Array.from({ length: 4 }, (_, i) => 100 + i),
        { from: 3 },
      ).then(() => ends.push('second')),
    ]);
    expect(ends).toHaveLength(2);
    expect(steps.length, 'no step is wasted').toBe(11);
  });
});

describe('slots', () => {
  it('first come, first served', async () => {
    const { slots } = setup({ nSlots: 1 });
    const slot = await slots.acquire();
    const order: number[] = [];
    const waiting = [1, 2, 3].map((n) =>
      slots.acquire().then((s) => {
        order.push(n);
        slots.release(s);
      }),
    );
    expect(slots.active).toBe(1);
    slots.release(slot);
    await Promise.all(waiting);
    expect(order).toEqual([1, 2, 3]);
    expect(slots.active).toBe(0);
  });

  it('a waiting request that aborts is skipped', async () => {
    const { slots } = setup({ nSlots: 1 });
    const slot = await slots.acquire();
    const controller = new AbortController();
    const reason = { gave: 'up' };
    const first = failure(slots.acquire(controller.signal));
    const second = slots.acquire();
    controller.abort(reason);
    expect((await first).error).toBe(reason);
    expect((await failure(slots.acquire(controller.signal))).error, 'a signal that was aborted before').toBe(reason);
    slots.release(slot);
    expect(await second).toBe(slot);
  });

  it('a request that chooses a slot may wait for one that is being released, not for one in use', async () => {
    const slots = createSlots(3, 256);
    const leaving = new AbortController();
    const held = await slots.acquire(leaving.signal);
    await slots.acquire();
    const offered: (readonly number[])[] = [];
    const acquire = (which: 'free' | 'left') =>
      slots.acquire(undefined, (free, left) => {
        offered.push(left.map(({ index }) => index));
        return { free, left }[which][0];
      });
    slots.release(await acquire('free'));
    leaving.abort();
    let got: number | undefined;
    const waits = acquire('left').then(({ index }) => (got = index));
    await new Promise((resolve) => setImmediate(resolve));
    expect([got, offered]).toEqual([undefined, [[], [0]]]);
    slots.release(held);
    await waits;
    expect(got).toBe(0);
  });

  it('more tokens than a slot has cells are refused', async () => {
    const { steps, sequence } = setup({ nSlots: 1 });
    expect((await failure(sequence(randomIds(10, 9, 1), { start: 250 }))).code).toBe('ERR_CONTEXT_FULL');
    expect(steps).toEqual([]);
  });
});

describe('tokens of a slot', () => {
  it('are those computed in it, at consecutive positions', async () => {
    const { scheduler, slots, steps } = setup({ nBatch: 4, nSlots: 2 });
    await slots.acquire();
    const slot = await slots.acquire();
    await scheduler.submit(slot, [1, 2, 3, 4, 5], 4, () => {});
    await scheduler.submit(slot, [6], 0, () => {});
    expect(slot.tokens).toEqual([1, 2, 3, 4, 5, 6]);
    expect(steps.flatMap((s) => s.pos)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(steps.flatMap((s) => s.cells)).toEqual([256, 257, 258, 259, 260, 261]);
  });

  it('after a failure, those of the completed steps: a second attempt continues there', async () => {
    const lost = new Error('lost');
    const { scheduler, slots, steps } = setup({
      nBatch: 2,
      nSlots: 1,
      before: (n) => {
        if (n === 3) throw lost;
      },
    });
    const slot = await slots.acquire();
    await scheduler.submit(slot, [1, 2], 1, () => {});
    const prompt = [1, 2, 3, 4, 5, 6];
    expect((await failure(scheduler.submit(slot, prompt.slice(slot.begin(prompt)), 3, () => {}))).error).toBe(lost);
    expect(slot.tokens).toEqual([1, 2, 3, 4]);
    await scheduler.submit(slot, prompt.slice(slot.begin(prompt)), 1, () => {});
    expect([slot.tokens, steps.at(-1)!.pos]).toEqual([prompt, [4, 5]]);
  });

  it('are known step by step while computing', async () => {
    const lengths: number[] = [];
    const { slots, sequence } = setup({ nBatch: 2, nSlots: 1, before: () => void lengths.push(slots.all[0].tokens.length) });
    await sequence([1, 2, 3, 4, 5], { from: 4 });
    expect(lengths).toEqual([0, 2, 4]);
  });

  it('after a rollback, continue with the same positions and cells', async () => {
    const { scheduler, slots, steps } = setup({ nSlots: 1 });
    const slot = await slots.acquire();
    await scheduler.submit(slot, [1, 2, 3, 4, 5], 4, () => {});
    slot.rollBack(2);
    expect(slot.tokens).toEqual([1, 2, 3]);
    await scheduler.submit(slot, [6, 7], 1, () => {});
    expect(slot.tokens).toEqual([1, 2, 3, 6, 7]);
    expect(steps.at(-1)).toMatchObject({ ids: [6, 7], pos: [3, 4], cells: [3, 4], visible: [4, 5] });
    slot.rollBack(9);
    expect(slot.tokens).toEqual([]);
  });

  it('for another prompt, the common prefix, but never its last token', async () => {
    const [slot] = createSlots(1, 256).all;
    slot.append([1, 2, 3, 4]);
    expect([slot.reusable([1, 2, 9, 4]), slot.reusable([1, 2, 3, 4]), slot.reusable([1, 2]), slot.reusable([7])]).toEqual([2, 3, 1, 0]);
    expect(slot.begin([1, 2, 3, 4, 5])).toBe(4);
    expect(slot.begin([1, 2, 8, 9])).toBe(2);
    expect(slot.tokens).toEqual([1, 2]);
  });

  it('are kept when it is released', async () => {
    const { slots, sequence } = setup({ nSlots: 1 });
    await sequence([1, 2, 3]);
    expect((await slots.acquire()).tokens).toEqual([1, 2, 3]);
  });
});

describe('failures only reach those concerned', () => {
  it("an abort of one among many: the others' answers are whole", async () => {
    const controller = new AbortController();
    const reason = new Error('mine');
    const { slots, sequence } = setup({
      nBatch: 4,
      before: (n) => {
        if (n === 2) controller.abort(reason);
      },
    });
    const ids = randomIds(20, 1000, 1);
    const aborted = failure(sequence(randomIds(30, 1000, 2), { from: 29, signal: controller.signal }));
    const others = await Promise.all([sequence(ids), sequence(ids)]);
    expect((await aborted).error).toBe(reason);
    for (const { rows } of others) expect(rows).toEqual(ids.map((id, i) => [id, i]));
    expect(slots.active).toBe(0);
  });

  it('a signal reaches a step only if no other sequence shares it', async () => {
    const signals: (AbortSignal | undefined)[] = [];
    const { scheduler, slots, sequence } = setup({ nBatch: 64, nSlots: 2, before: (_, signal) => void signals.push(signal) });
    const { signal } = new AbortController();
    await sequence([1], { signal });
    const taken = [await slots.acquire(), await slots.acquire()];
    await Promise.all(taken.map((s) => scheduler.submit(s, [1], 0, () => {}, signal)));
    expect(signals[0]).toBe(signal);
    expect(signals.at(-1)).toBeUndefined();
  });

  it('an error in one callback', async () => {
    const { scheduler, slots } = setup({ nSlots: 2 });
    const taken = [await slots.acquire(), await slots.acquire()];
    const mine = new Error('in the callback');
    const bad = failure(
      scheduler.submit(taken[0], [1], 0, () => {
        throw mine;
      }),
    );
    let got = 0;
    await scheduler.submit(taken[1], [2, 3], 0, () => got++);
    expect((await bad).error).toBe(mine);
    expect(got).toBe(2);
    await scheduler.submit(taken[0], [4], 0, () => got++);
    expect(got).toBe(3);
  });

  it('a step that fails: all its sequences get the error, and the next step runs', async () => {
    const lost = new Error('lost');
    const { scheduler, slots } = setup({
      nSlots: 2,
      before: (n) => {
        if (n === 1) throw lost;
      },
    });
    const taken = [await slots.acquire(), await slots.acquire()];
    const failed = await Promise.all(taken.map((s) => failure(scheduler.submit(s, [1, 2], 1, () => {}))));
    expect(failed.map((f) => f.error)).toContain(lost);
    let rows = 0;
    await Promise.all(taken.map((s) => scheduler.submit(s, [1, 2], 1, () => rows++)));
    expect(rows).toBe(2);
  });

  it('close ends computing, waiting and new requests', async () => {
    const closed = new Error('closed');
    const { scheduler, slots, sequence } = setup({ nSlots: 1, nBatch: 2 });
    const computing = failure(sequence(randomIds(50, 9, 1)));
    const waiting = failure(slots.acquire());
    await new Promise((resolve) => setImmediate(resolve));
    scheduler.close(closed);
    slots.close(closed);
    expect((await computing).error).toBe(closed);
    expect((await waiting).error).toBe(closed);
    expect((await failure(slots.acquire())).error).toBe(closed);
    expect((await failure(scheduler.submit(slots.all[0], [1], 0, () => {}))).error).toBe(closed);
  });
});
