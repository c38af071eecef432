/**
 * Files as Windows editors and shells write them. A byte order mark is not text, UTF-16 is read,
 * and an unknown encoding is refused by name.
 */
import { describe, expect, it } from 'vitest';
import { decodeText } from '../../src/cli/text-file.ts';
import { chat } from '../../src/cli/chat.ts';
import { run } from '../../src/cli/run.ts';
import { tokenize } from '../../src/cli/tokenize.ts';
import { failure, llamaModel, runCli, temporaryFolder, writeTo } from '../support.ts';
import { invoke } from './commands.ts';

const folder = temporaryFolder();
const utf16 = (text: string, order: 'le' | 'be', mark = true): Uint8Array => {
  const bytes = Buffer.from((mark ? '\ufeff' : '') + text, 'utf16le');
  return order === 'le' ? bytes : bytes.swap16();
};
const MARK = '\ufeff';
const text = 'the cat: Grüße, 猫 🙂\n';

describe('decodeText', () => {
  it.each<[string, Uint8Array, string]>([
    ['UTF-8', Buffer.from(text), text],
    ['UTF-8 with a mark', Buffer.from(MARK + text), text],
    ['a mark alone', Buffer.from(MARK), ''],
    ['a mark within', Buffer.from(`a${MARK}b`), `a${MARK}b`],
    ['a second mark', Buffer.from(MARK + MARK + text), MARK + text],
    ['UTF-16LE', utf16(text, 'le'), text],
    ['UTF-16BE', utf16(text, 'be'), text],
    ['nothing', new Uint8Array(), ''],
    ['a byte of 0', Buffer.from('a\0b\0c and so on'), 'a\0b\0c and so on'],
  ])('%s', (_, bytes, want) => expect(decodeText(bytes, 'a')).toBe(want));

  it.each<[string, Uint8Array]>([
    ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 0x61, 0, 0, 0])],
    ['UTF-16 without a byte order mark', utf16('hello world', 'le', false)],
    ['UTF-16 without a byte order mark', utf16('hello world', 'be', false)],
  ])('refuses %s by name', async (what, bytes) => {
    const error = await failure(async () => decodeText(bytes, 'the text a.txt'));
    expect([error.code, error.message]).toEqual(['ERR_SOURCE', expect.stringContaining(`the text a.txt is ${what}`)]);
  });
});

describe('files of the command line', () => {
  const plain = ['-m', llamaModel, '--temp', 0, '--no-warmup', '-n', 8, '--json'] as const;
  const ids = async (...args: (string | number)[]): Promise<number[]> =>
    (JSON.parse((await invoke(run, [...plain, ...args])).stdout) as { prompt_ids: number[] }).prompt_ids;

  it('a prompt with a mark, of UTF-16, from standard input', async () => {
    const want = await ids('-p', 'the cat sat');
    for (const bytes of [Buffer.from(`${MARK}the cat sat\n`), utf16('the cat sat\n', 'le'), utf16('the cat sat\n', 'be')])
      expect(await ids('-f', writeTo(folder, 'prompt.txt', bytes))).toEqual(want);
    const piped = await runCli(['run', ...plain, '-f', '-'], { input: `${MARK}the cat sat\n` });
    expect((JSON.parse(piped.stdout) as { prompt_ids: number[] }).prompt_ids).toEqual(want);
    const tokens = (file: string): Promise<{ stdout: string }> => invoke(tokenize, ['-m', llamaModel, '--ids', '-f', file]);
    expect((await tokens(writeTo(folder, 'marked.txt', `${MARK}a cat`))).stdout).toBe(
      (await tokens(writeTo(folder, 'a.txt', 'a cat'))).stdout,
    );
  });

  it('a schema, a grammar, a template and a system message with a mark', async () => {
    const said = async (...args: (string | number)[]): Promise<string> =>
      (await invoke(run, [...plain.slice(0, -1), '-p', 'a', ...args])).stdout;
    const schema = JSON.stringify({ enum: ['cat'] });
    expect(await said('-jf', writeTo(folder, 'schema.json', MARK + schema))).toBe(await said('-j', schema));
    expect(await said('--grammar-file', writeTo(folder, 'a.gbnf', `${MARK}root ::= "cat"`))).toBe(
      await said('--grammar', 'root ::= "cat"'),
    );
    const template = '{% for m in messages %}{{ m.content }}{% endfor %}';
    const asked = async (...args: (string | number)[]): Promise<unknown> =>
      (JSON.parse((await invoke(chat, [...plain, '-p', 'hi', ...args])).stdout) as { prompt_ids: number[] }).prompt_ids;
    expect(
      await asked(
        '--chat-template-file',
        writeTo(folder, 't.jinja', MARK + template),
        '-sysf',
        writeTo(folder, 's.txt', `${MARK}Be kind.`),
      ),
    ).toEqual(await asked('--chat-template', template, '-sys', 'Be kind.'));
  });
});
