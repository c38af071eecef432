/** The properties of a flag, and the kinds of rows in the table of flags. */
import type { LoadOptions } from '../../model.ts';
import type { SamplerOptions } from '../../sample/options.ts';

export interface Flag {
  readonly name: string;
  /** Other spellings, with their dashes: `-m`, `--ctx-size`. */
  readonly aliases: readonly string[];
  /**
   * `strings`: can be repeated. `integers`: a comma-separated list as in llama-bench, can be
   * repeated.
   */
  readonly type: 'string' | 'strings' | 'number' | 'integer' | 'integers' | 'boolean';
  /** Name of the value in the help; booleans have none. */
  readonly value?: string;
  readonly help: string;
  /** The possible values, if these are few. Used by shell completion; commands check the value. */
  readonly choices?: readonly string[];
  /** Spellings that turn a switch off: `--no-escape`. */
  readonly off?: readonly string[];
  /**
   * A number of threads. A negative value counts as not given, which means all cores, as in
   * llama.cpp.
   */
  readonly cores?: true;
}

export const flag = <T extends Flag['type']>(
  name: string,
  aliases: string,
  type: T,
  value: string,
  help: string,
  choices?: readonly string[],
): Flag & { readonly type: T } => ({
  name,
  aliases: aliases ? aliases.split(' ') : [],
  type,
  ...(value ? { value } : {}),
  help,
  ...(choices ? { choices } : {}),
});

/** A switch that can also be turned off. `help` describes the state "on". */
export const toggle = (
  name: string,
  aliases: string,
  off: string,
  help: string,
): Flag & { readonly type: 'boolean'; readonly off: readonly string[] } => ({
  ...flag(name, aliases, 'boolean', '', help),
  off: off.split(' '),
});

/** A flag that sets an option of the sampler. */
export const sampling = <O extends keyof SamplerOptions, F extends Flag>(sampler: O, f: F): F & { readonly sampler: O } => ({
  ...f,
  sampler,
});
/**
 * A flag that a command translates into the option of this name. Error messages that name the
 * option then name the flag.
 */
export const named = <F extends Flag>(option: string, f: F): F & { readonly option: string } => ({ ...f, option });
export const cores = <F extends Flag>(f: F): F & { readonly cores: true } => ({ ...f, cores: true });
/** A flag whose value is an option of loadModel. */
export const loading = <O extends keyof LoadOptions, F extends Flag>(load: O, f: F): F & { readonly load: O } => ({ ...f, load });

/** All spellings of a flag. */
export const spellingsOf = (f: Flag): readonly string[] => [...f.aliases, `--${f.name}`, ...(f.off ?? [])];
