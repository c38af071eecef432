/** Golden pictures and projectors (test/golden/vision/README.md). */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { GGUF, GGUFValue } from '../../src/gguf/types.ts';
import { readVisionParams, type VisionParams } from '../../src/vision/params.ts';
import { at, hasShared, shared } from '../support.ts';

export const golden = <T>(name: string): T => JSON.parse(readFileSync(at(`test/golden/vision/${name}`), 'utf8')) as T;

export interface GoldenPicture {
  readonly data: string;
  readonly width: number;
  readonly height: number;
  /** Hash of the RGB bytes; undefined for files that are to be refused. */
  readonly sha256?: string;
}

export const pictures: readonly (readonly [name: string, picture: GoldenPicture])[] = Object.entries(golden('pictures.json'));

export const bytesOf = (name: string): Uint8Array => new Uint8Array(Buffer.from(pictures.find(([n]) => n === name)![1].data, 'base64'));

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export type Metadata = Readonly<Record<string, number | string | boolean | readonly number[]>>;

/** A header with these keys. */
export function paramsOf(metadata: Metadata): VisionParams {
  const values = Object.entries({ 'general.architecture': 'clip', ...metadata }).map(([key, value]): [string, GGUFValue] => [
    key,
    Array.isArray(value) ? Float64Array.from(value as number[]) : (value as GGUFValue),
  ]);
  return readVisionParams({ metadata: new Map(values), tensors: new Map() } as unknown as GGUF);
}

/** Larger golden data next to the checkout, if there is any. */
export const sharedGolden = (path: string): string => shared(`golden/vision/${path}`);
export { hasShared };
