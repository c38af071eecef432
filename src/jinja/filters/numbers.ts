/** Filters for numbers. */
import { fn, int, number } from '../args.ts';
import { fixed, intOf, parseFloat_, parseInt_, rounded, toFloat, truncated } from '../numbers.ts';
import { equals, refuse } from '../operators.ts';
import { Float, isInt, isNumber, isText, JinjaError, plain, Undefined, type Value, type Runtime, type Table } from '../values.ts';

function toInt(_: Runtime, value: Value, otherwise: Value = 0, base?: Value): Value {
  if (isText(value)) {
    const whole = parseInt_(plain(value), int(base, 10));
    if (whole !== undefined) return whole;
    const float = parseFloat_(plain(value));
    return float !== undefined && Number.isFinite(float) ? truncated(float) : otherwise;
  }
  if (value instanceof Undefined) throw refuse('', value);
  if (value instanceof Float) return Number.isNaN(value.value) ? otherwise : truncated(value.value);
  return isInt(value) ? intOf(BigInt(value)) : otherwise;
}

function asFloat(value: Value): number | undefined {
  if (value instanceof Undefined) throw refuse('', value);
  if (isText(value)) return parseFloat_(plain(value));
  return isNumber(value) ? toFloat(value) : undefined;
}

function round(runtime: Runtime, value: Value, precision?: Value, method?: Value): Value {
  const how = method === undefined ? 'common' : ['common', 'ceil', 'floor'].find((name) => equals(runtime, name, method));
  if (how === undefined) throw new JinjaError('method must be common, ceil or floor');
  const of = number(value);
  const places = int(precision, 0);
  if (how === 'common') {
    if (of instanceof Float) return new Float(rounded(of.value, places));
    return places >= 0 ? intOf(BigInt(of)) : roundedInt(BigInt(of), -places);
  }
  const unit = 10 ** places;
  return new Float(Math[how === 'ceil' ? 'ceil' : 'floor'](toFloat(of) * unit) / unit);
}

/** Rounds to tens, hundreds and so on; ties to even. */
function roundedInt(value: bigint, zeros: number): Value {
  if (zeros > 400) return 0;
  const unit = 10n ** BigInt(zeros);
  const rest = ((value % unit) + unit) % unit;
  const down = value - rest;
  const up = 2n * rest > unit || (2n * rest === unit && (down / unit) % 2n !== 0n);
  return intOf(up ? down + unit : down);
}

const units = ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];

function fileSize(bytes: number, binary: boolean): string {
  const base = binary ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  const at = units.findIndex((_, i) => bytes < base ** (i + 2));
  const i = at < 0 ? units.length - 1 : at;
  return `${fixed((base * bytes) / base ** (i + 2), 1)} ${binary ? `${units[i].toUpperCase()}i` : units[i]}B`;
}

export const numberFilters: Table = {
  abs: fn('', (_, value: Value) => {
    const of = number(value);
    return of instanceof Float ? new Float(Math.abs(of.value)) : intOf(BigInt(of) < 0n ? -BigInt(of) : BigInt(of));
  }),
  filesizeformat: fn('binary?', (_, value: Value, binary?: Value) => {
    const bytes = asFloat(value);
    if (bytes === undefined) throw refuse('could not convert to float', value);
    return fileSize(bytes, binary === true);
  }),
  float: fn('default?', (_, value: Value, otherwise: Value = new Float(0)) => {
    const float = asFloat(value);
    return float === undefined ? otherwise : new Float(float);
  }),
  int: fn('default? base?', toInt),
  round: fn('precision? method?', round),
};
