/** The cells of recurrent states, simulated with cells that hold the tokens a state has seen. */
import { describe, expect, it } from 'vitest';
import { createStateCells, type Run } from '../../src/run/state-cells.ts';
import { random } from '../kernel/harness.ts';

/** State cells, filled as kernels would. */
function setup(working: number, checkpoints: number, step: number) {
  const first = 5;
  const states = createStateCells({ first, working, checkpoints, step });
  const cells = new Map<number, number[]>();
  let tokens: number[] = [];
  const run = ({ n, from, to }: Run, behind: number[]): void => {
    const state = from < 0 ? [] : cells.get(from)!;
    cells.set(to, [...state, ...behind.slice(state.length, state.length + n)]);
    expect(to, 'cells of this slot').toBeGreaterThanOrEqual(first);
    expect(to).toBeLessThan(first + working + checkpoints);
  };
  return {
    states,
    cells,
    get tokens() {
      return tokens;
    },
    /** Computes more tokens; the step may fail. */
    compute(more: readonly number[], keep = false, fails = false): void {
      const from = states.reach(tokens.length);
      const all = [...tokens, ...more];
      const runs = states.plan(from, all.length, keep);
      expect(runs.reduce((n, r) => n + r.n, from)).toBe(all.length);
      for (const r of fails ? runs.slice(0, -1) : runs) run(r, all);
      if (fails) return;
      states.commit();
      tokens = all;
      expect(states.reach(tokens.length)).toBe(tokens.length);
    },
    truncate(n: number): void {
      tokens = tokens.slice(0, n);
      states.truncate(n);
    },
    /** Checks that every state that `states` claims to have belongs to the tokens. */
    check(): void {
      for (let n = states.reach(tokens.length); n > 0; n = states.reach(n - 1))
        expect(cells.get(states.cellOf(n)), `behind ${n}`).toEqual(tokens.slice(0, n));
    },
  };
}

describe('state cells', () => {
  it('hold the states they claim, whatever is computed, rolled back, or fails', () => {
    for (let seed = 1; seed <= 25; seed++) {
      const next = random(seed);
      const int = (n: number): number => Math.floor(next() * n);
      const s = setup(1 + int(2), int(5), 1 + int(9));
      for (let i = 0; i < 80; i++) {
        const what = next();
        if (what < 0.6)
          s.compute(
            Array.from({ length: 1 + int(20) }, () => int(100)),
            next() < 0.3,
            next() < 0.1,
          );
        else if (what < 0.9) s.truncate(int(s.tokens.length + 1));
        else s.states.begin(int(s.tokens.length + 1));
        s.check();
      }
    }
  });

  it('with a second working cell, the state before a draft survives the draft', () => {
    const s = setup(2, 0, 64);
    s.compute([1, 2, 3]);
    s.compute([4, 5, 6], true);
    s.truncate(4);
    expect(s.states.reach(4), 'tokens of the draft that were right are computed again').toBe(3);
    s.compute([7], true);
    expect(s.tokens).toEqual([1, 2, 3, 4, 7]);
    s.check();
  });

  it('checkpoints lie a step apart if there are enough', () => {
    const s = setup(1, 8, 16);
    s.compute(Array.from({ length: 100 }, (_, i) => i));
    for (const n of [99, 65, 64, 31, 15]) expect(s.states.reach(n)).toBe(Math.floor(n / 16) * 16);
  });

  it("if not, they are closer together near the end, and the one before the prompt's end stays", () => {
    const s = setup(1, 6, 16);
    s.states.begin(320);
    s.compute(Array.from({ length: 320 }, (_, i) => i));
    for (let i = 0; i < 2005; i++) s.compute([i]);
    const reached: number[] = [];
    for (let n = s.states.reach(2325 - 1); n > 0; n = s.states.reach(n - 1)) reached.push(n);
    expect(reached).toHaveLength(6);
    expect(reached).toContain(304);
    expect(reached[0]).toBe(2320);
    const gaps = reached.slice(0, -1).map((n, i) => n - reached[i + 1]);
    expect(gaps[0]).toBeLessThanOrEqual(64);
    expect(gaps[0]).toBeLessThan(gaps.at(-1)!);
  });
});
