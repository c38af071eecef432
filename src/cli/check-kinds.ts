/** Checks of flags by the tables of the options that they set. */
import { QuantletError, tell } from '../errors.ts';
import type { Kind } from '../options.ts';
import { FLAGS, type FlagKey, type Values } from './flags.ts';

/**
 * Checks values of flags before a command reads or writes anything. A tool checks its options by
 * the same kinds, but names the options.
 * @throws ERR_USAGE naming the flag, its value and the expected kind
 */
export function checkKinds(values: Values<FlagKey>, kinds: { readonly [key in FlagKey]?: Kind }): void {
  for (const [key, kind] of Object.entries(kinds) as [FlagKey, Kind][]) {
    const value = values[key];
    if (value !== undefined && !kind.is(value))
      throw new QuantletError('ERR_USAGE', `--${FLAGS[key].name} is ${tell(value)}; expected ${kind.expected}`);
  }
}
