/**
 * quantlet completion: writes shell scripts that complete commands, flags and values, made from the
 * table of flags.
 */
import { QuantletError } from '../errors.ts';
import type { Command } from './command.ts';
import { spellingsOf as spellings, type Flag } from './flags/flag.ts';
import { FLAGS } from './flags.ts';
import { parseFlags } from './parse-flags.ts';

const KEYS = ['help'] as const;

const flagsOf = (command: Command): readonly Flag[] => command.flags.map((key) => FLAGS[key]);
const takesFile = (flag: Flag): boolean => flag.value?.startsWith('FILE') ?? false;
/** Quotes a text in single quotes for any of the three shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** readline completes file names if COMPREPLY stays empty. */
function bash(commands: readonly Command[]): string {
  const cases = commands.map((command) => {
    const flags = flagsOf(command);
    const chosen = flags.filter((flag) => flag.choices);
    const values = chosen
      .map(
        (flag) => `        ${spellings(flag).join('|')}) COMPREPLY=($(compgen -W "${flag.choices!.join(' ')}" -- "$current")); return ;;\n`,
      )
      .join('');
    const others = flags
      .filter((flag) => flag.type !== 'boolean' && !flag.choices)
      .flatMap(spellings)
      .join('|');
    return `    ${command.name})\n      case $previous in\n${values}${others ? `        ${others}) return ;;\n` : ''}      esac\n      words="${flags.flatMap(spellings).join(' ')}"\n      [[ $current == -* ]] || words="${(command.words ?? []).join(' ')}" ;;\n`;
  });
  return `# bash: source <(quantlet completion bash)
_quantlet() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "${commands.map((c) => c.name).join(' ')} --help --version" -- "$current"))
    return
  fi
  case \${COMP_WORDS[1]} in
${cases.join('')}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _quantlet quantlet
`;
}

function zsh(commands: readonly Command[]): string {
  const specs = (flag: Flag): readonly string[] => {
    const many = flag.type === 'strings' || flag.type === 'integers' ? '*' : '';
    const all = spellings(flag);
    const help = flag.help.replace(/[[\]\\:]/g, '\\$&');
    const value = flag.value?.replaceAll(':', '\\:');
    const rest = `[${help}]${value === undefined ? '' : `:${value}:${flag.choices ? `(${flag.choices.join(' ')})` : takesFile(flag) ? '_files' : ''}`}`;
    return all.map((spelling) => quoted(`${many}${many || all.length < 2 ? '' : `(${all.join(' ')})`}${spelling}${rest}`));
  };
  const cases = commands.map(
    (c) =>
      `    ${c.name}) _arguments ${[...flagsOf(c).flatMap(specs), quoted(c.words ? `*:word:(${c.words.join(' ')})` : '*:file:_files')].join(' \\\n      ')} ;;\n`,
  );
  return `#compdef quantlet
# zsh: source <(quantlet completion zsh), or this file as _quantlet in a folder of fpath
_quantlet() {
  if ((CURRENT == 2)); then
    local -a commands=(${commands.map((c) => quoted(`${c.name}:${c.summary}`)).join(' ')})
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join('')}  esac
}
if [[ $funcstack[1] == _quantlet ]]; then _quantlet "$@"; else compdef _quantlet quantlet; fi
`;
}

function fish(commands: readonly Command[]): string {
  const of = (c: Command): string => `complete -c quantlet -n '__fish_seen_subcommand_from ${c.name}'`;
  /** fish calls -m a short option, -ctk an old-style option and --model a long option. */
  const option = (spelling: string): string =>
    spelling.startsWith('--') ? `-l ${spelling.slice(2)}` : spelling.length === 2 ? `-s ${spelling.slice(1)}` : `-o ${spelling.slice(1)}`;
  const value = (flag: Flag): string =>
    flag.type === 'boolean' ? '' : flag.choices ? ` -x -a ${quoted(flag.choices.join(' '))}` : takesFile(flag) ? ' -r -F' : ' -x';
  return [
    '# fish: quantlet completion fish | source',
    ...commands.map((c) => `complete -c quantlet -f -n __fish_use_subcommand -a ${c.name} -d ${quoted(c.summary)}`),
    ...commands.flatMap((c) =>
      flagsOf(c).map((flag) => `${of(c)} ${spellings(flag).map(option).join(' ')}${value(flag)} -d ${quoted(flag.help)}`),
    ),
    ...commands.filter((c) => c.words).map((c) => `${of(c)} -f -a ${quoted(c.words!.join(' '))}`),
    '',
  ].join('\n');
}

const SHELLS: { readonly [shell: string]: (commands: readonly Command[]) => string } = { bash, zsh, fish };

/** The completion command. It also completes itself. */
export const completionOf = (commands: () => Promise<readonly Command[]>): Command => ({
  name: 'completion',
  synopsis: 'bash|zsh|fish',
  summary: 'print a script that completes commands and flags in a shell',
  flags: KEYS,
  words: Object.keys(SHELLS),
  examples: [
    'source <(quantlet completion bash)     # in ~/.bashrc',
    'source <(quantlet completion zsh)      # in ~/.zshrc, behind compinit',
    'quantlet completion fish > ~/.config/fish/completions/quantlet.fish',
  ],
  async run(argv) {
    const {
      positionals: [shell, ...more],
    } = parseFlags(argv, KEYS);
    const script = shell !== undefined && more.length === 0 && Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
    if (!script)
      throw new QuantletError(
        'ERR_USAGE',
        `completion takes the name of one shell, ${argv.length === 0 ? 'but none was given' : `not "${argv.join(' ')}"`}; expected ${Object.keys(SHELLS).join(', ')}`,
      );
    process.stdout.write(script(await commands()));
    return 0;
  },
});
