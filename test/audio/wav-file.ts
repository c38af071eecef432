/** Writes WAV files for tests. */

interface WavOptions {
  /** 1: integers, 3: floats. */
  readonly kind?: number;
  readonly bits?: number;
  readonly channels?: number;
  readonly rate?: number;
  /** True: the format is in a GUID. */
  readonly extensible?: boolean;
  /** A chunk before the data: its name and its bytes. */
  readonly before?: readonly [name: string, size: number];
}

/** @param values samples as the file has them */
export function wavFile(
  values: readonly number[],
  { kind = 3, bits = 32, channels = 1, rate = 16000, extensible = false, before }: WavOptions = {},
): Uint8Array {
  const name = (text: string): number[] => [...Buffer.from(text)];
  const u16 = (v: number): number[] => [v & 255, (v >> 8) & 255];
  const u32 = (v: number): number[] => [...u16(v & 0xffff), ...u16(v >>> 16)];
  const chunk = (id: string, data: readonly number[]): number[] => [
    ...name(id),
    ...u32(data.length),
    ...data,
    ...(data.length & 1 ? [0] : []),
  ];
  const step = bits / 8;
  const data = Buffer.alloc(values.length * step);
  values.forEach((v, i) => {
    if (kind === 3 && bits === 32) data.writeFloatLE(v, i * step);
    else if (kind === 3) data.writeDoubleLE(v, i * step);
    else if (bits === 8) data.writeUInt8(v, i);
    else data.writeIntLE(v, i * step, step);
  });
  const guid = extensible ? [...u16(22), ...u16(bits), ...u32(0), ...u16(kind), ...new Array<number>(14).fill(0)] : [];
  const format = [
    ...u16(extensible ? 0xfffe : kind),
    ...u16(channels),
    ...u32(rate),
    ...u32(rate * channels * step),
    ...u16(channels * step),
    ...u16(bits),
    ...guid,
  ];
  const extra = before ? chunk(before[0], new Array<number>(before[1]).fill(0)) : [];
  const body = [...name('WAVE'), ...chunk('fmt ', format), ...extra, ...chunk('data', [...data])];
  return Uint8Array.from([...name('RIFF'), ...u32(body.length), ...body]);
}
