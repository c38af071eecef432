/**
 * Vocabularies: time until they are ready, and speed of encoding.
 *
 * Usage:
 *
 *   node --import tsx bench/tokenize.ts [FILE.gguf ...]
 */
import Benchmark from 'benchmark';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readGGUF } from '../src/gguf/read.ts';
import { toBytes } from '../src/io/source.ts';
import { createTokenizer, type Tokenizer } from '../src/tokenize/tokenizer.ts';

const root = new URL('../', import.meta.url);
const vocabs = new URL('../shared/vocab/', root);
const story = new URL('../shared/text/wikitext-2.wiki.test.raw', root);

const files =
  process.argv.length > 2
    ? process.argv.slice(2)
    : [
        fileURLToPath(new URL('models/tiny-stories-q4_0.gguf', root)),
        ...(existsSync(vocabs)
          ? readdirSync(vocabs)
              .filter((f) => f.endsWith('.gguf'))
              .map((f) => fileURLToPath(new URL(f, vocabs)))
          : []),
      ];

/**
 * A megabyte of English if available, else of made-up words, more of them than the cache of words
 * holds.
 */
const text = existsSync(story) ? readFileSync(story, 'utf8').slice(0, 1_000_000) : madeUp(1_000_000);

function madeUp(length: number): string {
  let state = 1;
  let out = '';
  const next = (n: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  while (out.length < length)
    out += `${Array.from({ length: 1 + next(9) }, () => 'etaoinshrdlucmfwyp'[next(18)]).join('')}${[' ', ' ', ' ', ' ', ', ', '. ', '\n'][next(7)]}`;
  return out;
}

const megabytes = new TextEncoder().encode(text).length / 1e6;
const suite = new Benchmark.Suite();
for (const file of files) {
  const { metadata } = await readGGUF(toBytes(readFileSync(file)));
  const start = performance.now();
  const tokenizer: Tokenizer = createTokenizer(metadata);
  tokenizer.encode('Hello world');
  const ready = performance.now() - start;
  const cold = performance.now();
  const tokens = tokenizer.encode(text).length;
  const first = megabytes / ((performance.now() - cold) / 1000);
  suite.add(
    `${basename(file)} (${tokenizer.model}, ${tokenizer.nVocab} tokens): ready in ${ready.toFixed(0)} ms, ${(text.length / tokens).toFixed(2)} characters a token, first time ${first.toFixed(1)} MB/s`,
    () => tokenizer.encode(text),
    { maxTime: 1 },
  );
}
suite
  .on('cycle', (event: Benchmark.Event) => {
    const { name, stats } = event.target as unknown as Benchmark;
    console.log(`${name}, again ${(megabytes / stats.mean).toFixed(1)} MB/s +-${stats.rme.toFixed(0)} %`);
  })
  .run();
