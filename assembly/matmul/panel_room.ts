// Generated from src/type-traits.ts by `npm run generate`: edit that table and run it again.
import { Q4_0 } from './format/q4_0';
import { Q4_1 } from './format/q4_1';
import { Q5_0 } from './format/q5_0';
import { Q5_1 } from './format/q5_1';
import { Q8_0 } from './format/q8_0';
import { Q2_K } from './format/q2_K';
import { Q3_K } from './format/q3_K';
import { Q4_K } from './format/q4_K';
import { Q5_K } from './format/q5_K';
import { Q6_K } from './format/q6_K';
import { IQ2_XXS } from './format/iq2_xxs';
import { IQ2_XS } from './format/iq2_xs';
import { IQ3_XXS } from './format/iq3_xxs';
import { IQ1_S } from './format/iq1_s';
import { IQ4_NL } from './format/iq4_nl';
import { IQ3_S } from './format/iq3_s';
import { IQ2_S } from './format/iq2_s';
import { IQ4_XS } from './format/iq4_xs';
import { IQ1_M } from './format/iq1_m';
import { TQ1_0 } from './format/tq1_0';
import { TQ2_0 } from './format/tq2_0';
import { MXFP4 } from './format/mxfp4';
import { NVFP4 } from './format/nvfp4';
import { Q1_0 } from './format/q1_0';
import { Q2_0 } from './format/q2_0';
import { most, panel_bytes } from './panel_size';

/** Bytes of a panel: the maximum over all formats. */
@inline
export function PANEL(): usize {
  return most(
    most(
      most(
        most(panel_bytes<Q4_0>(), most(panel_bytes<Q4_1>(), panel_bytes<Q5_0>())),
        most(panel_bytes<Q5_1>(), most(panel_bytes<Q8_0>(), panel_bytes<Q2_K>())),
      ),
      most(
        most(panel_bytes<Q3_K>(), most(panel_bytes<Q4_K>(), panel_bytes<Q5_K>())),
        most(panel_bytes<Q6_K>(), most(panel_bytes<IQ2_XXS>(), panel_bytes<IQ2_XS>())),
      ),
    ),
    most(
      most(
        most(panel_bytes<IQ3_XXS>(), most(panel_bytes<IQ1_S>(), panel_bytes<IQ4_NL>())),
        most(panel_bytes<IQ3_S>(), most(panel_bytes<IQ2_S>(), panel_bytes<IQ4_XS>())),
      ),
      most(
        most(panel_bytes<IQ1_M>(), most(panel_bytes<TQ1_0>(), panel_bytes<TQ2_0>())),
        most(most(panel_bytes<MXFP4>(), panel_bytes<NVFP4>()), most(panel_bytes<Q1_0>(), panel_bytes<Q2_0>())),
      ),
    ),
  );
}
