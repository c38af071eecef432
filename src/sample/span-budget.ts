/**
 * Token limit for a span of text between two marks, used for reasoning. Source:
 * common/reasoning-budget.cpp of llama.cpp.
 */
import { tailLength } from '../generate/stop.ts';
import type { TokenConstraint } from './sampler.ts';

export interface SpanBudget {
  /**
   * Maximum number of tokens of a span. The span may exceed it to complete a character or an end
   * mark that has begun.
   */
  readonly tokens: number;
  /** Marks that begin and end a span, and the tokens that are forced when its budget is used up. */
  readonly spans: readonly { readonly start: string; readonly end: string; readonly closing: readonly number[] }[];
  /** Index of the span that is open at the end of the prompt. */
  readonly open?: number;
  /** true: a span may begin anywhere. false: only at the start, after blanks, and once. */
  readonly anywhere: boolean;
}

/**
 * Bytes as a string with one character for each byte, because tokens may end within a character.
 */
const byBytes = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
const utf8 = new TextEncoder();

/**
 * Constraint that allows only the next closing token once a span has used its budget.
 * @param pieceBytes bytes of a token, also of control tokens
 */
export function createSpanBudget(budget: SpanBudget, pieceBytes: (id: number) => Uint8Array): TokenConstraint {
  const spans = budget.spans.map(({ start, end, closing }) => ({
    start: byBytes(utf8.encode(start)),
    end: byBytes(utf8.encode(end)),
    closing,
  }));
  const longest = Math.max(0, ...spans.flatMap(({ start, end }) => [start.length, end.length]));
  let span: (typeof spans)[number] | undefined;
  let left = 0;
  /** Index of the closing token that comes next; -1: the model chooses. */
  let due = -1;
  /** No further span can begin. */
  let over = false;
  /** Text since the last mark, as far back as a mark may begin in it. */
  let tail = '';
  /** Bytes missing from the current character. */
  let lacking = 0;

  function open(next: (typeof spans)[number]): void {
    span = next;
    left = budget.tokens;
    due = left > 0 ? -1 : 0;
  }
  function close(): void {
    span = undefined;
    due = -1;
    over = !budget.anywhere;
  }
  function reset(): void {
    close();
    over = false;
    tail = '';
    lacking = 0;
    if (budget.open !== undefined) open(spans[budget.open]);
  }
  /** Removes a mark, and the text before it, from the tail. */
  function passed(at: number, mark: string): void {
    tail = tail.slice(at + mark.length);
  }

  function outside(): void {
    if (budget.anywhere) {
      const begun = spans.find(({ start }) => tail.includes(start));
      if (begun) {
        passed(tail.indexOf(begun.start), begun.start);
        open(begun);
      } else tail = tail.slice(-longest);
      return;
    }
    const said = tail.trimStart();
    const begun = spans.find(({ start }) => said.startsWith(start));
    if (begun) {
      passed(tail.length - said.length, begun.start);
      open(begun);
    } else over = !spans.some(({ start }) => start.startsWith(said));
  }

  function inside({ end }: { readonly end: string }): void {
    const at = tail.indexOf(end);
    if (at >= 0) {
      passed(at, end);
      return close();
    }
    tail = tail.slice(-longest);
    // Wait for an end mark that has begun: closing now would write it twice.
    if (--left <= 0 && lacking === 0 && tailLength(tail, [end]) === 0) due = 0;
  }

  reset();
  return {
    allows: (id) => due < 0 || span!.closing[due] === id,
    mask(logits) {
      if (due < 0) return;
      const id = span!.closing[due];
      const logit = logits[id];
      logits.fill(-Infinity);
      logits[id] = Number.isFinite(logit) ? logit : 0;
    },
    accept(id) {
      if (over) return;
      if (due >= 0) {
        if (++due < span!.closing.length) return;
        tail = '';
        return close();
      }
      const bytes = pieceBytes(id);
      for (const byte of bytes)
        lacking = (byte & 0xc0) === 0x80 ? Math.max(0, lacking - 1) : byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
      tail += byBytes(bytes);
      if (span) inside(span);
      else outside();
    },
    reset,
  };
}
