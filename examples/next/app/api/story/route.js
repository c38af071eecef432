import { loadModel } from 'quantlet';
import { modelPath } from '../model-path.js';

export const dynamic = 'force-dynamic';

/** Loaded once for the process; survives hot reloading. */
const model = () => (globalThis.storyModel ??= loadModel(modelPath()));

export async function GET(request) {
  const query = new URL(request.url).searchParams;
  const generation = (await model()).generate(query.get('prompt') ?? 'Once upon a time', {
    maxTokens: Number(query.get('n') ?? 100),
    temperature: 0,
    signal: request.signal,
  });
  const parts = generation[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  return new Response(
    new ReadableStream({
      async pull(controller) {
        const { done, value } = await parts.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value.text));
      },
      cancel: () => parts.return?.(),
    }),
    { headers: { 'content-type': 'text/plain; charset=utf-8' } },
  );
}
