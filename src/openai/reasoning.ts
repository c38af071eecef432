/** How much is to be reasoned: what clients say of it in the words of their protocol, as options of a conversation. */
import type { ChatTemplate } from '../chat/template.ts';
import { booleanField, invalid, numberField, stringField, type Body } from './fields.ts';

type Variables = Readonly<Record<string, unknown>>;

/** Switches of reasoning by the names that templates have: most read the first, Granite and DeepSeek the second, MiniMax the third, Seed-OSS the fourth. */
const REASONING_OFF: Variables = { enable_thinking: false, thinking: false, thinking_mode: 'disabled', thinking_budget: 0 };
const REASONING_ON: Variables = { enable_thinking: true, thinking: true, thinking_mode: 'enabled' };
/** Names that templates have for an effort. */
const EFFORT_NAMES = ['reasoning_effort', 'thinking_effort', 'reasoning_strength'];
/** Efforts of OpenAI's and Anthropic's protocols, in ascending order. */
const EFFORTS = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

/** Reasoning as a client asks for it, in the words of its protocol. */
export interface ReasoningWish {
  /** `none`, a level, or a word of the template's own. */
  readonly effort?: string | undefined;
  readonly thinks?: boolean | undefined;
  readonly budget?: number | undefined;
}

const THINKS: Readonly<Record<string, boolean>> = { enabled: true, adaptive: true, auto: true, disabled: false };
const BUDGET = { least: 0, most: 2 ** 31 - 1, integer: true };

/**
 * A request's wish, in the spellings of all protocols, which clients mix: OpenAI's `reasoning_effort` and `reasoning.effort`, Anthropic's `thinking` and
 * `output_config.effort`, OpenRouter's `reasoning`, and `enable_thinking` of those who serve Qwen.
 */
export function wishOf(body: Body): ReasoningWish {
  const type = stringField(body, 'thinking.type');
  if (type !== undefined && !Object.hasOwn(THINKS, type)) throw invalid('thinking.type', `one of ${Object.keys(THINKS).join(', ')}`, type);
  const effort =
    stringField(body, 'reasoning_effort') ?? stringField(body, 'reasoning.effort') ?? stringField(body, 'output_config.effort');
  return {
    // Settings of clients that were not filled in, and Groq's word for the same.
    effort: effort === '' || effort === 'default' ? undefined : effort,
    thinks: type === undefined ? (booleanField(body, 'enable_thinking') ?? booleanField(body, 'reasoning.enabled')) : THINKS[type],
    budget:
      numberField(body, 'thinking.budget_tokens', BUDGET) ??
      numberField(body, 'thinking_budget', BUDGET) ??
      numberField(body, 'reasoning.max_tokens', BUDGET),
  };
}

/**
 * A wish as options of a conversation. Without reasoning there is no effort (undefined: the variable is not set), and the budget keeps models from it whose
 * templates have no switch.
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

/** The nearest effort that the template renders: some know only a few of the levels and refuse the others. The lower one of two that are as near. */
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
