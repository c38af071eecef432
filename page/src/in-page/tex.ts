/** TeX to MathML by Temml, in a chunk of its own that is loaded with the first formula. */
import temml from 'temml';
import 'temml/dist/Temml-Local.css';
import type { Typeset } from '../math.ts';

/**
 * Limits for untrusted TeX: lengths that cannot break the layout, no links or classes (trust), no
 * endless macros.
 */
export const typeset: Typeset = (tex, displayMode) =>
  temml.renderToString(tex, { displayMode, throwOnError: true, trust: false, maxSize: [20, 20], maxExpand: 500 });
