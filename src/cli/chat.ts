/** quantlet chat: a conversation in the terminal. */
import { createInterface, type Interface } from 'node:readline';
import { writeFile } from 'node:fs/promises';
import type { ChatMessage } from '../chat/messages.ts';
import { QuantletError } from '../errors.ts';
import type { Model, ModelChatOptions } from '../model.ts';
import { printable } from '../printable.ts';
import { CACHE_FLAGS, forTerminal, MODEL_FLAGS, openModel, readText, templateOf, unescape, type Command } from './command.ts';
import { parseFlags, type FlagKey } from './flags.ts';
import { constraintOf, samplerOptions, SAMPLING_FLAGS } from './run.ts';

const KEYS = [
  ...MODEL_FLAGS, ...CACHE_FLAGS, 'message', 'file', 'system', 'predict', 'ctx', 'threads', 'batch', ...SAMPLING_FLAGS, 'grammar', 'grammarFile', 'jsonSchema', 'stop', 'chatTemplate', 'chatTemplateFile',
  'noWarmup', 'turbo', 'build', 'json', 'help',
] as const satisfies readonly FlagKey[];

const HELP = `/help            this list
/clear           forget the conversation
/system TEXT     set the system message (and forget the conversation); without TEXT: show it
/regen           answer the last message anew
/save FILE       write the conversation as JSON messages
/exit            leave (Ctrl-D too)
A line that ends in \\ goes on in the next one. Ctrl-C stops an answer.
`;

export const chat: Command = {
  name: 'chat',
  synopsis: '[-m FILE] [-p TEXT] [flags]',
  summary: 'talk with a model',
  flags: KEYS,
  notes: `With -p the message is answered and the program ends, else it asks for messages; there, commands begin with a slash:\n${HELP.trimEnd().replaceAll(/^/gm, '  ')}`,
  examples: ['quantlet chat -m llama-3.2-1b.Q4_K_M.gguf', 'quantlet chat -hf ggml-org/Qwen3-0.6B-GGUF -sys "Answer in one sentence."', 'quantlet chat -m model.gguf -p "Why is the sky blue?" --temp 0'],
  async run(argv, signal) {
    const { values, positionals } = parseFlags(argv, KEYS);
    if (positionals.length > 0) throw new QuantletError('ERR_USAGE', `"${positionals[0]}" is no flag; give the message with -p and the model with -m`);
    if (values.json && values.message === undefined && values.file === undefined) throw new QuantletError('ERR_USAGE', '--json is for one answer; give the message with -p or -f');
    const options: ModelChatOptions = { ...samplerOptions(values), ...(await constraintOf(values)), maxTokens: values.predict ?? -1, ...(values.stop ? { stop: values.stop } : {}) };
    const once = values.file === undefined ? values.message : (await readText(values.file, 'the message')).replace(/\n$/, '');
    const model = await openModel(values, signal, await templateOf(values));
    try {
      const { wants } = model.state.engine;
      if (wants !== 'logits') throw new QuantletError('ERR_INVALID_ARGUMENT', `this ${model.architecture} model makes ${wants}, not text; use quantlet embed`);
      for (const warning of model.chatTemplate.warnings) process.stderr.write(`quantlet: ${printable(warning)}\n`);
      const system: ChatMessage[] = values.system === undefined ? [] : [{ role: 'system', content: unescape(values.system) }];
      if (once === undefined) return await converse(model, system, options, signal);
      const answer = model.chat([...system, { role: 'user', content: values.file === undefined ? unescape(once) : once }], { ...options, signal });
      if (values.json) process.stdout.write(`${JSON.stringify(await report(answer))}\n`);
      else {
        await show(answer);
        process.stdout.write('\n');
      }
      return 0;
    } finally {
      await model.dispose();
    }
  },
};

type Answer = ReturnType<Model['chat']>;

async function report(answer: Answer): Promise<object> {
  const { content, reasoning, finishReason, ids, timings: t } = await answer.result();
  return { content, ...(reasoning ? { reasoning } : {}), stop_reason: finishReason, ids, timings: { prompt_n: t.promptTokens, prompt_ms: t.promptMs, predicted_n: t.predictedTokens, predicted_ms: t.predictedMs } };
}

/** Prints an answer as it comes, its reasoning in grey where that is a terminal, and gives its text. */
async function show(answer: Answer, onText = (_text: string): void => {}): Promise<void> {
  const grey = process.stdout.isTTY === true;
  let reasoning = false, begun = false;
  const toContent = (): void => {
    if (reasoning) process.stdout.write(grey ? '\x1b[0m\n\n' : '\n\n');
    reasoning = false;
  };
  try {
    for await (const event of answer) {
      if (event.type === 'toolCall') continue;
      if (event.type === 'reasoning') {
        if (!reasoning && grey) process.stdout.write('\x1b[90m');
        reasoning = true;
        process.stdout.write(forTerminal(event.delta));
        continue;
      }
      toContent();
      onText(event.delta);
      const text: string = begun ? event.delta : event.delta.trimStart();
      begun ||= text !== '';
      process.stdout.write(forTerminal(text));
    }
  } finally {
    if (reasoning && grey) process.stdout.write('\x1b[0m');
  }
}

async function converse(model: Model, system: readonly ChatMessage[], options: ModelChatOptions, signal: AbortSignal): Promise<number> {
  let messages = [...system];
  const terminal = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const input = createInterface({ input: process.stdin, output: terminal ? process.stdout : undefined, terminal, historySize: 200, prompt: '> ' });
  let answering: AbortController | undefined;
  // readline takes Ctrl-C while it reads the terminal; elsewhere it arrives as the command's signal.
  const interrupt = (): void => {
    if (answering) answering.abort(new DOMException('stopped', 'AbortError'));
    else {
      pending = '';
      if (!terminal) return;
      process.stdout.write('\n(Ctrl-D or /exit leaves)\n');
      // Clears what was typed: Ctrl-E to the end of the line, Ctrl-U deletes everything before it.
      input.write(null, { ctrl: true, name: 'e' });
      input.write(null, { ctrl: true, name: 'u' });
      ask(input, pending);
    }
  };
  input.on('SIGINT', interrupt);
  const leave = (): void => {
    answering?.abort(signal.reason);
    input.close();
  };
  signal.addEventListener('abort', leave, { once: true });

  async function answer(again = 0): Promise<void> {
    answering = new AbortController();
    const began = messages.length;
    let content = '';
    try {
      const generation = model.chat(messages, { ...options, ...seedFor(options.seed, again), signal: answering.signal });
      await show(generation, (text) => (content += text));
      const { finishReason } = await generation.result();
      process.stdout.write(finishReason === 'length' ? ' [cut: -n or the context is full]\n' : '\n');
    } catch (error) {
      if (answering.signal.aborted) process.stdout.write(' [stopped]\n');
      else if (error instanceof QuantletError) process.stderr.write(`quantlet: ${error.message} (${error.code})\n`);
      else throw error;
    } finally {
      answering = undefined;
    }
    if (terminal) process.stdout.write('\n');
    // An answer that was stopped stays in the conversation as far as it came; a message whose answer failed is taken out.
    if (content !== '') messages.push({ role: 'assistant', content: content.trimStart() });
    else if (messages.length === began) messages.pop();
  }

  let regenerated = 0;
  async function command(line: string): Promise<boolean> {
    const [, name, rest] = /^\/(\S*)\s*([^]*)$/.exec(line)!;
    if (name === 'exit' || name === 'quit' || name === 'bye') return false;
    if (name === 'help' || name === '?') process.stdout.write(HELP);
    else if (name === 'clear') messages = messages.filter((m) => m.role === 'system');
    else if (name === 'system' && rest === '') process.stdout.write(`${(messages.find((m) => m.role === 'system')?.content as string | undefined) ?? '(none)'}\n`);
    else if (name === 'system') messages = [{ role: 'system', content: rest }];
    else if (name === 'regen') {
      if (messages.at(-1)?.role === 'assistant') messages.pop();
      if (messages.at(-1)?.role === 'user') await answer(++regenerated);
      else process.stdout.write('There is nothing to answer yet.\n');
    } else if (name === 'save') {
      await writeFile(rest || 'chat.json', `${JSON.stringify(messages, null, 2)}\n`).then(
        () => process.stdout.write(`Written to ${rest || 'chat.json'}.\n`),
        (error: Error) => process.stderr.write(`quantlet: cannot write: ${error.message}\n`),
      );
    } else process.stdout.write(`There is no command /${name}; /help lists them.\n`);
    return true;
  }

  if (terminal) process.stdout.write(`${printable(model.name)}, context ${model.contextLength}. /help lists commands.\n`);
  let pending = '';
  if (terminal) ask(input, pending);
  for await (const line of input) {
    pending += line;
    if (pending.endsWith('\\')) pending = `${pending.slice(0, -1)}\n`;
    else {
      const text = pending.trim();
      pending = '';
      if (text.startsWith('/')) {
        if (!(await command(text))) break;
      } else if (text !== '') {
        messages.push({ role: 'user', content: text });
        await answer();
      }
    }
    if (signal.aborted) break;
    if (terminal) ask(input, pending);
  }
  input.close();
  signal.removeEventListener('abort', leave);
  if (terminal) process.stdout.write('\n');
  return signal.aborted ? 130 : 0;
}

/** The same seed again would give the same answer. */
const seedFor = (seed: number | undefined, again: number): { seed?: number } => (seed === undefined || seed < 0 ? {} : { seed: (seed + again) % 2 ** 32 });

function ask(input: Interface, pending: string): void {
  input.setPrompt(pending === '' ? '> ' : '. ');
  input.prompt(true); // what was typed while an answer came stays, the cursor behind it
}
