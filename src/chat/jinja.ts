/** Compiles and renders chat templates in the environment that transformers provides. */
import { parseTemplate } from '../jinja/parser.ts';
import { render } from '../jinja/render.ts';
import { Rendering } from '../jinja/runtime.ts';
import { JinjaError, toValue, type Value } from '../jinja/values.ts';
import { atOnce, type Work } from '../slices.ts';

export { TemplateRefusal } from '../jinja/globals.ts';
export { TemplateBudget } from '../jinja/runtime.ts';
export { strftime } from '../jinja/strftime.ts';

/** Renders with variables, either in one call or as work with pauses. */
export interface CompiledJinja {
  (variables: Readonly<Record<string, unknown>>): string;
  work(variables: Readonly<Record<string, unknown>>): Work<string>;
}

/**
 * Compiles a Jinja chat template once; the result renders it with the given variables.
 *
 * @param now the clock for `strftime_now`
 * @throws TemplateSyntaxError. The returned function throws {@link TemplateRefusal} for
 * `raise_exception`, {@link TemplateBudget} if it exceeds its limits, and JinjaError for errors of
 * jinja2.
 */
export function compileJinja(source: string, now: () => Date = () => new Date()): CompiledJinja {
  const template = notTooDeep(() => parseTemplate(source));
  function* work(variables: Readonly<Record<string, unknown>>): Work<string> {
    const values: [string, Value][] = [];
    for (const [name, value] of Object.entries(variables)) {
      values.push([name, toValue(value)]);
      yield;
    }
    try {
      return yield* render(template, new Rendering(now, charactersOf(variables)), values);
    } catch (error) {
      throw tooDeep(error);
    }
  }
  return Object.assign((variables: Readonly<Record<string, unknown>>) => atOnce(work(variables)), { work });
}

/**
 * Converts a stack overflow, whose error differs between runtimes, into a JinjaError that says so.
 */
const tooDeep = (error: unknown): unknown =>
  error instanceof RangeError || (error instanceof Error && error.name === 'InternalError')
    ? new JinjaError('it is nested too deeply', { cause: error })
    : error;

function notTooDeep<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw tooDeep(error);
  }
}

/** Number of characters of all strings, including keys. */
function charactersOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce((sum, [key, part]) => sum + (Array.isArray(value) ? 0 : key.length) + charactersOf(part), 0);
}
