/** GET /metrics: llama-server's counters in Prometheus' text format. */
import type { Queue } from './queue.ts';

/** Counters since the start; names as llama-server's, so that its dashboards work. */
export interface Metrics {
  request(path: string, status: number): void;
  generated(promptTokens: number, predictedTokens: number, promptMs: number, predictedMs: number): void;
  /** The Prometheus text format, version 0.0.4. */
  text(queue: Queue): string;
}

export function createMetrics(): Metrics {
  const requests = new Map<string, number>();
  let promptTokens = 0;
  let promptMs = 0;
  let predictedTokens = 0;
  let predictedMs = 0;
  const rate = (tokens: number, ms: number): number => (ms > 0 ? (1000 * tokens) / ms : 0);
  return {
    request(path, status) {
      const key = `{path="${path}",status="${status}"}`;
      requests.set(key, (requests.get(key) ?? 0) + 1);
    },
    generated(prompt, predicted, promptTime, predictedTime) {
      promptTokens += prompt;
      predictedTokens += predicted;
      promptMs += promptTime;
      predictedMs += predictedTime;
    },
    text(queue) {
      const families: readonly (readonly [name: string, type: 'counter' | 'gauge', help: string, value: number])[] = [
        ['llamacpp:prompt_tokens_total', 'counter', 'Prompt tokens processed.', promptTokens],
        ['llamacpp:prompt_seconds_total', 'counter', 'Seconds of prompt processing.', promptMs / 1000],
        ['llamacpp:tokens_predicted_total', 'counter', 'Tokens generated.', predictedTokens],
        ['llamacpp:tokens_predicted_seconds_total', 'counter', 'Seconds of generation.', predictedMs / 1000],
        ['llamacpp:prompt_tokens_seconds', 'gauge', 'Average prompt tokens per second.', rate(promptTokens, promptMs)],
        ['llamacpp:predicted_tokens_seconds', 'gauge', 'Average generated tokens per second.', rate(predictedTokens, predictedMs)],
        ['llamacpp:requests_processing', 'gauge', 'Requests that generate now.', queue.running],
        ['llamacpp:requests_deferred', 'gauge', 'Requests that wait for a place.', queue.waiting],
      ];
      const lines = families.flatMap(([name, type, help, value]) => [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`]);
      lines.push('# HELP quantlet:http_requests_total Requests answered.', '# TYPE quantlet:http_requests_total counter');
      for (const [labels, count] of requests) lines.push(`quantlet:http_requests_total${labels} ${count}`);
      return `${lines.join('\n')}\n`;
    },
  };
}
