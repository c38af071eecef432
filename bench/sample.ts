/** Sampling cost per token over a vocabulary of 128,256 (Llama 3's): `node --import tsx bench/sample.ts`. */
import Benchmark from 'benchmark';
import { createRandom } from '../src/sample/random.ts';
import { createSampler } from '../src/sample/sampler.ts';
import type { SamplerOptions } from '../src/sample/sampler.ts';

const nVocab = 128256;
const random = createRandom(3);
/** About normal with a deviation of 3, and a few likely tokens: the shape of a language model's logits. */
const logits = Float32Array.from({ length: nVocab }, () => 3 * (random.next() + random.next() + random.next() + random.next() - 2) * Math.sqrt(3));
for (let i = 0; i < 8; i++) logits[Math.floor(random.next() * nVocab)] = 14 + i;

const cases: Record<string, SamplerOptions> = {
  greedy: { temperature: 0 },
  'defaults (top-k 40, top-p, min-p, temp)': {},
  'defaults + repeat penalty over 64': { repeatPenalty: 1.1 },
  'min-p only': { topK: 0, topP: 1 },
  'top-p only (full sort)': { topK: 0, minP: 0 },
  'temperature only (full softmax)': { topK: 0, topP: 1, minP: 0 },
};

const suite = new Benchmark.Suite();
for (const [name, options] of Object.entries(cases)) {
  const sampler = createSampler({ seed: 1, ...options }, nVocab);
  suite.add(name, () => sampler.accept(sampler.sample(logits)), { maxTime: 1 });
}
suite
  .on('cycle', (event: Benchmark.Event) => {
    const { name, stats } = event.target as unknown as Benchmark;
    console.log(`${name}: ${(stats.mean * 1e3).toFixed(3)} ms per token, +-${stats.rme.toFixed(1)} %`);
  })
  .run();
