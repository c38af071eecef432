/** Log probabilities in OpenAI's formats. */
import type { Logprobs, TokenLogprob } from '../../sample/logprobs.ts';
import type { Backend } from '../backend.ts';
import { JsonList } from '../http/json-pieces.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * A token's text for lists of tokens. Like llama-server, omits an incomplete character at its end.
 */
export function tokenText(backend: Backend, id: number): string {
  const text = decoder.decode(backend.tokenBytes(id), { stream: true });
  decoder.decode(); // drops the incomplete character
  return text;
}

interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** JSON has no -Infinity; OpenAI writes -9999 for an impossible token. */
const finite = (logprob: number): number => Math.max(logprob, -9999);

export function entry(backend: Backend, { id, logprob }: TokenLogprob): Entry {
  return { token: tokenText(backend, id), logprob: finite(logprob), bytes: [...backend.tokenBytes(id)] };
}

/** One item of a chat choice's `logprobs.content`. */
export function chatEntry(backend: Backend, logprobs: Logprobs): object {
  return { ...entry(backend, logprobs), top_logprobs: logprobs.top.map((top) => entry(backend, top)) };
}

/** The `logprobs` of /v1/completions: four parallel lists. */
interface LogprobLists<List> {
  readonly tokens: List;
  readonly token_logprobs: List;
  readonly top_logprobs: List;
  readonly text_offset: List;
}

/** The lists of one token, whose text starts at `offset`. */
export function completionLogprobs(backend: Backend, { id, logprob, top }: Logprobs, offset: number): LogprobLists<readonly [unknown]> {
  return {
    tokens: [tokenText(backend, id)],
    token_logprobs: [finite(logprob)],
    top_logprobs: [Object.fromEntries(top.map((other) => [tokenText(backend, other.id), finite(other.logprob)]))],
    text_offset: [offset],
  };
}

/**
 * Collects the lists of a complete answer token by token. Building them at its end would block the
 * event loop for a long answer.
 */
export function createLogprobLists(backend: Backend): { readonly value: LogprobLists<JsonList>; push(logprobs: Logprobs): number } {
  const value = { tokens: new JsonList(), token_logprobs: new JsonList(), top_logprobs: new JsonList(), text_offset: new JsonList() };
  let offset = 0;
  return {
    value,
    /** Returns the number of characters written. */
    push(logprobs) {
      const one = completionLogprobs(backend, logprobs, offset);
      offset += (one.tokens[0] as string).length;
      return (Object.keys(value) as (keyof typeof value)[]).reduce((sum, name) => sum + value[name].push(one[name][0]), 0);
    },
  };
}
