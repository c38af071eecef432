/** Requests for reasoning in the terms of all protocols, converted to options of a conversation. */
import type { ChatTemplate } from '../../chat/template.ts';
import { booleanField, invalid, numberField, stringField, type Body } from './fields.ts';

type Variables = Readonly<Record<string, unknown>>;

/**
 * Template variables that switch reasoning. Most templates read the first; Granite and DeepSeek the
 * second, MiniMax the third, Seed-OSS the fourth.
 */
const REASONING_OFF: Variables = { enable_thinking: false, thinking: false, thinking_mode: 'disabled', thinking_budget: 0 };
const REASONING_ON: Variables = { enable_thinking: true, thinking: true, thinking_mode: 'enabled' };
/** Template variables for the effort. */
const EFFORT_NAMES = ['reasoning_effort', 'thinking_effort', 'reasoning_strength'];
/** Efforts of OpenAI's and Anthropic's protocols, in ascending order. */
const EFFORTS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** A client's request about reasoning. */
export interface ReasoningWish {
  /** `none`, a level, or another word that the template knows. */
  readonly effort?: string | undefined;
  readonly thinks?: boolean | undefined;
  readonly budget?: number | undefined;
}

const THINKS: Readonly<Record<string, boolean>> = { enabled: true, adaptive: true, auto: true, disabled: false };
const BUDGET = { least: 0, most: 2 ** 31 - 1, integer: true };

/**
 * Reads a request's fields about reasoning, in the spellings of all protocols, because clients mix
 * them. These are OpenAI's `reasoning_effort` and `reasoning.effort`, Anthropic's `thinking` and
 * `output_config.effort`, OpenRouter's `reasoning`, and `enable_thinking` from servers of Qwen.
 */
export function wishOf(body: Body): ReasoningWish {
  const type = stringField(body, 'thinking.type');
  if (type !== undefined && !Object.hasOwn(THINKS, type)) throw invalid('thinking.type', `one of ${Object.keys(THINKS).join(', ')}`, type);
  const effort =
    stringField(body, 'reasoning_effort') ?? stringField(body, 'reasoning.effort') ?? stringField(body, 'output_config.effort');
  return {
    // '' is an empty setting of a client; 'default' is Groq's word for it.
    effort: effort === '' || effort === 'default' ? undefined : effort,
    thinks: type === undefined ? (booleanField(body, 'enable_thinking') ?? booleanField(body, 'reasoning.enabled')) : THINKS[type],
    budget:
      numberField(body, 'thinking.budget_tokens', BUDGET) ??
      numberField(body, 'thinking_budget', BUDGET) ??
      numberField(body, 'reasoning.max_tokens', BUDGET),
  };
}

/**
 * Converts a wish to options of a conversation. Without reasoning, variables for the effort are not
 * set (undefined). The budget of 0 stops reasoning for templates without a switch.
 */
export function reasoningOptions(
  template: ChatTemplate,
  { effort, thinks, budget }: ReasoningWish,
): { readonly templateVariables: Variables; readonly reasoningBudget?: number | undefined } {
  if (effort === 'none' || thinks === false)
    return {
      templateVariables: { ...REASONING_OFF, ...Object.fromEntries(EFFORT_NAMES.map((name) => [name, undefined])) },
      reasoningBudget: 0,
    };
  const efforts = effort === undefined ? [] : EFFORT_NAMES.map((name) => [name, acceptedEffort(template, name, effort)]);
  return {
    templateVariables: { ...(thinks || effort !== undefined ? REASONING_ON : {}), ...Object.fromEntries(efforts) },
    reasoningBudget: budget,
  };
}

const accepted = new WeakMap<ChatTemplate, Map<string, string>>();

/**
 * The nearest effort that the template accepts, the lower one of two equally near. Some templates
 * know only a few of the levels and refuse the others.
 */
function acceptedEffort(template: ChatTemplate, name: string, effort: string): string {
  const level = EFFORTS.indexOf(effort);
  if (level < 0) return effort;
  const known = accepted.get(template) ?? new Map<string, string>();
  accepted.set(template, known);
  const key = `${name} ${effort}`;
  let found = known.get(key);
  if (found === undefined) {
    const distance = (other: string): number => Math.abs(EFFORTS.indexOf(other) - level);
    const nearest = [...EFFORTS].sort((a, b) => distance(a) - distance(b));
    found = nearest.find((other) => renders(template, { ...REASONING_ON, [name]: other })) ?? effort;
    known.set(key, found);
  }
  return found;
}

function renders(template: ChatTemplate, extra: Variables): boolean {
  try {
    template.render({ messages: [{ role: 'user', content: 'a' }], extra });
    return true;
  } catch {
    return false;
  }
}
