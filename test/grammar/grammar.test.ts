import { describe, expect, test } from 'vitest';
import { Automaton } from '../../src/grammar/automaton.ts';
import { compileGrammar } from '../../src/grammar/compile.ts';
import { createGrammar } from '../../src/grammar/grammar.ts';
import type { Grammar } from '../../src/grammar/grammar.ts';
import { parseGbnf } from '../../src/grammar/parse.ts';
import { normalizeRanges } from '../../src/grammar/ranges.ts';
import { utf8Ranges } from '../../src/grammar/utf8-ranges.ts';
import type { ByteRanges } from '../../src/grammar/utf8-ranges.ts';
import { createRandom } from '../../src/sample/random.ts';
import { createSampler } from '../../src/sample/sampler.ts';
import { processorMs } from '../support.ts';
import { byteVocabulary, matches } from './helpers.ts';

const seed = 1234;
const bytesOnly = byteVocabulary();
const utf8 = new TextEncoder();

/**
 * Feeds a text byte by byte. Returns the number of bytes accepted, and if the grammar may end
 * there.
 */
function read(grammar: Grammar, text: string | Uint8Array): { taken: number; complete: boolean } {
  grammar.reset();
  const bytes = typeof text === 'string' ? utf8.encode(text) : text;
  let taken = 0;
  for (; taken < bytes.length && grammar.allows(bytes[taken]); taken++) grammar.accept(bytes[taken]);
  return { taken, complete: taken === bytes.length && grammar.isComplete() };
}

const accepts = (gbnf: string, text: string | Uint8Array): boolean => read(createGrammar(gbnf, bytesOnly), text).complete;

/** Ids that a full mask allows. */
function allowed(grammar: Grammar, nVocab: number): number[] {
  const logits = new Float32Array(nVocab);
  grammar.mask(logits);
  return Array.from(logits.keys()).filter((id) => logits[id] === 0);
}

describe('the meaning of GBNF', () => {
  const cases: [gbnf: string, yes: string[], no: string[]][] = [
    ['root ::= "ab"', ['ab'], ['', 'a', 'abc', 'b']],
    ['root ::= "a" | "b" "c" |', ['a', 'bc', ''], ['b', 'ac']],
    ['root ::= ("a" | "b")+ "c"?', ['a', 'abab', 'bac'], ['', 'c', 'acc']],
    ['root ::= [a-c_x-]*', ['', 'a-b_c', 'x'], ['d', '^']],
    ['root ::= [^a-c\\n]', ['d', 'é', '\u{1f600}', '\0'], ['a', '\n', '']],
    ['root ::= .', ['a', '\n', '€', '\u{10ffff}'], ['', 'ab']],
    ['root ::= [ぁ-ゟ]+', ['ひらがな'], ['カ', 'a']],
    ['root ::= "\\x41\\u00e9\\U0001F600\\t\\\\\\"\\[\\]"', ['Aé\u{1f600}\t\\"[]'], ['A']],
    ['root ::= "ab"{2}', ['abab'], ['ab', 'ababab']],
    ['root ::= "a"{2,}', ['aa', 'aaaaa'], ['a', '']],
    ['root ::= "a"{1,3}', ['a', 'aaa'], ['', 'aaaa']],
    ['root ::= "a"{0,2} "a"{,1}', ['', 'aaa'], ['aaaa']],
    ['root ::= "x"{0}', [''], ['x']],
    ['root ::= ([0-9] "," ){2} "."', ['1,2,.'], ['1,.', '1,2,3,.']],
    ['# first\nroot ::= item (", " # inside\n  item)*\nitem ::= "a" |\n  "b" # last', ['a', 'a, b'], ['', 'a,']],
    ['root ::= "(" root ")" | ""', ['', '(())'], ['(', '())']],
    ['root ::= list\nlist ::= "x" list | "x"', ['x', 'xxxx'], ['']],
    ['root ::= (("a"?)*)* "b"', ['b', 'aab'], ['', 'a']],
    ['root::=a-1 B_2\na-1::="1"\nB_2::="2"', ['12'], ['1']],
  ];
  for (const [gbnf, yes, no] of cases) {
    test(gbnf.replaceAll('\n', ' / '), () => {
      for (const text of yes) expect(accepts(gbnf, text), `should take ${JSON.stringify(text)}`).toBe(true);
      for (const text of no) expect(accepts(gbnf, text), `should refuse ${JSON.stringify(text)}`).toBe(false);
    });
  }

  test('only valid UTF-8 is a character', () => {
    for (const bad of [[0x80], [0xc0, 0x80], [0xc3], [0xed, 0xa0, 0x80], [0xe0, 0x80, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xf8], [0xff]]) {
      expect(accepts('root ::= .*', Uint8Array.from(bad)), String(bad)).toBe(false);
    }
  });

  test('another root', () => {
    expect(read(createGrammar('root ::= "a"\nother ::= "b"', bytesOnly, { root: 'other' }), 'b').complete).toBe(true);
  });
});

test('UTF-8 ranges against every code point', () => {
  const random = createRandom(seed);
  const edges = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff];
  for (let round = 0; round < 60; round++) {
    const point = (): number =>
      random.next() < 0.4 ? edges[Math.floor(random.next() * edges.length)] : Math.floor(random.next() ** 3 * 0x110000);
    const [a, b] = [point(), point()].sort((x, y) => x - y);
    const ranges = normalizeRanges([[a, b]], false);
    const sequences: ByteRanges[] = [];
    for (let i = 0; i < ranges.length; i += 2) sequences.push(...utf8Ranges(ranges[i], ranges[i + 1]));
    const inside = (code: number): boolean => {
      const bytes = utf8.encode(String.fromCodePoint(code));
      return sequences.some((s) => s.length === 2 * bytes.length && bytes.every((byte, i) => byte >= s[2 * i] && byte <= s[2 * i + 1]));
    };
    const probes = [...edges, a, b, a - 1, b + 1, ...Array.from({ length: 60 }, point)].filter(
      (c) => c >= 0 && c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff),
    );
    for (const code of probes)
      expect(inside(code), `seed ${seed}, ${code.toString(16)} in ${a.toString(16)}-${b.toString(16)}`).toBe(code >= a && code <= b);
  }
});

describe('errors name the position and the fault', () => {
  const cases: [gbnf: string, message: RegExp][] = [
    ['root ::= "a', /line 1, column 12: found the end; expected a character or "/],
    ['root ::= "a"\nitem = "b"', /line 2, column 6: found "="; expected ::=/],
    ['root ::= [b-a]', /line 1, column 11: .*range/],
    ['root ::= []', /line 1, column 10: .*class/],
    ['root ::= ("a"', /line 1, column 14: found the end; expected \)/],
    ['root ::= "a" )', /line 1, column 14: found "\)"/],
    ['root ::= "\\q"', /line 1, column 11: .*escapes/],
    ['root ::= "\\xZ1"', /line 1, column 11: .*2 hexadecimal/],
    ['root ::= "\\ud800"', /surrogate/],
    ['root ::= "a"{3,2}', /line 1, column 13: .*m <= n/],
    ['root ::= "a"{x}', /line 1, column 14: .*number/],
    ['root ::= *', /line 1, column 10: found "\*"/],
    ['root ::= item\nother ::= "a"', /line 1, column 10: found the name item; expected .*root, other/],
    ['root ::= "a"\nother ::= item', /line 2, column 11: found the name item/],
    ['root ::= "a"\nroot ::= "b"', /line 2, column 1: .*defined again, after line 1/],
    ['item ::= "a"', /no rule root.*item/],
    ['', /no rule root/],
    ['root ::= root "a" | "b"', /line 1, column 1: rule root calls itself.*root -> root/],
    ['root ::= a\na ::= b? c\nb ::= "b"\nc ::= a "x"', /line 2, column 1: rule a calls itself.*a -> c -> a/],
    ['root ::= e root\ne ::= ""', /rule root calls itself/],
    [
      `root ::= r0\n${Array.from({ length: 50 }, (_, i) => `r${i} ::= r${(i + 1) % 50} "a"`).join('\n')}`,
      /\(r0 -> r1 -> r2 -> r3 -> r4 -> \.\.\. -> r46 -> r47 -> r48 -> r49 -> r0\)/,
    ],
    ['root ::= "a"{1000000}', /at most 100000/],
    ['root ::= "a"{60000} "b"{60000}', /larger than 100000 nodes/],
    ['root ::= "a" rest\nrest ::= "b" rest', /line 2, column 1: no text can finish rule rest/],
    ['root ::= "a"\nother ::= [^\\x00-\\U0010FFFF]', /line 2, column 1: no text can finish rule other/],
    ['root ::= <nothing>', /line 1, column 10: .*<nothing>/],
    ['root ::= <[999]>', /token id below 257/],
    ['root ::= <[9', /expected ]>/],
    ['root ::= ' + '('.repeat(1000), /nested at most 256/],
    ['root ::= "a"' + '*'.repeat(1000), /at most 8/],
  ];
  for (const [gbnf, message] of cases) {
    test(gbnf.slice(0, 60).replaceAll('\n', ' / '), () => {
      expect(() => createGrammar(gbnf, bytesOnly)).toThrow(
        expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringMatching(message) }),
      );
    });
  }
});

describe('tokens', () => {
  const vocabulary = byteVocabulary([
    'ab',
    'abc',
    'b',
    'bc',
    'é',
    Uint8Array.of(0xc3),
    Uint8Array.of(0xa9, 0x61),
    'ab',
    '<think>',
    '</think>',
    ' long',
    ' longer',
  ]);
  const ids = (...pieces: string[]): number[] => pieces.map((piece) => vocabulary.find(piece));

  test('a mask keeps the tokens whose bytes fit, all those of equal bytes, and the end', () => {
    const grammar = createGrammar('root ::= "abc" | "ab"', vocabulary);
    expect(allowed(grammar, vocabulary.nVocab)).toEqual([97, ...ids('ab', 'abc'), 256 + 7]);
    grammar.accept(vocabulary.find('ab'));
    expect(grammar.isComplete()).toBe(true);
    expect(grammar.isFinished()).toBe(false);
    expect(allowed(grammar, vocabulary.nVocab)).toEqual([99, vocabulary.eog]);
    grammar.accept(99);
    expect(grammar.isFinished()).toBe(true);
    expect(allowed(grammar, vocabulary.nVocab)).toEqual([vocabulary.eog]);
    grammar.accept(vocabulary.eog);
    expect(grammar.allows(97)).toBe(false);
    expect(() => grammar.mask(new Float32Array(vocabulary.nVocab))).toThrow(
      expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining('ended') }),
    );
    grammar.reset();
    expect(grammar.allows(97)).toBe(true);
  });

  test('characters cut across tokens', () => {
    const grammar = createGrammar('root ::= [à-ö] "a"', vocabulary);
    expect(allowed(grammar, vocabulary.nVocab)).toEqual([0xc3, vocabulary.find('é'), 256 + 5]);
    grammar.accept(256 + 5);
    expect(grammar.isComplete()).toBe(false);
    expect(grammar.allows(256 + 6)).toBe(true);
    grammar.accept(256 + 6);
    expect(grammar.isFinished()).toBe(true);
  });

  test('token references', () => {
    const grammar = createGrammar('root ::= <think> thinking </think> "a"\nthinking ::= !</think>*', vocabulary);
    expect(allowed(grammar, vocabulary.nVocab)).toEqual(ids('<think>'));
    expect(grammar.allows('<'.charCodeAt(0))).toBe(false);
    grammar.accept(vocabulary.find('<think>'));
    // everything except the end of generation: any token or </think>
    expect(allowed(grammar, vocabulary.nVocab)).toHaveLength(vocabulary.nVocab - 1);
    grammar.accept(0xff);
    grammar.accept(vocabulary.find('</think>'));
    expect(allowed(grammar, vocabulary.nVocab)).toEqual([97]);
    expect(createGrammar('root ::= <[257]>', vocabulary).allows(257)).toBe(true);
    expect(allowed(createGrammar('root ::= !<[257]>', vocabulary), vocabulary.nVocab)).toHaveLength(vocabulary.nVocab - 2);
    expect(allowed(createGrammar('root ::= !<[257]> | !<[258]>', vocabulary), vocabulary.nVocab)).toHaveLength(vocabulary.nVocab - 1);
    // the same token as text and as a reference: both readings continue
    const both = createGrammar('root ::= <[256]> "x" | "ab" "y"', vocabulary);
    both.accept(256);
    expect([...'xy'].map((c) => both.allows(c.charCodeAt(0)))).toEqual([true, true]);
  });

  test('no token can continue: a coded error, not a loop', () => {
    const digits = { nVocab: 3, pieceBytes: (id: number) => utf8.encode('12'.slice(id, id + 1)), isEog: (id: number) => id === 2 };
    const grammar = createGrammar('root ::= "1" "3"', digits);
    grammar.accept(0);
    expect(() => grammar.mask(new Float32Array(3))).toThrow(
      expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining('one of 3') }),
    );
    const sampler = createSampler({ temperature: 0 }, 3, { grammar });
    expect(() => sampler.sample(new Float32Array(3))).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR' }));
    expect(() => grammar.accept(1)).toThrow(expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining('token 1') }));
    const endless = { ...digits, isEog: () => false };
    const done = createGrammar('root ::= "1"', endless);
    done.accept(0);
    expect(done.isFinished()).toBe(true);
    expect(() => done.mask(new Float32Array(3))).toThrow(
      expect.objectContaining({ code: 'ERR_GRAMMAR', message: expect.stringContaining('isFinished') }),
    );
    expect(() => grammar.mask(new Float32Array(4))).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
  });

  test('clones are independent', () => {
    const grammar = createGrammar('root ::= "a" "b"+', vocabulary);
    grammar.accept(97);
    const clone = grammar.clone();
    clone.accept(98);
    expect([clone.isComplete(), grammar.isComplete()]).toEqual([true, false]);
    clone.reset();
    expect([clone.allows(97), grammar.allows(97)]).toEqual([true, false]);
  });

  test('a sampler follows the grammar whatever the logits want', () => {
    const random = createRandom(seed);
    for (const options of [{ temperature: 0 }, { temperature: 2, seed: 3 }, { topK: 1 }, { mirostat: 2, seed: 1 }]) {
      const sampler = createSampler(options, vocabulary.nVocab, { grammar: createGrammar('root ::= "ab"{3} ("c" | "é")', vocabulary) });
      let text = '';
      const decoder = new TextDecoder();
      for (let step = 0; step < 20; step++) {
        const id = sampler.sample(Float32Array.from({ length: vocabulary.nVocab }, () => random.next() * 20));
        sampler.accept(id);
        if (id === vocabulary.eog) break;
        text += decoder.decode(vocabulary.pieceBytes(id), { stream: true });
      }
      expect(text).toMatch(/^ababab[cé]$/);
    }
  });
});

// Grammars come from clients, so their checks must not take quadratic time.
test.each(['down', 'up'])('a chain of 20000 rules, written %s, compiles at once', (order) => {
  const start = processorMs();
  const n = 20_000;
  for (const step of ['', '"a" ']) {
    const rules = Array.from({ length: n }, (_, i) => `r${i} ::= ${step}r${i + 1}`);
    compileGrammar(
      parseGbnf(['root ::= r0', ...(order === 'up' ? rules.toReversed() : rules), `r${n} ::= "b"?`].join('\n'), () => undefined, 0),
      'root',
    );
  }
  expect(processorMs() - start).toBeLessThan(5000);
});

// A thousand optional characters are a thousand positions. Without classes of bytes, each of the
// 256 bytes would compute their successors again.
test('bytes that no class tells apart find one state together', () => {
  const program = compileGrammar(
    parseGbnf(`root ::= ${'.? '.repeat(1000)}`, () => undefined, 0),
    'root',
  );
  const automaton = new Automaton(program);
  const { start, kindOf } = automaton;
  const reached = new Set(Array.from({ length: 256 }, (_, byte) => automaton.step(start, byte)));
  // Characters of one to four bytes, bytes that cannot begin one, and first bytes with a restricted
  // second byte.
  expect(start.next.length).toBeLessThanOrEqual(16);
  expect(reached.size).toBeLessThanOrEqual(start.next.length);
  expect([0x61, 0x7f, 0x80, 0xc3, 0xe4, 0xf1].map((byte) => kindOf[byte])).toEqual(
    [0x62, 0x00, 0x85, 0xd0, 0xe5, 0xf2].map((byte) => kindOf[byte]),
  );
  expect(new Set([0x61, 0x85, 0xc3, 0xe0, 0xe4, 0xed, 0xf0, 0xf1, 0xf4].map((byte) => kindOf[byte])).size).toBeGreaterThanOrEqual(8);
});

describe('random grammars', () => {
  const random = createRandom(seed);
  const int = (n: number): number => Math.floor(random.next() * n);
  const alphabet = ['a', 'b', 'é', '\u{1f600}'];
  function expression(depth: number, rule: number, first: boolean): string {
    // prettier-ignore
    switch (int(depth > 3 ? 2 : 7)) {
      case 0: return JSON.stringify(Array.from({ length: 1 + int(2) }, () => alphabet[int(4)]).join(''));
      case 1: return ['[ab]', '[^aé]', '[a-é]', '[\\U0001F600-\\U0001F64F]'][int(4)];
      case 2: return `(${expression(depth + 1, rule, first)} | ${expression(depth + 1, rule, first)})`;
      case 3: return `${expression(depth + 1, rule, first)} ${expression(depth + 1, rule, first)}`;
      case 4: return `(${expression(depth + 1, rule, first)})${['*', '+', '?', '{2}', '{1,3}', '{2,}'][int(6)]}`;
      // only later rules at the left end: no left recursion
      case 5: return rule < 3 ? `r${rule + 1 + int(3 - rule)}` : '"a"';
      default: return `"b" ${expression(depth + 1, rule, false)} "a"`;
    }
  }

  test('the automaton accepts what the definition accepts', () => {
    for (let round = 0; round < 150; round++) {
      const gbnf = ['root ::= r1 r2', ...[1, 2, 3].map((rule) => `r${rule} ::= ${expression(0, rule, true)}`)].join('\n');
      const grammar = createGrammar(gbnf, bytesOnly);
      const rules = parseGbnf(gbnf, () => undefined, 0);
      const label = (text: string): string => `seed ${seed}, round ${round}, ${JSON.stringify(text)} by\n${gbnf}`;
      for (let i = 0; i < 12; i++) {
        const text = Array.from({ length: int(7) }, () => alphabet[int(4)]).join('');
        expect(read(grammar, text).complete, label(text)).toBe(matches(rules, text));
      }
      // a walk along the mask: the definition must accept every text that it completes
      grammar.reset();
      const walked: number[] = [];
      for (let i = 0; i < 40 && !grammar.isFinished(); i++) {
        const choices = allowed(grammar, bytesOnly.nVocab);
        for (const id of [int(256), 97, 98, 0xc3, 0xf0]) expect(choices.includes(id)).toBe(grammar.allows(id));
        if (grammar.isComplete() && random.next() < 0.3) break;
        const bytes = choices.filter((id) => id !== bytesOnly.eog);
        const id = bytes[int(bytes.length)];
        walked.push(id);
        grammar.accept(id);
      }
      if (grammar.isComplete()) {
        const text = new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(walked));
        expect(matches(rules, text), label(text)).toBe(true);
      }
    }
  });
});
