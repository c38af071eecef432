/**
 * Handles a stdout whose reader has gone away (quantlet ... | head). By default a command still
 * runs to its end, so that files are finished and the exit code is right.
 */

/** Ends the command after the reader of its output has gone; unset by default. */
export const unread: { end?: () => unknown } = {};

/** For commands whose only result is their output: ends them when nobody reads it. */
export const endUnread = (end: () => unknown = () => process.exit(0)): void => void (unread.end = end);
