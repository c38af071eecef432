// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
import { IQ2_XXS } from './format/iq2_xxs';
import { IQ2_XS } from './format/iq2_xs';
import { IQ3_XXS } from './format/iq3_xxs';
import { IQ1_S } from './format/iq1_s';
import { IQ3_S } from './format/iq3_s';
import { IQ2_S } from './format/iq2_s';
import { IQ1_M } from './format/iq1_m';
import * as id from '../type/ids';

/** Opens the packed block of a grid at w to o: scales, addresses of entries (format/grid.ts). */
export function open_grid(type: u32, w: usize, o: usize): void {
  // prettier-ignore
  switch (type) {
    case id.IQ2_XXS: changetype<IQ2_XXS>(0).open(w, o); return;
    case id.IQ2_XS: changetype<IQ2_XS>(0).open(w, o); return;
    case id.IQ3_XXS: changetype<IQ3_XXS>(0).open(w, o); return;
    case id.IQ1_S: changetype<IQ1_S>(0).open(w, o); return;
    case id.IQ3_S: changetype<IQ3_S>(0).open(w, o); return;
    case id.IQ2_S: changetype<IQ2_S>(0).open(w, o); return;
    case id.IQ1_M: changetype<IQ1_M>(0).open(w, o); return;
    default: unreachable();
  }
}
