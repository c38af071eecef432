/**
 * `quantlet chat` with its input from a pipe, one answer with -p, and in a terminal if util-linux's
 * `script` is installed.
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { audioFile } from '../audio/projector-file.ts';
import { wavFile } from '../audio/wav-file.ts';
import { at, cliPath, llamaModel, runCli, shippedModel, temporaryFolder, writeTo } from '../support.ts';
import { bytesOf } from '../vision/golden.ts';
import { hasTerminal, inTerminal, shellLine } from './terminal.ts';

const folder = temporaryFolder();
const template = writeTo(
  folder,
  'template.jinja',
  "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
);
const chat = (args: readonly (string | number)[], input = '') =>
  runCli(['chat', '-m', shippedModel, '--chat-template-file', template, '--no-warmup', '-t', 1, '--temp', 0, '-n', 12, ...args], { input });

it('answers line after line, as a library user would be answered; \\ joins lines; commands are not part of the conversation', async () => {
  const file = join(folder, 'chat.json');
  const { code, stdout, stderr } = await chat(
    ['-sys', 'Be kind.'],
    `Tell me\\\na story\n\n/help\nMore\n/save ${file}\n/nonsense\n/exit\nnever read\n`,
  );
  expect([code, stderr]).toEqual([0, '']);
  const messages = JSON.parse(readFileSync(file, 'utf8')) as { role: string; content: string }[];
  expect(messages.map((m) => m.role)).toEqual(['system', 'user', 'assistant', 'user', 'assistant']);
  expect(messages[1].content).toBe('Tell me\na story');
  for (const { content } of messages.filter((m) => m.role === 'assistant')) expect(stdout).toContain(content);
  expect(stdout).toMatch(/\/regen .*answer the last message again/);
  expect(stdout).toContain('There is no command /nonsense');
});

describe('pictures', () => {
  const picture = writeTo(folder, 'shapes.png', bytesOf('shapes.png'));
  const seeing = ['-m', at('test/golden/vision/idefics3.gguf'), '--mmproj', at('test/golden/vision/mmproj-idefics3.gguf')];
  const base = ['--no-warmup', '-t', 1, '--temp', 0, '-n', 4, '-c', 512];
  type Saved = { role: string; content: string | { type: string; text?: string; image_url?: { url: string } }[] }[];
  const saved = (name: string): Saved => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Saved;

  it('/image puts one before the next message, which /save keeps and /load reads', async () => {
    const file = join(folder, 'seen.json');
    const input = `/image ${picture}\nWhat?\nAnd now?\n/save ${file}\n/undo\n/undo\n/load ${file}\n/regen\n/save ${file}.2\n`;
    const { code, stdout, stderr } = await runCli(['chat', ...seeing, ...base], { input });
    expect([code, stderr]).toEqual([0, '']);
    const url = `data:image/png;base64,${readFileSync(picture).toString('base64')}`;
    const parts = [
      { type: 'image_url', image_url: { url } },
      { type: 'text', text: 'What?' },
    ];
    expect(saved('seen.json').map(({ role, content }) => (role === 'user' ? content : role))).toEqual([
      parts,
      'assistant',
      'And now?',
      'assistant',
    ]);
    expect(stdout).toContain('will go before the next message');
    expect(stdout).toContain('Undone: [image] What?');
    expect(saved('seen.json.2')[0].content).toEqual(parts);
  });

  it('/image says what is wrong, and the conversation continues', async () => {
    const none = await runCli(['chat', '-m', shippedModel, '--chat-template-file', template, ...base], {
      input: `/image ${picture}\nHi\n`,
    });
    expect([none.code, none.stderr]).toEqual([0, expect.stringMatching(/takes neither images nor sounds.*--mmproj FILE/)]);
    const text = writeTo(folder, 'no-picture.png', 'This is no picture.');
    const bad = await runCli(['chat', ...seeing, ...base], { input: `/image ${text}\n/image\nHi\n` });
    expect([bad.code, bad.stderr]).toEqual([0, expect.stringMatching(/ERR_IMAGE_INVALID/)]);
    expect(bad.stdout).toContain('Which one? /image FILE');
  });

  it('/audio puts a sound before the next message', async () => {
    const mmproj = join(folder, 'mmproj-sound.gguf');
    writeFileSync(mmproj, audioFile('ultravox'));
    const sound = join(folder, 'sound.wav');
    writeFileSync(sound, wavFile(Array.from({ length: 3000 }, (_, i) => Math.sin(i / 9))));
    const file = join(folder, 'heard.json');
    const hearing = ['-m', at('test/golden/vision/idefics3.gguf'), '--mmproj', mmproj, '--chat-template-file', template];
    const { code, stdout, stderr } = await runCli(['chat', ...hearing, ...base], {
      input: `/audio ${sound}\nWhat?\n/save ${file}\n/audio ${picture}\n/audio\n`,
    });
    expect([code, stderr]).toEqual([0, expect.stringMatching(/projector of the model is for sounds/)]);
    expect(stdout).toContain('The sound');
    expect(stdout).toContain('Which one? /audio FILE');
    const data = readFileSync(sound).toString('base64');
    expect(saved('heard.json')[0].content).toEqual([
      { type: 'input_audio', input_audio: { data, format: 'wav' } },
      { type: 'text', text: 'What?' },
    ]);
  });

  it('markers of -p say where pictures are, under the name of llama-mtmd-cli too', async () => {
    const prompt = async (text: string): Promise<number> => {
      const args = ['llama-mtmd-cli', ...seeing, ...base, '--json', '--image', picture, '-p', text];
      return (JSON.parse((await runCli(args)).stdout) as { timings: { prompt_n: number } }).timings.prompt_n;
    };
    expect(await prompt('<__media__>What?')).toBe(await prompt('What?'));
    const { code, stderr } = await runCli(['chat', ...seeing, ...base, '--image', picture, '-p', '<__media__> <__media__>']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('2 markers')]);
  });
});

it('the reason why an answer ended early is not part of piped output', async () => {
  const short = await chat(['-n', 2], 'Tell me\n');
  expect([short.code, short.stdout.match(/[[\]]/g), short.stderr]).toEqual([0, null, '']);
  for (const [args, input] of [
    [['-p', 'Tell me a story'], ''],
    [[], 'Tell me a story\n'],
  ] as const) {
    const full = await chat(['-n', -1, '-c', 24, '--ignore-eos', ...args], input);
    expect([full.code, full.stdout.includes('['), full.stderr]).toEqual([0, false, '[cut: the context is full]\n']);
  }
});

it('/clear keeps the system message, /system replaces all, /regen answers anew with another seed', async () => {
  const file = join(folder, 'clear.json');
  const input = `One\n/clear\n/save ${file}.1\nTwo\n/regen\n/save ${file}.2\n/system Other\n/save ${file}.3\n`;
  const { code, stdout } = await chat(['-sys', 'Be kind.', '--temp', 1, '-s', 7], input);
  expect([code, stdout.match(/The conversation is forgotten\./g)]).toEqual([0, Array(2).fill('The conversation is forgotten.')]);
  const saved = (n: number): { role: string; content: string }[] =>
    JSON.parse(readFileSync(`${file}.${n}`, 'utf8')) as { role: string; content: string }[];
  expect(saved(1)).toEqual([{ role: 'system', content: 'Be kind.' }]);
  expect(saved(2).map((m) => m.role)).toEqual(['system', 'user', 'assistant']);
  expect(saved(3)).toEqual([{ role: 'system', content: 'Other' }]);
});

describe('one answer', () => {
  it('-p: the answer alone on stdout; --json: one object', async () => {
    const { code, stdout, stderr } = await chat(['-p', 'Tell me a story']);
    expect([code, stderr]).toEqual([0, '']);
    const report = JSON.parse((await chat(['-p', 'Tell me a story', '--json'])).stdout) as {
      content: string;
      ids: number[];
      stop_reason: string;
    };
    expect([report.content.trim(), report.ids.length, report.stop_reason]).toEqual([stdout.trim(), 12, 'length']);
  });

  it('a schema holds; a bad one, an unknown flag, --json without a message are refused', async () => {
    const schema =
      '{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}';
    expect(JSON.parse((await chat(['-p', 'x', '-n', 60, '-j', schema])).stdout)).toEqual({ n: expect.any(Number) as number });
    expect((await chat(['-p', 'x', '-j', '{'])).code).toBe(2);
    expect((await chat(['-p', 'x', '--grammar', 'root ::= ('])).code).toBe(1);
    expect((await chat(['--port', 5])).code).toBe(2);
    expect(await chat(['-m', llamaModel.replace('llama.gguf', 'bert.gguf')], 'Hello\n')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('quantlet embed') as string,
    });
    expect(
      await chat([
        '-p',
        'x',
        '--chat-template-file',
        writeTo(folder, 'throws.jinja', "{% if messages %}{{ raise_exception('only cats') }}{% endif %}"),
      ]),
    ).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/only cats.*ERR_CHAT_TEMPLATE/) as string });
    expect((await chat(['--json'])).code).toBe(2);
  });
});

const chatCommand = (...args: readonly (string | number)[]): string =>
  shellLine(process.execPath, cliPath, 'chat', '-m', shippedModel, '--chat-template-file', template, '--no-warmup', '-t', 1, ...args);
const prompt = /> \x1b\[3G/;

describe.runIf(hasTerminal)('in a terminal', () => {
  it('Ctrl-C stops the answer, then clears the line; the up key brings messages back; Ctrl-D leaves', async () => {
    // Long enough to be stopped in the middle.
    const { type, end } = inTerminal(chatCommand('-c', 4096, '--grammar', 'root ::= [a-z ]{4000}'));
    await type('', prompt);
    await type('Tell me a story\r', /story[^]*[a-z ]{20}/);
    await type('\x03', /\[stopped\]/);
    await type('', prompt);
    await type('half a message', /half a message/);
    await type('\x03', /\(Ctrl-D or \/exit leaves\)/);
    await type('/nothing\r', /There is no command \/nothing;/);
    await type('\x1b[A\x1b[A', /> Tell me a story/);
    await type('\x03', prompt);
    await end('\x04');
  });

  it('the figures of an answer that Ctrl-C stops are its own', async () => {
    const { type, end, seen } = inTerminal(chatCommand('-c', 4096, '--show-timings', '--grammar', 'root ::= [a-z]{4000}'));
    await type('', prompt);
    const stopAfter = async (message: string, letters: number): Promise<{ read: number; wrote: number; letters: number }> => {
      const from = seen().length;
      await type(`${message}\r`, new RegExp(`${message}[^]*[a-z]{${letters}}`));
      await type('\x03', /\[stopped\][^]*generation \d+ tokens/);
      await type('', prompt);
      const shown = seen().slice(from);
      const [, text, read, wrote] = /([a-z]*) \[stopped\][^]*prompt (\d+) tokens[^]*generation (\d+) tokens/.exec(shown)!;
      return { read: Number(read), wrote: Number(wrote), letters: text.length };
    };
    const first = await stopAfter('One', 10);
    const second = await stopAfter('Two', 300);
    for (const { wrote, letters } of [first, second]) expect(wrote).toBeLessThanOrEqual(letters);
    expect(second.wrote).toBeGreaterThan(first.wrote);
    expect(second.wrote).toBeGreaterThan(300 / 12);
    await end('/exit\r');
  });

  it('what is pasted is one message, Alt-Enter begins a line, Tab completes commands and paths, what was typed is kept', async () => {
    const saved = join(folder, 'typed.json');
    const history = join(folder, 'history');
    const { type, end } = inTerminal(chatCommand('-n', 2), { QUANTLET_HISTORY: history });
    await type('', prompt);
    await type('\x1b[200~one\rtwo\rthree\x1b[201~ four\r', /\[cut: -n\][^]*> \x1b\[3G/);
    await type('five\x1b\r', /\. \x1b\[3G/);
    await type('six\r', /\[cut: -n\][^]*> \x1b\[3G/);
    await type(`/save ${saved}\r`, /Written to/);
    const messages = JSON.parse(readFileSync(saved, 'utf8')) as { role: string; content: string }[];
    expect(messages.filter((m) => m.role === 'user').map((m) => m.content)).toEqual(['one\ntwo\nthree four', 'five\nsix']);
    await type('/und', /\/und/);
    await type('\t', /o/);
    await type('\r', /Undone: five/);
    await type(`/load ${saved.slice(0, -4)}`, /typed\./);
    await type('\t', /json/);
    await type('\r', /Read 4 messages/);
    await type('/speed\r', /tokens\/s[^]* of \d+ tokens of context/);
    await type('/image x.png\r', /cannot read x\.png: there is no such file/);
    await end('/exit\r');
    expect(readFileSync(history, 'utf8')).toMatch(/^\/exit\n\/image x.png\n/);
    const again = inTerminal(chatCommand('-n', 2), { QUANTLET_HISTORY: history });
    await again.type('', prompt);
    await again.type('\x1b[A\x1b[A', /> \/image x\.png/);
    await again.type('\x03', prompt);
    await again.end('\x04');
  });

  it('Ctrl-Z and fg', async () => {
    const { type, end } = inTerminal('bash --norc -i', { PS1: '$ ' });
    await type(`${chatCommand('-n', 2)}\r`, prompt);
    await type('\x1a', /Stopped/);
    await type('fg\r', prompt);
    await type('Hello\r', /\[cut: -n\][^]*> \x1b\[3G/);
    await type('/exit\r', /\$ |# /);
    await type('echo "code $?"\r', /code 0\r?\n/);
    await end('exit\r');
  });

  it('bare chat says what the model is that ships, and names others', async () => {
    const { type, end } = inTerminal(shellLine(process.execPath, cliPath, 'chat', '--no-warmup', '-t', 1));
    await type('', /continues stories[^]*-hf [^]*-hf [^]*-hf [^]*> \x1b\[3G/);
    await end('/exit\r');
  });
});

it('/undo, /file, /load and /speed', async () => {
  const file = join(folder, 'commands.json');
  const note = writeTo(folder, 'note.txt', 'A note.\n');
  const saved = (): { role: string; content: string }[] => JSON.parse(readFileSync(file, 'utf8')) as { role: string; content: string }[];
  const first = await chat(
    [],
    `One\nTwo\n/undo\n/file ${note}\nThree\n/speed\n/save ${file}\n/file ${join(folder, 'none')}\n/load ${note}\n`,
  );
  expect([first.code, first.stderr]).toEqual([
    0,
    expect.stringMatching(
      /^quantlet: cannot read .*none: there is no such file\nquantlet: .*note\.txt has no conversation: .*\n$/,
    ) as string,
  ]);
  expect(saved().map((m) => m.content)).toEqual(['One', expect.any(String), 'A note.\n\nThree', expect.any(String)]);
  expect(first.stdout).toMatch(/Undone: Two\n[^]*of \d+ tokens of context/);
  await chat([], `/load ${file}\n/undo\n/save ${file}\n`);
  expect(saved()).toHaveLength(2);
});

it('a file that cannot be written or read ends no conversation, and none is written over the model', async () => {
  const model = join(folder, 'own.gguf');
  copyFileSync(llamaModel, model);
  const utf16 = writeTo(folder, 'utf16.json', Buffer.from('[{}, {}]', 'utf16le'));
  const wrong = [`/save ${join(folder, 'none', 'x')}`, '/save .', `/save ${model}`, `/load ${utf16}`, `/file ${utf16}`, '/file .'];
  const file = join(folder, 'kept.json');
  const { code, stderr } = await chat(['-m', model], `One\n${wrong.join('\n')}\n/save ${file}\n`);
  expect([code, stderr.trimEnd().split('\n').length], stderr).toEqual([0, wrong.length]);
  expect(stderr).toContain(`the output ${model} is also the input`);
  expect(readFileSync(model).equals(readFileSync(llamaModel))).toBe(true);
  expect(JSON.parse(readFileSync(file, 'utf8'))).toHaveLength(2);
});

it('/load and /save keep the digits of numbers', async () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: { n: 'N' } } };
  const messages = [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: '', tool_calls: [call] },
    { role: 'tool', tool_call_id: 'a', content: 'done' },
  ];
  const text = `${JSON.stringify(messages, null, 2).replace('"N"', '1234567890123456789')}\n`;
  const copy = join(folder, 'copy.json');
  await chat([], `/load ${writeTo(folder, 'numbers.json', text)}\n/save ${copy}\n`);
  expect(readFileSync(copy, 'utf8')).toBe(text);
});

it('with -mli all that is piped in is one message, which is answered', async () => {
  const args = [
    'chat',
    '-m',
    shippedModel,
    '--chat-template-file',
    template,
    '--no-warmup',
    '-t',
    '1',
    '--temp',
    '0',
    '-n',
    '12',
    '--json',
  ];
  const answer = (...more: string[]) => {
    const { status, stdout } = spawnSync(process.execPath, [cliPath, ...args, ...more], { input: 'Tell me\na story\n', encoding: 'utf8' });
    return [status, status === 0 ? (JSON.parse(stdout) as { content: string }).content : ''];
  };
  const [status, content] = answer('-mli');
  expect([status, content]).toEqual(answer('-p', 'Tell me\na story'));
});
