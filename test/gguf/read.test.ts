import fc from 'fast-check';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { QuantletError } from '../../src/errors.ts';
import { readGGUF } from '../../src/gguf/read.ts';
import { writeGGUF } from '../../src/gguf/write.ts';
import { toBytes } from '../../src/io/source.ts';
import { openFile, sharedFiles, shippedModel, smallFile } from './files.ts';
import { TYPE, typeById } from '../../src/type-traits.ts';

describe('the model that ships', () => {
  test('header, tensors and their places', async () => {
    await using file = await openFile(shippedModel);
    const gguf = await readGGUF(file);
    expect(gguf.version).toBe(3);
    expect(gguf.alignment).toBe(32);
    expect(gguf.dataOffset % 32).toBe(0);
    expect(gguf.byteLength).toBe(file.byteLength);
    expect(gguf.metadata.get('general.architecture')).toBe('llama');
    expect(gguf.metadata.get('llama.embedding_length')).toBe(256);
    expect(gguf.metadataTypes.get('llama.embedding_length')).toBe('u32');
    expect((gguf.metadata.get('tokenizer.ggml.tokens') as string[]).length).toBe(1024);
    expect(gguf.metadata.get('tokenizer.ggml.scores')).toBeInstanceOf(Float32Array);
    expect(gguf.tensors.size).toBe(38);
    const q = gguf.tensors.get('blk.0.attn_q.weight');
    expect(q).toMatchObject({ ne: [256, 256, 1, 1], nDims: 2, byteLength: (256 * 256 * 18) / 32, part: 0 });
    expect(q?.type.name).toBe('q4_0');
    const ends = [...gguf.tensors.values()].map((t) => t.offset + t.byteLength);
    expect(Math.max(...ends)).toBeLessThanOrEqual(gguf.byteLength);
  });

  test('only the header is read, the weights are not', async () => {
    await using file = await openFile(shippedModel);
    await readGGUF(file);
    expect(file.bytesRead).toBeLessThan(file.byteLength / 8);
  });

  test('an aborted read rejects with the reason', async () => {
    await using file = await openFile(shippedModel);
    const reason = new Error('no more');
    await expect(readGGUF(file, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});

test("PowerInfer's files begin with PWRI, and are GGUF otherwise", async () => {
  const small = smallFile();
  const theirs = small.slice();
  theirs.set(new TextEncoder().encode('PWRI'));
  expect(await readGGUF(toBytes(theirs))).toEqual(await readGGUF(toBytes(small)));
});

/** Models of the tests, the shipped one, and those of ../shared if present. */
const golden = new URL('../golden/arch/', import.meta.url);
const committed = readdirSync(golden)
  .filter((name) => name.endsWith('.gguf'))
  .map((name) => fileURLToPath(new URL(name, golden)));
const models = [
  shippedModel,
  ...committed,
  ...sharedFiles('models/stories260K/'),
  ...sharedFiles('models/tiny-stories/'),
  ...sharedFiles('quant-golden/'),
];

describe('files of llama.cpp and of its converters', () => {
  test.each(models.map((path) => [basename(path), path]))(
    '%s: the sizes of all tensors leave no gaps except alignment',
    async (_, path) => {
      await using file = await openFile(path);
      const gguf = await readGGUF(file);
      expect(gguf.tensors.size).toBeGreaterThan(0);
      let end = gguf.dataOffset;
      for (const t of gguf.tensors.values()) {
        expect([t.name, t.offset]).toEqual([t.name, end]);
        end = t.offset + Math.ceil(t.byteLength / 32) * 32;
      }
      expect(end).toBe(gguf.byteLength);
    },
  );

  test('a tensor of every type: its size, and no gap after it', async () => {
    const ofFiles = Object.values(TYPE).filter(({ id }) => typeById(id));
    const all = ofFiles.map((type) => ({
      name: type.name,
      type,
      ne: [256, 3],
      data: new Uint8Array((3 * 256 * type.typeSize) / type.blckSize).fill(7),
    }));
    const gguf = await readGGUF(toBytes(writeGGUF(new Map(), all)));
    let end = gguf.dataOffset;
    for (const { name, type, data } of all) {
      expect(gguf.tensors.get(name)).toMatchObject({ name, type, offset: end, byteLength: data.length });
      end += Math.ceil(data.length / 32) * 32;
    }
    expect(all.length).toBeGreaterThan(20);
    expect(gguf.byteLength).toBe(end);
  });

  const vocabularies = sharedFiles('vocab/');
  test.each([shippedModel, ...vocabularies].map((path) => [basename(path), path]))(
    '%s: a vocabulary whose strings are those of a plain decoder',
    async (_, path) => {
      const file = readFileSync(path);
      const gguf = await readGGUF(toBytes(file));
      expect(gguf.tensors.size === 0).toBe(path !== shippedModel);
      const [start] = gguf.metadataRanges.get('tokenizer.ggml.tokens') as readonly [number, number];
      const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
      let at = start + 16;
      for (const token of gguf.metadata.get('tokenizer.ggml.tokens') as string[]) {
        const length = Number(file.readBigUInt64LE(at));
        if (token !== decoder.decode(file.subarray(at + 8, at + 8 + length)))
          throw new Error(`${basename(path)}: token at ${at} reads ${JSON.stringify(token)}`);
        at += 8 + length;
      }
    },
  );
});

describe('a large vocabulary', () => {
  test('128k tokens and 280k merges are read through windows', async () => {
    const tokens = Array.from({ length: 128_000 }, (_, i) => `Ġtoken${i}`);
    const merges = Array.from({ length: 280_000 }, (_, i) => `Ġt${i} oken${i}`);
    const file = writeGGUF(
      new Map([
        ['tokens', { type: 'arr[str]', value: tokens }],
        ['merges', { type: 'arr[str]', value: merges }],
      ]),
      [],
    );
    const start = performance.now();
    const gguf = await readGGUF(toBytes(file));
    // Typically 0.1 to 0.2 s; the limit only catches something quadratic.
    expect(performance.now() - start).toBeLessThan(3000);
    expect(gguf.metadata.get('tokens')).toEqual(tokens);
    expect(gguf.metadata.get('merges')).toEqual(merges);
  });
});

describe('fuzz', () => {
  /**
   * Checks that reading throws nothing but a QuantletError, and reads no more than the file has.
   */
  const survives = async (file: Uint8Array): Promise<void> => {
    let bytesRead = 0;
    const bytes = toBytes({
      byteLength: file.byteLength,
      slice: (start: number, end: number) => {
        bytesRead += end - start;
        return file.subarray(start, end);
      },
    });
    try {
      await readGGUF(bytes);
    } catch (error) {
      if (!(error instanceof QuantletError)) throw error;
    }
    // Windows overlap if a value does not fit in the rest of one: at most twice over, plus the
    // first bytes.
    expect(bytesRead).toBeLessThanOrEqual(2 * file.byteLength + 64 * 1024);
  };
  const shipped = new Uint8Array(readFileSync(shippedModel));
  const headerLength = async (): Promise<number> => (await readGGUF(toBytes(shipped))).dataOffset;

  test('flipped bytes in the shipped header', async () => {
    const length = await headerLength();
    // Most bytes are a vocabulary, so half of the flips go to the fields before and after it.
    const place = fc.oneof(fc.nat(length - 1), fc.nat(1200), fc.integer({ min: length - 2600, max: length - 1 }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(place, fc.nat(255)), { minLength: 1, maxLength: 4 }), async (flips) => {
        const file = shipped.slice();
        for (const [at, byte] of flips) file[at] = byte;
        await survives(file);
      }),
      { seed: 9, numRuns: 300 },
    );
  });

  test('truncations of the shipped file', async () => {
    const length = await headerLength();
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.nat(length), fc.nat(shipped.length)), async (cut) => survives(shipped.subarray(0, cut))),
      { seed: 9, numRuns: 200 },
    );
  });

  test('flipped bits and every truncation of a small file', async () => {
    const small = smallFile();
    for (let cut = 0; cut < small.length; cut++) await survives(small.subarray(0, cut));
    for (let bit = 0; bit < small.length * 8; bit++) {
      const file = small.slice();
      file[bit >> 3] ^= 1 << (bit & 7);
      await survives(file);
    }
  });

  test('random bytes after a good start', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (rest) => {
        await survives(Uint8Array.of(0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0, ...rest));
      }),
      { seed: 9, numRuns: 500 },
    );
  });
});
