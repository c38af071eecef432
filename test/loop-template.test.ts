/** Template language of loops (scripts/loop-template.ts): what it writes, and what it refuses. */
import { describe, expect, it } from 'vitest';
import { expand } from '../scripts/loop-template.ts';

const lines = (...text: readonly string[]): string => text.join('\n');

describe('a template', () => {
  it('repeats lines for each number of a range, and each item of a list', () => {
    const text = lines(
      '// $for c of 0..COLS',
      '// $for g of 0..2',
      'let s$g$c = zero;',
      '// $end',
      '// $end',
      "// $for g, mn of [[0, 'v'], [3, 'z']]",
      'n$g = $mn;',
      '// $end',
    );
    expect(expand(text, { COLS: 2 }, 'x.ts')).toBe(
      lines('let s00 = zero;', 'let s10 = zero;', 'let s01 = zero;', 'let s11 = zero;', 'n0 = v;', 'n3 = z;'),
    );
    expect(expand(lines('a', '// $for c of 0..COLS', '$c', '// $end', 'b'), { COLS: 0 }, 'x.ts')).toBe('a\nb');
  });

  it('repeats a line that ends with $for', () => {
    const text = lines('// $for c of 0..2', 'x = $c;', 's$g$c = f(x); // $for g of 0..2', '// $end', 'a;');
    expect(expand(text, {}, 'x.ts')).toBe(lines('x = 0;', 's00 = f(x);', 's10 = f(x);', 'x = 1;', 's01 = f(x);', 's11 = f(x);', 'a;'));
  });

  it('knows a name by its letters alone, all capitals or all small', () => {
    expect(expand('gemm_$ROWSx$COLS_i16<G$g>(w$g0, i$g_x)', { ROWS: 8, COLS: 6, g: 2 }, 'x.ts')).toBe('gemm_8x6_i16<G2>(w20, i2_x)');
  });

  it('evaluates expressions', () => {
    const text = lines(
      '// $let WIDE = ROWS / 4',
      '// $for c of 0..WIDE',
      '// $let next = (c + 1) % WIDE',
      'f($(16 * c), v$next);',
      '// $end',
    );
    expect(expand(text, { ROWS: 8 }, 'x.ts')).toBe(lines('f(0, v1);', 'f(16, v0);'));
  });

  it('keeps lines under a condition, however deep', () => {
    const text = lines(
      '// $if CODES == 16',
      'i16',
      '// $else',
      '// $for g of 0..2',
      '// $if g > 0',
      'more$g',
      '// $else',
      'first',
      '// $end',
      '// $end',
      '// $end',
    );
    expect(expand(text, { CODES: 16 }, 'x.ts')).toBe('i16');
    expect(expand(text, { CODES: 7 }, 'x.ts')).toBe('first\nmore1');
  });

  it('gives a name back its value after the block that renames it', () => {
    expect(expand(lines('// $for c of 0..1', '// $let a = 2', '$a', '// $end', '$a'), { a: 1 }, 'x.ts')).toBe('2\n1');
  });
});

it.each([
  [['a', '// $for c in 0..4', '// $end'], 'x.ts:2: expected $for name of list'],
  [['// $for c of COLS', '// $end'], 'x.ts:1: COLS is no list'],
  [['// $for c, v of [[1]]', '// $end'], 'x.ts:1: 1 is no list of 2 values'],
  [['// $for c of 0..ROWS', '// $end'], 'x.ts:1: ROWS: ROWS is not defined'],
  [['// $let one = ', 'a'], 'x.ts:1: expected $let name = expression'],
  [['// $if (1', '// $end'], 'x.ts:1: (1: '],
  [['a', '// $foreach c of 0..4'], 'x.ts:2: there is no directive $foreach; expected $for, $if, $else, $end, $let'],
  [['a', 's$g = $c; // $for g of 0..2'], 'x.ts:2: there is no value $c; the values here are COLS, g'],
  [['a', 'let s$row = 0;'], 'x.ts:2: there is no value $row; the values here are COLS'],
  [['cost: 3 $'], 'x.ts:1: there is no value $; the values here are COLS'],
  [['// $for c of 0..4', 'a'], 'x.ts:1: expected the $end of the $for in x.ts:1'],
  [['// $for c of 0..4', '// $else', '// $end'], 'x.ts:2: expected the $end of the $for in x.ts:1'],
  [['// $if COLS', '// $else', '// $else', '// $end'], 'x.ts:3: expected the $end of the $if in x.ts:1'],
  [['a', '// $end'], 'x.ts:2: there is no block that this $end ends'],
] as const)('%j is refused with its line', (text, message) => {
  expect(() => expand(text.join('\n'), { COLS: 4 }, 'x.ts')).toThrow(message);
});
