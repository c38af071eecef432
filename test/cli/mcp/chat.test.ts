/**
 * `quantlet chat` with MCP servers, as a process. A grammar makes the model call the tool in every
 * round, ten times.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { at, cliPath, runCli, shippedModel, temporaryFolder, writeTo } from '../../support.ts';
import { hasTerminal, inTerminal, shellLine } from '../terminal.ts';

const folder = temporaryFolder();
const program = (name: string, ...args: string[]) => ({ command: process.execPath, args: [at(`test/cli/mcp/${name}.mjs`), ...args] });
const config = writeTo(
  folder,
  'mcp.json',
  JSON.stringify({ mcpServers: { a: program('friendly'), marks: program('hostile', 'marks'), none: program('hostile', 'quits') } }),
);
const calling = (tool: string, args: object): string =>
  `root ::= "<tool_call>" ${JSON.stringify(JSON.stringify({ name: tool, arguments: args }))} "</tool_call>"`;
const base = [
  '-m',
  shippedModel,
  '--no-warmup',
  '-t',
  1,
  '-c',
  4096,
  '--chat-template',
  'chatml',
  '--temp',
  0,
  '--mcp-servers-config',
  config,
];
const chat = (args: readonly (string | number)[], input = '') => runCli(['chat', ...base, ...args], { input });
const ECHO = calling('a_echo', { text: 'hi' });

it('one answer: the model calls, the result is shown on stderr, and the answer alone is on stdout', async () => {
  const { code, stdout, stderr } = await chat(['--grammar', ECHO, '-p', 'Say hi.', '--mcp-allow', 'a/echo']);
  expect(code, stderr).toBe(0);
  expect(stderr).toMatch(/the MCP server "none" did not start: .*"no key"/);
  expect(stderr.match(/\[a\/echo \{"text":"hi"\}\]\n\| echo: hi\n/g)).toHaveLength(9);
  expect([stdout.trim(), stderr.endsWith('[cut: too many rounds of calls]\n')]).toEqual(['', true]);
});

it('nobody can be asked in a pipe, so calls are refused, and the conversation goes on', async () => {
  const file = join(folder, 'saved.json');
  const { code, stdout, stderr } = await chat(['--grammar', ECHO], `Say hi.\n/mcp\n/save ${file}\n`);
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('[refused: nobody can be asked here; --mcp-allow "a/echo" allows the tool]');
  expect(stdout).toMatch(/a: runs\n {2}a_echo +Says it again\n[^]*marks: runs\n[^]*none: did not start/);
});

it('without a message for tools the answer is as without servers; marks of a server stay text', async () => {
  const grammar = 'root ::= "Hello."';
  const file = join(folder, 'plain.json');
  const { code, stdout } = await chat(['--grammar', grammar], `Hi\n/save ${file}\n`);
  expect([code, stdout.startsWith('Hello.\n')]).toEqual([0, true]);
  expect((JSON.parse(readFileSync(file, 'utf8')) as { role: string }[]).map(({ role }) => role)).toEqual(['user', 'assistant']);
  expect((await chat([], '/mcp\n')).stdout).not.toMatch(/[\x1b\u202e]/);
});

it('a picture of a tool is seen by a model that sees, and named for others', async () => {
  const seeing = at('test/golden/vision/idefics3.gguf');
  const args = ['--grammar', calling('a_picture', {}), '-p', 'x', '--mcp-allow', 'a', '--json', '-m', seeing, '-c', 8192];
  const told = async (...more: string[]): Promise<{ stderr: string; tokens: number }> => {
    const { code, stdout, stderr } = await chat([...args, ...more]);
    expect(code, stderr).toBe(0);
    return { stderr, tokens: (JSON.parse(stdout) as { timings: { prompt_n: number } }).timings.prompt_n };
  };
  const blind = await told();
  const sees = await told('--mmproj', at('test/golden/vision/mmproj-idefics3.gguf'));
  expect(blind.stderr).toContain('| see\n| [an image of the type image/png, 70 bytes, left out]');
  expect(sees.stderr).toContain('| see\n| [image]');
  expect(sees.tokens).toBeGreaterThan(blind.tokens);
});

it('a configuration that is wrong is refused before the model loads; without one /mcp says how', async () => {
  const bad = await runCli(['chat', '-m', '/none.gguf', '--mcp-servers-json', '{"mcpServers": {"a": {}}}', '-p', 'x']);
  expect([bad.code, bad.stderr]).toEqual([2, expect.stringMatching(/the MCP server "a" has neither/)]);
  const none = await runCli(['chat', '-m', shippedModel, '--no-warmup'], { input: '/mcp\n' });
  expect(none.stdout).toContain('There are no MCP servers; start with --mcp-servers-config FILE.');
});

it('without the SDK an error says how to install it, and a chat without servers does not need it', () => {
  // A loader that knows no such package, as in an installation without it.
  const hooks = writeTo(
    folder,
    'hooks.mjs',
    `export const resolve = (name, context, next) => {
      if (name.startsWith('@modelcontextprotocol/')) throw Object.assign(new Error("Cannot find package '@modelcontextprotocol/sdk'"), { code: 'ERR_MODULE_NOT_FOUND' });
      return next(name, context);
    };`,
  );
  const register = writeTo(
    folder,
    'register.mjs',
    `import { register } from 'node:module'; register(${JSON.stringify(pathToFileURL(hooks).href)});`,
  );
  const run = (...args: string[]) =>
    spawnSync(
      process.execPath,
      ['--import', pathToFileURL(register).href, cliPath, 'chat', '-m', shippedModel, '--no-warmup', '-n', '1', '-p', 'x', ...args],
      {
        encoding: 'utf8',
      },
    );
  const { status, stderr } = run('--mcp-servers-config', config);
  expect([status, stderr]).toEqual([2, expect.stringMatching(/npm install @modelcontextprotocol\/sdk .*\(ERR_USAGE\)/)]);
  expect(run().status).toBe(0);
});

describe.runIf(hasTerminal)('in a terminal', () => {
  const command = (...args: readonly (string | number)[]): string => shellLine(process.execPath, cliPath, 'chat', ...base, ...args);
  const prompt = /> \x1b\[3G/;
  const question = /\[a\/echo [^]*Run it\? y \(this call\), n, always [^]*: /;

  it('each call is asked for until always; lines typed before the question do not answer it', async () => {
    const { type, end } = inTerminal(command('--grammar', ECHO));
    await type('', /tools of 3 MCP servers; \/mcp lists them/);
    await type('', prompt);
    await type('Say hi.\ry\r', question);
    await type('n\r', /\[refused\][^]*Run it\?/);
    await type('hm\r', /Run it\?/);
    await type('y\r', /echo: hi[^]*Run it\?/);
    await type('always\r', /(echo: hi[^]*){7}\[cut: too many rounds of calls\]/);
    // The line that was typed before is a message of its own.
    await type('', /(echo: hi[^]*){9}\[cut: too many rounds of calls\]/);
    await type('/mcp\r', /a_echo +\[allowed\]/);
    await end('/exit\r');
  });

  it('Ctrl-C at the question stops the answer', async () => {
    const { type, end } = inTerminal(command('--grammar', ECHO));
    await type('', prompt);
    await type('Say hi.\r', question);
    await type('\x03', /\[stopped\]/);
    await type('', prompt);
    await end('/exit\r');
  });

  it('Ctrl-C ends one answer, and a server that ignores the end of its input and signals', async () => {
    const stubborn = JSON.stringify({ mcpServers: { a: program('hostile', 'stubborn', folder) } });
    const { type, ended, seen } = inTerminal(command('--mcp-servers-json', stubborn, '--grammar', calling('a_tool', {}), '-p', 'x'));
    await type('', /Run it\?/);
    const children = () =>
      spawnSync('pgrep', ['-f', `hostile.mjs stubborn ${folder}`], { encoding: 'utf8' })
        .stdout.split('\n')
        .filter(Boolean);
    expect(children()).not.toEqual([]);
    await type('\x03', /\n/);
    expect(await ended, seen()).toBe(130);
    expect(children()).toEqual([]);
  });
});
