/**
 * Hostile chat templates, and hostile conversations for templates in use. A template renders or is
 * refused with a coded error, whatever it loops over. No text of a conversation becomes a control
 * token.
 */
import { prepareChatWork } from '../../src/chat/run.ts';
import { createChatTemplate } from '../../src/chat/template.ts';
import { QuantletError } from '../../src/errors.ts';
import { conversation, controlBackend, everyTemplate } from '../chat/templates.ts';
import { seeded } from '../web/server.ts';
import type { CampaignOptions, CampaignResult } from './campaign.ts';
import { below, pick, type Random } from './mutate.ts';
import { inSteps, runWatched, serveWatched } from './watched.ts';

export function campaign(options: CampaignOptions): Promise<CampaignResult> {
  return runWatched(import.meta.url, options);
}

const values = [
  'm.content',
  'm',
  'messages',
  'tools',
  'x',
  'ns.a',
  '1',
  '"ab"',
  '[1, [2]]',
  '{"a": 1}',
  'range(1000)',
  'range(100000)',
  'range(-1, 1e9)',
  'messages[0]["content"]',
  'm.tool_calls',
  'none',
  'bos_token',
  'loop.index',
  'raise_exception("no")',
  'strftime_now("%Y")',
  'x ~ x',
  'x + x',
  'x * 1000',
  'm.content[::-1]',
  'm.constructor',
  'x.__proto__',
];
const filters = [
  '',
  '',
  '',
  ' | tojson',
  ' | length',
  ' | trim',
  ' | list',
  ' | join(",")',
  ' | string',
  ' | upper',
  ' | map(attribute="a")',
  ' | selectattr("a")',
  ' | items',
  ' | dictsort',
  ' | first',
  ' | replace("a", "aaaa")',
  '.split("a")',
  '.strip()',
  '.upper()',
  ' | indent(1000)',
  ' | from_json',
  ' | sum',
];
const DEPTH = 4;

function randomTemplate(next: Random, depth = 0): string {
  const value = (): string => pick(next, values) + pick(next, filters);
  const block = (): string => (depth < DEPTH ? randomTemplate(next, depth + 1) : 'x');
  const ways: readonly (() => string)[] = [
    () => `{{ ${value()} }}`,
    () => `{% for m in ${value()} %}${block()}{% endfor %}`,
    () => `{% for m in messages %}${block()}{% endfor %}`,
    () =>
      `{% if ${value()} ${pick(next, ['', '== 1', 'in x', 'is defined', 'is string', '> 2', 'and x'])} %}${block()}{% else %}${block()}{% endif %}`,
    () => `{% set x = ${value()} %}`,
    () => `{% set ns = namespace(a=${value()}) %}{% set ns.a = ${value()} %}`,
    () => `{% macro f(a) %}${block()}{{ a }}{% endmacro %}{{ f(${value()}) }}`,
    () =>
      pick(
        next,
        [' ', '\n', '<|im_start|>', '{#', '#}', '{%', '}}', '{{', '-%}', "'", '\\'].map((text) =>
          text.repeat(pick(next, [1, 1, 10, 3000])),
        ),
      ),
    () => `{% ${pick(next, ['break', 'continue', 'else', 'endif', 'x', ''])} %}`,
  ];
  return Array.from({ length: 1 + below(next, 4) }, () => pick(next, ways)()).join('');
}

/** Text of control tokens, whole or in parts, with other text between them. */
function randomSaying(next: Random, control: readonly string[]): string {
  const part = (): string => {
    const token = pick(next, control);
    const cut = below(next, token.length);
    return pick(next, [
      token,
      token,
      token.slice(0, cut),
      token.slice(cut),
      ' ',
      '\n',
      'é',
      '\ufdd0',
      '\\ufdd1',
      'user',
      'word',
      '"',
      '<',
      '|>',
    ]);
  };
  return Array.from({ length: 1 + below(next, 12) }, part).join('');
}

await serveWatched(() => {
  const known = new Map<string, ReturnType<typeof controlBackend>>();
  return Promise.resolve((seed) => {
    const next = seeded(seed);
    if (next() < 0.5) {
      const source = `{% set x = "ab" %}${randomTemplate(next)}`;
      const { messages, tools } = conversation('x'.repeat(pick(next, [1, 1000, 50_000])));
      try {
        inSteps(createChatTemplate(source, { bos: '<s>' }).renderWork({ messages, tools }));
      } catch (error) {
        if (!(error instanceof QuantletError) || error.code !== 'ERR_CHAT_TEMPLATE') throw error;
      }
      return Promise.resolve(200_000);
    }
    const [name, source] = pick(next, everyTemplate);
    let made = known.get(name);
    if (!made) known.set(name, (made = controlBackend(source)));
    const { backend, control, tokenizer } = made;
    const controls = (said: string): string[] => {
      const { messages, tools } = conversation(said, 'x');
      return inSteps(prepareChatWork(backend, messages, { tools, templateVariables: { said } }))
        .promptIds.filter((id) => id >= 256)
        .map((id) => tokenizer.tokenText(id));
    };
    const said = randomSaying(next, control);
    const [want, got] = [controls('x').join(), controls(said).join()];
    if (want !== got) throw new Error(`${name}: ${JSON.stringify(said)} makes the control tokens ${got}; expected ${want}`);
    return Promise.resolve(said.length);
  });
});
