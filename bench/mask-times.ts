/**
 * Times of masks as MaskBench measures them: a mask and an accepted token for each token of valid
 * instances, with a new grammar for every schema.
 */
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { readGGUF } from '../src/gguf/read.ts';
import { schemaGrammarWork } from '../src/grammar/schema-grammar.ts';
import type { JsonSchema } from '../src/grammar/schema.ts';
import { toBytes } from '../src/io/source.ts';
import { atOnce } from '../src/slices.ts';
import { createTokenizer } from '../src/tokenize/tokenizer.ts';

interface Entry {
  readonly schema: JsonSchema;
  readonly tests: readonly { readonly valid: boolean; readonly data: unknown }[];
}

/** Every n-th schema is measured, so that a run takes a minute. */
const STRIDE = 10;

/**
 * Prints the mean and the slow hundredths of masks and of compilation.
 * @param schemas MaskBench's data: lines of { schema, tests }, compressed by gzip
 * @param model a GGUF file with the vocabulary
 */
export async function printMaskTimes(schemas: string, model: string): Promise<void> {
  const tokenizer = createTokenizer((await readGGUF(toBytes(readFileSync(model)))).metadata);
  const logits = new Float32Array(tokenizer.nVocab);
  const lines = gunzipSync(readFileSync(schemas)).toString().trim().split('\n');
  const entries = lines.filter((_, i) => i % STRIDE === 0).map((line) => JSON.parse(line) as Entry);
  const masks: number[] = [];
  const compiled: number[] = [];
  let refused = 0;
  let ended = 0;
  for (const { schema, tests } of entries) {
    let start = performance.now();
    let grammar;
    try {
      grammar = atOnce(schemaGrammarWork(schema, tokenizer, []));
    } catch {
      refused++;
      continue;
    }
    compiled.push(performance.now() - start);
    for (const { data } of tests.filter(({ valid }) => valid)) {
      grammar.reset();
      for (const id of tokenizer.encode(JSON.stringify(data), { addSpecial: false })) {
        start = performance.now();
        grammar.mask(logits);
        masks.push((performance.now() - start) * 1e3);
        // Instances have properties in any order; generated texts have the schema's.
        if (!grammar.allows(id)) {
          ended++;
          break;
        }
        grammar.accept(id);
      }
    }
  }
  const at = (times: number[], share: number): number => times.sort((a, b) => a - b)[Math.floor(times.length * share)] ?? NaN;
  const mean = (times: readonly number[]): number => times.reduce((a, b) => a + b, 0) / times.length;
  console.log(
    `masks: ${masks.length} of ${compiled.length} schemas (${refused} refused), ${ended} instances in another order than the schema's`,
  );
  console.log(
    `masks: mean ${mean(masks).toFixed(0)} us, 99 % ${at(masks, 0.99).toFixed(0)} us, slowest ${at(masks, 0.99999).toFixed(0)} us`,
  );
  console.log(`compilation: median ${at(compiled, 0.5).toFixed(2)} ms, 99 % ${at(compiled, 0.99).toFixed(0)} ms`);
}
