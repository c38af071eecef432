import { loadModel } from 'quantlet';
import { significant } from './page.js';

/** 1, 2, 4 ... and all there are. */
function threadCounts(most) {
  const counts = [];
  for (let n = 1; n < most; n *= 2) counts.push(n);
  return [...counts, most];
}

/** Measures each number of threads and draws the table as it grows. */
export async function runBench({ source, model, pp, tg, reps, signal, say, target }) {
  const room = model.contextLength;
  const nPrompt = Math.min(pp, room - 1), nNew = Math.min(tg, room - 2);
  const vocabulary = model.metadata.get('tokenizer.ggml.tokens').length;
  const results = [];
  // Random ids: every repetition is a new prompt, so that nothing of the last one can be reused.
  const ids = (n) => Array.from({ length: n }, () => Math.floor(Math.random() * vocabulary));
  for (const threads of threadCounts(model.threads)) {
    say(`Loading with ${threads} thread${threads > 1 ? 's' : ''} …`);
    const own = threads === model.threads ? model : await loadModel(source, { threads, signal });
    try {
      const best = { threads, build: own.build, pp: 0, tg: 0 };
      for (let i = 0; i <= reps; i++) {
        say(`${threads} thread${threads > 1 ? 's' : ''}, ${i || 'warming up'}${i ? ` of ${reps}` : ''} …`);
        const read = await own.generate(ids(nPrompt), { maxTokens: 1, temperature: 0, ignoreEos: true, signal }).result();
        if (i > 0) best.pp = Math.max(best.pp, nPrompt / (read.timings.promptMs / 1000));
        // The first new token comes out of reading the prompt, so one more is asked for than is timed.
        const wrote = await own.generate(ids(1), { maxTokens: nNew + 1, temperature: 0, ignoreEos: true, signal }).result();
        if (i > 0) best.tg = Math.max(best.tg, nNew / (wrote.timings.predictedMs / 1000));
      }
      results.push(best);
    } finally {
      if (own !== model) await own.dispose();
    }
    draw(target, results, nPrompt, nNew);
  }
  say(`Done, with the build ${model.build}.`);
}

/** A table whose cells carry bars: readable for everyone, drawn for those who see. */
function draw(target, results, pp, tg) {
  const cell = (kind, value, most) => `<td><span class="bar ${kind}" style="--part:${(value / most).toFixed(4)}"></span><span class="value">${significant(value)}</span></td>`;
  const most = { pp: Math.max(...results.map((r) => r.pp)), tg: Math.max(...results.map((r) => r.tg)) };
  target.innerHTML = `<table><caption>Tokens per second, more is better</caption>
    <thead><tr><th scope="col">Threads</th><th scope="col">pp${pp}</th><th scope="col">tg${tg}</th></tr></thead>
    <tbody>${results.map((r) => `<tr><th scope="row">${r.threads}</th>${cell('pp', r.pp, most.pp)}${cell('tg', r.tg, most.tg)}</tr>`).join('')}</tbody></table>`;
}
