// A worker that tells stories: GET /?prompt=Once+upon+a+time streams them as server-sent events,
// one for each token. POST /?prompt=What+is+this%3F with a PNG or JPEG file as the body answers
// about the picture, if MODEL and MMPROJ name a model that sees and its projector. (Cloudflare's
// isolates have 128 MB, so models like SmolVLM need a workerd of your own.)
import { loadModel } from 'quantlet';
import tinyStories from 'quantlet/models/tiny-stories-q4_0.bin';

let loading;
let seeing;

/** The first request loads the model, from addresses in `vars` of wrangler.jsonc. */
async function describe(request, { MODEL, MMPROJ }) {
  if (!MODEL || !MMPROJ) return new Response('MODEL and MMPROJ are not set', { status: 501 });
  seeing ??= loadModel(MODEL, { mmproj: MMPROJ, contextLength: 2048 });
  const model = await seeing;
  const text = new URL(request.url).searchParams.get('prompt') ?? 'What is this?';
  const image = await request.arrayBuffer();
  const content = [
    { type: 'image', image },
    { type: 'text', text },
  ];
  const chat = model.chat([{ role: 'user', content }], { maxTokens: 120, temperature: 0, signal: request.signal });
  try {
    return new Response((await chat.result()).content, { headers: { 'content-type': 'text/plain; charset=utf-8' } });
  } catch ({ code, message }) {
    return Response.json({ code, message }, { status: 400 }); // what is no picture, for example
  }
}

export default {
  async fetch(request, env) {
    if (request.method === 'POST') return describe(request, env);
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
