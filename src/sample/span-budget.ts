/** A limit of the tokens between two marks of a text: of what a model reasons. Source: common/reasoning-budget.cpp of llama.cpp. */
import { tailLength } from '../generate/stop.ts';
import type { TokenConstraint } from './sampler.ts';

export interface SpanBudget {
  /** Tokens of a span at most; a character or an end that was begun may come to its end. */
  readonly tokens: number;
  /** What begins a span, what ends it, and the tokens that are written where it may not go on. */
  readonly spans: readonly { readonly start: string; readonly end: string; readonly closing: readonly number[] }[];
  /** The span that the prompt ends in, by its index. */
  readonly open?: number;
  /** A span may begin anywhere; otherwise behind nothing but blanks, once. */
  readonly anywhere: boolean;
}

/** A text by its bytes, a character each: tokens end within characters. */
const byBytes = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
const utf8 = new TextEncoder();

/**
 * Rules out every token but the one that is due, once a span has had its tokens.
 * @param pieceBytes the bytes of a token, control tokens too
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
  /** The next of the span's closing tokens; -1: the model chooses. */
  let due = -1;
  /** No span can begin any more. */
  let over = false;
  /** What was written since the last mark, as far as a mark may still begin in it. */
  let tail = '';
  /** Bytes that a character lacks. */
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
  /** Takes what stands before a mark, and the mark, out of the tail. */
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
    // Its end, once begun, is waited for: it would stand there twice.
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
