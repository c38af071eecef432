/** Requests to a server under test. */

export const post = (url: string, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
export const complete = (url: string, prompt: string, n = 2, headers = {}): Promise<Response> =>
  post(url, '/completion', { prompt, n_predict: n }, headers);
export const say = (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 1 });
