import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readGGUF } from '../../src/gguf/read.ts';
import { toBytes } from '../../src/io/source.ts';
import type { TokenizerMetadata } from '../../src/tokenize/vocab.ts';

const root = new URL('../../', import.meta.url);

/** Vocabulary-only models with test vectors, next to the checkout if present. */
export const vocabDir = new URL('../shared/vocab/', root);
export const hasShared = existsSync(vocabDir);

/** A vocabulary with its vectors: inputs, and llama.cpp's ids without bos and eos. */
export interface Vectors {
  name: string;
  file: URL;
  inputs: string[];
  outputs: number[][];
}

export function sharedVectors(): Vectors[] {
  if (!hasShared) return [];
  return readdirSync(vocabDir)
    .filter((f) => f.endsWith('.gguf'))
    .map((f) => {
      const inputs = readFileSync(new URL(`${f}.inp`, vocabDir), 'utf8').split('\n__ggml_vocab_test__\n');
      const outputs = readFileSync(new URL(`${f}.out`, vocabDir), 'utf8')
        .split('\n')
        .slice(0, -1)
        .map((line) => (line.match(/\d+/g) ?? []).map(Number));
      inputs.pop(); // the separator also ends the last input
      return { name: f.replace(/^ggml-vocab-|\.gguf$/g, ''), file: new URL(f, vocabDir), inputs, outputs };
    });
}

export const readMetadata = async (file: URL): Promise<TokenizerMetadata> => (await readGGUF(toBytes(readFileSync(file)))).metadata;

export const shippedModel = new URL('models/tiny-stories-q4_0.gguf', root);

/** Hand-made metadata: `tokens` and other keys of `tokenizer.ggml.`. */
export const metadataOf = (model: string, tokens: readonly string[], rest: Record<string, unknown> = {}): TokenizerMetadata =>
  new Map<string, unknown>([
    ['tokenizer.ggml.model', model],
    ['tokenizer.ggml.tokens', tokens],
    ...Object.entries(rest).map(([key, value]) => [`tokenizer.ggml.${key}`, value] as const),
  ]);

/** A small seeded generator, with a function to pick from a list. */
export function random(seed: number): { next(): number; pick<T>(from: readonly T[]): T } {
  let state = seed >>> 0;
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  return { next, pick: (from) => from[Math.floor(next() * from.length)] };
}
