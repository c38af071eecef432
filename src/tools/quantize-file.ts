/** Quantises a model file into another. Several jobs at a time read, convert and write rows. */
import { QuantletError } from '../errors.ts';
import type { OpenedGGUF } from '../gguf/split.ts';
import type { Ftype } from '../quantize/ftype.ts';
import type { PickedType } from '../quantize/pick-types.ts';
import type { QuantizeOptions, RowsJob } from '../quantize/plan.ts';
import { planQuantize } from '../quantize/plan.ts';
import { firstInvalidBlock } from '../quantize/validate.ts';
import type { Rows } from '../threads/rows-node.ts';
import { checkOutput, type WriteAt } from './new-file.ts';
import { writeNewGGUF } from './new-gguf.ts';
import type { TypeTraits } from '../type-traits.ts';

/** 4 MiB of f32: large enough to hide a job's overhead, small enough for many jobs in memory. */
const ELEMENTS_PER_JOB = 1024 * 1024;

/**
 * Converts `nrows` rows of `ne0` elements: `data` has rows of type `from`, the result rows of type
 * `to`. Calls may run concurrently and on other threads. `data` must not be written to or
 * transferred, because it may be a view of the model.
 */
export type QuantizeRows = (rows: Rows) => Uint8Array | Promise<Uint8Array>;

export interface QuantizeFileProgress {
  readonly tensor: string;
  readonly from: TypeTraits;
  readonly to: TypeTraits;
  /** Processed bytes of the source, and its size. */
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface QuantizeFileOptions extends QuantizeOptions {
  readonly model: OpenedGGUF;
  /** Paths of the model's files. The output must not be one of them. */
  readonly inputs: readonly string[];
  readonly output: string;
  readonly ftype: Ftype;
  /** Plan only, write nothing. */
  readonly dryRun?: boolean;
  readonly quantizeRows: QuantizeRows;
  /** Number of jobs at the same time. */
  readonly nthreads: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: QuantizeFileProgress) => void;
}

export interface QuantizeSummary {
  readonly tensors: number;
  /** Number of tensors of each type. */
  readonly types: Readonly<Record<string, number>>;
  /**
   * Tensors with a fallback type, because the block size of their intended type does not divide
   * their rows.
   */
  readonly fallbacks: readonly PickedType[];
  readonly sourceBytes: number;
  readonly targetBytes: number;
  readonly sourceBitsPerWeight: number;
  readonly targetBitsPerWeight: number;
}

const checkRows = (type: TypeTraits, data: Uint8Array, job: RowsJob, what: string): void => {
  const block = firstInvalidBlock(type, data);
  if (block < 0) return;
  const row = Math.floor((block * type.blckSize) / job.ne0);
  throw new QuantletError(
    'ERR_GGUF_INVALID',
    `tensor "${job.tensor.name}" has NaN or infinity in ${what}, row ${row} of the ${job.nrows} at byte ${job.start} (${type.name}); expected finite numbers: the model is damaged`,
  );
};

/** Adds the tensor's name to an error about rows that cannot be quantised. */
const ofTensor = (job: RowsJob, cause: unknown): unknown =>
  cause instanceof QuantletError && cause.code === 'ERR_INVALID_ARGUMENT'
    ? new QuantletError(cause.code, `tensor "${job.tensor.name}", rows from byte ${job.start} on: ${cause.message}`, { cause })
    : cause;

const runJob = async (job: RowsJob, write: WriteAt, options: QuantizeFileOptions, signal: AbortSignal): Promise<void> => {
  const { from, to, ne0, nrows, imatrix } = job;
  const data = await options.model.parts[job.tensor.part].read(job.start, job.end, signal);
  checkRows(from, data, job, 'its data');
  const quantised = async (): Promise<Uint8Array> => options.quantizeRows({ from, to, ne0, nrows, data, imatrix });
  const rows =
    from === to
      ? data
      : await quantised().catch((error: unknown) => {
          throw ofTensor(job, error);
        });
  signal.throwIfAborted();
  if (rows.length !== job.targetBytes)
    throw new Error(`${nrows} rows of ${ne0} as ${to.name} came as ${rows.length} bytes; expected ${job.targetBytes}`);
  if (from !== to) checkRows(to, rows, job, 'its quantised data');
  await write(rows, job.target);
};

/**
 * Runs all jobs, `nthreads` at a time. The first failure aborts the other jobs and is then thrown.
 */
const runAll = async (
  jobs: Iterator<RowsJob>,
  nthreads: number,
  run: (job: RowsJob, signal: AbortSignal) => Promise<void>,
  outer?: AbortSignal,
): Promise<void> => {
  const stop = new AbortController();
  const signal = outer ? AbortSignal.any([outer, stop.signal]) : stop.signal;
  let failure: { readonly error: unknown } | undefined;
  const lane = async (): Promise<void> => {
    try {
      for (let next = jobs.next(); !next.done && !failure; next = jobs.next()) {
        signal.throwIfAborted();
        await run(next.value, signal);
      }
    } catch (error) {
      failure ??= { error };
      stop.abort(error);
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, nthreads) }, lane));
  if (failure) throw failure.error;
};

/**
 * Writes a quantised copy of a model. Memory is bounded by `nthreads` jobs of a few MiB. The output
 * gets its name only after it is complete; a failure or an abort removes it.
 * @throws QuantletError ERR_INVALID_ARGUMENT, ERR_IO (for example on a full disk), ERR_GGUF_INVALID for
 * weights that are not finite; as planQuantize; `signal.reason` after an abort
 */
export const quantizeFile = async (options: QuantizeFileOptions): Promise<QuantizeSummary> => {
  const { model, output, signal, onProgress, dryRun } = options;
  if (!dryRun) await checkOutput(output, options.inputs);
  const plan = await planQuantize(model.gguf, model.parts[0], options.ftype, options, signal);
  const fill = async (write: WriteAt): Promise<void> => {
    let doneBytes = 0;
    await runAll(
      plan.jobs(ELEMENTS_PER_JOB),
      options.nthreads,
      async (job, jobSignal) => {
        await runJob(job, write, options, jobSignal);
        doneBytes += job.end - job.start;
        onProgress?.({ tensor: job.tensor.name, from: job.from, to: job.to, doneBytes, totalBytes: plan.sourceBytes });
      },
      signal,
    );
  };
  if (!dryRun) await writeNewGGUF(output, plan.layout, fill, signal);
  const bits = (bytes: number): number => (plan.parameters > 0 ? (bytes * 8) / plan.parameters : 0);
  return {
    tensors: plan.picked.length,
    types: plan.picked.reduce<Record<string, number>>((counts, { type: { name } }) => ({ ...counts, [name]: (counts[name] ?? 0) + 1 }), {}),
    fallbacks: plan.picked.filter((p) => p.insteadOf),
    sourceBytes: plan.sourceBytes,
    targetBytes: plan.targetBytes,
    sourceBitsPerWeight: bits(plan.sourceBytes),
    targetBitsPerWeight: bits(plan.targetBytes),
  };
};
