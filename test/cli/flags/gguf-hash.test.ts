/** The flags of quantlet gguf-hash. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Command } from '../../../src/cli/command.ts';
import { ggufHash } from '../../../src/cli/gguf-hash.ts';
import { readGGUF } from '../../../src/gguf/read.ts';
import { toBytes } from '../../../src/io/source.ts';
import { llamaModel, writeTo } from '../../support.ts';
import { invoke, type Args } from '../commands.ts';
import { folder, describeFlags } from './support.ts';

describeFlags(ggufHash, (effect) => {
  const there = join(folder, 'split');
  mkdirSync(there);
  const said = async (c: Command, ...args: Args): Promise<string> => (await invoke(c, args)).stdout;
  effect(['sha1', 'sha256', 'uuid', 'hashAll', 'noLayer', 'check'], 'which hashes of what; a manifest is checked', async () => {
    const tensors = [...(await readGGUF(toBytes(readFileSync(llamaModel)))).tensors.values()];
    const bytes = readFileSync(llamaModel);
    const data = tensors.map(({ offset, byteLength }) => bytes.subarray(offset, offset + byteLength));
    const sha = (kind: string, ...parts: Uint8Array[]): string => createHash(kind).update(Buffer.concat(parts)).digest('hex');
    expect(await said(ggufHash, '--no-layer', '--sha1', '--sha256', llamaModel)).toBe(
      `sha1      ${sha('sha1', ...data)}  ${llamaModel}\nsha256    ${sha('sha256', ...data)}  ${llamaModel}\n`,
    );
    const manifest = await said(ggufHash, '--all', llamaModel);
    expect(manifest).toContain(`sha256    ${sha('sha256', data[0])}  ${llamaModel}:${tensors[0].name}\n`);
    expect(await said(ggufHash, '--uuid', '--no-layer', llamaModel)).toMatch(/^uuid {6}[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab]/);
    const file = writeTo(there, 'manifest', manifest);
    expect((await invoke(ggufHash, ['-c', file, llamaModel])).code).toBe(0);
    const windows = writeTo(there, 'windows', `\ufeff${manifest.replaceAll('\n', '\r\n')}`);
    expect((await invoke(ggufHash, ['-c', windows, llamaModel])).code).toBe(0);
    const wrong = writeTo(there, 'wrong', manifest.replace(sha('sha256', data[0]), '0'.repeat(64)));
    expect(await invoke(ggufHash, ['-c', wrong, llamaModel])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('Mismatch') as string,
    });
  });
});
