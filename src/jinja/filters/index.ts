/** jinja2's filters; tojson is that of transformers, and from_json is an addition. */
import type { Table } from '../values.ts';
import { htmlFilters } from './html.ts';
import { jsonFilters } from './json.ts';
import { numberFilters } from './numbers.ts';
import { pprintFilters } from './pprint.ts';
import { sequenceFilters } from './sequences.ts';
import { textFilters } from './text.ts';

export const filters: Table = { ...sequenceFilters, ...textFilters, ...numberFilters, ...jsonFilters, ...htmlFilters, ...pprintFilters };
