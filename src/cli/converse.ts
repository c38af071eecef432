/** A conversation in the terminal, or with messages from a pipe, one per line. */
import { onAbort } from '../abort.ts';
import { COMMANDS, PATH_COMMANDS, runCommand } from './conversation-commands.ts';
import { Conversation, type ConversationOptions } from './conversation.ts';
import { withMarkedImages } from './image-files.ts';
import { createMessageInput } from './message-input.ts';

/** Answers messages until the input ends, /exit, or an abort. Returns the exit code. */
export async function converse(options: ConversationOptions, signal: AbortSignal): Promise<number> {
  const input = createMessageInput({
    commands: Object.keys(COMMANDS),
    pathCommands: PATH_COMMANDS,
    // While readline reads the terminal, it receives Ctrl-C; otherwise the command's signal does.
    onInterrupt() {
      if (conversation.stop(new DOMException('stopped', 'AbortError'))) return;
      process.stdout.write('\n(Ctrl-D or /exit leaves)\n');
      input.clear();
    },
  });
  const conversation = new Conversation(options, input.terminal);
  const unlisten = onAbort(signal, () => {
    conversation.stop(signal.reason);
    input.close();
  });
  if (input.terminal) {
    process.stdout.write(options.greeting);
    options.mcp?.askWith((question, asked) => input.ask(question, asked));
  }
  try {
    let more = !signal.aborted && (options.first === undefined || (await conversation.answerTo(options.first, withMarkedImages)));
    while (more && !signal.aborted) {
      const line = (await input.next())?.trim();
      if (line === undefined) break;
      more = line.startsWith('/') ? await runCommand(conversation, line) : await conversation.answerTo(line);
    }
  } finally {
    input.close();
    unlisten();
  }
  if (input.terminal) process.stdout.write('\n');
  return signal.aborted ? 130 : 0;
}
