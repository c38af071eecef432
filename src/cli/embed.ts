/** quantlet embed: vectors of texts, printed like llama-embedding, or the scores of a reranker. */
import { readHParams, type Pooling } from '../arch/hparams.ts';
import { cut, outputRows, rankPooling, rankPrompt } from '../generate/embed.ts';
import { promptNamed } from '../generate/embed-prompts.ts';
import { normalized, PRECISIONS, quantized, shortened, type Precision } from '../generate/vectors.ts';
import { QuantletError } from '../errors.ts';
import { getStrings } from '../gguf/metadata.ts';
import type { Model } from '../model.ts';
import {
  COMPUTE_FLAGS,
  forTerminal,
  MODEL_FLAGS,
  givenText,
  isPiped,
  located,
  openHeader,
  openModel,
  readStdin,
  readText,
  tellUnreadPipe,
  textLines,
  unescape,
  withoutLastBreak,
  type Command,
} from './command.ts';
import { checkedNorm, embeddingOutput, FORMATS, rankOutput, vectorLine, type Format, type TextSource } from './embed-output.ts';
import type { FlagKey, Values } from './flags.ts';
import { parseFlags } from './parse-flags.ts';
import { refuseOtherKinds } from '../plan/file-kind.ts';

const KEYS = [
  ...MODEL_FLAGS,
  ...COMPUTE_FLAGS,
  'text',
  'file',
  'pooling',
  'truncate',
  'dimensions',
  'precision',
  'promptName',
  'embdNormalize',
  'embdOutputFormat',
  'embdSeparator',
  'clsSeparator',
  'ctx',
  'batch',
  'threads',
  'threadsBatch',
  'escape',
  'warmup',
  'turbo',
  'verbose',
  'build',
  'json',
  'help',
] as const satisfies readonly FlagKey[];
type Flags = Values<(typeof KEYS)[number]>;

const POOLINGS: readonly Pooling[] = ['none', 'mean', 'cls', 'last', 'rank'];
/** Largest number of texts in one step. */
const PARALLEL = 8;
/** Number of texts after which lines of jsonl are written. */
const LINES = 64;

export const embed: Command = {
  name: 'embed',
  llama: 'llama-embedding',
  synopsis: '-m FILE [-p TEXT | FILE ...] [flags]',
  summary: 'vectors of texts, or the scores of a reranker',
  flags: KEYS,
  defaults: { ctx: '0, or 4096 where that is more' },
  notes:
    'Every line is a text of its own (see --embd-separator), of files after the flags too, whose backslashes stay. With jsonl each text is a line { file, index, text, embedding }, written as soon as it is computed. If the file does not say how to pool, there is a vector for each token. A reranker takes lines of a query, a tab and a document.',
  examples: [
    'quantlet embed -m nomic-embed-text-v1.5.Q8_0.gguf -p "search_query: what is a cat?"',
    'quantlet embed -m bge-small-en-v1.5.gguf -f texts.txt --embd-output-format json+',
    'quantlet embed -m bge-small-en-v1.5.gguf --truncate --embd-output-format jsonl notes.txt todo.txt > vectors.jsonl',
    String.raw`quantlet embed -m bge-reranker-v2-m3.gguf -p 'what is a cat?\tA cat is a small animal.'`,
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS, 'embed');
    const { pooling: asked, format, normalize, precision } = checked(values);
    const sources = await readSources(values, positionals);
    const texts = sources.map(({ text }) => text);
    const file = await located(values, signal);
    const header = await openHeader(file.model);
    refuseOtherKinds(header);
    const { pooling: trained } = readHParams(header);
    const pooling = asked ?? trained;
    if (pooling === 'rank' && trained !== 'rank')
      throw new QuantletError(
        'ERR_INVALID_ARGUMENT',
        'the model is not a reranker (its file has no pooling_type rank); use another --pooling',
      );
    const model = await openModel(file, signal, {
      parallel: Math.min(PARALLEL, texts.length),
      contextLength: values.ctx,
      embeddings: pooling === 'rank' ? undefined : true,
    });
    try {
      if (pooling === 'rank') {
        if (format === 'jsonl')
          throw new QuantletError('ERR_USAGE', 'jsonl has vectors, not scores; expected json or array for a reranker');
        const rows = await ranks(model, texts, values.clsSeparator ?? '\t', signal);
        process.stdout.write(
          forTerminal(rankOutput(rows, getStrings(model, `${model.architecture}.classifier.output_labels`, []), format)),
        );
        return 0;
      }
      const prompt = values.promptName === undefined ? '' : promptNamed(model.metadata, values.promptName);
      const most = values.truncate === true ? model.contextLength : Infinity;
      const finished = (row: Float32Array) => quantized(normalized(shortened(row, values.dimensions), normalize), precision);
      const rowsOf = async (some: readonly string[]) => {
        const ids = some.map((text) => cut(model.internals, model.tokenize(prompt + text, { parseSpecial: true }), most));
        return (await outputRows(model.internals, ids, pooling, 'text', signal)).map((rows) => rows.map(finished));
      };
      if (format === 'jsonl') {
        for (let i = 0; i < sources.length; i += LINES) {
          const some = sources.slice(i, i + LINES);
          const rows = await rowsOf(some.map(({ text }) => text));
          process.stdout.write(rows.map((own, k) => vectorLine(some[k], own, pooling === 'none', normalize, precision)).join(''));
        }
        return 0;
      }
      const rows = (await rowsOf(texts)).flat();
      process.stdout.write(embeddingOutput(rows, pooling === 'none' ? undefined : texts, format, normalize, precision));
      return 0;
    } finally {
      await model.dispose();
    }
  },
};

function checked({ pooling, precision = 'float32', dimensions, embdNormalize: normalize = 2, json, ...values }: Flags): {
  pooling: Pooling | undefined;
  format: Format;
  normalize: number;
  precision: Precision;
} {
  const { embdOutputFormat = json ? 'json' : '' } = values;
  if (dimensions !== undefined && dimensions < 1)
    throw new QuantletError('ERR_USAGE', `--dimensions is ${dimensions}; expected a whole number of at least 1`);
  const one = <T extends string>(flag: string, value: string, all: readonly T[]): T => {
    const found = all.find((x) => x === value);
    if (found === undefined)
      throw new QuantletError('ERR_USAGE', `${flag} is "${value}"; expected ${all.filter((x) => x !== '').join(', ')}`);
    return found;
  };
  return {
    pooling: pooling === undefined ? undefined : one('--pooling', pooling, POOLINGS),
    format: one('--embd-output-format', embdOutputFormat, FORMATS),
    normalize: checkedNorm(normalize),
    precision: one('--precision', precision, PRECISIONS),
  };
}

/** Texts of the flags, a pipe, or of files. */
async function readSources(values: Flags, files: readonly string[]): Promise<TextSource[]> {
  if (files.length === 0) return split(await givenTexts(values), values).map((text, index) => ({ index, text }));
  if (values.text !== undefined || values.file !== undefined)
    throw new QuantletError('ERR_USAGE', `there are the file ${files[0]} and the texts of -p or -f; give one of these`);
  const sources: TextSource[] = [];
  for (const file of files) {
    const text = withoutLastBreak(textLines(await readText(file, 'the texts of')));
    sources.push(...split(text, values).map((one, index) => ({ file, index, text: one })));
  }
  return sources;
}

async function givenTexts(values: Flags): Promise<string> {
  const given = await givenText(values, 'text', 'file', 'the texts');
  if (given !== undefined) tellUnreadPipe(values);
  // Programs on Windows that give no text leave an empty pipe.
  const all = given ?? ((isPiped() && withoutLastBreak(textLines(await readStdin()))) || undefined);
  if (all === undefined) throw new QuantletError('ERR_USAGE', 'there are no texts; give them with -p, -f or a pipe');
  return values.escape === false || given === undefined ? all : unescape(all);
}

function split(all: string, { embdSeparator }: Flags): string[] {
  if (embdSeparator === '') throw new QuantletError('ERR_USAGE', '--embd-separator is empty; expected the text that separates texts');
  // Windows files separate texts by \r\n, on any system. A \r left at the end of a text would
  // change its embedding.
  return all.split(embdSeparator ?? /\r?\n/);
}

/** A row of scores for each pair. A line that is not a pair goes to the model unchanged. */
async function ranks(model: Model, lines: readonly string[], separator: string, signal: AbortSignal): Promise<Float32Array[]> {
  const ids = lines.map((line) => {
    const at = separator === '' ? -1 : line.indexOf(separator);
    return at < 0
      ? model.tokenize(line, { parseSpecial: true })
      : rankPrompt(model.internals, model.metadata, line.slice(0, at), line.slice(at + separator.length));
  });
  return (await outputRows(model.internals, ids, rankPooling(model.internals), 'pair', signal)).flat();
}
