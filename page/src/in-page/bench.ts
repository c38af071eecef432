/** Measures tokens per second for prompts and for generation, with each number of threads. */
import { openFiles, type Loaded } from './engine.ts';

export interface BenchOptions {
  /** Prompt tokens. */
  readonly pp: number;
  /** Generated tokens. */
  readonly tg: number;
  readonly reps: number;
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  readonly onResult: (result: BenchResult) => void;
}

export interface BenchResult {
  readonly threads: number;
  readonly build: string;
  /** Tokens per second, the best of the repetitions. */
  readonly pp: number;
  readonly tg: number;
}

/** 1, 2, 4 and so on, and `most`. */
function threadCounts(most: number): number[] {
  const counts = [];
  for (let n = 1; n < most; n *= 2) counts.push(n);
  return [...counts, most];
}

export async function runBench({ model, files }: Loaded, { pp, tg, reps, signal, say, onResult }: BenchOptions): Promise<void> {
  const nPrompt = Math.min(pp, model.contextLength - 1);
  const nNew = Math.min(tg, model.contextLength - 2);
  const vocabulary = (model.metadata.get('tokenizer.ggml.tokens') as { length: number }).length;
  // Random ids make every repetition a new prompt, so that no cached token is reused.
  const ids = (n: number): number[] => Array.from({ length: n }, () => Math.floor(Math.random() * vocabulary));
  for (const threads of threadCounts(model.threads)) {
    const named = `${threads} thread${threads > 1 ? 's' : ''}`;
    say(`Loading with ${named} …`);
    const own = threads === model.threads ? model : await openFiles(files, { threads, signal });
    try {
      let best = { pp: 0, tg: 0 };
      for (let i = 0; i <= reps; i++) {
        say(i === 0 ? `${named}, warming up …` : `${named}, ${i} of ${reps} …`);
        const options = { temperature: 0, ignoreEos: true, signal };
        const read = await own.generate(ids(nPrompt), { ...options, maxTokens: 1 }).result();
        // The prompt's step gives the first new token, so one more is requested than is timed.
        const wrote = await own.generate(ids(1), { ...options, maxTokens: nNew + 1 }).result();
        if (i > 0)
          best = {
            pp: Math.max(best.pp, nPrompt / (read.timings.promptMs / 1000)),
            tg: Math.max(best.tg, nNew / (wrote.timings.predictedMs / 1000)),
          };
      }
      onResult({ threads, build: own.build, ...best });
    } finally {
      if (own !== model) await own.dispose();
    }
  }
  say(`Done, with the build ${model.build}.`);
}
