const style = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); }
* { box-sizing: border-box; }
body { margin: 0; height: 100dvh; display: flex; flex-direction: column; font: 16px/1.5 system-ui, sans-serif; }
header { display: flex; gap: .75rem; align-items: center; padding: .5rem 1rem; border-bottom: 1px solid var(--line); }
header h1 { font-size: 1rem; margin: 0; flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
details { padding: .25rem 1rem; border-bottom: 1px solid var(--line); }
details label { display: block; margin: .4rem 0; }
details input, details textarea { width: 100%; font: inherit; padding: .3rem; }
main { flex: 1; overflow-y: auto; padding: 1rem; }
main > div { max-width: 46rem; margin: 0 auto 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.user { padding: .5rem .8rem; border-radius: .6rem; background: color-mix(in srgb, currentColor 10%, transparent); }
.reasoning { opacity: .65; font-size: .9em; border-left: 3px solid var(--line); padding-left: .7rem; margin-bottom: .5rem; }
.error { color: #c33; }
form { display: flex; gap: .5rem; padding: .75rem 1rem; border-top: 1px solid var(--line); }
form textarea { flex: 1; font: inherit; padding: .5rem; resize: none; }
button { font: inherit; padding: .3rem .9rem; }
`;

const script = `
const $ = (id) => document.getElementById(id);
let messages = [];
let controller;

for (const id of ['system', 'temperature', 'key']) {
  $(id).value = sessionStorage.getItem(id) ?? $(id).value;
  $(id).addEventListener('change', () => sessionStorage.setItem(id, $(id).value));
}

function show(kind, text) {
  const box = document.createElement('div');
  box.className = kind;
  box.textContent = text;
  $('log').append(box);
  $('log').scrollTop = $('log').scrollHeight;
  return box;
}

function headers() {
  const key = $('key').value;
  return { 'content-type': 'application/json', ...(key ? { authorization: 'Bearer ' + key } : {}) };
}

async function* deltas(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (held + value).split('\\n\\n');
    held = lines.pop();
    for (const line of lines) {
      if (line === 'data: [DONE]') return;
      const event = JSON.parse(line.slice(6));
      if (event.error) throw new Error(event.error.message);
      yield event.choices[0]?.delta ?? {};
    }
  }
}

async function answer() {
  const conversation = messages;
  const mine = (controller = new AbortController());
  $('send').textContent = 'Stop';
  const box = show('assistant', '');
  const reasoning = document.createElement('div');
  const content = document.createElement('span');
  reasoning.className = 'reasoning';
  box.append(content);
  try {
    const system = $('system').value.trim();
    const body = { messages: [...(system ? [{ role: 'system', content: system }] : []), ...messages], stream: true };
    if ($('temperature').value !== '') body.temperature = Number($('temperature').value);
    const response = await fetch('v1/chat/completions', { method: 'POST', headers: headers(), body: JSON.stringify(body), signal: mine.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const delta of deltas(response)) {
      const atEnd = $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 40;
      if (delta.reasoning_content) {
        if (!reasoning.isConnected) box.prepend(reasoning);
        reasoning.textContent += delta.reasoning_content;
      }
      if (delta.content) content.textContent += delta.content;
      if (atEnd) $('log').scrollTop = $('log').scrollHeight;
    }
  } catch (error) {
    if (error.name !== 'AbortError' && conversation === messages) show('error', error.message);
  }
  if (content.textContent) conversation.push({ role: 'assistant', content: content.textContent });
  if (controller !== mine) return;
  controller = undefined;
  $('send').textContent = 'Send';
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (controller) return controller.abort();
  const text = $('input').value.trim();
  if (!text) return;
  $('input').value = '';
  messages.push({ role: 'user', content: text });
  show('user', text);
  answer();
});
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!controller) $('form').requestSubmit();
  }
});
$('clear').addEventListener('click', () => {
  controller?.abort();
  messages = [];
  $('log').replaceChildren();
});
fetch('v1/models', { headers: headers() }).then((response) => response.json()).then(({ data }) => {
  if (data) document.title = $('name').textContent = data[0].id;
});
`;

/** A page to chat with the served model: one file without anything from elsewhere. For createHandler's `page`. */
export const chatPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>quantlet</title>
<style>${style}</style>
<header><h1 id="name">quantlet</h1><button id="clear" type="button">New chat</button></header>
<details>
<summary>Settings</summary>
<label>System message <textarea id="system" rows="2"></textarea></label>
<label>Temperature <input id="temperature" type="number" min="0" step="0.1" placeholder="0.8"></label>
<label>API key <input id="key" type="password" autocomplete="off"></label>
</details>
<main id="log" aria-live="polite"></main>
<form id="form">
<textarea id="input" rows="2" placeholder="Say something. Enter sends, Shift+Enter breaks the line." aria-label="Message" autofocus></textarea>
<button id="send">Send</button>
</form>
<script type="module">${script}</script>
</html>
`;
