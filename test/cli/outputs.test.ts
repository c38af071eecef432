/**
 * Outputs of all commands: they keep the old file on failure, and never lose a complete one.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { ggufSplit } from '../../src/cli/gguf-split.ts';
import { imatrix } from '../../src/cli/imatrix.ts';
import { checkOutput, mustNameFile, openOutput, temporaryName, writeNewFile, type WriteAt } from '../../src/tools/new-file.ts';
import { perplexity } from '../../src/cli/perplexity.ts';
import { quantize } from '../../src/cli/quantize.ts';
import { rotate } from '../../src/cli/rotate.ts';
import { run } from '../../src/cli/run.ts';
import { folderSlots } from '../../src/cli/serve-files.ts';
import { deviceName, openSpecial } from '../../src/tools/special-file.ts';
import { cliPath, type Exit, failure, hasFullDisk, llamaModel, shippedModel, temporaryFolder } from '../support.ts';
import { invoke, never, socketAt, written, type Args } from './commands.ts';

const folder = temporaryFolder();
const at = (name: string): string => join(folder, name);
const text = at('text.txt');
beforeEach(() => {
  for (const name of readdirSync(folder)) rmSync(at(name), { recursive: true });
  writeFileSync(text, 'Once upon a time there was a little dog who lived in a big house. '.repeat(8));
});

/** Commands that write a file, as functions of its name. */
const WRITERS: readonly (readonly [name: string, write: (output: string) => Promise<unknown>])[] = [
  ['quantize', (output) => invoke(quantize, ['--allow-requantize', llamaModel, output, 'Q8_0', 1])],
  ['rotate', (output) => invoke(rotate, [llamaModel, output, '-t', 1])],
  ['imatrix', (output) => invoke(imatrix, ['-m', llamaModel, '-f', text, '-c', 32, '-t', 1, '-o', output])],
  ['perplexity', (output) => invoke(perplexity, ['-m', llamaModel, '-f', text, '-c', 32, '-t', 1, '--kl-divergence-base', output])],
  ['run', (output) => invoke(run, ['-m', llamaModel, '-p', 'the cat', '-n', 2, '--no-warmup', '-t', 1, '--prompt-cache', output])],
];

describe('links, pipes and devices', () => {
  describe.each(WRITERS)('%s', (_, write) => {
    it('writes through a link', async () => {
      const target = at('target');
      await write(target);
      const want = readFileSync(target);
      writeFileSync(target, '');
      symlinkSync('target', at('link'));
      await write(at('link'));
      expect([readlinkSync(at('link')), readFileSync(target).equals(want)]).toEqual(['target', true]);
      expect(readdirSync(folder).sort()).toEqual(['link', 'target', 'text.txt']);
    });

    it('sends what a file would have to a pipe', async () => {
      await write(at('file'));
      const pipe = at('pipe');
      execFileSync('mkfifo', [pipe]);
      const [, got] = await Promise.all([write(pipe), written('cat', pipe)]);
      expect(got.equals(readFileSync(at('file'))), `${got.length} bytes`).toBe(true);
      expect(lstatSync(pipe).isFIFO()).toBe(true);
    });

    it('leaves a device where it is', async () => {
      symlinkSync('/dev/null', at('null'));
      await write(at('null'));
      expect([readlinkSync(at('null')), statSync('/dev/null').isCharacterDevice()]).toEqual(['/dev/null', true]);
      expect(readdirSync(folder).sort()).toEqual(['null', 'text.txt']);
    });
  });
});

describe.each(WRITERS)('%s', (name, write) => {
  it('says that the disk is full', async () => {
    if (!hasFullDisk) return;
    symlinkSync('/dev/full', at('full'));
    expect(await failure(write(at('full')))).toMatchObject({ code: 'ERR_IO', message: expect.stringMatching(/ENOSPC.*the disk is full/) });
    expect(readlinkSync(at('full'))).toBe('/dev/full');
  });

  it('finds out before the work that it cannot be written', async () => {
    const began = performance.now();
    for (const output of [folder, at('none/out')]) expect((await failure(write(output))).code, `${name} ${output}`).toBe('ERR_IO');
    expect(performance.now() - began).toBeLessThan(5000);
    expect(readdirSync(folder)).toEqual(['text.txt']);
  });
});

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

describe('a pipe', () => {
  it('gets pieces in order, and zeros where a file has a hole', async () => {
    const pipe = at('pipe');
    execFileSync('mkfifo', [pipe]);
    const piece = bytes(5, 6);
    const fill = async (write: WriteAt): Promise<void> => {
      await write(piece, 4);
      piece.fill(9); // callers may reuse their buffer
      await write(bytes(1, 2), 0);
      await write(bytes(9), 9);
      await write(bytes(3, 4), 2);
    };
    const [got] = await Promise.all([written('cat', pipe), writeNewFile(pipe, fill)]);
    expect([...got]).toEqual([1, 2, 3, 4, 5, 6, 0, 0, 0, 9]);
  });

  it('that nobody reads can be given up', async () => {
    const pipe = at('pipe');
    execFileSync('mkfifo', [pipe]);
    const stop = new AbortController();
    const writing = writeNewFile(pipe, (write) => write(bytes(1), 0), stop.signal);
    setTimeout(() => stop.abort(new Error('enough')), 100);
    expect((await failure(writing)).message).toBe('enough');
  });

  it('whose reader leaves is an error', async () => {
    const pipe = at('pipe');
    execFileSync('mkfifo', [pipe]);
    const writing = writeNewFile(pipe, async (write) => {
      for (let i = 0; i < 64; i++) await write(new Uint8Array(65536), i * 65536);
    });
    const [{ code, message }] = await Promise.all([failure(writing), written('head', '-c', '1', pipe)]);
    expect([code, message]).toEqual(['ERR_IO', expect.stringMatching(/EPIPE/)]);
  });
});

describe('a socket', () => {
  it('is connected to', async () => {
    const path = at('socket');
    const { server, received } = await socketAt(path);
    await writeNewFile(path, async (write) => {
      await write(bytes(3, 4), 2);
      await write(bytes(1, 2), 0);
    });
    expect([...(await received)]).toEqual([1, 2, 3, 4]);
    expect(statSync(path).isSocket()).toBe(true);
    server.close();
  });
});

describe('a file', () => {
  it('that cannot get its name when it is finished stays, and the message says where', async () => {
    const output = at('out');
    const fill = async (write: WriteAt): Promise<void> => {
      await write(bytes(1, 2, 3), 0);
      mkdirSync(output); // makes the final renaming fail
    };
    const { code, message } = await failure(writeNewFile(output, fill));
    expect([code, message]).toEqual(['ERR_IO', expect.stringContaining(`the finished file is ${temporaryName(output)}`)]);
    expect([...readFileSync(temporaryName(output))]).toEqual([1, 2, 3]);
  });

  it('that is not finished leaves nothing, and the old one as it was', async () => {
    writeFileSync(at('out'), 'old');
    const { write, close } = await openOutput(at('out'));
    await write(bytes(1), 0);
    await close();
    expect([readdirSync(folder).sort(), readFileSync(at('out'), 'utf8')]).toEqual([['out', 'text.txt'], 'old']);
  });

  it('keeps the mode of the one that it replaces', async () => {
    writeFileSync(at('out'), 'old');
    for (const mode of [0o600, 0o666, 0o640]) {
      chmodSync(at('out'), mode);
      await writeNewFile(at('out'), (write) => write(bytes(1), 0));
      expect(statSync(at('out')).mode & 0o777).toBe(mode);
    }
  });

  it.runIf(process.getuid?.() === 0)('keeps the owner of the one that it replaces', async () => {
    writeFileSync(at('out'), 'old');
    chownSync(at('out'), 1234, 4321);
    await writeNewFile(at('out'), (write) => write(bytes(1), 0));
    const { uid, gid } = statSync(at('out'));
    expect([uid, gid]).toEqual([1234, 4321]);
  });

  it('leaves what has another name of the old one as it was', async () => {
    writeFileSync(at('other'), 'old');
    linkSync(at('other'), at('out'));
    await checkOutput(at('out'), [at('other')]); // the input is kept too
    await writeNewFile(at('out'), (write) => write(bytes(1), 0));
    expect([readFileSync(at('other'), 'utf8'), [...readFileSync(at('out'))]]).toEqual(['old', [1]]);
  });

  it.each(['x'.repeat(255), 'ü'.repeat(127)])('has a name as long as a name may be: %s', async (name) => {
    await checkOutput(at(name));
    await writeNewFile(at(name), (write) => write(bytes(1), 0));
    expect(readdirSync(folder).sort()).toEqual(['text.txt', name].sort());
  });

  it('is made where a link leads to that is not there yet', async () => {
    mkdirSync(at('there'));
    symlinkSync('there', at('folder'));
    symlinkSync('../there/new', at('there/second'));
    symlinkSync('folder/second', at('first'));
    await writeNewFile(at('first'), (write) => write(bytes(7), 0));
    expect([...readFileSync(at('there/new'))]).toEqual([7]);
    symlinkSync('circle', at('circle'));
    expect((await failure(checkOutput(at('circle')))).code).toBe('ERR_IO');
  });

  it('that is read-only is found before the work', async () => {
    writeFileSync(at('out'), 'old');
    chmodSync(at('out'), 0o444);
    if (process.getuid?.() === 0) return; // root may write anyway
    expect(await failure(checkOutput(at('out')))).toMatchObject({ code: 'ERR_IO', message: expect.stringContaining(at('out')) });
    expect(readFileSync(at('out'), 'utf8')).toBe('old');
  });

  it('of several is looked at before the first is written', async () => {
    mkdirSync(at('part-00002-of-00002.gguf'));
    const split: Args = ['--split-max-tensors', 16, llamaModel, at('part')];
    expect((await failure(() => ggufSplit.run(split.map(String), never))).code).toBe('ERR_IO');
    expect(existsSync(at('part-00001-of-00002.gguf'))).toBe(false);
  });

  it('of a slot is written through a link too', async () => {
    const slots = await folderSlots(folder);
    symlinkSync('kept', at('a.slot'));
    await slots.write('a', bytes(1, 2));
    expect([...readFileSync(at('kept'))]).toEqual([1, 2]);
  });
});

describe('what the process has open', () => {
  const reference = (): Buffer => {
    execFileSync(process.execPath, [cliPath, 'quantize', '--allow-requantize', llamaModel, at('want'), 'Q8_0', '1']);
    return readFileSync(at('want'));
  };
  const script = (output: string, rest: string): string =>
    `"$0" "$1" quantize --allow-requantize "$2" ${output} Q8_0 1 ${rest.replaceAll('OUT', `'${at('out')}'`)}`;
  const shell = (line: string): Buffer => execFileSync('sh', ['-c', line, process.execPath, cliPath, llamaModel], { stdio: 'pipe' });

  it.each([
    ['standard output, a file', '/dev/stdout', '> OUT'],
    ['standard output, a pipe', '/dev/stdout', '| cat > OUT'],
    ['standard error, a file', '/dev/stderr', '2> OUT'],
    ['a file', '/dev/fd/3', '3> OUT'],
    ['a pipe', '/proc/self/fd/3', '3>&1 >/dev/null | cat > OUT'],
  ])('%s', (_, output, rest) => {
    shell(script(output, rest));
    expect(readFileSync(at('out')).equals(reference())).toBe(true);
  });

  it('a file that is written behind what it has, by a link', () => {
    symlinkSync('/dev/stdout', at('link'));
    shell(`echo before > '${at('out')}'; ${script(`'${at('link')}'`, '>> OUT')}; echo behind >> '${at('out')}'`);
    expect(readFileSync(at('out')).equals(Buffer.concat([Buffer.from('before\n'), reference(), Buffer.from('behind\n')]))).toBe(true);
  });
});

/** Runs a command and sends these signals after the temporary file has bytes. */
async function endedBy(signals: readonly NodeJS.Signals[], args: Args): Promise<Exit['code']> {
  const child = spawn(process.execPath, [cliPath, ...args.map(String)], { stdio: 'ignore' });
  const exit = new Promise<Exit['code']>((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)));
  const begun = (): boolean =>
    readdirSync(folder).some((name) => name.endsWith('.part') && (statSync(at(name), { throwIfNoEntry: false })?.size ?? 0) > 0);
  while (child.exitCode === null && !begun()) await delay(2);
  for (const signal of signals) child.kill(signal);
  return exit;
}

describe('signals', () => {
  describe.each<[string, readonly NodeJS.Signals[], readonly number[]]>([
    ['SIGTERM', ['SIGTERM'], [143]],
    ['SIGHUP', ['SIGHUP'], [129]],
    ['Ctrl-C', ['SIGINT'], [130]],
    ['a second signal, which does not wait', ['SIGTERM', 'SIGINT'], [143, 130]], // they may arrive in either order
  ])('%s leaves no part of a file and keeps the old one', (_, signals, codes) => {
    const logits = ['--save-all-logits', at('out'), '-c', 32, '-t', 1];
    it.each<[string, Args]>([
      ['quantize', ['--allow-requantize', shippedModel, at('out'), 'Q2_K', 1]],
      ['perplexity', ['-m', shippedModel, '-f', text, ...logits]],
    ])('%s', async (command, args) => {
      writeFileSync(text, 'Once upon a time there was a little dog who lived in a big house. '.repeat(2000));
      writeFileSync(at('out'), 'old');
      expect(codes).toContain(await endedBy(signals, [command, ...args]));
      expect([readdirSync(folder).sort(), readFileSync(at('out'), 'utf8')]).toEqual([['out', 'text.txt'], 'old']);
    });
  });
});

describe('names that no file can have', () => {
  it.each<[string, NodeJS.Platform, string | undefined]>([
    ['', 'linux', 'is empty'],
    ['new/', 'linux', 'is a folder'],
    ['new\\', 'win32', 'is a folder'],
    ['new\\', 'linux', undefined],
    ['model:b', 'win32', 'has the character ":"'],
    ['C:\\models\\a?.gguf', 'win32', 'has the character "?"'],
    ['a.gguf::$DATA', 'win32', 'has the character ":"'],
    ['a\tb', 'win32', 'has the character "\\t"'],
    ['a.gguf.', 'win32', 'ends with a dot or a space'],
    ['C:\\models\\a.gguf ', 'win32', 'ends with a dot or a space'],
    ['models/CON.gguf', 'win32', 'is a device'],
    ['nul.tar.gz', 'win32', 'is a device'],
    ['aux .gguf', 'win32', 'is a device'],
    ['a.gguf. ', 'linux', undefined],
    ['con.gguf', 'linux', undefined],
    ['console.gguf', 'win32', undefined],
    ['\\\\?\\C:\\models\\aux.gguf', 'win32', undefined], // an explicit literal path
    ['\\\\server\\share\\a.gguf', 'win32', undefined],
    ['model:b', 'linux', undefined],
    ['C:\\models\\a b ü.gguf', 'win32', undefined],
    ['C:a.gguf', 'win32', undefined],
  ])('%j on %s', async (output, platform, why) => {
    const { code, message } = await failure(async () => mustNameFile(output, platform));
    expect([code, message]).toEqual(why === undefined ? ['none', expect.any(String)] : ['ERR_IO', expect.stringContaining(why)]);
  });

  it('are refused before the work', async () => {
    for (const output of ['', `${at('new')}/`]) expect((await failure(checkOutput(output))).code).toBe('ERR_IO');
    expect(readdirSync(folder)).toEqual(['text.txt']);
  });
});

describe('names of devices on Windows', () => {
  it.each(['NUL', 'nul', 'C:\\models\\NUL', 'models/nul', 'nul:', 'NUL. ', 'con', 'COM1', 'lpt9', 'AUX', 'conout$'])('%s', (path) => {
    const [name] = /[a-z]+\d?\$?(?=[:. ]*$)/i.exec(path)!;
    expect([deviceName(path, 'win32'), deviceName(path, 'linux')]).toEqual([`\\\\.\\${name}`, undefined]);
  });

  it('files of names that are like them', () => {
    for (const path of ['null', 'nul.gguf', 'com0', 'com10', 'C:\\nul\\model.gguf', 'annul'])
      expect(deviceName(path, 'win32'), path).toBeUndefined();
    expect(deviceName('\\\\?\\C:\\nul', 'win32')).toBeUndefined();
    expect(deviceName('\\\\.\\pipe\\quantlet', 'win32')).toBe('\\\\.\\pipe\\quantlet');
  });

  it.runIf(existsSync('/dev/null'))('what goes to a device is written in order and closed', async () => {
    const { write, finish } = await openSpecial('/dev/null');
    await write(bytes(1), 1);
    await write(bytes(1), 0);
    await finish();
  });
});
