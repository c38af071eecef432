/** A grammar that begins after the reasoning. */
import { expect, it } from 'vitest';
import type { TokenConstraint } from '../../src/sample/sampler.ts';
import { createSpanBudget } from '../../src/sample/span-budget.ts';
import { createWaiting } from '../../src/sample/waiting.ts';

const EOG = 0;
const texts = ['', '</th', 'ink>', '</think>', 'ink>\n\n', 'ink>x', 'a', '{'];
const pieceBytes = (id: number): Uint8Array => new TextEncoder().encode(texts[id]);

/** A constraint that allows `{` only. */
function onlyBracket() {
  const accepted: number[] = [];
  const rules: TokenConstraint = {
    allows: (id) => texts[id] === '{',
    mask: (logits) => logits.forEach((_, id) => texts[id] !== '{' && (logits[id] = -Infinity)),
    accept: (id) => void accepted.push(id),
    reset: () => void (accepted.length = 0),
  };
  return { rules, accepted };
}
const waitingFor = (rules: TokenConstraint, budget?: TokenConstraint): TokenConstraint =>
  createWaiting(rules, { mark: '</think>', budget, pieceBytes, isEog: (id) => id === EOG });

const allowed = (constraint: TokenConstraint): string[] => texts.filter((_, id) => constraint.allows(id));

it('allows all text before the mark, but no end', () => {
  const { rules, accepted } = onlyBracket();
  const waiting = waitingFor(rules);
  expect(allowed(waiting)).toEqual(texts.slice(1));
  for (const id of [6, 7, 6]) waiting.accept(id);
  expect(accepted).toEqual([]);
  const logits = new Float32Array(texts.length);
  waiting.mask(logits);
  expect([...logits].map((logit) => logit === 0)).toEqual(texts.map((_, id) => id !== EOG));
});

it.each([[[3]], [[1, 2]], [[1, 4]], [[6, 1, 1, 2]]])('begins after the mark, however it is cut: %j', (ids) => {
  const { rules, accepted } = onlyBracket();
  const waiting = waitingFor(rules);
  for (const id of ids) waiting.accept(id);
  expect(allowed(waiting)).toEqual(['{']);
  waiting.accept(7);
  expect(accepted).toEqual([7]);
  waiting.reset();
  expect(allowed(waiting)).toEqual(texts.slice(1));
});

it('refuses a token that ends the mark and goes on with text', () => {
  const waiting = waitingFor(onlyBracket().rules);
  waiting.accept(1);
  expect(allowed(waiting)).not.toContain('ink>x');
  const logits = new Float32Array(texts.length);
  waiting.mask(logits);
  expect(logits[5]).toBe(-Infinity);
});

it('a budget closes the reasoning, and the grammar begins', () => {
  const spans = [{ start: '<think>', end: '</think>', closing: [3] }];
  const budget = createSpanBudget({ tokens: 2, spans, open: 0, anywhere: false }, pieceBytes);
  const waiting = waitingFor(onlyBracket().rules, budget);
  waiting.accept(6);
  waiting.accept(6);
  expect(allowed(waiting)).toEqual(['</think>']);
  waiting.accept(3);
  expect(allowed(waiting)).toEqual(['{']);
});
