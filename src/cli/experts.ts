/** Counts how often a text uses each expert of a mixture-of-experts model. */
import { QuantletError } from '../errors.ts';
import { nbytes } from '../graph/tensor.ts';
import { openModel } from './command.ts';
import type { Values } from './flags.ts';
import { overWindows, windowCount, windowsAtOnce } from '../tools/windows.ts';
import { checkWindows, textOf } from './window-flags.ts';

const DOWN = /^blk\.(\d+)\.ffn_down_exps\.weight$/;
/** Experts per printed line. */
const PER_LINE = 16;
const BATCH = 512;

/** Expert use of one layer. */
export interface LayerUse {
  readonly layer: number;
  /** Experts per token. */
  readonly used: number;
  /** Tokens routed to each expert. */
  readonly tokens: readonly number[];
}

export interface ExpertUse {
  /** Tokens of the text. */
  readonly tokens: number;
  readonly layers: readonly LayerUse[];
}

type Flags = Values<'model' | 'hf' | 'hfFile' | 'hfToken' | 'offline' | 'file' | 'prompt' | 'ctx' | 'chunks' | 'threads'>;

/**
 * Runs the text through the model in windows, like imatrix, and counts the tokens routed to each
 * expert.
 * @throws ERR_USAGE without a text, ERR_INVALID_ARGUMENT if the model has no experts
 */
export async function expertUse(values: Flags, signal: AbortSignal): Promise<ExpertUse> {
  const { ctx = 512, chunks = -1 } = values;
  checkWindows(values);
  const text = await textOf(values);
  if (text === undefined) throw new QuantletError('ERR_USAGE', '--experts needs a text; give it with -f FILE or -p TEXT');
  const parallel = windowsAtOnce(ctx, BATCH);
  const model = await openModel({ ...values, ctx }, signal, {
    parallel,
    batchSize: BATCH,
    maxOutputs: 1,
    warmUp: false, // its tokens would be counted
    inputSums: (name) => DOWN.test(name),
  });
  try {
    const { executor, hparams, inputSums } = model.internals.engine;
    if (inputSums.size === 0)
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        `this ${model.architecture} model has no experts; expected a mixture of experts, like qwen3moe`,
      );
    const ids = model.tokenize(text);
    const nCtx = Math.min(ctx, ids.length);
    const nChunk = windowCount(ids.length, nCtx, chunks < 0 ? Infinity : chunks);
    const nothing = { onLogits: () => {}, result: undefined };
    for await (const _ of overWindows(model, { ids, nCtx, nChunk, parallel, computed: nCtx, outputsFrom: nCtx, signal }, () => nothing));
    const layers = await Promise.all(
      [...inputSums].map(async ([name, { counts }]) => {
        const bytes = (await executor.read(counts!.data, nbytes(counts!))).slice();
        const layer = Number(DOWN.exec(name)![1]);
        return { layer, used: hparams.nExpertUsed[layer], tokens: Array.from(new Float32Array(bytes.buffer)) };
      }),
    );
    return { tokens: nCtx * nChunk, layers: layers.sort((a, b) => a.layer - b.layer) };
  } finally {
    await model.dispose();
  }
}

/** Table of the percentage of tokens routed to each expert. */
export function expertLines({ tokens, layers }: ExpertUse): string[] {
  const lines = [`${tokens} tokens; of 100 tokens so many went through each expert:`];
  for (const { layer, used, tokens: of } of layers) {
    lines.push(`blk.${layer}: ${used} of ${of.length} experts a token, ${of.filter((n) => n === 0).length} never used`);
    for (let from = 0; from < of.length; from += PER_LINE) {
      const shares = of.slice(from, from + PER_LINE).map((n) => ((100 * n) / tokens).toFixed(1).padStart(6));
      lines.push(`  ${String(from).padStart(4)}: ${shares.join('')}`);
    }
  }
  return lines;
}
