import { loadModel } from 'quantlet';
import shipped from 'quantlet/models/tiny-stories-q4_0.gguf?url';
import { runBench } from './bench.js';
import { $, fail, megabytes, number, quietly, significant, startTabs } from './page.js';

/** The loaded model and how to load it again (the bench wants other numbers of threads). */
let current;
/** Aborts whatever runs. */
let running;

function begin() {
  running?.abort();
  running = new AbortController();
  $('error').hidden = true;
  ready(false);
  return running.signal;
}

function ready(yes) {
  $('write').disabled = $('bench').disabled = !yes;
  if (yes) $('write-hint').replaceChildren(Object.assign(document.createElement('span'), { className: 'keys', textContent: 'Ctrl + Enter writes, Esc stops.' }));
  if (yes && $('bench-status').textContent.startsWith('Load')) $('bench-status').textContent = '';
}

async function load(source, name) {
  const signal = begin();
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
    ready(true);
  } catch (error) {
    if (running.signal !== signal) return; // another load has begun
    $('model-name').textContent = 'None loaded';
    $('model-about').textContent = 'Choose another, or try again.';
    $('facts').hidden = true;
    if (signal.aborted) quietly('Loading was cancelled.');
    else fail(error);
  } finally {
    if (running.signal === signal) $('loading').hidden = true;
  }
}

function show(model, name) {
  $('model-name').textContent = model.metadata.get('general.name') ?? name;
  $('model-about').textContent = `${model.architecture}, context of ${number.format(model.contextLength)} tokens`;
  $('fact-build').textContent = model.build.startsWith('simd') ? 'SIMD' : 'relaxed SIMD';
  $('fact-build').title = model.build;
  $('fact-threads').textContent = String(model.threads);
  $('fact-memory').textContent = megabytes(model.stats.memoryBytes);
  $('facts').hidden = false;
  $('use-shipped').classList.remove('primary'); // the next step is to write
  quietly(`Model loaded: ${name}`);
}

$('use-shipped').addEventListener('click', () => load(shipped, 'tiny stories'));
$('cancel').addEventListener('click', () => running?.abort());
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
  const prompt = $('prompt').value, options = sampling();
  const signal = begin();
  $('stop').disabled = false;
  const output = $('output');
  output.replaceChildren(Object.assign(document.createElement('b'), { textContent: prompt }));
  output.setAttribute('aria-busy', 'true');
  const text = output.appendChild(document.createTextNode(''));
  $('speed').hidden = false;
  $('speed-now').textContent = $('speed-prompt').textContent = '…';
  $('speed-tokens').textContent = '0';
  let tokens = 0, first = 0;
  try {
    // As many tokens as still fit: a small model's context is soon full.
    const room = Math.max(1, current.model.contextLength - current.model.tokenize(prompt).length);
    const generation = current.model.generate(prompt, { ...options, maxTokens: Math.min(options.maxTokens ?? room, room), signal });
    for await (const part of generation) {
      text.appendData(part.text);
      output.scrollTop = output.scrollHeight;
      $('speed-tokens').textContent = number.format(++tokens);
      first ||= performance.now();
      const seconds = (performance.now() - first) / 1000;
      if (seconds > 0.2) $('speed-now').textContent = significant((tokens - 1) / seconds);
    }
    const { timings, finishReason } = await generation.result();
    $('speed-now').textContent = significant((timings.predictedTokens - 1) / (timings.predictedMs / 1000)); // the first comes out of reading the prompt
    $('speed-prompt').textContent = significant(timings.promptTokens / (timings.promptMs / 1000));
    quietly(`Done (${finishReason}), ${$('speed-now').textContent} tokens a second. ${text.data}`);
  } catch (error) {
    if (signal.aborted) quietly(`Stopped after ${tokens} tokens.`);
    else fail(error);
  } finally {
    output.setAttribute('aria-busy', 'false');
    $('stop').disabled = true;
    if (running.signal === signal) ready(current !== undefined);
  }
});
$('stop').addEventListener('click', () => running?.abort());
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && event.target === $('prompt')) $('write-form').requestSubmit();
  if (event.key === 'Escape' && !($('stop').disabled && $('bench-stop').disabled)) running?.abort();
});

/** The fields of the form as options of generate(): what is left empty keeps its default. */
function sampling() {
  return Object.fromEntries([...new FormData($('write-form'))].filter(([, v]) => v !== '').map(([k, v]) => [k, Number(v)]));
}
function summarise() {
  const { temperature = 0.8, topK = 40, topP = 0.95 } = sampling();
  $('sampling').textContent = temperature === 0 ? 'always the likeliest token' : `temperature ${temperature}, top k ${topK}, top p ${topP}`;
}
$('write-form').addEventListener('input', summarise);
summarise();

$('bench-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (!current) return;
  const { pp, tg, reps } = Object.fromEntries([...new FormData(event.target)].map(([k, v]) => [k, Number(v)]));
  const signal = begin();
  $('bench-stop').disabled = false;
  try {
    const { source, model } = current;
    await runBench({ source, model, pp, tg, reps, signal, say: (text) => ($('bench-status').textContent = text), target: $('bench-results') });
  } catch (error) {
    if (signal.aborted) $('bench-status').textContent = 'Stopped.';
    else fail(error);
  } finally {
    $('bench-stop').disabled = true;
    if (running.signal === signal) ready(current !== undefined);
  }
});
$('bench-stop').addEventListener('click', () => running?.abort());

startTabs();
$('isolation').textContent = globalThis.crossOriginIsolated
  ? 'This page is cross-origin isolated, so the model computes on several threads.'
  : 'This page is not cross-origin isolated, so the model computes on one thread. Hosts isolate pages with two headers; where they cannot, a service worker of this page adds them.';
