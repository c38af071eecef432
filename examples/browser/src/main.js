import { loadModel } from 'quantlet';
import shipped from 'quantlet/models/tiny-stories-q4_0.gguf?url';
import { runBench } from './bench.js';

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const megabytes = (bytes) => `${number.format(bytes / 1e6)} MB`;

/** The loaded model and how to load it again (the bench wants other numbers of threads). */
let current;
/** Aborts whatever runs. */
let running;

function fail(error) {
  if (error?.name === 'AbortError') return;
  $('error').textContent = error?.code ? `${error.message} (${error.code})` : String(error?.message ?? error);
  $('error').hidden = false;
}

function ready(yes) {
  $('write').disabled = $('bench').disabled = !yes;
}

async function load(source, name) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  $('error').hidden = true;
  ready(false);
  $('loading').hidden = false;
  $('progress').removeAttribute('value');
  $('progress-text').textContent = 'Opening …';
  try {
    await current?.model.dispose();
    current = undefined;
    const model = await loadModel(source, {
      signal,
      onProgress({ loaded, total }) {
        $('progress').value = loaded / total;
        $('progress-text').textContent = `${megabytes(loaded)} of ${megabytes(total)}`;
      },
    });
    current = { model, source };
    show(model, name);
    $('use-shipped').classList.remove('primary'); // the next step is to write
    ready(true);
  } catch (error) {
    $('model-name').textContent = 'None yet';
    if (!signal.aborted) fail(error);
  } finally {
    if (running?.signal === signal) $('loading').hidden = true;
  }
}

function show(model, name) {
  const { metadata } = model;
  $('model-name').textContent = `${metadata.get('general.name') ?? name} · ${model.architecture} · context ${number.format(model.contextLength)}`;
  $('fact-build').textContent = model.build.startsWith('relaxed') ? 'relaxed SIMD' : 'SIMD';
  $('fact-build').title = model.build;
  $('fact-threads').textContent = String(model.threads);
  $('fact-memory').textContent = megabytes(model.stats.memoryBytes);
  $('status').textContent = `Model loaded: ${name}`;
}

$('use-shipped').addEventListener('click', () => load(shipped, 'tiny stories'));
$('file').addEventListener('change', ({ target }) => {
  if (target.files[0]) void load(target.files[0], target.files[0].name);
  target.value = '';
});
$('url-form').addEventListener('submit', (event) => {
  event.preventDefault();
  void load($('url').value, new URL($('url').value).pathname.split('/').at(-1));
});
for (const type of ['dragenter', 'dragover']) {
  document.addEventListener(type, (event) => {
    if (!event.dataTransfer.types.includes('Files')) return;
    event.preventDefault();
    document.body.classList.add('dropping');
  });
}
document.addEventListener('dragleave', (event) => event.relatedTarget ?? document.body.classList.remove('dropping'));
document.addEventListener('drop', (event) => {
  document.body.classList.remove('dropping');
  const [file] = event.dataTransfer.files;
  if (!file) return;
  event.preventDefault();
  void load(file, file.name);
});

$('write-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (!current || $('write').disabled) return;
  const prompt = $('prompt').value;
  const fields = Object.fromEntries([...new FormData(event.target)].filter(([, v]) => v !== '').map(([k, v]) => [k, Number(v)]));
  running = new AbortController();
  const { signal } = running;
  $('error').hidden = true;
  ready(false);
  $('stop').disabled = false;
  const output = $('output');
  output.replaceChildren(Object.assign(document.createElement('b'), { textContent: prompt }));
  output.setAttribute('aria-busy', 'true');
  const text = output.appendChild(document.createTextNode(''));
  let tokens = 0, first = 0;
  try {
    // As many tokens as still fit: a small model's context is soon full.
    const room = Math.max(1, current.model.contextLength - current.model.tokenize(prompt).length);
    const generation = current.model.generate(prompt, { ...fields, maxTokens: Math.min(fields.maxTokens ?? room, room), signal });
    for await (const part of generation) {
      text.appendData(part.text);
      output.scrollTop = output.scrollHeight;
      tokens++;
      first ||= performance.now();
      const seconds = (performance.now() - first) / 1000;
      if (seconds > 0.2) $('speed').textContent = `${tokens} tokens, ${number.format((tokens - 1) / seconds)} tokens/s`;
    }
    const { timings, finishReason } = await generation.result();
    const read = timings.promptTokens / (timings.promptMs / 1000), wrote = timings.predictedTokens / (timings.predictedMs / 1000);
    $('speed').textContent = `${timings.predictedTokens} tokens at ${number.format(wrote)} tokens/s; prompt of ${timings.promptTokens} at ${number.format(read)} tokens/s`;
    $('status').textContent = `Done (${finishReason}). ${text.data}`;
  } catch (error) {
    if (signal.aborted) $('status').textContent = `Stopped after ${tokens} tokens.`;
    else fail(error);
  } finally {
    output.setAttribute('aria-busy', 'false');
    $('stop').disabled = true;
    ready(current !== undefined);
  }
});
$('stop').addEventListener('click', () => running?.abort());
$('prompt').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) $('write-form').requestSubmit();
});

$('bench-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (!current) return;
  const { pp, tg, reps } = Object.fromEntries([...new FormData(event.target)].map(([k, v]) => [k, Number(v)]));
  running = new AbortController();
  $('error').hidden = true;
  ready(false);
  $('bench-stop').disabled = false;
  try {
    const { source, model } = current;
    await runBench({ source, model, pp, tg, reps, signal: running.signal, say: (text) => ($('bench-status').textContent = text), target: $('bench-results') });
  } catch (error) {
    if (running.signal.aborted) $('bench-status').textContent = 'Stopped';
    else fail(error);
  } finally {
    $('bench-stop').disabled = true;
    ready(current !== undefined);
  }
});
$('bench-stop').addEventListener('click', () => running?.abort());

const tabs = [...document.querySelectorAll('[role=tab]')];
function choose(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute('aria-selected', String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    $(other.getAttribute('aria-controls')).hidden = !chosen;
  }
}
for (const [i, tab] of tabs.entries()) {
  tab.addEventListener('click', () => choose(tab));
  tab.addEventListener('keydown', ({ key }) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
  });
}
