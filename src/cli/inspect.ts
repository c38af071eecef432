/** A GGUF header as lines for people, and as JSON. */
import type { Wants } from '../arch/architecture.ts';
import type { Verdict } from '../plan/can-run.ts';
import type { GGUF, GGUFValue } from '../gguf/types.ts';
import { printable } from '../printable.ts';

/** Items shown of a long array. */
const SHOWN_ITEMS = 4;
const SHOWN_CHARACTERS = 100;

type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

export interface InspectedTensor {
  readonly name: string;
  readonly type: string;
  /** As in the file: without trailing ones beyond its number of dimensions. */
  readonly ne: readonly number[];
  readonly bytes: number;
}

/** A GGUF header as plain data, for `quantlet inspect --json`. */
export interface Inspection {
  readonly version: number;
  readonly architecture: string | null;
  readonly metadata: { readonly [key: string]: Json };
  readonly tensors: readonly InspectedTensor[];
  /** Number of tensors of each type. */
  readonly types: { readonly [type: string]: number };
  readonly parameters: number;
  readonly tensor_bytes: number;
  readonly bits_per_weight: number | null;
  readonly alignment: number;
  readonly data_offset: number;
  readonly file_bytes: number;
}

const isList = (value: GGUFValue): value is Exclude<GGUFValue, number | bigint | boolean | string> => typeof value === 'object';

/**
 * The type of an array's items: `u32` for `arr[u32]`. Arrays of bools are stored as bytes, so that
 * only this type tells them from numbers.
 */
const itemOf = (type: string): string => type.slice('arr['.length, -1);
const item = (list: ArrayLike<GGUFValue>, i: number, type: string): GGUFValue => (type === 'arr[bool]' ? list[i] !== 0 : list[i]);

/** Converts to JSON. Bigints and non-finite numbers become strings. */
const toJson = (value: GGUFValue, type: string): Json => {
  if (isList(value)) {
    const list = value as ArrayLike<GGUFValue>;
    return Array.from({ length: list.length }, (_, i) => toJson(item(list, i, type), itemOf(type)));
  }
  if (typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value))) return String(value);
  return value;
};

const architectureOf = (gguf: GGUF): string | null => {
  const value = gguf.metadata.get('general.architecture');
  return typeof value === 'string' ? value : null;
};

/** Number of weights of a model. */
export const weightsOf = ({ tensors }: Pick<GGUF, 'tensors'>): number =>
  [...tensors.values()].reduce((sum, { ne }) => sum + ne[0] * ne[1] * ne[2] * ne[3], 0);

export const inspectToJson = (gguf: GGUF): Inspection => {
  const tensors = [...gguf.tensors.values()];
  const types: Record<string, number> = {};
  for (const { type } of tensors) types[type.name] = (types[type.name] ?? 0) + 1;
  const parameters = weightsOf(gguf);
  const bytes = tensors.reduce((sum, t) => sum + t.byteLength, 0);
  return {
    version: gguf.version,
    architecture: architectureOf(gguf),
    metadata: Object.fromEntries(Array.from(gguf.metadata, ([key, value]) => [key, toJson(value, gguf.metadataTypes.get(key) ?? '')])),
    tensors: tensors.map((t) => ({ name: t.name, type: t.type.name, ne: t.ne.slice(0, t.nDims), bytes: t.byteLength })),
    types,
    parameters,
    tensor_bytes: bytes,
    bits_per_weight: parameters > 0 ? (bytes * 8) / parameters : null,
    alignment: gguf.alignment,
    data_offset: gguf.dataOffset,
    file_bytes: gguf.byteLength,
  };
};

const quote = (text: string): string => {
  const quoted = printable(JSON.stringify(text.slice(0, SHOWN_CHARACTERS)));
  return text.length > SHOWN_CHARACTERS ? `${quoted} ... (${text.length} characters)` : quoted;
};

/** Prints keys and names without quotes, for copying, unless they contain unusual characters. */
const bare = (name: string): string => (/^[\w./:+@-]+$/.test(name) ? name : quote(name));

const show = (value: GGUFValue, type: string): string => {
  if (isList(value)) {
    const list = value as ArrayLike<GGUFValue>;
    const items = Array.from({ length: Math.min(list.length, SHOWN_ITEMS) }, (_, i) => show(item(list, i, type), itemOf(type)));
    return list.length > SHOWN_ITEMS ? `[${items.join(', ')}, ... (${list.length})]` : `[${items.join(', ')}]`;
  }
  if (typeof value === 'number' && !Number.isInteger(value)) return String(Number(value.toPrecision(7)));
  return typeof value === 'string' ? quote(value) : String(value);
};

const size = (bytes: number): string => {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let n = bytes / 1024;
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n.toFixed(2)} ${units[unit]}`;
};

const count = (n: number): string => {
  for (const [unit, divisor] of [
    ['T', 1e12],
    ['B', 1e9],
    ['M', 1e6],
    ['K', 1e3],
  ] as const) {
    if (n >= divisor) return `${(n / divisor).toFixed(2)} ${unit}`;
  }
  return String(n);
};

/**
 * Rows of a table, with columns padded to their widest cell. Columns in `right` are aligned to the
 * right.
 */
const table = (rows: readonly (readonly string[])[], right: ReadonlySet<number>): string[] => {
  const widths = rows[0]?.map((_, i) => rows.reduce((w, row) => Math.max(w, row[i].length), 0)) ?? [];
  return rows.map((row) =>
    `  ${row.map((cell, i) => (right.has(i) ? cell.padStart(widths[i]) : cell.padEnd(widths[i]))).join('  ')}`.trimEnd(),
  );
};

const MAKES: Readonly<Record<Wants, string>> = { logits: 'text', embeddings: 'vectors', ranks: 'ranks' };

/** The result of canRun as a line. */
const sentence = (verdict: Verdict): string =>
  verdict.runs
    ? `runs: makes ${MAKES[verdict.makes]}, and takes ${size(verdict.memory_bytes)} of memory with ${verdict.context_length} tokens of context`
    : `does not run: ${printable(verdict.reason)} (${verdict.code})`;

/** Memory use of a model, part by part. */
export const memoryLines = (verdict: Verdict): string[] => {
  if (!verdict.runs) return [sentence(verdict)];
  const { memory, memories, memory_bytes, context_length, iq_weights } = verdict;
  const rows = [
    ['weights', memory.weights],
    ['cache', memory.cache],
    ['computing', memory.compute],
    ['in all', memory_bytes],
  ] as const;
  return [
    `memory with ${context_length} tokens of context`,
    ...table(
      rows.map(([what, bytes]) => [what, size(bytes), String(bytes)]),
      new Set([1, 2]),
    ),
    ...(iq_weights ? [`weights of IQ1 to IQ3 and TQ1_0 are ${iq_weights} (--iq-weights)`] : []),
    ...(memories > 1 ? [`in ${memories} WebAssembly memories`] : []),
  ];
};

/**
 * A GGUF header as lines for people: metadata (long arrays shortened), tensors and totals, and the
 * verdict if there is one.
 */
export const inspect = (gguf: GGUF, verdict?: Verdict): string[] => {
  const all = inspectToJson(gguf);
  const architecture = all.architecture === null ? 'no architecture' : bare(all.architecture);
  const lines = [`GGUF version ${all.version}, ${architecture}, ${size(all.file_bytes)}`, '', `metadata (${gguf.metadata.size})`];
  lines.push(
    ...table(
      Array.from(gguf.metadata, ([key, value]) => [
        bare(key),
        gguf.metadataTypes.get(key) ?? '',
        show(value, gguf.metadataTypes.get(key) ?? ''),
      ]),
      new Set(),
    ),
  );
  lines.push('', `tensors (${all.tensors.length}; type, ne, bytes)`);
  lines.push(
    ...table(
      all.tensors.map((t) => [bare(t.name), t.type, `[${t.ne.join(', ')}]`, String(t.bytes)]),
      new Set([3]),
    ),
  );
  const types = Object.entries(all.types)
    .map(([type, n]) => `${type} ${n}`)
    .join(', ');
  lines.push(
    '',
    `${count(all.parameters)} parameters (${all.parameters}), ${size(all.tensor_bytes)} of tensors${types ? `: ${types}` : ''}`,
  );
  if (all.bits_per_weight !== null) lines.push(`${all.bits_per_weight.toFixed(2)} bits per weight`);
  if (verdict) lines.push(sentence(verdict));
  if (verdict?.runs && verdict.unused_tensors)
    lines.push(`not used (${verdict.unused_tensors.length} tensors): ${verdict.unused_tensors.map(bare).join(', ')}`);
  return lines;
};
