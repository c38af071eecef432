// quantlet serve's handler and page with a model of scripted answers, so that tests can request
// everything a page must show. Arguments: the model whose tokenizer is used, a port (0: any), `two`
// for a second model to choose, or the model's projector, with which it sees. Prints the port.
import { createServer } from 'node:http';
import { loadModel } from 'quantlet';
import { chatPage, createHandler, createModels, nodeListener } from 'quantlet/openai';

const CHAT_TEMPLATE = `{%- if tools %}<|im_start|>system
<tools>{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
</tools>
Answer calls as <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>{{ m.content }}</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}{% for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}{# reasoning: <think> ... </think> #}`;

const TABLE = `## Planets

The **four** inner planets, *from the sun*:

| Planet | Radius (km) | Moons |
|:-------|------------:|:-----:|
| Mercury | 2,440 | 0 |
| Venus | 6,052 | 0 |
| Earth | 6,371 | 1 |
| Mars | 3,390 | 2 |

1. They are made of rock.
2. They have \`few\` moons:
   - Earth has one,
   - Mars has two.

> Mercury is the smallest. See [the list](https://example.org/planets).`;
const CODE = `A function in Python:

\`\`\`python
def fibonacci(n: int) -> list[int]:
    """The first n numbers."""
    numbers = [0, 1]
    while len(numbers) < n:
        numbers.append(numbers[-1] + numbers[-2])  # the sum of the last two
    return numbers[:n]
\`\`\`

And how it is called: \`fibonacci(10)\`.`;
const FORMULAS = `The roots of $ax^2 + bx + c = 0$ are

$$
x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}
$$

and cost neither $5 nor $6.`;
const POEM = 'Roses are red,\nviolets are blue,\n\na poem has lines,\nand keeps them too.';
const EVIL = `<img src="https://evil.example/a.png" onerror="document.title='evil'"><script>document.title = 'evil'</script>

![a picture](https://evil.example/b.png) [a link](javascript:document.title='evil') [another](data:text/html,evil)

<iframe src="https://evil.example"></iframe> <style>body { display: none }</style>

| <b onmouseover="document.title='evil'">x</b> |
|---|
| <svg onload="document.title='evil'"></svg> |`;
const LONG = Array.from({ length: 120 }, (_, i) => `Sentence ${i + 1} of a long answer is here.${i % 8 === 7 ? '\n\n' : ' '}`).join('');

let failures = 0;
/** The scripted answer to a prompt. */
function answerTo(prompt) {
  const turns = [...prompt.matchAll(/<\|im_start\|>(\w+)\n([\s\S]*?)(?:<\|im_end\|>|$)/g)].map(([, role, text]) => ({ role, text }));
  const begun = turns.at(-1)?.text ?? '';
  const said = turns.findLast(({ role }) => role === 'user')?.text ?? '';
  if (begun !== '') return { text: 'Here it went on.', ms: 2 };
  if (said.startsWith('<tool_response>')) return { text: `It is ${said.replace(/<\/?tool_response>/g, '')} in Berlin.`, ms: 2 };
  if (said === 'fail' && failures++ % 2 === 0) throw new Error('this failure was asked for');
  if (said === 'think')
    return {
      text: `<think>\nThe reader asks me to think. ${'I weigh one thing against another. '.repeat(12)}\n</think>\n\nI thought about it: **yes**.`,
      ms: 20,
    };
  if (said === 'weather')
    return { text: '<tool_call>{"name": "get_weather", "arguments": {"city": "Berlin", "unit": "celsius"}}</tool_call>', ms: 2 };
  if (said.length > 10_000) return { text: 'That was a long text.', ms: 2 };
  if (said === 'long') return { text: LONG, ms: 20 };
  const known = { table: TABLE, code: CODE, formulas: FORMULAS, poem: POEM, evil: EVIL, all: LONG };
  return { text: known[said] ?? `You said: ${said}`, ms: 2 };
}

const [, , source, port = '0', more] = process.argv;
const mmproj = more?.endsWith('.gguf') ? more : false;
const model = await loadModel(source, { mmproj, chatTemplate: CHAT_TEMPLATE, threads: 1, warmUp: false });
/** Pause before an answer to pictures, in which the page shows that they are read. */
const READING_MS = 1500;

/** generate() with tokens of four characters. */
function generate(ids, { signal, maxTokens = Infinity }) {
  let settle;
  const result = new Promise((resolve) => (settle = resolve));
  const given = [];
  async function* run() {
    const seen = ids.filter((id) => id < 0).length;
    const { text: said, ms } = answerTo(model.detokenize(seen > 0 ? ids.filter((id) => id >= 0) : ids, { special: true }));
    const text = seen > 0 ? `I see ${seen} tokens of pictures. ${said}` : said;
    const begin = performance.now();
    if (seen > 0) await new Promise((resolve) => setTimeout(resolve, READING_MS));
    const end = (finishReason) =>
      settle({
        promptIds: ids,
        ids: given,
        text,
        finishReason,
        timings: { promptTokens: ids.length, promptMs: 5, predictedTokens: given.length, predictedMs: performance.now() - begin },
      });
    for (const part of text.match(/[\s\S]{1,4}/g)) {
      await new Promise((resolve) => setTimeout(resolve, ms));
      signal?.throwIfAborted();
      if (given.length >= maxTokens) return end('length');
      given.push(given.length);
      yield { id: given.length, text: part };
    }
    end('eog');
  }
  return { [Symbol.asyncIterator]: run, result: () => result };
}

const backend = {
  name: 'scripted',
  contextLength: 32768,
  parallel: 4,
  bos: model.bos,
  eos: model.eos,
  chatTemplate: model.chatTemplate,
  tokenize: (text, options) => model.tokenize(text, options),
  detokenize: (ids, options) => model.detokenize(ids, options),
  tokenBytes: (id) => model.tokenBytes(id),
  modalities: model.modalities,
  ...(mmproj && { readImage: (image, signal) => model.readImage(image, signal) }),
  generate,
};
const entry = (id) => ({ id, load: () => Promise.resolve({ ...backend, name: id, dispose: () => Promise.resolve() }) });
const served = more === 'two' ? createModels([entry('scripted'), entry('second')]) : backend;
const handler = createHandler(served, { page: chatPage });
const server = createServer(nodeListener(handler)).listen(Number(port), '127.0.0.1', () => console.log(`port ${server.address().port}`));
