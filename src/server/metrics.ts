/** GET /metrics: llama-server's counters in the text format of Prometheus. */
import type { DraftCounts } from '../generate/generate.ts';
import type { Queue } from './queue.ts';

/** Counters since the start. They have llama-server's names, so that its dashboards work. */
export interface Metrics {
  request(path: string, status: number): void;
  generated(promptTokens: number, predictedTokens: number, promptMs: number, predictedMs: number, draft?: DraftCounts): void;
  /** The Prometheus text format, version 0.0.4. */
  text(queues: readonly Pick<Queue, 'running' | 'waiting'>[]): string;
}

export function createMetrics(): Metrics {
  const requests = new Map<string, number>();
  let promptTokens = 0;
  let promptMs = 0;
  let predictedTokens = 0;
  let predictedMs = 0;
  let drafted = 0;
  let accepted = 0;
  let draftSteps = 0;
  /** Accepted tokens by position in the draft. */
  const acceptedAt: number[] = [];
  const rate = (tokens: number, ms: number): number => (ms > 0 ? (1000 * tokens) / ms : 0);
  return {
    request(path, status) {
      const key = `{path="${path}",status="${status}"}`;
      requests.set(key, (requests.get(key) ?? 0) + 1);
    },
    generated(prompt, predicted, promptTime, predictedTime, draft) {
      promptTokens += prompt;
      predictedTokens += predicted;
      promptMs += promptTime;
      predictedMs += predictedTime;
      if (!draft) return;
      drafted += draft.tokens;
      accepted += draft.accepted;
      draftSteps += draft.steps;
      draft.acceptedAt.forEach((n, i) => (acceptedAt[i] = (acceptedAt[i] ?? 0) + n));
    },
    text(queues) {
      const sum = (what: 'running' | 'waiting'): number => queues.reduce((all, queue) => all + queue[what], 0);
      const families: readonly (readonly [name: string, type: 'counter' | 'gauge', help: string, value: number])[] = [
        ['llamacpp:prompt_tokens_total', 'counter', 'Prompt tokens processed.', promptTokens],
        ['llamacpp:prompt_seconds_total', 'counter', 'Seconds of prompt processing.', promptMs / 1000],
        ['llamacpp:tokens_predicted_total', 'counter', 'Tokens generated.', predictedTokens],
        ['llamacpp:tokens_predicted_seconds_total', 'counter', 'Seconds of generation.', predictedMs / 1000],
        ['llamacpp:spec_decode_num_draft_tokens_total', 'counter', 'Tokens drafted (speculation).', drafted],
        ['llamacpp:spec_decode_num_accepted_tokens_total', 'counter', 'Drafted tokens that became part of a text.', accepted],
        ['llamacpp:spec_decode_num_drafts_total', 'counter', 'Steps that verified a draft.', draftSteps],
        ['llamacpp:prompt_tokens_seconds', 'gauge', 'Average prompt tokens per second.', rate(promptTokens, promptMs)],
        ['llamacpp:predicted_tokens_seconds', 'gauge', 'Average generated tokens per second.', rate(predictedTokens, predictedMs)],
        ['llamacpp:requests_processing', 'gauge', 'Requests that generate now.', sum('running')],
        ['llamacpp:requests_deferred', 'gauge', 'Requests that wait for a place.', sum('waiting')],
      ];
      const lines = families.flatMap(([name, type, help, value]) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
        `${name} ${value}`,
      ]);
      const perPosition = 'llamacpp:spec_decode_num_accepted_tokens_per_pos_total';
      if (acceptedAt.length > 0)
        lines.push(`# HELP ${perPosition} The same by their position in the draft.`, `# TYPE ${perPosition} counter`);
      acceptedAt.forEach((n, i) => lines.push(`${perPosition}{position="${i}"} ${n}`));
      lines.push('# HELP quantlet:http_requests_total Requests answered.', '# TYPE quantlet:http_requests_total counter');
      for (const [labels, count] of requests) lines.push(`quantlet:http_requests_total${labels} ${count}`);
      return `${lines.join('\n')}\n`;
    },
  };
}
