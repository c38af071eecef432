/**
 * Ollama's prompt templates, which are Go templates: text with fields and conditions on fields.
 * Loops, variables and functions are refused, because the model's own template does more than they
 * do.
 */
import { HttpError } from '../../http/http-error.ts';
import { shortJson } from '../../../chat/json.ts';

/** Values of a template, by field. */
export type TemplateValues = Readonly<Record<'System' | 'Prompt' | 'Suffix', string>>;

/** A piece of a prompt. `given` is true for text of the request's other fields. */
export interface Piece {
  readonly text: string;
  readonly given: boolean;
}

const FIELDS = ['System', 'Prompt', 'Suffix', 'Response'];

const bad = (found: string, expected: string): HttpError =>
  new HttpError(400, `'template' has ${found}; expected ${expected}. Leave it out to use the model's own template.`, {
    param: 'template',
    code: 'invalid_value',
  });

/** An open `if`. */
interface Condition {
  /** The parts around it are written. */
  readonly outer: boolean;
  /** Its current part is written. */
  on: boolean;
  /** One of its parts was written. */
  done: boolean;
}

const WHITE_AT_START = /^\s*/;

/** The text without blanks at its end. Not a regular expression: on many blanks it takes quadratic time. */
const trimmedEnd = (text: string): string => text.trimEnd();

/**
 * Renders a template up to its `.Response`, where the answer begins.
 * @throws HttpError 400 naming an action that is not read
 */
export function renderGoTemplate(template: string, values: TemplateValues): readonly Piece[] {
  const pieces: Piece[] = [];
  const open: Condition[] = [];
  const isOn = (): boolean => open.at(-1)?.on ?? true;
  const valueOf = (name: string): string => (Object.hasOwn(values, name) ? values[name as keyof TemplateValues] : '');
  let at = 0;
  let trimNext = false;
  for (;;) {
    const start = template.indexOf('{{', at);
    const end = start < 0 ? -1 : template.indexOf('}}', start);
    if (start >= 0 && end < 0) throw bad('{{ without }}', 'a closed action');
    let text = template.slice(at, start < 0 ? undefined : start);
    if (trimNext) text = text.replace(WHITE_AT_START, '');
    if (start >= 0 && /^\{\{-\s/.test(template.slice(start, start + 4))) text = trimmedEnd(text);
    if (text !== '' && isOn()) pieces.push({ text, given: false });
    if (start < 0) break;
    const action = template.slice(start + 2, end);
    trimNext = /\s-$/.test(action.slice(-2));
    at = end + 2;
    const field = act(
      action
        .replace(/^-(?=\s)/, '')
        .replace(/-$/, '')
        .trim(),
      open,
      (name) => valueOf(name) !== '',
    );
    if (field === undefined || !isOn()) continue;
    if (field === 'Response') return pieces;
    if (valueOf(field) !== '') pieces.push({ text: valueOf(field), given: true });
  }
  if (open.length > 0) throw bad('{{ if }} without {{ end }}', 'an end for each if');
  return pieces;
}

/** Evaluates an action. Returns the field to write, if it is one. */
function act(action: string, open: Condition[], isSet: (field: string) => boolean): string | undefined {
  if (/^\/\*/.test(action)) return undefined;
  const [, words = '', name] = /^(if|else if|)\s*\$?\.(\w+)$/.exec(action) ?? [];
  const last = open.at(-1);
  if (name !== undefined && !FIELDS.includes(name)) throw bad(`the field .${name.slice(0, 100)}`, `one of .${FIELDS.join(', .')}`);
  if (name !== undefined && words === '') return name;
  if (name !== undefined && words === 'if') {
    const outer = last?.on ?? true;
    const on = outer && isSet(name);
    open.push({ outer, on, done: on });
  } else if (last && (action === 'else' || name !== undefined)) {
    last.on = last.outer && !last.done && (name === undefined || isSet(name));
    last.done ||= last.on;
  } else if (last && action === 'end') open.pop();
  else
    throw bad(
      `the action {{ ${shortJson(action).slice(1, -1)} }}`,
      '{{ .System }}, {{ .Prompt }}, {{ .Suffix }}, {{ .Response }}, {{ if .System }}, {{ else }} and {{ end }}',
    );
  return undefined;
}
