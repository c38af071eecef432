/** Flags for vectors of texts. */
import { flag, type Flag } from './flag.ts';

export const VECTOR_ROWS = {
  pooling: flag('pooling', '', 'string', 'TYPE', "none, mean, cls, last or rank; default: the file's", [
    'none',
    'mean',
    'cls',
    'last',
    'rank',
  ]),
  truncate: flag('truncate', '', 'boolean', '', "cut texts that are too long at the model's length; otherwise refused"),
  dimensions: flag('dimensions', '', 'integer', 'N', 'the first N numbers of each vector, for models trained for that (all)'),
  precision: flag('precision', '', 'string', 'TYPE', 'float32, int8, ubinary or binary (float32)', [
    'float32',
    'int8',
    'ubinary',
    'binary',
  ]),
  promptName: flag('prompt-name', '', 'string', 'NAME', "put this prompt of the model's file before every text: query, passage"),
  embdNormalize: flag('embd-normalize', '', 'integer', 'N', '-1: none, 0: largest to 32760, 1: taxicab, 2: length one, N: p-norm (2)'),
  embdOutputFormat: flag(
    'embd-output-format',
    '',
    'string',
    'FORMAT',
    'array, json, json+ (with cosines), jsonl (a line for each text) or raw; default: a readable form',
    ['array', 'json', 'json+', 'jsonl', 'raw'],
  ),
  embdSeparator: flag('embd-separator', '', 'string', 'TEXT', 'what separates texts (a new line)'),
  clsSeparator: flag('cls-separator', '', 'string', 'TEXT', 'what separates a query from its document (a tab)'),
} as const satisfies { readonly [key: string]: Flag };
