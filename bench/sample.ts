/**
 * Cost of sampling and grammars per token for a vocabulary of 128,256 (Llama 3's).
 *
 * Usage:
 *
 *   node --import tsx bench/sample.ts
 *   node --import tsx bench/sample.ts MASKBENCH.jsonl.gz VOCABULARY.gguf   masks as MaskBench measures them
 */
import Benchmark from 'benchmark';
import { createGrammar } from '../src/grammar/grammar.ts';
import { jsonSchemaToGrammar } from '../src/grammar/json-schema.ts';
import { createRandom } from '../src/sample/random.ts';
import { createSampler } from '../src/sample/sampler.ts';
import type { SamplerOptions } from '../src/sample/sampler.ts';
import { printMaskTimes } from './mask-times.ts';

const [schemas, vocabularyFile] = process.argv.slice(2);
if (schemas !== undefined && vocabularyFile !== undefined) {
  await printMaskTimes(schemas, vocabularyFile);
  process.exit(0);
}

const nVocab = 128256;
const random = createRandom(3);
/**
 * Roughly normal with a deviation of 3, and a few likely tokens: the shape of a language model's
 * logits.
 */
const logits = Float32Array.from(
  { length: nVocab },
  () => 3 * (random.next() + random.next() + random.next() + random.next() - 2) * Math.sqrt(3),
);
for (let i = 0; i < 8; i++) logits[Math.floor(random.next() * nVocab)] = 14 + i;

const cases: Record<string, SamplerOptions> = {
  greedy: { temperature: 0 },
  'defaults (top-k 40, top-p, min-p, temp)': {},
  'defaults + repeat penalty over 64': { repeatPenalty: 1.1 },
  'min-p only': { topK: 0, topP: 1 },
  'top-p only': { topK: 0, minP: 0 },
  'temperature only (full softmax)': { topK: 0, topP: 1, minP: 0 },
};

const suite = new Benchmark.Suite();
for (const [name, options] of Object.entries(cases)) {
  const sampler = createSampler({ seed: 1, ...options }, nVocab);
  suite.add(name, () => sampler.accept(sampler.sample(logits)), { maxTime: 1 });
}
/**
 * Words of random letters, 256 bytes, punctuation and an end: lengths as in a byte-pair vocabulary,
 * about 7 bytes each.
 */
const encoder = new TextEncoder();
const pieces = Array.from({ length: nVocab }, (_, id) => {
  if (id < 256) return Uint8Array.of(id);
  const word = Array.from(
    { length: 2 + Math.floor(random.next() * 10) },
    () => 'etaoinshrdlucmfwypvbgkjqxz'[Math.floor(random.next() ** 2 * 26)],
  ).join('');
  return encoder.encode(id % 2 === 0 ? ` ${word}` : id % 17 === 0 ? `${word}"` : word);
});
const vocabulary = { nVocab, pieceBytes: (id: number) => pieces[id], isEog: (id: number) => id === nVocab - 1 };
const once = (label: string, run: () => void): void => {
  const start = performance.now();
  run();
  console.log(`${label}: ${(performance.now() - start).toFixed(1)} ms, once`);
};
const gbnf = jsonSchemaToGrammar({ type: 'object' });
let grammar = createGrammar(gbnf, vocabulary);
const scratch = new Float32Array(nVocab);
const write = (text: string): void => {
  for (const byte of encoder.encode(text)) grammar.accept(byte);
};
once('grammar: compile JSON', () => {
  grammar = createGrammar(gbnf, vocabulary);
});
once('grammar: first mask, with the trie of the vocabulary', () => grammar.mask(scratch));
write('{"name":"');
once('grammar: first mask inside a string', () => grammar.mask(scratch));
write('x","list":[{"a":"');
once('grammar: mask inside a string one level deeper', () => grammar.mask(scratch));
suite.add('grammar: mask of a known state', () => grammar.mask(scratch), { maxTime: 1 });
suite.add('grammar: allows(one token)', () => grammar.allows(1000), { maxTime: 1 });
const constrained = createSampler({ seed: 1 }, nVocab, { grammar: { ...grammar, accept: () => undefined, reset: () => undefined } });
suite.add('defaults with a grammar inside a string', () => constrained.sample(logits), { maxTime: 1 });

suite
  .on('cycle', (event: Benchmark.Event) => {
    const { name, stats } = event.target as unknown as Benchmark;
    console.log(`${name}: ${(stats.mean * 1e3).toFixed(3)} ms per token, +-${stats.rme.toFixed(1)} %`);
  })
  .run();
