/** Output of quantlet embed, identical to that of llama-embedding. */
import { QuantletError } from '../errors.ts';
import { similarity, type Precision, type VectorOf } from '../generate/vectors.ts';

export const FORMATS = ['', 'array', 'json', 'json+', 'jsonl', 'raw'] as const;
export type Format = (typeof FORMATS)[number];

/**
 * Number of values printed per text if there are several texts, and at each end of a token's row.
 */
const SHOWN = 16;
const SHOWN_OF_TOKEN = 3;

/** @throws ERR_USAGE */
export function checkedNorm(p: number): number {
  if (p < -1) throw new QuantletError('ERR_USAGE', `--embd-normalize is ${p}; expected -1 or more`);
  return p;
}

/** A text, and where it comes from. */
export interface TextSource {
  /** Undefined for texts of flags and pipes. */
  readonly file?: string;
  /** Its number in the file, or among all texts. */
  readonly index: number;
  readonly text: string;
}

const exactly =
  (isWhole: boolean) =>
  (x: number): string =>
    x.toFixed(isWhole ? 0 : 7);

/** A line of jsonl: a text with its vector, or with one for each token. */
export function vectorLine(
  source: TextSource,
  rows: readonly VectorOf<Precision>[],
  isList: boolean,
  p: number,
  precision: Precision,
): string {
  const vectors = rows.map((row) => `[${Array.from(row, exactly(p === 0 || precision !== 'float32')).join(',')}]`);
  return `${JSON.stringify(source).slice(0, -1)},"embedding":${isList ? `[${vectors.join(',')}]` : vectors[0]}}\n`;
}

/** @param texts the text of each row; undefined if rows belong to tokens */
export function embeddingOutput(
  rows: readonly VectorOf<Precision>[],
  texts: readonly string[] | undefined,
  format: Format,
  p: number,
  precision: Precision = 'float32',
): string {
  const isWhole = p === 0 || precision !== 'float32';
  const exact = exactly(isWhole);
  const cosine = (a: VectorOf<Precision>, b: VectorOf<Precision>): string => similarity(a, b, { precision }).toFixed(2).padStart(6);
  if (format === 'raw') return `${rows.map((row) => `${Array.from(row, exact).join(' ')}\n`).join('')}\n`;
  if (format === 'array') return `[${rows.map((row) => `[${Array.from(row, exact).join(',')}]`).join(',')}]\n\n`;
  const several = texts !== undefined && texts.length > 1;
  if (format !== '') {
    const data = rows.map(
      (row, i) =>
        `    {\n      "object": "embedding",\n      "index": ${i},\n      "embedding": [${Array.from(row, exact).join(',')}]\n    }`,
    );
    const cosines = rows.map((a) => `    [${rows.map((b) => cosine(a, b)).join(', ')} ]`);
    return `{\n  "object": "list",\n  "data": [\n${data.join(',\n')}\n  ]${format === 'json+' && several ? `,\n  "cosineSimilarity": [\n${cosines.join(',\n')}\n  ]` : ''}\n}\n\n`;
  }
  const shown = (x: number): string => `${isWhole ? x.toFixed(0).padStart(6) : x.toFixed(6).padStart(9)} `;
  const line = (row: VectorOf<Precision>): string => {
    if (texts === undefined)
      return `${Array.from(row.subarray(0, SHOWN_OF_TOKEN), shown).join('')} ... ${Array.from(row.subarray(-SHOWN_OF_TOKEN), shown).join('')}`;
    return Array.from(several ? row.subarray(0, SHOWN) : row, shown).join('');
  };
  const head = `\n${rows.map((row, i) => `embedding ${i}: ${line(row)}\n`).join('')}`;
  if (!several) return `${head}\n`;
  const matrix = rows.map((a, i) => `${rows.map((b) => `${cosine(a, b)} `).join('')}${texts[i].slice(0, 10)}\n`);
  return `${head}\ncosine similarity matrix:\n\n${texts.map((text) => `${text.slice(0, 6).padStart(6)} `).join('')}\n${matrix.join('')}\n`;
}

/** Scores of pairs: one score per pair, or one per label. */
export function rankOutput(rows: readonly Float32Array[], labels: readonly string[], format: Format): string {
  if (format !== '') return embeddingOutput(rows, undefined, format, -1);
  const label = (row: Float32Array, k: number): string => (row.length === 1 ? '' : ` [${labels[k] || k}]`);
  return `\n${rows.map((row, i) => Array.from(row, (score, k) => `rerank score ${i}: ${score.toFixed(3).padStart(8)}${label(row, k)}\n`).join('')).join('')}\n`;
}
