/** Options of the server's handler, from the flags of quantlet serve. */
import { QuantletError } from '../errors.ts';
import { printableLines } from '../printable.ts';
import { openBatches } from '../server/batch/batch-state.ts';
import type { HandlerOptions } from '../server/options.ts';
import { readText } from './command.ts';
import { checkedNorm } from './embed-output.ts';
import { checkKeep, generateOptions } from './generate-options.ts';
import { folderBatches, folderFiles, folderSlots } from './serve-files.ts';
import type { ServeFlags } from './serve-flags.ts';
import { mediaOf } from './serve-media.ts';
import { templateOptions } from './template-options.ts';

const POOLINGS = ['mean', 'cls', 'last', 'rank'];

/** The origins of --cors. */
function corsOf({ cors = ['localhost'] }: ServeFlags): NonNullable<HandlerOptions['cors']> {
  const origins = cors.flatMap((list) => list.split(',')).map((origin) => origin.trim());
  if (origins.includes('*')) return true;
  return origins.filter((origin) => origin !== '' && origin !== 'none');
}

/**
 * The keys of --api-key and --api-key-file, or of the environment.
 * @throws ERR_USAGE
 */
async function keysOf(values: ServeFlags): Promise<string[]> {
  const file =
    values.apiKeyFile === undefined
      ? []
      : (await readText(values.apiKeyFile, 'the keys'))
          .split('\n')
          .map((line) => line.trim())
          .filter((line) => line !== '');
  const given = values.apiKey ?? (process.env.LLAMA_API_KEY ? [process.env.LLAMA_API_KEY] : []);
  const keys = [...given.flatMap((key) => key.split(',')), ...file];
  if (values.apiKeyFile !== undefined && keys.length === 0)
    throw new QuantletError('ERR_USAGE', `${values.apiKeyFile} has no key; expected one on each line`);
  return keys;
}

/** @throws ERR_USAGE for values that a server does not take */
function checkFlags({ pooling, reasoningFormat, keep = 0, ssePingInterval: ping }: ServeFlags): void {
  if (pooling !== undefined && !POOLINGS.includes(pooling))
    throw new QuantletError(
      'ERR_USAGE',
      `--pooling is "${pooling}"; a server gives one vector for each text; expected ${POOLINGS.join(', ')}`,
    );
  if (ping !== undefined && ping < -1)
    throw new QuantletError('ERR_USAGE', `--sse-ping-interval is ${ping}; expected a number of seconds, or -1 for no pings`);
  if (reasoningFormat === 'hidden')
    throw new QuantletError('ERR_USAGE', '--reasoning-format is "hidden", which only terminals have; expected auto, deepseek or none');
  checkKeep(keep);
}

/** @throws ERR_USAGE, or errors of reading the files that flags name */
export async function handlerOptions(values: ServeFlags): Promise<HandlerOptions> {
  const keys = await keysOf(values);
  checkFlags(values);
  const { pooling, keep = 0, ssePingInterval: ping } = values;
  const media = await mediaOf(values);
  const { maxTokens = -1, ...text } = await generateOptions(values);
  if ([text.stop].flat().includes('')) throw new QuantletError('ERR_USAGE', '-r: a stop string is empty; expected at least one character');
  return {
    defaults: { ...text, ...(maxTokens < 0 ? {} : { maxTokens }), ...(values.special ? { special: true } : {}) },
    chatDefaults: templateOptions(values),
    ...(pooling !== undefined && pooling !== 'rank' ? { pooling: pooling as NonNullable<HandlerOptions['pooling']> } : {}),
    ...(values.embdNormalize !== undefined ? { embdNormalize: checkedNorm(values.embdNormalize) } : {}),
    ...(values.contextShift ? { contextShift: { keep } } : {}),
    ...(values.noMetrics ? { metrics: false } : {}),
    ...(values.noSlots ? { slots: false } : {}),
    ...(values.props ? { props: true } : {}),
    ...(values.prefillAssistant === undefined ? {} : { prefillAssistant: values.prefillAssistant }),
    ...(values.spmInfill ? { spmInfill: true } : {}),
    ...(values.slotSavePath !== undefined ? { slotStore: await folderSlots(values.slotSavePath) } : {}),
    ...(values.batchDir !== undefined
      ? {
          batches: await openBatches(await folderBatches(values.batchDir), {
            ...(values.maxFile === undefined ? {} : { maxFileBytes: values.maxFile }),
            ...(values.maxFiles === undefined ? {} : { maxStoredBytes: values.maxFiles }),
          }),
        }
      : {}),
    ...(values.apiPrefix !== undefined ? { apiPrefix: values.apiPrefix } : {}),
    ...(media ? { media } : {}),
    ...(values.path !== undefined ? { files: await folderFiles(values.path) } : {}),
    ...(keys.length > 0 ? { apiKey: keys } : {}),
    cors: corsOf(values),
    ...(values.answerTimeout !== undefined ? { timeoutMs: values.answerTimeout * 1000 } : {}),
    ...(ping !== undefined ? { ssePingMs: Math.max(0, ping) * 1000 } : {}),
    ...(values.maxQueue !== undefined ? { maxQueue: values.maxQueue } : {}),
    ...(values.maxBody !== undefined ? { maxBodyBytes: values.maxBody } : {}),
    ...(values.maxBuffered !== undefined ? { maxBufferedBytes: values.maxBuffered } : {}),
    ...(values.maxText !== undefined ? { maxTextChars: values.maxText } : {}),
    ...(values.maxMessages !== undefined ? { maxMessages: values.maxMessages } : {}),
    ...(values.bodyTimeout !== undefined ? { bodyTimeoutMs: values.bodyTimeout * 1000 } : {}),
    ...(values.parseSpecial ? { parseSpecial: true } : {}),
    ...(values.noWebui || values.path !== undefined ? {} : { page: (await import('../server/page.ts')).chatPage }),
    ...(values.accessLog
      ? {
          onAccess: ({ method, path, status, ms }) =>
            void process.stderr.write(
              `${new Date().toISOString()} ${method} ${JSON.stringify(path).slice(1, -1)} ${status} ${ms.toFixed(1)} ms\n`,
            ),
        }
      : {}),
    onError: (error) =>
      void process.stderr.write(`quantlet: ${printableLines(error instanceof Error ? (error.stack ?? error.message) : String(error))}\n`),
  };
}
