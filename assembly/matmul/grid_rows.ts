// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
import { IQ2_XXS } from './format/iq2_xxs';
import { IQ2_XS } from './format/iq2_xs';
import { IQ3_XXS } from './format/iq3_xxs';
import { IQ1_S } from './format/iq1_s';
import { IQ3_S } from './format/iq3_s';
import { IQ2_S } from './format/iq2_s';
import { IQ1_M } from './format/iq1_m';
import * as id from '../type/ids';

/** Index and signs of step t of a plain row (pack_grid.ts). */
export function grid_entry(type: u32, row: usize, t: i32): u32 {
  // prettier-ignore
  switch (type) {
    case id.IQ2_XXS: return changetype<IQ2_XXS>(0).entry(row, t);
    case id.IQ2_XS: return changetype<IQ2_XS>(0).entry(row, t);
    case id.IQ3_XXS: return changetype<IQ3_XXS>(0).entry(row, t);
    case id.IQ1_S: return changetype<IQ1_S>(0).entry(row, t);
    case id.IQ3_S: return changetype<IQ3_S>(0).entry(row, t);
    case id.IQ2_S: return changetype<IQ2_S>(0).entry(row, t);
    case id.IQ1_M: return changetype<IQ1_M>(0).entry(row, t);
    default: unreachable();
  }
  return 0;
}

/** Integer scale i of a plain row. */
export function grid_scale(type: u32, row: usize, i: i32): u32 {
  // prettier-ignore
  switch (type) {
    case id.IQ2_XXS: return changetype<IQ2_XXS>(0).scale(row, i);
    case id.IQ2_XS: return changetype<IQ2_XS>(0).scale(row, i);
    case id.IQ3_XXS: return changetype<IQ3_XXS>(0).scale(row, i);
    case id.IQ1_S: return changetype<IQ1_S>(0).scale(row, i);
    case id.IQ3_S: return changetype<IQ3_S>(0).scale(row, i);
    case id.IQ2_S: return changetype<IQ2_S>(0).scale(row, i);
    case id.IQ1_M: return changetype<IQ1_M>(0).scale(row, i);
    default: unreachable();
  }
  return 0;
}
