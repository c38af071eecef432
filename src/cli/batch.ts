/** quantlet batch: answers the requests in a file, one per line, like OpenAI's Batch API. */
import { unreadable } from '../entry/node-platform.ts';
import { open, stat, truncate } from 'node:fs/promises';
import { onAbort } from '../abort.ts';
import { QuantletError } from '../errors.ts';
import { printable } from '../printable.ts';
import {
  BadLine,
  BATCH_ENDPOINTS,
  isDone,
  readBatch,
  readRecords,
  recordBytes,
  type BatchLine,
  type BatchRecord,
  type Done,
} from '../server/batch/batch-line.ts';
import { runBatch } from '../server/batch/batch-run.ts';
import { createHandler } from '../server/handler.ts';
import { jsonRequest } from '../server/http/request.ts';
import { COMPUTE_FLAGS, DRAIN_MS, MODEL_FLAGS, openModel, SPECULATION_FLAGS, templateOf, type Command } from './command.ts';
import type { FlagKey } from './flags.ts';
import { filesRead } from './files-read.ts';
import { mustBeNoInput, tell } from './output.ts';
import { isReplaceable, openOutput } from '../tools/new-file.ts';
import { parseOnlyFlags } from './parse-flags.ts';
import { progressLine, timeText } from './progress.ts';
import { fileBytes } from './serve-files.ts';

const KEYS = [
  'batchInput',
  'batchOutput',
  'errorsFile',
  'shard',
  'resume',
  ...MODEL_FLAGS,
  ...COMPUTE_FLAGS,
  ...SPECULATION_FLAGS,
  'parallel',
  'ctx',
  'batch',
  'threads',
  'threadsBatch',
  'embeddings',
  'chatTemplate',
  'chatTemplateFile',
  'warmup',
  'turbo',
  'verbose',
  'build',
  'help',
] as const satisfies readonly FlagKey[];

export const batch: Command = {
  name: 'batch',
  synopsis: '-i FILE -o FILE [--errors FILE] [--shard I/N] [--resume] [flags]',
  summary: "answer a file of requests, in OpenAI's batch format",
  flags: KEYS,
  defaults: { ctx: '0, or 4096 where that is more' },
  notes: `Lines are {"custom_id", "method": "POST", "url", "body"} for ${BATCH_ENDPOINTS.join(', ')}. Answers come in the order in which they are done, and depend on their bodies alone where these have temperature 0 or a seed. SIGTERM and Ctrl-C give lines under way ${DRAIN_MS / 1000} s and exit with 143 or 130 where lines are left; --resume goes on, after SIGKILL too.`,
  examples: [
    'quantlet batch -m model.gguf -i in.jsonl -o out.jsonl --errors errors.jsonl --resume',
    'quantlet batch -m model.gguf -i in.jsonl -o out-0.jsonl --shard 0/4 --parallel 8',
    'cat in.jsonl | quantlet batch -i - -o - > out.jsonl',
  ],
  async run(argv, signal) {
    const values = parseOnlyFlags(argv, KEYS, 'give the lines with -i', 'batch');
    const { batchInput: input, batchOutput: output, errorsFile, resume = false, parallel = 4 } = values;
    if (input === undefined) throw new QuantletError('ERR_USAGE', 'give the lines to answer with -i FILE, or -i - for standard input');
    if (output === undefined)
      throw new QuantletError('ERR_USAGE', 'give the file for the answers with -o FILE, or -o - for standard output');
    if (resume && output === '-')
      throw new QuantletError('ERR_USAGE', '--resume reads the output, and standard output cannot be read; give a file with -o');
    const shard = shardOf(values.shard, process.env);
    for (const file of [output, errorsFile]) if (file !== undefined && file !== '-') await mustBeNoInput(file, filesRead(values));
    const bytes = input === '-' ? undefined : await sizeOf(input);

    const leaving = new AbortController();
    const giveUp = new AbortController();
    let code = 0;
    let drain: ReturnType<typeof setTimeout> | undefined;
    const leave = (): void => {
      code = 130;
      leaving.abort(new DOMException('stopped', 'AbortError'));
      drain = setTimeout(() => giveUp.abort(new DOMException('stopped', 'AbortError')), DRAIN_MS);
    };
    const unlisten = onAbort(signal, leave);
    const sinks: Sink[] = [];
    try {
      const done: Done = { answered: new Set(), told: new Set() };
      const sink = async (path: string): Promise<Sink> => {
        const opened = path === '-' ? stdoutSink : await openSink(path, resume ? done : undefined, leaving.signal);
        sinks.push(opened);
        return opened;
      };
      const out = await sink(output);
      const errors = errorsFile === undefined || errorsFile === output ? out : await sink(errorsFile);
      const template = await templateOf(values);
      const model = await openModel(values, leaving.signal, { parallel, contextLength: values.ctx ?? undefined, ...template });
      try {
        // Reports a template with a syntax error once, not for every line.
        if (template.chatTemplate !== undefined) void model.chatTemplate;
        for (const { begin } of sinks) await begin();
        const tally = createTally(done, bytes === undefined ? undefined : bytes / shard.count);
        const handler = createHandler(model, {
          timeoutMs: 0,
          maxBufferedBytes: Number.MAX_SAFE_INTEGER,
          onError: (error) => tally.say(error instanceof Error ? error.message : String(error)),
        });
        const all = await runBatch({
          lines: linesOf(input, shard, done, tally.skip),
          ask: (path, body, abort) => handler(jsonRequest(path, body, abort)),
          parallel,
          write: async (record, { size }) => {
            await (record.error ? errors : out).write(recordBytes(record));
            tally.add(record, size);
          },
          stop: leaving.signal,
          abort: giveUp.signal,
        });
        const summary = `${JSON.stringify(tally.end())}\n`;
        if (output === '-') process.stderr.write(summary);
        else tell(summary);
        return all ? (tally.failed() ? 1 : 0) : code;
      } finally {
        await model.dispose();
      }
    } catch (error) {
      if (leaving.signal.aborted && error === leaving.signal.reason) return code;
      throw error;
    } finally {
      clearTimeout(drain);
      unlisten();
      for (const { close } of sinks) await close();
      if (input === '-') process.stdin.destroy();
    }
  },
};

/** The lines of this process: those with line number (from 0) modulo `count` equal to `index`. */
interface Shard {
  readonly index: number;
  readonly count: number;
}

/**
 * The shard of this process. Kubernetes Jobs and Slurm arrays give the task's index in the
 * environment, Slurm also the number of tasks.
 * @throws ERR_USAGE for anything but whole numbers
 */
function shardOf(given: string | undefined, env: Readonly<Record<string, string | undefined>>): Shard {
  const {
    JOB_COMPLETION_INDEX: job,
    SLURM_ARRAY_TASK_ID: task,
    SLURM_ARRAY_TASK_MIN: first = '0',
    SLURM_ARRAY_TASK_STEP: step = '1',
  } = env;
  const own = job ?? (task === undefined ? undefined : String((Number(task) - Number(first)) / Number(step)));
  if (given === undefined && job !== undefined)
    throw new QuantletError(
      'ERR_USAGE',
      'JOB_COMPLETION_INDEX is set, so this is a task of a Job; give --shard /N with the number of its completions',
    );
  const text = given ?? (task === undefined ? '0/1' : `/${env.SLURM_ARRAY_TASK_COUNT}`);
  const [, i = own, n] = /^(\d{1,9})?\/(\d{1,9})$/.exec(text) ?? [];
  const [index, count] = [Number(i), Number(n)];
  if (Number.isInteger(index) && index >= 0 && index < count) return { index, count };
  throw new QuantletError(
    'ERR_USAGE',
    `--shard is "${text}"${given?.startsWith('/') ? ` and the task ${own ?? 'not in the environment'}` : ''}; expected I/N with I from 0 to N - 1, like 0/4, or /N in a Kubernetes Job or a Slurm array`,
  );
}

async function* linesOf(
  input: string,
  { index, count }: Shard,
  done: Done,
  skip: (bytes: number) => void,
): AsyncGenerator<BatchLine | BadLine, void> {
  // Lines of other shards are read too, to find a custom_id that is used twice.
  for await (const line of readBatch(input === '-' ? process.stdin : inputBytes(input))) {
    if ((line.line - 1) % count !== index) continue;
    if (isDone(line, done)) skip(line.size);
    else yield line;
  }
}

/** Size of the file of lines; undefined if unknown, as for a pipe. */
async function sizeOf(path: string): Promise<number | undefined> {
  const info = await stat(path).catch(unreadable('the lines', path));
  if (info.isDirectory()) unreadable('the lines', path)(Object.assign(new Error(), { code: 'EISDIR' }));
  return info.isFile() ? info.size : undefined;
}

async function* inputBytes(path: string): AsyncGenerator<Uint8Array, void> {
  try {
    yield* fileBytes(path);
  } catch (error) {
    unreadable('the lines', path)(error as NodeJS.ErrnoException);
  }
}

/** Output for records, one whole line at a time. */
interface Sink {
  /** Cuts off the part of the file that is not kept. */
  begin(): Promise<void>;
  write(line: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

const stdoutSink: Sink = {
  begin: () => Promise.resolve(),
  write: (line) =>
    new Promise((resolve, reject) =>
      process.stdout.write(line, (cause) =>
        cause
          ? reject(new QuantletError('ERR_IO', `cannot write to standard output: ${cause.message}; lines are left`, { cause }))
          : resolve(),
      ),
    ),
  close: () => Promise.resolve(),
};

/**
 * A device, a pipe or an open file descriptor: records are written in order and cannot be cut off.
 */
async function specialSink(path: string, signal: AbortSignal): Promise<Sink> {
  const { write, close } = await openOutput(path, signal);
  let position = 0;
  return {
    begin: () => Promise.resolve(),
    write: (line) => write(line, (position += line.length) - line.length),
    close,
  };
}

/**
 * Opens a file to append records to, or to replace. The file does not change before begin().
 * @param done collects the records in the file; without it, the file is emptied
 * @throws ERR_IO
 */
async function openSink(path: string, done: Done | undefined, signal: AbortSignal): Promise<Sink> {
  if (!(await isReplaceable(path))) return specialSink(path, signal);
  const failed =
    (what: string) =>
    (cause: unknown): never => {
      throw new QuantletError('ERR_IO', `cannot ${what} ${path}: ${(cause as Error).message}`, { cause });
    };
  const file = await open(path, 'a').catch(failed('open'));
  try {
    const kept = done ? await readRecords(fileBytes(path), done) : 0;
    return {
      // By path: on Windows a handle opened for appending cannot truncate.
      begin: () => truncate(path, kept).catch(failed('write')),
      write: (line) => file.appendFile(line).catch(failed('write')),
      close: () => file.close(),
    };
  } catch (cause) {
    await file.close();
    if (cause instanceof BadLine)
      throw new QuantletError(
        'ERR_IO',
        `${path}: ${cause.message}; expected the output of an earlier run: give another file, or remove the line`,
        { cause },
      );
    return failed('read')(cause);
  }
}

type Usage = { prompt_tokens?: number; completion_tokens?: number; prompt_tokens_details?: { cached_tokens?: number } };

/** Counts finished lines and shows the count on a terminal. */
function createTally(
  { answered: before, told }: Done,
  bytes: number | undefined,
): {
  skip(bytes: number): void;
  add(record: BatchRecord, bytes: number): void;
  say(message: string): void;
  /** True if lines failed and no line has an answer, not even from an earlier run. */
  failed(): boolean;
  end(): object;
} {
  const start = performance.now();
  const progress = progressLine();
  let [answered, errors, finished, skipped] = [0, 0, 0, 0];
  let [prompt, cached, completion] = [0, 0, 0];
  const seconds = (): number => (performance.now() - start) / 1000;
  const rate = (): number => Math.round((10 * (prompt - cached + completion)) / seconds()) / 10;
  const show = (): void => {
    const left = bytes === undefined || finished === 0 ? 0 : (seconds() * Math.max(0, bytes - skipped - finished)) / finished;
    progress.set(
      `${before.size + answered} answers, ${told.size + errors} errors, ${rate()} tokens/s${left > 0 ? `, ${timeText(left)} left` : ''}`,
    );
  };
  show();
  return {
    skip(size) {
      skipped += size;
    },
    add({ error, text }, size) {
      if (error) errors++;
      else answered++;
      finished += size;
      const { usage } = (JSON.parse(text) as { response?: { body: { usage?: Usage } } | null }).response?.body ?? {};
      prompt += usage?.prompt_tokens ?? 0;
      cached += usage?.prompt_tokens_details?.cached_tokens ?? 0;
      completion += usage?.completion_tokens ?? 0;
      show();
    },
    say(message) {
      progress.end();
      process.stderr.write(`quantlet: ${printable(message)}\n`);
    },
    failed: () => errors > 0 && before.size + answered === 0,
    end() {
      progress.end();
      return {
        answered: before.size + answered,
        errors: told.size + errors,
        resumed: before.size + told.size,
        prompt_tokens: prompt,
        cached_tokens: cached,
        completion_tokens: completion,
        seconds: Math.round(seconds() * 1000) / 1000,
        tokens_per_second: rate(),
      };
    },
  };
}
