/**
 * Checks of a conversation that a program wrote. Content that no template would read is refused,
 * with a suggestion.
 */
import { QuantletError, tell } from '../errors.ts';
import { hintOf } from '../nearest.ts';
import { isRecord } from './json.ts';
import { checkMessages, type ChatMessage } from './messages.ts';

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool'];
const FIELDS = ['role', 'content', 'name', 'tool_calls', 'tool_call_id', 'reasoning_content'];

const bad = (message: string): QuantletError => new QuantletError('ERR_INVALID_ARGUMENT', message);

/**
 * Checks roles, fields and content of each message. Roles and fields that the template's source
 * names are accepted too. Fields that are null or an empty list pass, such as `refusal: null` of
 * OpenAI's own answers.
 * @param source Jinja of the model's template
 * @throws ERR_INVALID_ARGUMENT naming the message, the fault and a suggestion
 */
export function checkConversation(messages: readonly ChatMessage[], source: string): void {
  checkMessages(messages);
  for (const [i, message] of messages.entries()) {
    const which = `message ${i + 1} of ${messages.length}`;
    const { role } = message;
    if (!ROLES.includes(role) && !new RegExp(`['"]${escaped(role)}['"]`).test(source))
      throw bad(`${which} has the role ${tell(role)}; ${hintOf(role, ROLES)} one of ${ROLES.join(', ')}`);
    for (const [field, value] of Object.entries(message)) {
      if (value === undefined || value === null || (Array.isArray(value) && value.length === 0) || FIELDS.includes(field)) continue;
      if (!new RegExp(`(?<!\\w)${escaped(field)}(?!\\w)`).test(source))
        throw bad(`${which} has the field "${field}", which does not exist; ${hintOf(field, FIELDS)} ${FIELDS.join(', ')}`);
    }
    checkContent(which, message);
  }
}

/** Only an answer may lack text: it may consist of reasoning or calls. */
function checkContent(which: string, { role, content, tool_calls: calls, reasoning_content: reasoning }: ChatMessage): void {
  if (content === undefined || content === null) {
    if (role === 'assistant' && ((Array.isArray(calls) && calls.length > 0) || reasoning !== undefined)) return;
    throw bad(`${which} (${role}) has no content; expected a text or a list of parts${role === 'assistant' ? ', or tool_calls' : ''}`);
  }
  if (typeof content !== 'string' && !Array.isArray(content))
    throw bad(`${which} has content that is ${tell(content)}; expected a text or a list of parts`);
  if (calls === undefined || calls === null) return;
  if (
    !Array.isArray(calls) ||
    !calls.every((call: unknown) => isRecord(call) && isRecord(call.function) && typeof call.function.name === 'string')
  )
    throw bad(`${which} has tool_calls that are not calls; expected a list of { id, type: 'function', function: { name, arguments } }`);
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
