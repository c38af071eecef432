export const N: 512;
export const ROWS: Readonly<Record<string, Float32Array<ArrayBuffer>>>;
export const IMATRIX: Float32Array<ArrayBuffer>;
export const BELOW_POWERS: Float32Array<ArrayBuffer>;
export function randomBlocks(type: string, typeSize: number, blocks: number, seed: number): Uint8Array<ArrayBuffer>;
