import type { Hash } from 'node:crypto';

/**
 * node:crypto's createHash. The module is loaded at first use, because most models are local files
 * and need no hash.
 */
export const createHash = (algorithm: string): Hash => process.getBuiltinModule('node:crypto').createHash(algorithm);
