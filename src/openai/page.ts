/** The page at /: a conversation with the served model in one file, for eyes, keyboards and screen readers. */
const style = `
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 20%, transparent); --wrong: light-dark(#b00020, #ff9d94); --accent: light-dark(#1f5fbf, #8ab4f8); }
* { box-sizing: border-box; }
body { margin: 0; height: 100dvh; display: flex; flex-direction: column; font: 16px/1.5 system-ui, sans-serif; }
body > * { padding-inline: max(1rem, calc(50% - 23rem)); }
header { display: flex; gap: .75rem; align-items: center; padding-block: .5rem; border-bottom: 1px solid var(--line); }
header h1 { font-size: 1rem; margin: 0; flex: 1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
details { padding-block: .25rem; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; }
details label { display: block; margin: .4rem 0; }
details input, details textarea { width: 100%; }
main { flex: 1; overflow-y: auto; padding-block: 1rem; }
main > div { margin: 0 0 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
main:empty::before { content: 'Nothing said yet.'; opacity: .65; }
.user { width: fit-content; max-width: 85%; margin-left: auto !important; padding: .5rem .8rem; border-radius: .8rem; background: color-mix(in srgb, currentColor 10%, transparent); }
.reasoning { opacity: .65; font-size: .9em; border-left: 3px solid var(--line); padding-left: .7rem; margin-bottom: .5rem; }
.assistant[aria-busy=true]::after { content: '\\25CF'; opacity: .5; margin-left: .2rem; animation: pulse 1s infinite alternate; }
.error { color: var(--wrong); border-left: 3px solid; padding-left: .7rem; }
form { display: flex; gap: .5rem; padding-block: .75rem; border-top: 1px solid var(--line); }
form textarea { flex: 1; min-width: 0; resize: none; field-sizing: content; min-height: 4rem; max-height: 40dvh; }
textarea, input { font: inherit; color: inherit; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem; background: transparent; }
button { font: inherit; color: inherit; padding: .35rem .9rem; border: 1px solid var(--line); border-radius: .5rem; background: color-mix(in srgb, currentColor 8%, transparent); cursor: pointer; }
button:hover { background: color-mix(in srgb, currentColor 16%, transparent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@keyframes pulse { to { opacity: .1; } }
@media (prefers-reduced-motion: reduce) { * { animation: none !important; } }
`;

const script = `
const $ = (id) => document.getElementById(id);
let messages = [];
let controller;

for (const id of ['system', 'temperature', 'key']) {
  $(id).value = sessionStorage.getItem(id) ?? $(id).value;
  $(id).addEventListener('change', () => sessionStorage.setItem(id, $(id).value));
}

/** A word before each part tells screen readers who speaks; eyes see it by its shape. */
function show(kind, speaker, text) {
  const box = document.createElement('div'), heard = document.createElement('span');
  box.className = kind;
  if (kind === 'error') box.setAttribute('role', 'alert');
  heard.className = 'heard';
  heard.textContent = speaker + ': ';
  box.append(heard, text);
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

const say = (text) => ($('status').textContent = text);

async function failure(response) {
  const { error } = await response.json().catch(() => ({}));
  if (response.status === 401) {
    $('settings').open = true;
    $('key').focus();
    return new Error('The server wants an API key, or another one. Give it above and send again.');
  }
  return new Error(error?.message ?? 'The server answered ' + response.status + '.');
}

async function answer() {
  const conversation = messages;
  const mine = (controller = new AbortController());
  $('send').textContent = 'Stop';
  const box = show('assistant', 'Model', '');
  box.setAttribute('aria-busy', 'true');
  say('The model answers. Escape stops it.');
  const reasoning = document.createElement('div');
  const content = document.createElement('span');
  reasoning.className = 'reasoning';
  box.append(content);
  try {
    const system = $('system').value.trim();
    const body = { messages: [...(system ? [{ role: 'system', content: system }] : []), ...messages], stream: true };
    if ($('temperature').value !== '') body.temperature = Number($('temperature').value);
    const response = await fetch('v1/chat/completions', { method: 'POST', headers: headers(), body: JSON.stringify(body), signal: mine.signal });
    if (!response.ok) throw await failure(response);
    for await (const delta of deltas(response)) {
      const atEnd = $('log').scrollHeight - $('log').scrollTop - $('log').clientHeight < 40;
      if (delta.reasoning_content) {
        if (!reasoning.isConnected) content.before(reasoning);
        reasoning.textContent += delta.reasoning_content;
      }
      if (delta.content) content.textContent += delta.content;
      if (atEnd) $('log').scrollTop = $('log').scrollHeight;
    }
  } catch (error) {
    if (error.name !== 'AbortError' && conversation === messages) show('error', 'Error', error instanceof TypeError ? 'The server cannot be reached (' + error.message + ').' : error.message);
  }
  box.removeAttribute('aria-busy');
  if (content.textContent) conversation.push({ role: 'assistant', content: content.textContent });
  else {
    // What was not answered is no part of the conversation: it can be sent again.
    const { content: unanswered } = conversation.pop();
    if (!box.contains(reasoning)) box.remove();
    if (conversation === messages && !$('input').value) $('input').value = unanswered;
  }
  if (controller !== mine) return;
  controller = undefined;
  $('send').textContent = 'Send';
  say(mine.signal.aborted ? 'Stopped.' : content.textContent);
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (controller) return controller.abort();
  const text = $('input').value.trim();
  if (!text) return;
  $('input').value = '';
  messages.push({ role: 'user', content: text });
  show('user', 'You', text);
  answer();
});
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!controller) $('form').requestSubmit();
  }
});
addEventListener('keydown', (event) => {
  if (event.key === 'Escape') controller?.abort();
});
$('clear').addEventListener('click', () => {
  controller?.abort();
  messages = [];
  $('log').replaceChildren();
  say('A new chat.');
  $('input').focus();
});
async function showName() {
  const response = await fetch('v1/models', { headers: headers() }).catch(() => undefined);
  if (response?.ok) document.title = $('name').textContent = (await response.json()).data[0].id;
}
$('key').addEventListener('change', showName);
showName();
`;

/** A page to chat with the served model: one file without anything from elsewhere. For createHandler's `page`. */
export const chatPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>quantlet</title>
<link rel="icon" href="data:,">
<style>${style}</style>
<header><h1 id="name">quantlet</h1><button id="clear" type="button">New chat</button></header>
<details id="settings">
<summary>Settings</summary>
<label>System message <textarea id="system" rows="2"></textarea></label>
<label>Temperature <input id="temperature" type="number" min="0" step="0.1" placeholder="0.8"></label>
<label>API key <input id="key" type="password" autocomplete="off"></label>
</details>
<main id="log" tabindex="0" aria-label="Conversation"></main>
<p id="status" class="heard" role="status"></p>
<form id="form">
<textarea id="input" rows="2" placeholder="Message. Enter sends, Shift+Enter breaks the line." aria-label="Message" autofocus></textarea>
<button id="send">Send</button>
</form>
<script type="module">${script}</script>
</html>
`;
