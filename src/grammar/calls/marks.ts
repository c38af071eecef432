/** Writes texts of a notation as nodes. A control token counts as its text. */
import { RETURN } from '../program.ts';
import type { NodeWriter } from '../schema/node-writer.ts';
import type { GrammarVocabulary } from '../token-trie.ts';
import type { Gap, Letters, Piece } from './notation.ts';

/** First and last characters of control tokens. */
const FIRST = /[<[\]]/;
const LAST = /[>\][]/;
const LONGEST = 48;

const encoder = new TextEncoder();

export class Marks {
  readonly #vocabulary: GrammarVocabulary;
  readonly #writer: NodeWriter;
  readonly #ends = new Map<string, number>();
  readonly #lines: number;

  constructor(vocabulary: GrammarVocabulary, writer: NodeWriter) {
    this.#vocabulary = vocabulary;
    this.#writer = writer;
    const line = writer.split([RETURN, writer.bytes([0x0a, 0x0a, RETURN])]);
    this.#lines = writer.split([RETURN, writer.bytes([0x20, 0x20, RETURN, 0x0a, 0x0a, line])]);
  }

  /** The first node of pieces that continue at `next`. */
  write(list: readonly Piece[], next: number): number {
    return list.reduceRight<number>((after, piece) => this.#piece(piece, after), next);
  }

  #piece(piece: Piece, next: number): number {
    if (typeof piece === 'string') return this.text(piece, next);
    return 'gap' in piece ? this.#gap(piece, next) : this.#letters(piece, next);
  }

  #gap({ gap }: Gap, next: number): number {
    return this.#writer.call(gap === 'few' ? this.#writer.blanks : this.#lines, next);
  }

  #letters({ letters, min, max }: Letters, next: number): number {
    let after = next;
    for (let i = max; i > 0; i--) {
      const edges: number[] = [];
      for (let at = 0; at < letters.length; at += 2) edges.push(letters[at], letters[at + 1], after);
      const one = this.#writer.bytes(edges);
      after = i > min ? this.#writer.split([one, next]) : one;
    }
    return after;
  }

  /** The rule for a text, made once. */
  end(text: string): number {
    let node = this.#ends.get(text);
    if (node === undefined) this.#ends.set(text, (node = this.text(text, RETURN)));
    return node;
  }

  /**
   * A text: its bytes, or control tokens that stand for parts of it. A token that ends the answer may
   * be left out, because nothing comes after it.
   */
  text(text: string, next: number): number {
    const after = new Map<number, number>([[text.length, next]]);
    for (let at = text.length; at > 0;) {
      const end = at;
      at -= (text.codePointAt(at - 2) ?? 0) > 0xffff ? 2 : 1;
      const targets = [this.#writer.text(encoder.encode(text.slice(at, end)), after.get(end)!)];
      for (const { id, length } of this.#tokensAt(text, at)) {
        const to = after.get(at + length)!;
        targets.push(this.#vocabulary.isEog(id) ? to : this.#writer.add({ type: 'token', id, negated: false, next: to }));
      }
      after.set(at, this.#writer.split(targets));
    }
    return after.get(0)!;
  }

  /** The control tokens that are written at a position of a text. */
  *#tokensAt(text: string, at: number): Generator<{ readonly id: number; readonly length: number }> {
    const { tokenId } = this.#vocabulary;
    if (!tokenId || !FIRST.test(text[at])) return;
    for (let length = 2; length <= LONGEST && at + length <= text.length; length++) {
      if (!LAST.test(text[at + length - 1])) continue;
      const id = tokenId(text.slice(at, at + length));
      if (id !== undefined && (this.#vocabulary.isEog(id) || this.#vocabulary.pieceBytes(id).length === 0)) yield { id, length };
    }
  }
}
