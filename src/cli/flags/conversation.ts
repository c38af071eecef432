/** Flags for conversations: templates, reasoning, turns. */
import { NAMED_TEMPLATES } from '../../chat/named-templates.ts';
import { flag, named, toggle, type Flag } from './flag.ts';

export const CONVERSATION_ROWS = {
  chatTemplate: named(
    'chatTemplate',
    flag(
      'chat-template',
      '',
      'string',
      'NAME|JINJA',
      "chat template in place of the model's: a name of llama.cpp (chatml, llama3, gemma ...), or Jinja",
      Object.keys(NAMED_TEMPLATES),
    ),
  ),
  chatTemplateFile: flag('chat-template-file', '', 'string', 'FILE', 'the same from a file'),
  chatTemplateKwargs: flag(
    'chat-template-kwargs',
    '',
    'string',
    'JSON',
    'further variables of the chat template: {"enable_thinking": false}',
  ),
  reasoning: flag('reasoning', '-rea', 'string', '[on|off|auto]', 'turn reasoning on or off in the template (auto)', ['on', 'off', 'auto']),
  reasoningFormat: flag(
    'reasoning-format',
    '',
    'string',
    'FORMAT',
    'auto or deepseek: show reasoning separately; none: leave it in the answer as the model wrote it; hidden: leave it out (auto)',
    ['auto', 'deepseek', 'none', 'hidden'],
  ),
  reasoningBudget: flag('reasoning-budget', '', 'integer', 'N', 'most tokens of reasoning; 0: none; -1: no limit (-1)'),
  reasoningBudgetMessage: flag(
    'reasoning-budget-message',
    '',
    'string',
    'TEXT',
    'text to write before the end of reasoning that is cut off (none)',
  ),
  reasoningEffort: flag('reasoning-effort', '', 'string', 'LEVEL', 'level of reasoning, for templates that have levels: low, medium, high'),
  system: flag('system-prompt', '-sys', 'string', 'TEXT', 'system message of the conversation'),
  systemFile: flag('system-prompt-file', '-sysf', 'string', 'FILE', 'the same from a file'),
  conversation: toggle(
    'conversation',
    '-cnv',
    '-no-cnv --no-conversation',
    'have a conversation, as quantlet chat does; -i, -st, -sys and the flags about chat templates imply it',
  ),
  interactive: flag('interactive', '-i -if --interactive-first', 'boolean', '', 'ask for messages, also after that of -p'),
  multilineInput: flag('multiline-input', '-mli', 'boolean', '', 'read piped text as one message, not one for each line'),
  mcpConfig: flag(
    'mcp-servers-config',
    '--mcp-config',
    'string',
    'FILE',
    'MCP servers whose tools the model may call: JSON as for llama-server, Claude Desktop and LM Studio, see docs/tools.md (none)',
  ),
  mcpJson: flag('mcp-servers-json', '', 'string', 'JSON', 'the same as text'),
  mcpAllow: flag(
    'mcp-allow',
    '',
    'strings',
    'SERVER[/TOOL]',
    'run calls of a tool, or of all tools of a server, without a question; several with commas between them (none)',
  ),
  singleTurn: flag('single-turn', '-st', 'boolean', '', 'end after one answer'),
} as const satisfies { readonly [key: string]: Flag };
