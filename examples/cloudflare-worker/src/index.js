// A worker that tells stories: GET /?prompt=Once+upon+a+time streams them as server-sent events,
// one for each token.
import { loadModel } from 'quantlet';
import tinyStories from 'quantlet/models/tiny-stories-q4_0.bin';

let loading;

export default {
  async fetch(request) {
    // Loaded by the first request and kept, because an isolate serves many requests. The model
    // could also come from R2, an asset or a URL.
    loading ??= loadModel(tinyStories);
    const model = await loading;
    const query = new URL(request.url).searchParams;
    const generation = model.generate(query.get('prompt') ?? 'Once upon a time', {
      maxTokens: Math.min(Number(query.get('n') ?? 64), 512),
      temperature: Number(query.get('temperature') ?? 0.8),
      signal: request.signal,
    });
    return new Response(events(generation), { headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' } });
  },
};

function events(generation) {
  const encoder = new TextEncoder();
  const parts = generation[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (!done) return controller.enqueue(encoder.encode(`data: ${JSON.stringify(value)}\n\n`));
      controller.enqueue(encoder.encode('data: [DONE]\n\n'));
      controller.close();
    },
    cancel: () => parts.return?.(),
  });
}
