/** WAV files as samples, other rates, and files and samples that are refused. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readSound } from '../../src/audio/read-sound.ts';
import { resampled } from '../../src/audio/resample.ts';
import { decodeWav } from '../../src/audio/wav.ts';
import { QuantletError } from '../../src/errors.ts';
import { atOnce } from '../../src/slices.ts';
import type { AudioSource } from '../../src/run/image-tokens.ts';
import { wavFile } from './wav-file.ts';

/** A sound's samples at the encoder's rate. */
const samplesOf = async (source: AudioSource): Promise<Float32Array> => (await readSound(source)).samples();
const refused = (code: string, message: RegExp) => expect.objectContaining({ code, message: expect.stringMatching(message) });

describe('samples of WAV files', () => {
  it.each([
    ['8 bits', { kind: 1, bits: 8 }, [0, 128, 255], [-1, Math.fround(128 * Math.fround(2 / 255)) - 1, 1]],
    ['16 bits', { kind: 1, bits: 16 }, [-32768, 1, 32767], [-1, 1 / 32768, 32767 / 32768]],
    ['24 bits', { kind: 1, bits: 24 }, [-(2 ** 23), 1, -1], [-1, 2 ** -23, -(2 ** -23)]],
    ['32 bits', { kind: 1, bits: 32 }, [-(2 ** 31), 2 ** 30, 0], [-1, 0.5, 0]],
    ['32-bit floats', { kind: 3, bits: 32 }, [0.25, -1.5, 0], [0.25, -1.5, 0]],
    ['64-bit floats', { kind: 3, bits: 64 }, [0.25, -1.5, 0], [0.25, -1.5, 0]],
    ['extensible', { kind: 1, bits: 16, extensible: true }, [-32768, 0], [-1, 0]],
  ] as const)('%s', (_, format, values, want) => {
    expect(decodeWav(wavFile(values, format))).toEqual({ samples: Float32Array.from(want), rate: 16000 });
  });

  it('the mean of the channels', () => {
    expect(decodeWav(wavFile([0.5, -0.5, 1, 0], { channels: 2 })).samples).toEqual(Float32Array.of(0, 0.5));
    const many = Array.from({ length: 300 }, (_, i) => (i % 100) / 100);
    expect(decodeWav(wavFile(many, { channels: 100 })).samples).toEqual(new Float32Array(3).fill(0.495));
  });

  it('a data chunk that says more than there is, and chunks before it', () => {
    const file = wavFile([0.25, 0.5], { before: ['LIST', 3] });
    expect(decodeWav(file.slice(0, -4)).samples).toEqual(Float32Array.of(0.25));
  });
});

describe('refused', () => {
  it.each([
    ['no bytes', new Uint8Array(), /no bytes/],
    ['a text', new TextEncoder().encode('This is no sound.'), /begins with "This"/],
    ['MP3', new TextEncoder().encode('ID3 and more'), /type MP3; expected WAV/],
    ['FLAC', new TextEncoder().encode('fLaC and more'), /type FLAC/],
    ['a header alone', wavFile([]).slice(0, 12), /without a format/],
    ['no data', wavFile([1]).slice(0, 36), /without data/],
    ['no samples', wavFile([]), /without samples/],
    ['0 samples per second', wavFile([1], { rate: 0 }), /0 samples per second/],
    ['0 channels', wavFile([1], { channels: 0 }), /0 channels/],
    ['another format', wavFile([1], { kind: 2, bits: 16 }), /format 2 with 16 bits/],
    ['NaN', wavFile([0, NaN]), /NaN as sample 1/],
  ])('%s', async (_, file, message) => {
    await expect(samplesOf(file)).rejects.toThrow(refused('ERR_AUDIO_INVALID', message));
  });

  it('what would have too many samples at the rate of the model', async () => {
    const slow = { samples: new Float32Array(20_000), sampleRate: 1 };
    await expect(samplesOf(slow)).rejects.toThrow(refused('ERR_AUDIO_TOO_LARGE', /cut it into pieces/));
  });

  it('other values', async () => {
    await expect(samplesOf(7 as never)).rejects.toThrow(refused('ERR_INVALID_ARGUMENT', /a sound is 7/));
    await expect(samplesOf({ samples: [1], sampleRate: 8000 } as never)).rejects.toThrow(refused('ERR_INVALID_ARGUMENT', /Float32Array/));
    await expect(samplesOf('https://example.org/a.wav')).rejects.toThrow(refused('ERR_INVALID_ARGUMENT', /nothing is downloaded/));
  });

  it('mutated files are samples or an error with a code', () => {
    const file = wavFile([0.1, -0.2, 0.3, 0.4], { channels: 2, before: ['LIST', 4] });
    const change = fc.record({ at: fc.nat(file.length - 1), byte: fc.nat(255) });
    fc.assert(
      fc.property(fc.array(change, { maxLength: 6 }), fc.nat(file.length), (changes, length) => {
        const mutated = file.slice(0, length);
        for (const { at, byte } of changes) if (at < length) mutated[at] = byte;
        try {
          expect(decodeWav(mutated).samples.length).toBeLessThanOrEqual(file.length);
        } catch (error) {
          expect(error).toBeInstanceOf(QuantletError);
        }
      }),
    );
  });
});

describe('sources', () => {
  it('bytes, a Blob, a data: URL, samples and an AudioBuffer are one sound', async () => {
    const file = wavFile([0.5, -0.25]);
    const buffer = { numberOfChannels: 2, length: 2, sampleRate: 16000, getChannelData: (c: number) => Float32Array.of(c, -0.5 * c) };
    const url = `data:audio/wav;base64,${Buffer.from(file).toString('base64')}`;
    for (const source of [file, file.buffer as ArrayBuffer, new Blob([file as BlobPart]), url, buffer])
      expect(await samplesOf(source)).toEqual(Float32Array.of(0.5, -0.25));
    const [first, again, other] = await Promise.all([file, file.slice(), wavFile([0.5])].map((source) => readSound(source)));
    expect([again.key === first.key, other.key === first.key]).toEqual([true, false]);
  });
});

describe('other rates', () => {
  const sine = (n: number, rate: number, hz: number) => Float32Array.from({ length: n }, (_, i) => Math.sin((2 * Math.PI * hz * i) / rate));
  it.each([44100, 48000, 8000, 22050, 11025, 96000, 44101])('a tone at %i samples per second', (rate) => {
    const found = atOnce(resampled({ samples: sine(rate, rate, 1000), rate }, 16000));
    expect(found).toHaveLength(16000);
    const want = sine(16000, 16000, 1000);
    // Away from the ends, where the filter has all of its samples.
    for (let i = 1000; i < 15000; i++) expect(Math.abs(found[i] - want[i])).toBeLessThan(2e-4);
  });
  it('tones above the new range go', () => {
    const found = atOnce(resampled({ samples: sine(48000, 48000, 11000), rate: 48000 }, 16000));
    for (let i = 1000; i < 15000; i++) expect(Math.abs(found[i])).toBeLessThan(2e-4);
  });
  it('one sample', () => expect(atOnce(resampled({ samples: Float32Array.of(1), rate: 96000 }, 16000))).toHaveLength(1));
});
