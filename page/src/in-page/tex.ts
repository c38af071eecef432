/** TeX as MathML by Temml: a chunk of its own, loaded with the first formula. */
import temml from 'temml';
import 'temml/dist/Temml-Local.css';
import type { Typeset } from '../math.ts';

/** No lengths that push the page apart, no links and classes (trust), no macros that go on for ever. */
export const typeset: Typeset = (tex, displayMode) =>
  temml.renderToString(tex, { displayMode, throwOnError: true, trust: false, maxSize: [20, 20], maxExpand: 500 });
