/** Help texts of flags, and lines that fit a terminal. */
import type { Flag } from './flags/flag.ts';
import { FLAGS, type FlagKey } from './flags.ts';

/**
 * Breaks text at spaces into lines of at most `columns`. All lines but the first are indented by
 * `indent` spaces plus the leading spaces of the text.
 */
export function wrapped(text: string, columns: number, indent: number): string {
  const lead = /^ */.exec(text)![0].length;
  const room = columns - indent - lead;
  if (text.length <= room + lead || room < 20) return text; // narrower columns would not be more readable
  const lines = text.match(new RegExp(`\\S.{0,${room - 1}}(?= |$)|\\S+`, 'g'))!;
  return ' '.repeat(lead) + lines.join(`\n${' '.repeat(indent + lead)}`);
}

/** Help of a command's flags and their values, in lines of at most `columns`. */
export function flagHelp(keys: readonly FlagKey[], defaults: { readonly [key in FlagKey]?: string } = {}, columns = Infinity): string {
  const left = keys.map((k) => {
    const f: Flag = FLAGS[k];
    return `  ${[...[...f.aliases, `--${f.name}`].sort((a, b) => a.length - b.length), ...(f.off ?? [])].join(', ')}${f.value ? ` ${f.value}` : ''}`;
  });
  const width = Math.min(36, Math.max(...left.map((s) => s.length)) + 2);
  return keys
    .map(
      (k, i) =>
        (left[i].length < width ? left[i].padEnd(width) : `${left[i]}\n${' '.repeat(width)}`) +
        wrapped(FLAGS[k].help + (defaults[k] === undefined ? '' : ` (${defaults[k]})`), columns, width),
    )
    .join('\n');
}
