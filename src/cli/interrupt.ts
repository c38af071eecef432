/** Aborts at the first signal that asks the process to end. */
export const interrupt = new AbortController();
