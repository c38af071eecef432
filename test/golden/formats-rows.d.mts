export const N: 512;
export const ROWS: Readonly<Record<string, Float32Array<ArrayBuffer>>>;
export const HOSTILE: readonly string[];
export function oneNaN(bytes: Uint8Array): Uint8Array<ArrayBuffer>;
export const SCALES_F16: readonly number[];
export function scaledBlocks(type: string, typeSize: number, seed: number): Uint8Array<ArrayBuffer>[];
export const IMATRIX: Float32Array<ArrayBuffer>;
export const BELOW_POWERS: Float32Array<ArrayBuffer>;
export function randomBlocks(type: string, typeSize: number, blocks: number, seed: number): Uint8Array<ArrayBuffer>;
