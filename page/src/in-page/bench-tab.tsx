/** The benchmark tab: tokens per second on this device. */
import { signal } from '@preact/signals';
import { failureOf, type Failure } from '../backend.ts';
import { significant } from '../numbers.ts';
import { Field, Problem } from '../ui.tsx';
import { runBench, type BenchResult } from './bench.ts';
import { loaded } from './engine.ts';

const results = signal<readonly BenchResult[]>([]);
const benchStatus = signal('');
const benchFailure = signal<Failure | undefined>(undefined);
const benching = signal<AbortController | undefined>(undefined);
const benchOf = signal({ pp: 128, tg: 64, reps: 3 });

async function bench(): Promise<void> {
  if (benching.value || !loaded.value) return;
  const controller = new AbortController();
  benching.value = controller;
  results.value = [];
  benchFailure.value = undefined;
  try {
    await runBench(loaded.value, {
      ...benchOf.value,
      signal: controller.signal,
      say: (text) => (benchStatus.value = text),
      onResult: (result) => (results.value = [...results.value, result]),
    });
  } catch (error) {
    benchStatus.value = controller.signal.aborted ? 'Stopped.' : '';
    if (!controller.signal.aborted) benchFailure.value = failureOf(error);
  }
  benching.value = undefined;
}

export function BenchTab() {
  const busy = benching.value !== undefined;
  const field = (name: 'pp' | 'tg' | 'reps', label: string, most: number) => (
    <Field label={label}>
      <input
        type="number"
        min={1}
        max={most}
        step={1}
        required
        value={benchOf.value[name]}
        onInput={({ currentTarget: { value } }) => (benchOf.value = { ...benchOf.value, [name]: Number(value) })}
      />
    </Field>
  );
  const most = { pp: Math.max(...results.value.map(({ pp }) => pp)), tg: Math.max(...results.value.map(({ tg }) => tg)) };
  const cell = (kind: 'pp' | 'tg', value: number) => (
    <td>
      <meter min={0} max={most[kind]} value={value} aria-hidden="true" />
      {significant(value)}
    </td>
  );
  return (
    <>
      <p class="hint">
        Tokens per second when reading a prompt (pp) and when writing (tg), for each number of threads. The best repetition counts.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void bench();
        }}
      >
        <div class="grid">
          {field('pp', 'Prompt tokens', 100_000)}
          {field('tg', 'New tokens', 100_000)}
          {field('reps', 'Repetitions', 20)}
        </div>
        <div class="row bench-row">
          <button type="submit" class="primary" aria-disabled={busy || !loaded.value}>
            Run
          </button>
          <button type="button" aria-disabled={!busy} onClick={() => benching.value?.abort(new DOMException('stopped', 'AbortError'))}>
            Stop
          </button>
          <span class="hint" role="status">
            {loaded.value ? benchStatus : 'Load a model first.'}
          </span>
        </div>
      </form>
      <Problem failure={benchFailure.value} />
      {results.value.length > 0 && (
        <div class="table">
          <table>
            <caption>Tokens per second, more is better</caption>
            <thead>
              <tr>
                <th scope="col">Threads</th>
                <th scope="col">pp{benchOf.value.pp}</th>
                <th scope="col">tg{benchOf.value.tg}</th>
              </tr>
            </thead>
            <tbody>
              {results.value.map(({ threads, pp, tg }) => (
                <tr key={threads}>
                  <th scope="row">{threads}</th>
                  {cell('pp', pp)}
                  {cell('tg', tg)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
