/** A JPEG's frame header: sizes and components. */
import { checkSize, invalid, truncated } from '../picture.ts';

export interface Component {
  readonly id: number;
  /** Samples per block of the frame, horizontally and vertically. */
  readonly h: number;
  readonly v: number;
  readonly quantTable: number;
  /** Samples across and down, without padding. */
  readonly width: number;
  readonly height: number;
  /** Blocks across and down, padded to whole MCUs. */
  readonly across: number;
  readonly down: number;
  readonly plane: Uint8ClampedArray;
  /** Coefficients of all blocks; only in progressive files. */
  readonly coefficients: Int16Array | undefined;
  /** True if a scan had it. */
  seen: boolean;
}

export interface Frame {
  readonly progressive: boolean;
  readonly width: number;
  readonly height: number;
  readonly hMax: number;
  readonly vMax: number;
  /** MCUs across and down. */
  readonly across: number;
  readonly down: number;
  readonly components: readonly Component[];
}

/**
 * @param available bytes of the file. A block takes at least one bit, so a header that says more
 * blocks is refused before they are allocated.
 */
export function readFrame(body: Uint8Array, progressive: boolean, available: number): Frame {
  const n = body[5];
  if (body.length < 6 || body.length !== 6 + 3 * n) throw invalid(`has a frame header of ${body.length} bytes for ${n} components`);
  if (body[0] !== 8) throw invalid(`has ${body[0]} bits a sample; expected 8`);
  if (n !== 1 && n !== 3 && n !== 4) throw invalid(`has ${n} components; expected 1, 3 or 4`);
  const [height, width] = [(body[1] << 8) | body[2], (body[3] << 8) | body[4]];
  checkSize(width, height);
  const facts = Array.from({ length: n }, (_, i) => {
    const [id, sampling, quantTable] = body.subarray(6 + 3 * i);
    return { id, h: sampling >> 4, v: sampling & 15, quantTable };
  });
  const hMax = Math.max(...facts.map(({ h }) => h));
  const vMax = Math.max(...facts.map(({ v }) => v));
  for (const { h, v, quantTable } of facts)
    if (h < 1 || v < 1 || hMax > 4 || vMax > 4 || hMax % h !== 0 || vMax % v !== 0 || quantTable > 3)
      throw invalid(`has components sampled ${h} x ${v} of ${hMax} x ${vMax} with table ${quantTable}, which is not read`);
  const [across, down] = [Math.ceil(width / (8 * hMax)), Math.ceil(height / (8 * vMax))];
  const blocks = facts.reduce((sum, { h, v }) => sum + h * v, 0) * across * down;
  if (blocks > 8 * available) throw truncated(`${available} bytes for ${width} x ${height} pixels`);
  const components = facts.map((fact) => {
    const [wide, high] = [across * fact.h, down * fact.v];
    return {
      ...fact,
      width: Math.ceil((width * fact.h) / hMax),
      height: Math.ceil((height * fact.v) / vMax),
      across: wide,
      down: high,
      plane: new Uint8ClampedArray(64 * wide * high),
      coefficients: progressive ? new Int16Array(64 * wide * high) : undefined,
      seen: false,
    };
  });
  return { progressive, width, height, hMax, vMax, across, down, components };
}
