/**
 * quantlet gguf-hash: hashes of a model's tensors, printed like llama-gguf-hash. Changed metadata
 * does not change them.
 */
import { createHash, type Hash } from 'node:crypto';
import { platform } from '../entry/node-platform.ts';
import { QuantletError } from '../errors.ts';
import { openModelFiles } from '../io/model-files.ts';
import { forTerminal, readText, type Command } from './command.ts';
import type { FlagKey } from './flags.ts';
import { parseFlags } from './parse-flags.ts';
import { progressBar } from './progress.ts';
import { endUnread } from './unread.ts';

const KEYS = ['sha1', 'sha256', 'uuid', 'hashAll', 'noLayer', 'check', 'help'] as const satisfies readonly FlagKey[];

/** llama.cpp's namespace for UUIDs of version 5 (RFC 9562, section 5.5). */
const UUID_NAMESPACE = Buffer.from('ef001206dadc5f6da15f3359e577d4e5', 'hex');
const PIECE = 4 * 1024 * 1024;

type Kind = 'sha1' | 'sha256' | 'uuid';
const begin = (kind: Kind): Hash => (kind === 'uuid' ? createHash('sha1').update(UUID_NAMESPACE) : createHash(kind));

function end(kind: Kind, hash: Hash): string {
  const bytes = hash.digest();
  if (kind !== 'uuid') return bytes.toString('hex');
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const line = (kind: string, hash: string, what: string): string => `${kind.padEnd(8)}  ${hash}  ${what}`;

/** The hashes in a manifest, by `KIND NAME`. */
function readManifest(text: string): ReadonlyMap<string, string> {
  const rows = text.split(/\r?\n/).flatMap((row) => {
    const [, kind, hash, what] = /^(\S+)\s+(\S+)\s+(.+)$/.exec(row) ?? [];
    return kind === undefined ? [] : [[`${kind} ${what}`, hash] as const];
  });
  if (rows.length === 0) throw new QuantletError('ERR_USAGE', '--check names a file without hashes; expected the output of gguf-hash');
  return new Map(rows);
}

export const ggufHash: Command = {
  name: 'gguf-hash',
  llama: 'llama-gguf-hash',
  synopsis: '[--sha256] [--sha1] [--uuid] [--no-layer] [-c MANIFEST] FILE',
  summary: 'hash the tensors of a GGUF file',
  flags: KEYS,
  notes: 'The default is sha256. With -c the exit code is 0 if all hashes in the manifest match, and 1 otherwise.',
  examples: [
    'quantlet gguf-hash --no-layer model.gguf',
    'quantlet gguf-hash --all model.gguf > model.gguf.manifest',
    'quantlet gguf-hash -c model.gguf.manifest model.gguf',
  ],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS, 'gguf-hash');
    const [file, ...more] = positionals;
    if (file === undefined || more.length > 0) throw new QuantletError('ERR_USAGE', `gguf-hash takes one file, not ${positionals.length}`);
    const manifest = values.check === undefined ? undefined : readManifest(await readText(values.check, 'the manifest'));
    if (!manifest) endUnread();
    const asked = (['sha1', 'sha256', 'uuid'] as const).filter((kind) =>
      manifest ? [...manifest.keys()].some((key) => key.startsWith(`${kind} `)) : (values[kind] ?? (values.hashAll && kind !== 'uuid')),
    );
    const kinds: readonly Kind[] = asked.length > 0 ? asked : ['sha256'];
    let seen = 0;
    let wrong = 0;
    const print = (kind: Kind, hash: string, what: string): void => {
      const want = manifest?.get(`${kind} ${what}`);
      const verdict = want === undefined ? 'Not Found' : want === hash ? 'Ok' : 'Mismatch';
      if (want !== undefined) seen++;
      if (verdict === 'Mismatch') wrong++;
      process.stdout.write(forTerminal(`${line(kind, hash, what)}${manifest ? `  -  ${verdict}` : ''}\n`));
    };
    const model = await openModelFiles(platform, file, signal);
    const bar = progressBar('hashing');
    try {
      const all = new Map(kinds.map((kind) => [kind, begin(kind)]));
      const total = [...model.gguf.tensors.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
      let done = 0;
      for (const { name, part, offset, byteLength } of model.gguf.tensors.values()) {
        const layer = new Map(kinds.filter((kind) => kind !== 'uuid' && !values.noLayer).map((kind) => [kind, begin(kind)]));
        for (let at = 0; at < byteLength; at += PIECE) {
          const bytes = await model.parts[part].read(offset + at, offset + Math.min(at + PIECE, byteLength), signal);
          for (const hash of [...all.values(), ...layer.values()]) hash.update(bytes);
          bar.set((done += bytes.length) / total);
        }
        bar.end();
        for (const [kind, hash] of layer) print(kind, end(kind, hash), `${file}:${name}`);
      }
      for (const [kind, hash] of all) print(kind, end(kind, hash), file);
    } finally {
      bar.end();
      await model.close();
    }
    if (manifest && seen === 0)
      throw new QuantletError('ERR_INVALID_ARGUMENT', `${values.check} has no hash of ${file}; expected the file name that was hashed`);
    return wrong > 0 ? 1 : 0;
  },
};
