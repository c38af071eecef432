/** Readers of stdout that go away (quantlet ... | head). A command goes on to its end, so that files are finished and the exit code is right, unless it says otherwise. */

/** Ends a command whose output nobody reads any more. */
export const unread: { end?: () => unknown } = {};

/** Says of a command that its output is all it makes. */
export const endUnread = (end: () => unknown = () => process.exit(0)): void => void (unread.end = end);
