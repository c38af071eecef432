/** quantlet run: continue a text, as llama-completion does. */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { QuantletError } from '../errors.ts';
import type { GenerateOptions, Generation, GenerationResult } from '../generate.ts';
import type { Model } from '../model.ts';
import { CACHE_FLAGS, forTerminal, MODEL_FLAGS, openModel, readText, unescape, unreadable, type Command } from './command.ts';
import { parseFlags, type FlagKey, type Values } from './flags.ts';

export const SAMPLING_FLAGS = [
  'temp', 'topK', 'topP', 'minP', 'typical', 'topNSigma', 'xtcProbability', 'xtcThreshold', 'repeatPenalty', 'repeatLastN', 'presencePenalty', 'frequencyPenalty',
  'dryMultiplier', 'dryBase', 'dryAllowedLength', 'dryPenaltyLastN', 'drySequenceBreaker', 'logitBias', 'mirostat', 'mirostatLr', 'mirostatEnt', 'dynatempRange', 'dynatempExp', 'seed',
] as const satisfies readonly FlagKey[];

const KEYS = [
  ...MODEL_FLAGS, ...CACHE_FLAGS, 'prompt', 'file', 'predict', 'threads', 'ctx', 'batch', ...SAMPLING_FLAGS,
  'grammar', 'grammarFile', 'jsonSchema', 'stop', 'promptCache', 'promptCacheAll', 'promptCacheRo', 'ignoreEos', 'escape', 'noEscape', 'noDisplayPrompt', 'noWarmup', 'turbo', 'build', 'json', 'help',
] as const satisfies readonly FlagKey[];

/** `15043+1`: a token's id, and with its sign what is added to its logit. @throws ERR_USAGE */
function logitBiasOf(text: string): [id: number, bias: number] {
  const [, id, sign, size] = /^(\d+)([+-])(\d+(?:\.\d+)?|inf)$/.exec(text) ?? [];
  if (id === undefined || (sign === '+' && size === 'inf')) throw new QuantletError('ERR_USAGE', `--logit-bias is "${text}", expected ID+BIAS, ID-BIAS or ID-inf: 15043+1, say`);
  return [Number(id), Number(`${sign}${size.replace('inf', 'Infinity')}`)];
}

/** The sampler's options of the flags; what was not given keeps the default. */
export function samplerOptions(v: Values<(typeof SAMPLING_FLAGS)[number]>): GenerateOptions {
  const options = {
    temperature: v.temp, topK: v.topK, topP: v.topP, minP: v.minP, typicalP: v.typical, topNSigma: v.topNSigma, xtcProbability: v.xtcProbability, xtcThreshold: v.xtcThreshold,
    repeatPenalty: v.repeatPenalty, repeatLastN: v.repeatLastN, presencePenalty: v.presencePenalty, frequencyPenalty: v.frequencyPenalty, dryMultiplier: v.dryMultiplier,
    dryBase: v.dryBase, dryAllowedLength: v.dryAllowedLength, dryPenaltyLastN: v.dryPenaltyLastN, mirostat: v.mirostat, mirostatEta: v.mirostatLr, mirostatTau: v.mirostatEnt,
    dynatempRange: v.dynatempRange, dynatempExponent: v.dynatempExp, seed: v.seed, logitBias: v.logitBias && new Map(v.logitBias.map(logitBiasOf)),
    drySequenceBreakers: v.drySequenceBreaker && v.drySequenceBreaker.filter((text) => text !== 'none').map(unescape),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The grammar or JSON schema of the flags. @throws ERR_USAGE for a schema that is no JSON */
export async function constraintOf({ grammar, grammarFile, jsonSchema }: Values<'grammar' | 'grammarFile' | 'jsonSchema'>): Promise<Pick<GenerateOptions, 'grammar' | 'responseFormat'>> {
  if ([grammar, grammarFile, jsonSchema].filter((given) => given !== undefined).length > 1) throw new QuantletError('ERR_USAGE', '--grammar, --grammar-file and --json-schema exclude each other; give one');
  if (grammarFile !== undefined) return { grammar: await readText(grammarFile, 'the grammar') };
  if (grammar !== undefined) return { grammar };
  if (jsonSchema === undefined) return {};
  try {
    const schema = JSON.parse(jsonSchema) as object;
    return { responseFormat: JSON.stringify(schema) === '{}' ? { type: 'json_object' } : { type: 'json_schema', schema } };
  } catch (cause) {
    throw new QuantletError('ERR_USAGE', `--json-schema is no JSON: ${(cause as Error).message}`, { cause });
  }
}

export const run: Command = {
  name: 'run',
  synopsis: '[-m FILE] [-p TEXT] [flags]',
  summary: 'continue a text',
  flags: KEYS,
  examples: ['quantlet run -p "Once upon a time" -n 64', 'quantlet run -m llama-3.2-1b.Q4_K_M.gguf -p "The capital of France is" -n 8 --temp 0', 'quantlet run -m model.gguf -f prompt.txt -t 4 -c 4096 --json'],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    if (positionals.length > 0) throw new QuantletError('ERR_USAGE', `"${positionals[0]}" is no flag; give the prompt with -p and the model with -m`);
    const prompt = await readPrompt(values);
    const model = await openModel(values, signal);
    try {
      await readPromptCache(model, values, signal);
      const generation = model.generate(prompt, {
        ...samplerOptions(values),
        ...(await constraintOf(values)),
        maxTokens: values.predict ?? -1,
        signal,
        ...(values.stop ? { stop: values.stop } : {}),
        ...(values.ignoreEos ? { ignoreEos: true } : {}),
      });
      if (values.json) {
        const result = await generation.result();
        await writePromptCache(model, values, result);
        process.stdout.write(`${JSON.stringify(report(model, result))}\n`);
        return 0;
      }
      await show(values.noDisplayPrompt ? '' : prompt, prompt !== '', generation);
      const result = await generation.result();
      await writePromptCache(model, values, result);
      process.stdout.write('\n');
      process.stderr.write(`\n${summary(model, result)}\n`);
      return 0;
    } finally {
      await model.dispose();
    }
  },
};

/** Writes a generation behind its prompt as it comes; `begun`: there is text before it. */
async function show(prompt: string, begun: boolean, generation: Generation): Promise<void> {
  let lastLine = '';
  const write = (text: string): void => {
    lastLine = text.includes('\n') ? text.slice(text.lastIndexOf('\n') + 1) : lastLine + text;
    process.stdout.write(forTerminal(text));
  };
  try {
    write(prompt);
    for await (const { text } of generation) {
      // The first piece of a sentence carries the space that SentencePiece puts before words.
      write(begun ? text : text.replace(/^ /, ''));
      begun ||= text !== '';
    }
  } catch (error) {
    if (lastLine !== '' && error instanceof QuantletError) process.stdout.write('\n'); // the message gets a line of its own
    throw error;
  }
}

async function readPrompt({ prompt, file, noEscape }: Values<'prompt' | 'file' | 'noEscape'>): Promise<string> {
  if (file !== undefined) return (await readText(file, 'the prompt')).replace(/\n$/, '');
  return noEscape ? (prompt ?? '') : unescape(prompt ?? '');
}

type PromptCacheFlags = Values<'promptCache' | 'promptCacheAll' | 'promptCacheRo'>;

/** A file that is not there yet is made after the run. @throws ERR_STATE for one of another model, ERR_SOURCE */
async function readPromptCache(model: Model, { promptCache: path }: PromptCacheFlags, signal: AbortSignal): Promise<void> {
  if (path === undefined) return;
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) => (cause.code === 'ENOENT' ? undefined : unreadable('the prompt cache', path)(cause)));
  if (bytes) await model.loadState(bytes, { signal });
}

async function writePromptCache(model: Model, { promptCache: path, promptCacheAll, promptCacheRo, predict }: PromptCacheFlags & { predict?: number }, { promptIds }: GenerationResult): Promise<void> {
  if (path === undefined || promptCacheRo || predict === 0) return; // -n 0 computes nothing
  const bytes = await model.saveState(promptCacheAll ? {} : { prompt: promptIds });
  const part = `${path}.part`;
  const failed = async (cause: Error): Promise<never> => {
    await rm(part, { force: true }).catch(() => {}); // half of it is of no use, and takes the room that was wanting
    throw new QuantletError('ERR_IO', `cannot write the prompt cache ${path}: ${cause.message}`, { cause });
  };
  // In one piece: a run that is killed leaves the old file.
  await writeFile(part, bytes).catch(failed);
  await rename(part, path).catch(failed);
}

const perSecond = (n: number, ms: number): number => (ms > 0 ? (n * 1000) / ms : 0);

const summary = (model: Model, { timings: t }: GenerationResult): string =>
  `prompt ${t.promptTokens} tokens, ${perSecond(t.promptTokens, t.promptMs).toFixed(1)} tokens/s | generation ${t.predictedTokens} tokens, ${perSecond(t.predictedTokens, t.predictedMs).toFixed(1)} tokens/s | ` +
  `build ${model.build}, ${model.threads} ${model.threads === 1 ? 'thread' : 'threads'}`;

function report(model: Model, { promptIds, ids, text, finishReason, timings: t }: GenerationResult) {
  return {
    prompt_ids: promptIds,
    ids,
    text,
    stop_reason: finishReason,
    build: model.build,
    threads: model.threads,
    timings: {
      load_ms: model.stats.loadMs,
      warmup_ms: model.stats.warmupMs,
      prompt_n: t.promptTokens,
      prompt_ms: t.promptMs,
      prompt_per_second: perSecond(t.promptTokens, t.promptMs),
      predicted_n: t.predictedTokens,
      predicted_ms: t.predictedMs,
      predicted_per_second: perSecond(t.predictedTokens, t.predictedMs),
    },
  };
}
