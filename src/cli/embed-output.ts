/** Output of quantlet embed, identical to that of llama-embedding. */
import { QuantletError } from '../errors.ts';

export const FORMATS = ['', 'array', 'json', 'json+', 'raw'] as const;
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

/** Cosine similarity. Two zero rows count as equal; a zero row and any other have similarity 0. */
export function cosine(a: Float32Array, b: Float32Array): number {
  let ab = 0;
  let aa = 0;
  let bb = 0;
  for (let i = 0; i < a.length; i++) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return aa === 0 || bb === 0 ? Number(aa === bb) : ab / Math.sqrt(aa * bb);
}

/** @param texts the text of each row; undefined if rows belong to tokens */
export function embeddingOutput(rows: readonly Float32Array[], texts: readonly string[] | undefined, format: Format, p: number): string {
  const exact = (x: number): string => x.toFixed(p === 0 ? 0 : 7);
  if (format === 'raw') return `${rows.map((row) => `${Array.from(row, exact).join(' ')}\n`).join('')}\n`;
  if (format === 'array') return `[${rows.map((row) => `[${Array.from(row, exact).join(',')}]`).join(',')}]\n\n`;
  const several = texts !== undefined && texts.length > 1;
  if (format !== '') {
    const data = rows.map(
      (row, i) =>
        `    {\n      "object": "embedding",\n      "index": ${i},\n      "embedding": [${Array.from(row, exact).join(',')}]\n    }`,
    );
    const cosines = rows.map((a) => `    [${rows.map((b) => cosine(a, b).toFixed(2).padStart(6)).join(', ')} ]`);
    return `{\n  "object": "list",\n  "data": [\n${data.join(',\n')}\n  ]${format === 'json+' && several ? `,\n  "cosineSimilarity": [\n${cosines.join(',\n')}\n  ]` : ''}\n}\n\n`;
  }
  const shown = (x: number): string => `${p === 0 ? x.toFixed(0).padStart(6) : x.toFixed(6).padStart(9)} `;
  const line = (row: Float32Array): string => {
    if (texts === undefined)
      return `${Array.from(row.subarray(0, SHOWN_OF_TOKEN), shown).join('')} ... ${Array.from(row.subarray(-SHOWN_OF_TOKEN), shown).join('')}`;
    return Array.from(several ? row.subarray(0, SHOWN) : row, shown).join('');
  };
  const head = `\n${rows.map((row, i) => `embedding ${i}: ${line(row)}\n`).join('')}`;
  if (!several) return `${head}\n`;
  const matrix = rows.map((a, i) => `${rows.map((b) => `${cosine(a, b).toFixed(2).padStart(6)} `).join('')}${texts[i].slice(0, 10)}\n`);
  return `${head}\ncosine similarity matrix:\n\n${texts.map((text) => `${text.slice(0, 6).padStart(6)} `).join('')}\n${matrix.join('')}\n`;
}

/** Scores of pairs: one score per pair, or one per label. */
export function rankOutput(rows: readonly Float32Array[], labels: readonly string[], format: Format): string {
  if (format !== '') return embeddingOutput(rows, undefined, format, -1);
  const label = (row: Float32Array, k: number): string => (row.length === 1 ? '' : ` [${labels[k] || k}]`);
  return `\n${rows.map((row, i) => Array.from(row, (score, k) => `rerank score ${i}: ${score.toFixed(3).padStart(8)}${label(row, k)}\n`).join('')).join('')}\n`;
}
