/** quantlet run: continues a text, like llama-completion. */
import { readFile } from 'node:fs/promises';
import { unreadable } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { draftTimings, predictedPerSecond, type GenerateOptions, type GenerationResult } from '../generate/generate.ts';
import { partIds } from '../generate/parts.ts';
import type { Model } from '../model.ts';
import {
  COMPUTE_FLAGS,
  forTerminal,
  givenText,
  isPiped,
  MODEL_FLAGS,
  openModel,
  readStdin,
  SPECULATION_FLAGS,
  tellUnreadPipe,
  textLines,
  unescape,
  withoutLastBreak,
  VISION_FLAGS,
  type Command,
} from './command.ts';
import { filesRead } from './files-read.ts';
import { partsOf, readImageFiles } from './image-files.ts';
import { lastOf, type FlagKey, type Values } from './flags.ts';
import { checkOutput } from './output.ts';
import { isReplaceable, writeNewFile } from '../tools/new-file.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { checkKeep, GENERATE_FLAGS, generateOptions } from './generate-options.ts';
import { CONVERSATION_FLAGS } from './template-options.ts';
import { perSecond, speeds } from './show-answer.ts';
import { endUnread } from './unread.ts';

const KEYS = [
  ...MODEL_FLAGS,
  ...COMPUTE_FLAGS,
  ...SPECULATION_FLAGS,
  ...VISION_FLAGS,
  'image',
  'prompt',
  'file',
  'threads',
  'threadsBatch',
  'ctx',
  'batch',
  ...GENERATE_FLAGS,
  'contextShift',
  'keep',
  'special',
  'promptCache',
  'promptCacheAll',
  'promptCacheRo',
  'escape',
  'displayPrompt',
  'conversation',
  ...CONVERSATION_FLAGS,
  'color',
  'warmup',
  'turbo',
  'verbose',
  'quiet',
  'perf',
  'build',
  'json',
  'help',
] as const satisfies readonly FlagKey[];
type RunFlags = Values<(typeof KEYS)[number]>;

export const run: Command = {
  name: 'run',
  llama: 'llama-completion',
  synopsis: '[-m FILE] [-p TEXT] [flags]',
  summary: 'continue a text',
  flags: KEYS,
  defaults: { ctx: '0' },
  notes: 'Without -p and -f the prompt is what is piped in; next to them a pipe is not read, which stderr says.',
  examples: [
    'quantlet run -p "Once upon a time" -n 64',
    'quantlet run -m llama-3.2-1b.Q4_K_M.gguf -p "The capital of France is" -n 8 --temp 0',
    'quantlet run -m model.gguf -f prompt.txt -t 4 -c 4096 --json',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the prompt with -p and the model with -m', 'run');
    if (values.conversation ?? CONVERSATION_FLAGS.some((key) => values[key] !== undefined))
      return (await import('./chat.ts')).chat.run(argv, signal);
    const prompt = await readPrompt(values);
    const options = await generateOptions(values);
    const images = await readImageFiles(values, signal);
    const mmprojAuto = values.mmprojAuto ?? images.length > 0; // llama-completion has no projector
    let gone = false;
    if (values.promptCache !== undefined && writesCache(values)) {
      await checkOutput(values.promptCache, filesRead(values)).catch(cacheFailed(values.promptCache));
      endUnread(() => (gone = true)); // the cache is still written
    } else endUnread();
    // The prompt follows at once and warms up its own kernels.
    const model = await openModel({ ...values, mmprojAuto }, signal, {
      warmUp: values.warmup === false ? false : 'short',
      firstPrompt: prompt,
    });
    try {
      const promptIds =
        images.length > 0
          ? await partIds(model.internals, partsOf(prompt, images), { parseSpecial: true, signal })
          : model.tokenize(prompt, { parseSpecial: true });
      const generation = generate(model, promptIds, { ...options, ...(values.special ? { special: true } : {}), signal }, values);
      await readPromptCache(model, values, signal);
      if (values.json) {
        const result = await drained(generation);
        await writePromptCache(model, values, promptIds, signal);
        process.stdout.write(`${JSON.stringify(report(model, result))}\n`);
        return 0;
      }
      const result = await show(values.displayPrompt === false ? '' : prompt, prompt !== '', generation, () => gone);
      await writePromptCache(model, values, promptIds, signal);
      if (!result) return 0;
      process.stdout.write('\n');
      if (!values.quiet && values.perf !== false) process.stderr.write(`\n${summary(model, result, values.contextShift)}\n`);
      return 0;
    } finally {
      await model.dispose();
    }
  },
};

type Texts = AsyncGenerator<string, GenerationResult>;

/**
 * Generates the text after the prompt. It ends at a full context, as in llama-completion. With
 * --context-shift it continues: the first --keep tokens stay, the older half of the others is
 * dropped, and the rest is computed again.
 * @throws ERR_CONTEXT_FULL before generating if the prompt does not fit
 */
function generate(model: Model, promptIds: readonly number[], options: GenerateOptions, { contextShift, keep = 0 }: RunFlags): Texts {
  if (contextShift && (options.grammar ?? options.responseFormat) !== undefined)
    throw new QuantletError('ERR_USAGE', '--context-shift and a grammar or JSON schema exclude each other; give one');
  checkKeep(keep);
  const { contextLength } = model;
  if (promptIds.length > contextLength)
    throw new QuantletError(
      'ERR_CONTEXT_FULL',
      `the prompt has ${promptIds.length} tokens, and the context ${contextLength}; shorten the prompt, or give a larger -c`,
    );
  const { maxTokens = -1 } = options;
  // One token more than the context fits, because nothing is computed from the last one. A limit
  // that does not fit is dropped, so that generation ends at the full context.
  const fits = (model.encoder ? 1 : promptIds.length) + maxTokens <= contextLength + 1;
  const generation = model.generate(promptIds, {
    ...options,
    ...(contextShift ? { onContextFull: 'shift', keep } : fits ? {} : { maxTokens: -1 }),
  });
  return (async function* () {
    for await (const part of generation) yield part.text;
    return generation.result();
  })();
}

async function drained(texts: Texts): Promise<GenerationResult> {
  for (;;) {
    const step = await texts.next();
    if (step.done) return step.value;
  }
}

/**
 * Prints the prompt and then the generation as it comes, until `gone` returns true.
 * @param begun text was printed before
 */
async function show(prompt: string, begun: boolean, texts: Texts, gone: () => boolean): Promise<GenerationResult | undefined> {
  let lastLine = '';
  const write = (text: string): void => {
    lastLine = text.includes('\n') ? text.slice(text.lastIndexOf('\n') + 1) : lastLine + text;
    process.stdout.write(forTerminal(text));
  };
  try {
    write(prompt);
    for (;;) {
      const step = await texts.next();
      if (step.done) return step.value;
      if (gone()) return undefined;
      // SentencePiece puts a space before the first word; drop it at the start of the output.
      write(begun ? step.value : step.value.replace(/^ /, ''));
      begun ||= step.value !== '';
    }
  } catch (error) {
    if (lastLine !== '' && error instanceof QuantletError) process.stdout.write('\n'); // the error gets a line of its own
    throw error;
  } finally {
    await texts.return(undefined as never);
  }
}

/** The prompt: of -p and -f the one given last, as in llama.cpp; otherwise piped text. */
async function readPrompt(values: RunFlags): Promise<string> {
  const prompt = await givenText(values, 'prompt', 'file', 'the prompt');
  if (prompt === undefined) return isPiped() ? withoutLastBreak(textLines(await readStdin())) : '';
  if (!values.quiet) tellUnreadPipe(values);
  return values.escape === false || lastOf(values, 'prompt', 'file') === 'file' ? prompt : unescape(prompt);
}

type PromptCacheFlags = Values<'promptCache' | 'promptCacheAll' | 'promptCacheRo'>;

/** With -n 0 nothing is computed, so there is nothing to write. */
const writesCache = ({ promptCacheRo, predict }: Values<'promptCacheRo' | 'predict'>): boolean => !promptCacheRo && predict !== 0;

const cacheFailed =
  (path: string) =>
  (cause: unknown): never => {
    if (!(cause instanceof QuantletError)) throw cause; // the reason of an abort
    throw new QuantletError(cause.code, `cannot write the prompt cache ${path}: ${cause.message}`, { cause });
  };

/**
 * Loads the prompt cache. A file that is missing, or empty as in llama.cpp, is written after the
 * run.
 * @throws ERR_STATE for a cache of another model, ERR_SOURCE
 */
async function readPromptCache(model: Model, { promptCache: path }: PromptCacheFlags, signal: AbortSignal): Promise<void> {
  if (path === undefined || !(await isReplaceable(path))) return; // a device or pipe has no stored cache
  const bytes = await readFile(path).catch((cause: NodeJS.ErrnoException) =>
    cause.code === 'ENOENT' ? undefined : unreadable('the prompt cache', path)(cause),
  );
  if (bytes?.length) await model.loadState(bytes, { signal });
}

async function writePromptCache(
  model: Model,
  { promptCache: path, promptCacheAll, promptCacheRo, predict }: PromptCacheFlags & { predict?: number },
  promptIds: readonly number[],
  signal: AbortSignal,
): Promise<void> {
  if (path === undefined || !writesCache({ promptCacheRo, predict })) return;
  const bytes = await model.saveState(promptCacheAll ? {} : { prompt: promptIds });
  await writeNewFile(path, (write) => write(bytes, 0), signal).catch(cacheFailed(path));
}

const summary = (model: Model, { timings, finishReason, promptIds, ids }: GenerationResult, contextShift = false): string =>
  `${speeds(timings)} | build ${model.build}${model.turbo ? ' with turbo' : ''}, ${model.threads} ${model.threads === 1 ? 'thread' : 'threads'}` +
  (finishReason === 'length' && !contextShift && (model.encoder ? 1 : promptIds.length) + ids.length > model.contextLength
    ? ` | the context of ${model.contextLength} tokens is full: -c makes it larger, --context-shift goes on`
    : '');

function report(model: Model, { promptIds, ids, text, finishReason, timings: t }: GenerationResult) {
  return {
    prompt_ids: promptIds,
    ids,
    text,
    stop_reason: finishReason,
    build: model.build,
    turbo: model.turbo,
    threads: model.threads,
    timings: {
      load_ms: model.stats.loadMs,
      warmup_ms: model.stats.warmupMs,
      prompt_n: t.promptTokens,
      prompt_ms: t.promptMs,
      prompt_per_second: perSecond(t.promptTokens, t.promptMs),
      predicted_n: t.predictedTokens,
      predicted_ms: t.predictedMs,
      predicted_per_second: predictedPerSecond(t),
      ...draftTimings(t),
      ...(t.neuronBytes !== undefined && { neuron_bytes: t.neuronBytes }),
    },
  };
}
