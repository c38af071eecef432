/** Random texts of the grammar of calls: a model that writes noise, held by the grammar. */
import type { CallsFormat, Piece } from '../../src/grammar/calls/notation.ts';
import type { Grammar } from '../../src/grammar/grammar.ts';
import type { byteVocabulary } from '../grammar/helpers.ts';

const encoder = new TextEncoder();
const ASCII = Array.from({ length: 95 }, (_, i) => String.fromCharCode(32 + i));

/** Texts that end a part of a call, in a notation. */
export function closersOf({ notations }: CallsFormat): string[] {
  const texts = (list: readonly Piece[] = []): string[] => list.filter((piece) => typeof piece === 'string');
  return notations.flatMap(({ form, tail, close, after }) => [
    ...(form.type === 'xml' ? [`\n${form.syntax.argumentEnd}`, form.syntax.argumentEnd] : []),
    ...(form.type === 'quoted' ? [form.quote] : []),
    ...(form.type === 'elements' ? [`${form.mark}</`] : []),
    ...[...texts(tail), ...texts(close), ...texts(after)].filter((text) => text !== ''),
  ]);
}

/**
 * Writes random bytes that the grammar allows. After `long` tokens it prefers what closes something,
 * so that every walk ends.
 */
export function walkCalls(
  grammar: Grammar,
  vocabulary: ReturnType<typeof byteVocabulary>,
  closers: readonly string[],
  random: () => number,
  long = 60,
): string {
  const bytes: number[] = [];
  const logits = new Float32Array(vocabulary.nVocab);
  const take = (text: string): boolean => {
    const piece = encoder.encode(text);
    if (!grammar.read(piece)) return false;
    bytes.push(...piece);
    return true;
  };
  const closing = [...closers, '"', '}', ']', ')', '>', '0', ':', 'n'];
  const close = (): boolean => {
    const at = Math.floor(random() * closing.length);
    return [...closing.slice(at), ...closing.slice(0, at)].some(take);
  };
  for (let step = 0; step < 60 * long; step++) {
    const late = step > long;
    if (grammar.isFinished() || (grammar.isComplete() && (late || random() < 0.3)))
      return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(bytes));
    if (late && random() < 0.7 && close()) continue;
    if (late || random() < 0.3) {
      const at = Math.floor(random() * ASCII.length);
      if ([...ASCII.slice(at), ...ASCII.slice(0, at)].some(take)) continue;
    } else if (random() < 0.2 && close()) continue;
    logits.fill(0);
    grammar.mask(logits);
    const allowed = Array.from(logits.keys()).filter((id) => logits[id] === 0 && id !== vocabulary.eog);
    const id = allowed[Math.floor(random() * allowed.length)];
    grammar.accept(id);
    bytes.push(...vocabulary.pieceBytes(id));
  }
  throw new Error(`the walk did not end: ${new TextDecoder().decode(Uint8Array.from(bytes)).slice(0, 2000)}`);
}
