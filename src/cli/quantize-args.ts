/** Positional arguments of quantlet quantize. */
import { QuantletError } from '../errors.ts';
import type { Ftype } from '../quantize/ftype.ts';
import { FTYPES, parseFtype } from '../quantize/ftype.ts';
import { asUsage } from './output.ts';

/** The parsed positional arguments, as in llama-quantize. */
export interface QuantizeArgs {
  readonly input: string;
  readonly output: string;
  readonly ftype: Ftype;
  /** Undefined: not given. */
  readonly nthreads: number | undefined;
}

const usage = (message: string): QuantletError =>
  new QuantletError('ERR_USAGE', `${message}; usage: quantlet quantize [flags] IN.gguf [OUT.gguf] TYPE [nthreads]`);

const isFtype = (text: string): boolean => {
  try {
    parseFtype(text);
    return true;
  } catch {
    return false;
  }
};

const ftypeOf = (text: string): Ftype => {
  try {
    return parseFtype(text);
  } catch (error) {
    return asUsage(error);
  }
};

/**
 * Parses `IN [OUT] TYPE [nthreads]`. If the second argument is a type, the output is
 * ggml-model-TYPE.gguf in the folder of IN.
 * @throws QuantletError ERR_USAGE
 */
export const parseQuantizeArgs = (positionals: readonly string[]): QuantizeArgs => {
  const [input, second, ...rest] = positionals;
  if (input === undefined || second === undefined)
    throw usage(
      `${positionals.length} arguments were given; expected at least a file and a type, one of ${FTYPES.map((f) => f.name).join(', ')}`,
    );
  const named = !isFtype(second);
  const type = named ? rest.shift() : second;
  if (type === undefined) throw usage(`"${second}" is not a type that quantlet can make, and no type follows it`);
  const ftype = ftypeOf(type);
  const [threads, ...more] = rest;
  if (more.length > 0) throw usage(`${positionals.length} arguments were given; expected at most 4`);
  if (threads !== undefined && !/^[1-9]\d{0,3}$/.test(threads))
    throw usage(`nthreads is "${threads}"; expected a whole number from 1 to 9999`);
  const folder = input.slice(0, Math.max(input.lastIndexOf('/'), input.lastIndexOf('\\')) + 1);
  return {
    input,
    output: named ? second : `${folder}ggml-model-${ftype.name}.gguf`,
    ftype,
    nthreads: threads === undefined ? undefined : Number(threads),
  };
};
