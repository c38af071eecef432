import type { Grammar, GrammarVocabulary } from '../../src/grammar/grammar.ts';

/** Bytes that lead to an end, the surest first. */
const CLOSING = ['"', '}', ']', '0', ':', 'n'];
const ASCII = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i));

/**
 * Writes a text of random tokens that the grammar allows. At first it takes any token, or one that
 * closes something. After `long` tokens it takes a quote if allowed, else alternately a closing
 * byte or any ASCII character. So every walk ends, also in a string that must first contain
 * something.
 */
export function walk(grammar: Grammar, vocabulary: GrammarVocabulary, random: () => number, long = 60): { text: string; tokens: number } {
  grammar.reset();
  const bytes: number[] = [];
  const logits = new Float32Array(vocabulary.nVocab);
  const single = new Map<string, number[]>();
  for (let id = 0; id < vocabulary.nVocab; id++) {
    const piece = vocabulary.pieceBytes(id);
    if (piece.length === 1 && !vocabulary.isEog(id))
      single.set(String.fromCharCode(piece[0]), [...(single.get(String.fromCharCode(piece[0])) ?? []), id]);
  }
  for (let step = 0; step < 200 * long; step++) {
    const closing = step > long;
    if (grammar.isComplete() && (closing || grammar.isFinished() || random() < 0.4))
      return { text: new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes)), tokens: step };
    logits.fill(0);
    grammar.mask(logits);
    const allowed = Array.from(logits.keys()).filter((id) => logits[id] === 0 && !vocabulary.isEog(id));
    let id = allowed[Math.floor(random() * allowed.length)];
    if (closing || random() < 0.3) {
      const ends = CLOSING.flatMap((c) => single.get(c) ?? []).filter((end) => grammar.allows(end));
      if (!closing && ends.length > 0) id = ends[Math.floor(random() * ends.length)];
      if (closing) {
        const ascii = ASCII.flatMap((c) => single.get(c) ?? []).filter((end) => grammar.allows(end));
        if (ends.length > 0 && (single.get('"')!.includes(ends[0]) || random() < 0.5)) id = ends[0];
        else if (ascii.length > 0) id = ascii[Math.floor(random() * ascii.length)];
      }
    }
    grammar.accept(id);
    bytes.push(...vocabulary.pieceBytes(id));
  }
  throw new Error(`the walk did not end: ${new TextDecoder().decode(Uint8Array.from(bytes)).slice(0, 2000)}`);
}
