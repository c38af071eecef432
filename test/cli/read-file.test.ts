/** Pipes and standard input that commands read: a signal ends the wait for a writer. */
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { cliPath, llamaModel, runCli, temporaryFolder } from '../support.ts';
import { written } from './commands.ts';

const folder = temporaryFolder();
const namedPipe = (name: string): string => {
  const pipe = join(folder, name);
  execFileSync('mkfifo', [pipe]);
  return pipe;
};

/** Opens a pipe for writing once somebody reads it. */
async function openedForWriting(pipe: string): Promise<number> {
  for (;;) {
    try {
      return openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch {
      await delay(20);
    }
  }
}

/** Starts the command line and returns its exit code once it has ended. */
function started(...args: readonly string[]): { end: Promise<number | null>; child: ReturnType<typeof spawn> } {
  const child = spawn(process.execPath, [cliPath, ...args], { stdio: ['pipe', 'ignore', 'ignore'] });
  return { child, end: new Promise((resolve) => child.on('close', resolve)) };
}

it.each([
  ['run', '-f'],
  ['tokenize', '-f'],
  ['run', '--json-schema-file'],
])('%s %s: the first Ctrl-C ends the wait for a pipe whose writer is silent', async (command, flag) => {
  const pipe = namedPipe(`silent-${command}${flag}`);
  const { child, end } = started(command, '-m', llamaModel, flag, pipe);
  const writer = await openedForWriting(pipe);
  child.kill('SIGINT');
  expect(await end).toBe(130);
  closeSync(writer);
});

it('the first signal ends the wait for standard input', async () => {
  const pipe = namedPipe('prompt');
  const { child, end } = started('run', '-m', llamaModel, '-f', pipe, '--json-schema-file', '-');
  const writer = await openedForWriting(pipe);
  writeSync(writer, 'the cat');
  closeSync(writer);
  await delay(500);
  child.kill('SIGTERM');
  expect(await end).toBe(143);
});

it('a pipe is read to its end, whenever its writer comes', async () => {
  const pipe = namedPipe('late');
  const late = delay(1500).then(() => written('sh', '-c', '{ printf "the c"; sleep 0.2; printf at; } > "$0"', pipe));
  const [{ code, stdout }] = await Promise.all([runCli(['tokenize', '-m', llamaModel, '-f', pipe]), late]);
  expect([code, stdout]).toEqual([0, (await runCli(['tokenize', '-m', llamaModel, '-f', '-'], { input: 'the cat' })).stdout]);
});
