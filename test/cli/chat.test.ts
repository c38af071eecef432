/** `quantlet chat` with its input from a pipe, one answer with -p, and in a terminal where util-linux has one to lend. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cliPath, llamaModel, runCli, shippedModel, temporaryFolder, writeTo } from '../support.ts';

const folder = temporaryFolder();
const template = writeTo(folder, 'template.jinja', "{% for m in messages %}{{ m.role[0] + ':' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
const chat = (args: readonly (string | number)[], input = '') => runCli(['chat', '-m', shippedModel, '--chat-template-file', template, '--no-warmup', '-t', 1, '--temp', 0, '-n', 12, ...args], { input });

it('answers line after line, as a library user would be answered; \\ joins lines; commands are none of the conversation', async () => {
  const file = join(folder, 'chat.json');
  const { code, stdout, stderr } = await chat(['-sys', 'Be kind.'], `Tell me\\\na story\n\n/help\nMore\n/save ${file}\n/nonsense\n/exit\nnever read\n`);
  expect([code, stderr]).toEqual([0, '']);
  const messages = JSON.parse(readFileSync(file, 'utf8')) as { role: string; content: string }[];
  expect(messages.map((m) => m.role)).toEqual(['system', 'user', 'assistant', 'user', 'assistant']);
  expect(messages[1].content).toBe('Tell me\na story');
  for (const { content } of messages.filter((m) => m.role === 'assistant')) expect(stdout).toContain(content);
  expect(stdout).toMatch(/\/regen .*answer the last message anew/);
  expect(stdout).toContain('There is no command /nonsense');
});

it('/clear keeps the system message, /system replaces all, /regen answers anew with another seed', async () => {
  const file = join(folder, 'clear.json');
  const input = `One\n/clear\n/save ${file}.1\nTwo\n/regen\n/save ${file}.2\n/system Other\n/save ${file}.3\n`;
  expect((await chat(['-sys', 'Be kind.', '--temp', 1, '-s', 7], input)).code).toBe(0);
  const saved = (n: number): { role: string; content: string }[] => JSON.parse(readFileSync(`${file}.${n}`, 'utf8')) as { role: string; content: string }[];
  expect(saved(1)).toEqual([{ role: 'system', content: 'Be kind.' }]);
  expect(saved(2).map((m) => m.role)).toEqual(['system', 'user', 'assistant']);
  expect(saved(3)).toEqual([{ role: 'system', content: 'Other' }]);
});

describe('one answer', () => {
  it('-p: the answer alone on stdout; --json: one object', async () => {
    const { code, stdout, stderr } = await chat(['-p', 'Tell me a story']);
    expect([code, stderr]).toEqual([0, '']);
    const report = JSON.parse((await chat(['-p', 'Tell me a story', '--json'])).stdout) as { content: string; ids: number[]; stop_reason: string };
    expect([report.content.trim(), report.ids.length, report.stop_reason]).toEqual([stdout.trim(), 12, 'length']);
  });

  it('a schema holds; a bad one, an unknown flag, --json without a message are refused', async () => {
    const schema = '{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"],"additionalProperties":false}';
    expect(JSON.parse((await chat(['-p', 'x', '-n', 60, '-j', schema])).stdout)).toEqual({ n: expect.any(Number) as number });
    expect((await chat(['-p', 'x', '-j', '{'])).code).toBe(2);
    expect((await chat(['-p', 'x', '--grammar', 'root ::= ('])).code).toBe(1);
    expect((await chat(['--port', 5])).code).toBe(2);
    expect(await chat(['-m', llamaModel.replace('llama.gguf', 'bert.gguf')], 'Hello\n')).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('quantlet embed') as string });
    expect(await chat(['-p', 'x', '--chat-template-file', writeTo(folder, 'throws.jinja', "{{ raise_exception('only cats') }}")])).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/only cats.*ERR_CHAT_TEMPLATE/) as string });
    expect((await chat(['--json'])).code).toBe(2);
  });
});

const hasTerminal = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '');

describe.runIf(hasTerminal)('in a terminal', () => {
  it('Ctrl-C stops the answer, then clears the line; the up key brings messages back; Ctrl-D leaves', async () => {
    // Long enough to be stopped in the middle.
    const command = [process.execPath, cliPath, 'chat', '-m', shippedModel, '--chat-template-file', template, '--no-warmup', '-t', '1', '-c', '4096', '--grammar', '"root ::= [a-z ]{4000}"'].join(' ');
    const child = spawn('script', ['-qfec', command, '/dev/null'], { env: { ...process.env, TERM: 'xterm' } });
    let seen = '', read = 0;
    child.stdout.on('data', (bytes: Buffer) => (seen += bytes.toString()));
    const ended = new Promise<number | null>((resolve) => child.on('close', resolve));
    /** Types, and waits for what comes after everything that was waited for before. */
    const type = async (keys: string, until: RegExp): Promise<void> => {
      child.stdin.write(keys);
      for (const end = Date.now() + 30_000; ; ) {
        const found = until.exec(seen.slice(read));
        if (found) return void (read += found.index + found[0].length);
        if (Date.now() > end) throw new Error(`after ${JSON.stringify(keys)}: no ${until} in ${JSON.stringify(seen.slice(read))}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    };
    const prompt = /> \x1b\[3G/;
    await type('', prompt);
    await type('Tell me a story\r', /story[^]*[a-z ]{20}/);
    await type('\x03', /\[stopped\]/);
    await type('', prompt);
    await type('half a message', /half a message/);
    await type('\x03', /\(Ctrl-D or \/exit leaves\)/);
    await type('/nothing\r', /There is no command \/nothing;/);
    await type('\x1b[A\x1b[A', /> Tell me a story/);
    await type('\x03', prompt);
    child.stdin.write('\x04');
    expect(await ended, seen).toBe(0);
  });
});
