/** Bytes that the processes with this text in their command line, and all below them, have in memory. */
export function residentBelow(text: string): number;
