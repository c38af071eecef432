import type { Hash } from 'node:crypto';

/** node:crypto's, which is imported when it is first wanted: that takes 5 ms, and most models are files of this machine. */
export const createHash = (algorithm: string): Hash => process.getBuiltinModule('node:crypto').createHash(algorithm);
