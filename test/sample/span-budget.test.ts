/**
 * Budgets of reasoning, token by token: marks within and across tokens, characters split in two,
 * repeated spans.
 */
import { describe, expect, it } from 'vitest';
import { createSpanBudget, type SpanBudget } from '../../src/sample/span-budget.ts';

const utf8 = new TextEncoder();
/** A vocabulary of these pieces. The first two are the closing mark. */
const PIECES = ['</', 't>', '<t>', 'a', ' ', 'b<t', '>c', 'x</t', '>y'].map((piece) => utf8.encode(piece));
const [C0, C1, OPEN, A, BLANK, OPEN_0, OPEN_1, CLOSE_0, CLOSE_1] = PIECES.keys();
const EURO = [...utf8.encode('€')].map((byte) => PIECES.push(Uint8Array.of(byte)) - 1);
const spans = [{ start: '<t>', end: '</t>', closing: [C0, C1] }];
const budgeted = (more: Partial<SpanBudget>) => createSpanBudget({ tokens: 2, spans, anywhere: false, ...more }, (id) => PIECES[id]);

/** The token that must follow; undefined: any may. */
function dueAfter(budget: ReturnType<typeof budgeted>, ids: readonly number[]): number | undefined {
  for (const id of ids) {
    expect(budget.allows(id), `token ${id} of ${ids.join()}`).toBe(true);
    budget.accept(id);
  }
  const allowed = [...PIECES.keys()].filter((id) => budget.allows(id));
  const logits = Float32Array.from(PIECES.keys(), (id) => -id);
  budget.mask(logits);
  expect([...logits.keys()].filter((id) => logits[id] > -Infinity)).toEqual(allowed);
  return allowed.length === 1 ? allowed[0] : undefined;
}

describe.each([
  ['counts from the mark on, and forces each closing token', {}, [OPEN, A, A], C0],
  ['the second one', {}, [OPEN, A, A, C0], C1],
  ['is done then', {}, [OPEN, A, A, C0, C1, A, A, A], undefined],
  ['a prompt that ends in the span', { open: 0 }, [A, A], C0],
  ['a budget of none, in the prompt', { open: 0, tokens: 0 }, [], C0],
  ['a budget of none, behind the mark', { tokens: 0 }, [OPEN], C0],
  ['blanks may stand before it', {}, [BLANK, BLANK, OPEN, A, A], C0],
  ['an end by itself', {}, [OPEN, A, C0, C1, A, A], undefined],
  ['marks across tokens', { anywhere: true, tokens: 3 }, [OPEN_0, OPEN_1, A, A], undefined],
  ['the same, one further', { anywhere: true, tokens: 3 }, [OPEN_0, OPEN_1, A, A, A], C0],
  ['an end across tokens', { tokens: 3 }, [OPEN, CLOSE_0, CLOSE_1, A, A, A], undefined],
  ['behind other text it is text', {}, [A, OPEN, A, A, A], undefined],
  ['behind other text, where it may be anywhere', { anywhere: true }, [A, OPEN, A, A], C0],
  ['a second span has a budget of its own', { anywhere: true }, [OPEN, A, A, C0, C1, OPEN, A], undefined],
  ['which ends, too', { anywhere: true }, [OPEN, A, A, C0, C1, OPEN, A, A], C0],
  ['a second span where there is one alone', {}, [OPEN, A, A, C0, C1, OPEN, A, A, A], undefined],
  ['a character is not cut in two', { tokens: 1 }, [OPEN, EURO[0]], undefined],
  ['nor in three', { tokens: 1 }, [OPEN, EURO[0], EURO[1]], undefined],
  ['but behind it', { tokens: 1 }, [OPEN, ...EURO], C0],
] as const)('%s', (_, more, ids, due) => {
  it('at once, and again after reset()', () => {
    const budget = budgeted(more);
    for (let i = 0; i < 2; i++) {
      expect(dueAfter(budget, ids)).toBe(due);
      budget.reset();
    }
  });
});

it('a closing token is forced even if it is ruled out', () => {
  const budget = budgeted({ open: 0, tokens: 0 });
  const logits = new Float32Array(PIECES.length).fill(-Infinity);
  budget.mask(logits);
  expect(logits[C0]).toBe(0);
});
