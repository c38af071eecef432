/** A constraint that waits for a mark in the text, such as the end of reasoning. */
import type { TokenConstraint } from './sampler.ts';

interface Waiting {
  /** The constraint begins after this text. Blanks in the same token are not part of its text. */
  readonly mark: string;
  /** Constraint of the text before the mark. */
  readonly budget: TokenConstraint | undefined;
  /** Bytes of a token, also of control tokens. */
  readonly pieceBytes: (id: number) => Uint8Array;
  readonly isEog: (id: number) => boolean;
}

/** Bytes as a string with one character for each, because tokens may end within a character. */
const byBytes = (bytes: Uint8Array): string => String.fromCharCode(...bytes);

/**
 * Applies `rules` to the text after a mark. Before the mark the text is free but for the budget, and
 * cannot end. A token may contain the end of the mark only if blanks at most follow in it.
 */
export function createWaiting(rules: TokenConstraint, { mark, budget, pieceBytes, isEog }: Waiting): TokenConstraint {
  const end = byBytes(new TextEncoder().encode(mark));
  let waits = true;
  /** The last bytes, as far back as the mark may begin in them. */
  let tail = '';

  /** The text after the mark in this token; undefined if the mark is not complete with it. */
  const after = (id: number): string | undefined => {
    const text = tail + byBytes(pieceBytes(id));
    const at = text.indexOf(end);
    return at < 0 ? undefined : text.slice(at + end.length);
  };
  const fits = (id: number): boolean => !isEog(id) && (after(id) ?? '').trim() === '';

  return {
    allows: (id) => (waits ? fits(id) && (budget?.allows(id) ?? true) : rules.allows(id)),
    mask(logits) {
      if (!waits) return rules.mask(logits);
      budget?.mask(logits);
      for (let id = 0; id < logits.length; id++) if (logits[id] !== -Infinity && !fits(id)) logits[id] = -Infinity;
    },
    accept(id) {
      if (!waits) return rules.accept(id);
      budget?.accept(id);
      waits = after(id) === undefined;
      tail = waits ? (tail + byBytes(pieceBytes(id))).slice(1 - end.length) : '';
    },
    reset() {
      waits = true;
      tail = '';
      budget?.reset();
      rules.reset();
    },
  };
}
