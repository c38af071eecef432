import { describe, expect, it } from 'vitest';
import { createDetokenizer } from '../../src/tokenize/stream.ts';
import { createTokenizer } from '../../src/tokenize/tokenizer.ts';
import { readMetadata, shippedModel } from './fixtures.ts';

const metadata = await readMetadata(shippedModel);
const shipped = createTokenizer(metadata);

describe('SentencePiece BPE (tokenizer.ggml.model = llama)', () => {
  it('gives the ids that native llama.cpp gave for a prompt of the shipped model', () => {
    // Ids from a run of native llama.cpp with this file.
    const ids = [
      1, 417, 353, 974, 262, 380, 432, 506, 384, 575, 262, 808, 304, 318, 314, 787, 967, 321, 681, 307, 282, 283, 565, 971, 464, 966, 962,
      954, 271, 369, 347, 307, 785, 307, 282, 392, 290, 970, 967, 384, 448, 271, 392, 878, 266, 808, 304, 347,
    ];
    expect(shipped.encode(shipped.decode(ids.slice(1)))).toEqual(ids);
  });

  it('an empty text is bos alone, or nothing', () => {
    expect(shipped.encode('')).toEqual([1]);
    expect(shipped.encode('', { addSpecial: false })).toEqual([]);
  });

  it('falls back to bytes and comes back whole', () => {
    for (const text of ['Once upon a time', 'żółć', '我想 🦙', 'tab\there', 'a\n\nb', '  two  spaces ', '\0\x7f', 'e\u0301', '\ufeffbom']) {
      expect(shipped.decode(shipped.encode(text, { addSpecial: false }))).toBe(text);
    }
  });

  it('removes the space prefix of a text, but not after bos, as llama_detokenize does', () => {
    const ids = shipped.encode('Once');
    expect(shipped.decode(ids)).toBe(' Once');
    expect(shipped.decode(ids.slice(1))).toBe('Once');
    expect(shipped.decode(ids, { special: true })).toBe('<s> Once');
  });

  it('half a surrogate pair is U+FFFD', () => {
    expect(shipped.decode(shipped.encode('a\ud83eb', { addSpecial: false }))).toBe('a\ufffdb');
  });

  it('reads control tokens only when asked', () => {
    const forged = '<s>hi</s>';
    expect(shipped.encode(forged, { addSpecial: false })).not.toContain(1);
    const ids = shipped.encode(forged, { addSpecial: false, parseSpecial: true });
    expect(ids[0]).toBe(1);
    expect(ids.at(-1)).toBe(2);
    expect(shipped.decode(ids)).toBe(' hi');
    expect(shipped.isEog(2)).toBe(true);
    expect(shipped.isEog(1)).toBe(false);
  });

  it('refuses ids outside the vocabulary', () => {
    for (const id of [-1, shipped.nVocab, 0.5, NaN]) {
      expect(() => shipped.pieceBytes(id)).toThrowError(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
      expect(() => shipped.decode([id])).toThrowError(expect.objectContaining({ code: 'ERR_INVALID_ARGUMENT' }));
    }
  });

  it('merges a long text without spaces in less than quadratic time, to the same ids as in parts', () => {
    const long = 'abcdefgh'.repeat(12_500);
    const start = performance.now();
    const ids = shipped.encode(long, { addSpecial: false });
    // Typically 60 ms for 100 KB; a quadratic loop takes minutes.
    expect(performance.now() - start).toBeLessThan(5000);
    expect(shipped.decode(ids)).toBe(long);
  });

  it('bad metadata is a coded error', () => {
    const code = (m: [string, unknown][]): string => {
      try {
        createTokenizer(new Map([...metadata, ...m]));
      } catch (e) {
        return (e as { code: string }).code;
      }
      return 'none';
    };
    expect(code([['tokenizer.ggml.model', 'rwkv']])).toBe('ERR_UNSUPPORTED_TOKENIZER');
    expect(code([['tokenizer.ggml.model', 7]])).toBe('ERR_MISSING_METADATA');
    expect(code([['tokenizer.ggml.tokens', undefined]])).toBe('ERR_MISSING_METADATA');
    expect(code([['tokenizer.ggml.tokens', [1, 2]]])).toBe('ERR_GGUF_INVALID');
    expect(code([['tokenizer.ggml.scores', new Float32Array(3)]])).toBe('ERR_GGUF_INVALID');
    expect(code([['tokenizer.ggml.token_type', 'x']])).toBe('ERR_GGUF_INVALID');
  });

  it('an invalid id is a warning, a missing one is not', () => {
    const odd = createTokenizer(
      new Map([...metadata, ['tokenizer.ggml.eos_token_id', 5000], ['tokenizer.ggml.padding_token_id', 0xffffffff]]),
    );
    expect(odd.special.eos).toBe(2);
    expect(odd.special.pad).toBeUndefined();
    expect(odd.warnings).toHaveLength(1);
  });
});

describe('streaming detokenizer', () => {
  it("never gives half a character, whatever the bytes, and adds up to TextDecoder's streamed text", () => {
    const byte = (b: number): number => shipped.tokenId(`<0x${b.toString(16).toUpperCase().padStart(2, '0')}>`)!;
    const cases = [
      [...new TextEncoder().encode('a🦙é我')],
      [0xf0, 0x9f, 0xa6],
      [0xff, 0x41, 0xc3],
      [0xe2, 0x28, 0xa1],
      [0xf0, 0x9f, 0x41],
      [0xed, 0xa0, 0x80],
      [0xef, 0xbb, 0xbf, 0x41],
    ];
    for (const bytes of cases) {
      const stream = createDetokenizer(shipped);
      const parts = bytes.map((b) => stream.push(byte(b)));
      expect(parts.join('')).toBe(new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes), { stream: true }));
      for (const part of parts) expect(part).not.toMatch(/\p{Surrogate}/u);
    }
  });

  it('keeps the leading space of the first piece, and shows control tokens only when asked', () => {
    const ids = shipped.encode('Once');
    const text = (special: boolean): string => {
      const stream = createDetokenizer(shipped, { special });
      return ids.map((id) => stream.push(id)).join('');
    };
    expect(text(false)).toBe(' Once');
    expect(text(true)).toBe('<s> Once');
  });
});
