// The server under test in every runtime: the handler over the shipped model, and under /vectors
// over the same weights as an embedder.
const template =
  "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

export async function createApp(loadModel, createHandler, source, parallel = 4) {
  const apiKey = 'key';
  const options = { apiKey, maxBodyBytes: 100_000, onError: (error) => console.error(error) };
  const chat = createHandler(await loadModel(source, { parallel, contextLength: 512, chatTemplate: template, warmUp: false }), options);
  const vectors = createHandler(await loadModel(source, { embeddings: true, warmUp: false }), options);
  return (request, beside) => {
    const url = new URL(request.url);
    if (!url.pathname.startsWith('/vectors/')) return chat(request, beside);
    url.pathname = url.pathname.slice('/vectors'.length);
    return vectors(new Request(url, request), beside);
  };
}
