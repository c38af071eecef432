import type { GrammarVocabulary } from '../../src/grammar/grammar.ts';
import type { Expression, Rule } from '../../src/grammar/parse.ts';

/** A vocabulary of 256 single bytes, the given pieces, and the end token. */
export function byteVocabulary(
  pieces: readonly (string | Uint8Array)[] = [],
): GrammarVocabulary & { readonly eog: number; find(text: string): number } {
  const encode = (piece: string | Uint8Array): Uint8Array => (typeof piece === 'string' ? new TextEncoder().encode(piece) : piece);
  const all = [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), ...pieces.map(encode), new Uint8Array()];
  const eog = all.length - 1;
  return {
    nVocab: all.length,
    eog,
    pieceBytes: (id) => all[id],
    isEog: (id) => id === eog,
    tokenId: (text) => find(text),
    find: (text) => find(text)!,
  };
  function find(text: string): number | undefined {
    const index = pieces.indexOf(text);
    return index < 0 ? undefined : 256 + index;
  }
}

/**
 * Tells if a whole text matches the rules, by the definition and slowly: all ends that every
 * expression can reach.
 */
export function matches(rules: ReadonlyMap<string, Rule>, text: string): boolean {
  const chars = Array.from(text, (c) => c.codePointAt(0)!);
  const known = new Map<string, Set<number>>();

  function ends(expression: Expression, from: number): Set<number> {
    switch (expression.type) {
      case 'text': {
        const want = Array.from(expression.text, (c) => c.codePointAt(0)!);
        return new Set(want.every((code, i) => chars[from + i] === code) ? [from + want.length] : []);
      }
      case 'chars': {
        const code = chars[from];
        for (let i = 0; i < expression.ranges.length; i += 2)
          if (code >= expression.ranges[i] && code <= expression.ranges[i + 1]) return new Set([from + 1]);
        return new Set();
      }
      case 'token':
        throw new Error('tokens are no text');
      case 'rule': {
        const key = `${expression.name} ${from}`;
        let result = known.get(key);
        if (!result) known.set(key, (result = ends(rules.get(expression.name)!.body, from)));
        return result;
      }
      case 'sequence':
        return expression.items.reduce((at, item) => new Set([...at].flatMap((p) => [...ends(item, p)])), new Set([from]));
      case 'choice':
        return new Set(expression.options.flatMap((option) => [...ends(option, from)]));
      case 'repeat': {
        let at = new Set([from]);
        const all = new Set<number>(expression.min === 0 ? at : []);
        for (let n = 1; n <= Math.min(expression.max, expression.min + chars.length + 1); n++) {
          at = new Set([...at].flatMap((p) => [...ends(expression.item, p)]));
          if (n >= expression.min) for (const p of at) all.add(p);
        }
        return all;
      }
    }
  }
  return ends({ type: 'rule', name: 'root', at: { line: 1, column: 1 } }, 0).has(chars.length);
}
