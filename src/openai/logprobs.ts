/** Log probabilities in OpenAI's forms. */
import type { GenerationPart } from '../generate.ts';
import type { Logprobs, TokenLogprob } from '../sample/logprobs.ts';
import type { Backend } from './backend.ts';

/** A token's text as well as bytes can say it, for lists of tokens. */
export function tokenText(backend: Backend, id: number): string {
  return new TextDecoder().decode(backend.tokenBytes(id));
}

interface Entry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** -Infinity is no JSON; OpenAI writes -9999 for a token that cannot come. */
const finite = (logprob: number): number => Math.max(logprob, -9999);

export function entry(backend: Backend, { id, logprob }: TokenLogprob): Entry {
  return { token: tokenText(backend, id), logprob: finite(logprob), bytes: [...backend.tokenBytes(id)] };
}

/** One item of a chat choice's `logprobs.content`. */
export function chatEntry(backend: Backend, logprobs: Logprobs): object {
  return { ...entry(backend, logprobs), top_logprobs: logprobs.top.map((top) => entry(backend, top)) };
}

/** The `logprobs` of /v1/completions: four lists side by side; `offset` is where the first part's text starts. */
export function completionLogprobs(backend: Backend, parts: readonly GenerationPart[], offset: number): object {
  const known = parts.flatMap((part) => (part.logprobs ? [part.logprobs] : []));
  let at = offset;
  return {
    tokens: known.map(({ id }) => tokenText(backend, id)),
    token_logprobs: known.map(({ logprob }) => finite(logprob)),
    top_logprobs: known.map(({ top }) => Object.fromEntries(top.map(({ id, logprob }) => [tokenText(backend, id), finite(logprob)]))),
    text_offset: known.map(({ id }) => {
      const start = at;
      at += tokenText(backend, id).length;
      return start;
    }),
  };
}
