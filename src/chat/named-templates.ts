/**
 * llama.cpp's built-in chat templates by name (--chat-template NAME), as Jinja. Each writes the
 * same text as llama_chat_apply_template of v0.5.0; test/golden/chat has its outputs. As in
 * llama.cpp, none supports tools, and the tokenizer adds the beginning-of-sequence token.
 */

/** A piece of Jinja: literal text, or an expression. */
type Piece = string | { readonly jinja: string };

const ROLE: Piece = { jinja: 'message.role' };
const CONTENT: Piece = { jinja: 'message.content' };
const TRIMMED: Piece = { jinja: '(message.content | trim)' };

const write = (...pieces: readonly Piece[]): string =>
  pieces.length === 0
    ? ''
    : `{{ ${pieces.map((piece) => (typeof piece === 'string' ? JSON.stringify(piece) : piece.jinja)).join(' + ')} }}`;
const when = (condition: string, then: string): string => `{% if ${condition} %}${then}{% endif %}`;
const each = (body: string): string => `{% for message in messages %}${body}{% endfor %}`;
/** Text before the answer. */
const answer = (...pieces: readonly Piece[]): string => (pieces.length === 0 ? '' : when('add_generation_prompt', write(...pieces)));

/** Writes every message in the same way. */
const alike = (message: readonly Piece[], ...generation: readonly Piece[]): string => each(write(...message)) + answer(...generation);

type Roles = { readonly [role in 'system' | 'user' | 'assistant' | 'tool' | 'function' | 'other']?: readonly Piece[] };
/** Writes each role by its own pieces; a role without pieces is left out. */
const byRole = (roles: Roles): string => {
  const { other, ...named } = roles;
  const branches = Object.entries(named).map(([role, pieces]) => `if message.role == '${role}' %}${write(...pieces)}`);
  return `{% ${branches.join('{% el')}${other ? `{% else %}${write(...other)}` : ''}{% endif %}`;
};
const turns = (roles: Roles, ...generation: readonly Piece[]): string => each(byRole(roles)) + answer(...generation);

/** Puts system texts into the next user message, with a blank line between. */
const systemIntoUser = (body: (content: string) => string, trim = ''): string =>
  `{% set ns = namespace(system='') %}${each(
    `{% if message.role == 'system' %}{% set ns.system = ns.system + (message.content${trim}) %}{% else %}${body(
      `(ns.system + '\\n\\n' if ns.system and message.role == 'user' else '') + (message.content${trim})`,
    )}{% if message.role == 'user' %}{% set ns.system = '' %}{% endif %}{% endif %}`,
  )}`;

/** Llama 2: each turn is a user message (the first includes the system message) and an answer. */
const llama2 = ({ system = true, bos = false, trim = false } = {}): string => {
  const content: Piece = trim ? TRIMMED : CONTENT;
  return (
    `{{ '[INST] ' }}{% set ns = namespace(inside=true) %}` +
    each(
      `{% if not ns.inside %}{% set ns.inside = true %}${write(bos ? '<s>[INST] ' : '[INST] ')}{% endif %}` +
        byRole({
          system: system ? ['<<SYS>>\n', content, '\n<</SYS>>\n\n'] : [content, '\n'],
          user: [content, ' [/INST]'],
          other: [content, '</s>'],
        }) +
        `{% if message.role != 'system' and message.role != 'user' %}{% set ns.inside = false %}{% endif %}`,
    )
  );
};

/** Mistral up to v3: like Llama 2, with other blanks. */
const mistral = (before: string, after: string, trim = false): string =>
  `{% set ns = namespace(inside=false) %}` +
  each(
    `{% if not ns.inside %}{% set ns.inside = true %}${write(`${before}[INST]${after}`)}{% endif %}` +
      byRole({
        system: [CONTENT, '\n\n'],
        user: [CONTENT, `${before}[/INST]`],
        other: [after, trim ? TRIMMED : CONTENT, '</s>'],
      }) +
      `{% if message.role != 'system' and message.role != 'user' %}{% set ns.inside = false %}{% endif %}`,
  );

const mistral7 = (blank: string): string =>
  turns({
    system: [`[SYSTEM_PROMPT]${blank}`, CONTENT, '[/SYSTEM_PROMPT]'],
    user: [`[INST]${blank}`, CONTENT, '[/INST]'],
    other: [blank, CONTENT, '</s>'],
  });

const vicuna = (before: string, after: string): string =>
  turns({ system: [before, CONTENT, after], user: ['USER: ', CONTENT, '\n'], assistant: ['ASSISTANT: ', CONTENT, '</s>\n'] }, 'ASSISTANT:');

const cohere = (role: string): readonly Piece[] => [`<|START_OF_TURN_TOKEN|><|${role}_TOKEN|>`, TRIMMED, '<|END_OF_TURN_TOKEN|>'];
const kimi = (who: string, role: string): readonly Piece[] => [`<|im_${who}|>${role}<|im_middle|>`, CONTENT, '<|im_end|>'];
const granite3: readonly Piece[] = ['<|start_of_role|>', ROLE, '<|end_of_role|>', CONTENT, '<|end_of_text|>\n'];
const granite = alike(granite3, '<|start_of_role|>assistant<|end_of_role|>');

/** Ling and Ring: role names in capitals, HUMAN for the user. */
const bailing = (end: string, generation: string, first = ''): string =>
  first +
  each(
    `{{ '<role>' + ('HUMAN' if message.role == 'user' else message.role | upper) + '</role>' + message.content + ${JSON.stringify(end)} }}`,
  ) +
  answer(generation);

const exaone = (system: (role: string) => string, gap: string, roles: readonly string[]): string =>
  turns(
    Object.fromEntries(
      roles.map((role) => [role, [`${system(role)}${gap}`, TRIMMED, role === 'user' && gap === '' ? '\n' : `${system('endofturn')}\n`]]),
    ),
    `${system('assistant')}${gap}`,
  );

const pangu = (role: string): string => `[unused9]${role}：`;

export const NAMED_TEMPLATES: { readonly [name: string]: string } = {
  chatml: alike(['<|im_start|>', ROLE, '\n', CONTENT, '<|im_end|>\n'], '<|im_start|>assistant\n'),
  llama2: llama2({ system: false }),
  'llama2-sys': llama2(),
  'llama2-sys-bos': llama2({ bos: true }),
  'llama2-sys-strip': llama2({ trim: true }),
  'mistral-v1': mistral(' ', ' '),
  'mistral-v3': mistral('', ' ', true),
  'mistral-v3-tekken': mistral('', ''),
  'mistral-v7': mistral7(' '),
  'mistral-v7-tekken': mistral7(''),
  phi3: alike(['<|', ROLE, '|>\n', CONTENT, '<|end|>\n'], '<|assistant|>\n'),
  phi4: alike(['<|im_start|>', ROLE, '<|im_sep|>', CONTENT, '<|im_end|>'], '<|im_start|>assistant<|im_sep|>'),
  falcon3: alike(['<|', ROLE, '|>\n', CONTENT, '\n'], '<|assistant|>\n'),
  zephyr: alike(['<|', ROLE, '|>\n', CONTENT, '<|endoftext|>\n'], '<|assistant|>\n'),
  monarch: each(when('not loop.first', write('<s>')) + write(ROLE, '\n', CONTENT, '</s>\n')) + answer('<s>assistant\n'),
  gemma:
    systemIntoUser(
      (content) =>
        `{{ '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' + ${content} + '<end_of_turn>\\n' }}`,
      ' | trim',
    ) + answer('<start_of_turn>model\n'),
  orion: systemIntoUser(
    (content) =>
      `{% if message.role == 'user' %}{{ 'Human: ' + ${content} + '\\n\\nAssistant: </s>' }}{% else %}${write(CONTENT, '</s>')}{% endif %}`,
  ),
  openchat: turns(
    {
      system: [CONTENT, '<|end_of_turn|>'],
      other: ['GPT4 Correct ', { jinja: '(message.role | capitalize)' }, ': ', CONTENT, '<|end_of_turn|>'],
    },
    'GPT4 Correct Assistant:',
  ),
  vicuna: vicuna('', '\n\n'),
  'vicuna-orca': vicuna('SYSTEM: ', '\n'),
  deepseek: turns(
    {
      system: [CONTENT],
      user: ['### Instruction:\n', CONTENT, '\n'],
      assistant: ['### Response:\n', CONTENT, '\n<|EOT|>\n'],
    },
    '### Response:\n',
  ),
  deepseek2: turns(
    { system: [CONTENT, '\n\n'], user: ['User: ', CONTENT, '\n\n'], assistant: ['Assistant: ', CONTENT, '<｜end▁of▁sentence｜>'] },
    'Assistant:',
  ),
  deepseek3: turns(
    { system: [CONTENT, '\n\n'], user: ['<｜User｜>', CONTENT], assistant: ['<｜Assistant｜>', CONTENT, '<｜end▁of▁sentence｜>'] },
    '<｜Assistant｜>',
  ),
  'deepseek-ocr': alike([CONTENT]),
  'command-r': turns(
    { system: cohere('SYSTEM'), user: cohere('USER'), assistant: cohere('CHATBOT') },
    '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>',
  ),
  llama3: alike(
    ['<|start_header_id|>', ROLE, '<|end_header_id|>\n\n', TRIMMED, '<|eot_id|>'],
    '<|start_header_id|>assistant<|end_header_id|>\n\n',
  ),
  chatglm3: write('[gMASK]sop') + alike(['<|', ROLE, '|>\n ', CONTENT], '<|assistant|>'),
  chatglm4: write('[gMASK]<sop>') + alike(['<|', ROLE, '|>\n', CONTENT], '<|assistant|>\n'),
  glmedge: alike(['<|', ROLE, '|>\n', CONTENT], '<|assistant|>'),
  minicpm: turns({ user: ['<用户>', TRIMMED, '<AI>'], other: [TRIMMED] }),
  exaone3: exaone((role) => `[|${role}|]`, '', ['system', 'user', 'assistant']),
  exaone4: exaone((role) => `[|${role}|]`, '', ['system', 'user', 'assistant', 'tool']),
  'exaone-moe': exaone((role) => `<|${role}|>`, '\n', ['system', 'user', 'assistant', 'tool']),
  'rwkv-world': each(
    byRole({
      system: ['System: ', TRIMMED, '\n\n'],
      user: ['User: ', TRIMMED, '\n\n'],
      assistant: ['Assistant: ', TRIMMED, '\n\n'],
    }) + when("message.role == 'user' and loop.last", write('Assistant:')),
  ),
  granite,
  'granite-4.0': granite,
  'granite-4.1': granite,
  gigachat:
    write('<s>') +
    turns(
      {
        system: [{ jinja: "(message.content + '<|message_sep|>' if loop.first else '')" }],
        user: ['user<|role_sep|>', CONTENT, '<|message_sep|>available functions<|role_sep|>[]<|message_sep|>'],
        assistant: ['assistant<|role_sep|>', CONTENT, '<|message_sep|>'],
      },
      'assistant<|role_sep|>',
    ),
  megrez: alike(['<|role_start|>', ROLE, '<|role_end|>', CONTENT, '<|turn_end|>'], '<|role_start|>assistant<|role_end|>'),
  yandex: turns({ user: [' Пользователь: ', CONTENT, '\n\n'], assistant: [' Ассистент: ', CONTENT, '\n\n'] }, ' Ассистент:[SEP]'),
  bailing: bailing('', '<role>ASSISTANT</role>'),
  'bailing-think': bailing('', '<role>ASSISTANT</role><think>'),
  bailing2: bailing(
    '<|role_end|>',
    '<role>ASSISTANT</role>',
    when("messages[0].role != 'system'", write('<role>SYSTEM</role>detailed thinking off<|role_end|>')),
  ),
  llama4: alike(['<|header_start|>', ROLE, '<|header_end|>\n\n', TRIMMED, '<|eot|>'], '<|header_start|>assistant<|header_end|>\n\n'),
  smolvlm:
    write('<|im_start|>') +
    turns(
      {
        system: [CONTENT, '\n\n'],
        user: ['User: ', CONTENT, '<end_of_utterance>\n'],
        other: ['Assistant: ', CONTENT, '<end_of_utterance>\n'],
      },
      'Assistant:',
    ),
  'hunyuan-moe': turns({
    system: ['<|startoftext|>', CONTENT, '<|extra_4|>'],
    assistant: [CONTENT, '<|eos|>'],
    other: ['<|startoftext|>', CONTENT, '<|extra_0|>'],
  }),
  'gpt-oss': turns(
    {
      assistant: ['<|start|>assistant<|message|>', CONTENT, '<|return|>'],
      other: ['<|start|>', ROLE, '<|message|>', CONTENT, '<|end|>'],
    },
    '<|start|>assistant',
  ),
  'hunyuan-dense': turns({
    system: [{ jinja: "(message.content + '<｜hy_place▁holder▁no▁3｜>' if loop.first else '')" }],
    user: ['<｜hy_User｜>', CONTENT, '<｜hy_Assistant｜>'],
    assistant: ['<｜hy_Assistant｜>', CONTENT, '<｜hy_place▁holder▁no▁2｜>'],
  }),
  'hunyuan-vl':
    write('<｜hy_begin▁of▁sentence｜>') +
    turns({
      system: [{ jinja: "(message.content + '<｜hy_place▁holder▁no▁3｜>' if loop.first else '')" }],
      user: [CONTENT, '<｜hy_User｜>'],
      assistant: [CONTENT, '<｜hy_Assistant｜>'],
    }),
  'kimi-k2': turns(
    {
      system: kimi('system', 'system'),
      user: kimi('user', 'user'),
      assistant: kimi('assistant', 'assistant'),
      tool: kimi('system', 'tool'),
    },
    '<|im_assistant|>assistant<|im_middle|>',
  ),
  seed_oss: turns(
    { assistant: ['<seed:bos>assistant\n', TRIMMED, '<seed:eos>'], other: ['<seed:bos>', ROLE, '\n', CONTENT, '<seed:eos>'] },
    '<seed:bos>assistant\n',
  ),
  'grok-2': turns(
    {
      system: ['System: ', TRIMMED, '<|separator|>\n\n'],
      user: ['Human: ', TRIMMED, '<|separator|>\n\n'],
      assistant: ['Assistant: ', CONTENT, '<|separator|>\n\n'],
    },
    'Assistant:',
  ),
  'pangu-embedded':
    when("messages[0].role != 'system'", write(`${pangu('系统')}[unused10]`)) +
    turns(
      {
        system: [pangu('系统'), CONTENT, '[unused10]'],
        user: [pangu('用户'), CONTENT, '[unused10]'],
        assistant: [pangu('助手'), CONTENT, '[unused10]'],
        tool: [pangu('工具'), CONTENT, '[unused10]'],
        function: [pangu('方法'), CONTENT, '[unused10]'],
      },
      pangu('助手'),
    ),
  'solar-open': alike(['<|begin|>', ROLE, '<|content|>', CONTENT, '<|end|>'], '<|begin|>assistant'),
};
