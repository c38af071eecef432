/** The window in which a model is chosen: suggested ones, the hub, files, what is kept here, what this device can hold, and the bench. */
import { signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import shipped from 'quantlet/models/tiny-stories-q4_0.gguf?url';
import { failureOf, nameOnPage, type Failure } from '../backend.ts';
import { Dialog, Field, Icon, IconButton, Problem, bytes, count, significant } from '../ui.tsx';
import { runBench, type BenchResult } from './bench.ts';
import type { KeptFile } from '../../../src/web/kept.ts';
import { MOST_MEMORY, deviceMemory, lookAtStorage, memoryFor, nameOf, removeKept, storage, tooLarge } from './device.ts';
import { contextLength, load, loadFailure, loaded, loading, type ModelFiles } from './engine.ts';
import { SUGGESTIONS, addressOf, filesOf, hubHost, search, type Found, type ModelFile } from './hub.ts';

const CONTEXT = 'Tokens of a conversation at most';
nameOnPage({ contextLength: `“${CONTEXT}” (under Models)`, chatTemplate: 'the chat template' });

export const modelsOpen = signal(false);
type Tab = 'models' | 'device' | 'bench';
const tab = signal<Tab>('models');

export const SHIPPED = { url: new URL(shipped, location.href).href, name: 'tiny stories', bytes: 1_576_160 };

/** Loads, and leaves the window when it worked. */
export async function choose(files: ModelFiles, name: string): Promise<void> {
  await load(files, name);
  if (loaded.value?.name === name && !loading.value && !loadFailure.value) modelsOpen.value = false;
}

export function chooseFiles(files: readonly File[]): void {
  void choose(files, files[0].name.replace(/\.gguf$/i, '').replace(/-00001-of-\d{5}$/, ''));
}

/** How far loading is, where it can be stopped, and why it failed. */
export function LoadingBar() {
  const { value } = loading;
  if (!value) return <Problem failure={loadFailure.value} />;
  return (
    <div class="loading">
      <progress aria-label={`Loading ${value.name}`} {...(value.total > 0 ? { max: value.total, value: value.loaded } : {})} />
      <span>
        {value.name}: {value.total > 0 ? `${bytes(value.loaded)} of ${bytes(value.total)}` : 'opening …'}
      </span>
      <button type="button" onClick={value.stop}>
        Stop
      </button>
    </div>
  );
}

function Choice({ title, about, size, onLoad }: { title: string; about?: ComponentChildren; size: number; onLoad: () => void }) {
  const warning = tooLarge(size);
  return (
    <li class="choice">
      <div>
        <strong>{title}</strong>
        {about && <p>{about}</p>}
        <small>
          {bytes(size)} to download, about {bytes(memoryFor(size))} of memory
          {warning && <em class="warning">: {warning}</em>}
        </small>
      </div>
      <button type="button" aria-label={`Load ${title}`} onClick={onLoad}>
        Load
      </button>
    </li>
  );
}

function HubSearch() {
  const text = useSignal('');
  const found = useSignal<readonly Found[] | undefined>(undefined);
  const opened = useSignal<{ repo: string; files: readonly ModelFile[] } | undefined>(undefined);
  const busy = useSignal(false);
  const failure = useSignal<Failure | undefined>(undefined);
  const attempt = async (action: () => Promise<void>): Promise<void> => {
    busy.value = true;
    failure.value = undefined;
    try {
      await action();
    } catch (error) {
      failure.value = failureOf(error);
    }
    busy.value = false;
  };
  const section = useRef<HTMLElement>(null);
  // What was found is below: in sight, without scrolling.
  useEffect(() => {
    if (found.value ?? opened.value) section.current?.scrollIntoView({ block: 'start' });
  }, [found.value, opened.value]);
  const open = (repo: string): Promise<void> => attempt(async () => void (opened.value = { repo, files: await filesOf(repo) }));
  return (
    <section ref={section}>
      <h3>From the Hugging Face hub</h3>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          opened.value = undefined;
          const query = text.value.trim();
          if (/^[\w.-]+\/[\w.-]+$/.test(query)) void open(query);
          else void attempt(async () => void (found.value = await search(query)));
        }}
      >
        <input
          type="search"
          class="grow"
          required
          aria-label="Search the hub"
          placeholder="A name, or OWNER/REPO"
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
        <button type="submit" disabled={busy.value}>
          Search
        </button>
      </form>
      <p class="hint">
        The page talks to {hubHost()} only when you search here or load one of these models, and to no other host by itself.
      </p>
      <Problem failure={failure.value} />
      {opened.value ? (
        <>
          <p class="row">
            <strong>{opened.value.repo}</strong>
            {found.value && (
              <button type="button" onClick={() => (opened.value = undefined)}>
                Back
              </button>
            )}
          </p>
          {opened.value.files.length === 0 && <p class="hint">There is no GGUF model in it.</p>}
          <ul class="choices">
            {opened.value.files.map(({ path, bytes: size }) => (
              <Choice
                key={path}
                title={nameOf(path)}
                size={size}
                onLoad={() => void choose(addressOf(opened.value!.repo, path), nameOf(path).replace(/-00001-of-\d{5}$/, ''))}
              />
            ))}
          </ul>
        </>
      ) : (
        found.value && (
          <ul class="choices">
            {found.value.length === 0 && <li class="hint">Nothing was found.</li>}
            {found.value.map(({ repo, downloads }) => (
              <li class="choice" key={repo}>
                <div>
                  <strong>{repo}</strong>
                  <small>{count(downloads)} downloads</small>
                </div>
                <button type="button" aria-label={`Files of ${repo}`} disabled={busy.value} onClick={() => void open(repo)}>
                  Files
                </button>
              </li>
            ))}
          </ul>
        )
      )}
    </section>
  );
}

function ModelsTab() {
  const url = useSignal('');
  return (
    <>
      <section>
        <h3>To begin with</h3>
        <ul class="choices">
          <Choice
            title={SHIPPED.name}
            about="Here in a moment; writes children’s stories, and cannot chat."
            size={SHIPPED.bytes}
            onLoad={() => void choose(SHIPPED.url, SHIPPED.name)}
          />
          {SUGGESTIONS.map((one) => (
            <Choice
              key={one.repo}
              title={one.title}
              about={one.about}
              size={one.bytes}
              onLoad={() => void choose(addressOf(one.repo, one.file), one.title)}
            />
          ))}
        </ul>
      </section>
      <HubSearch />
      <section>
        <h3>A file</h3>
        <div class="row">
          <label class="button">
            Choose a GGUF file
            <input
              type="file"
              multiple
              accept=".gguf"
              onChange={({ currentTarget: input }) => {
                if (input.files?.length) chooseFiles([...input.files]);
                input.value = '';
              }}
            />
          </label>
          <form
            class="row grow"
            onSubmit={(event) => {
              event.preventDefault();
              void choose(url.value, nameOf(url.value));
            }}
          >
            <input
              type="url"
              class="grow"
              required
              aria-label="Address of a GGUF file"
              placeholder="or its address: https://…"
              value={url.value}
              onInput={(event) => (url.value = event.currentTarget.value)}
            />
            <button type="submit">Load</button>
          </form>
        </div>
        <p class="hint">Of a split model choose all parts at once, or give the address of the first.</p>
        <Field label={CONTEXT} hint="More take more memory. Empty: what the model was made for, but at most 4096.">
          <input
            type="number"
            min={16}
            step={1}
            placeholder="4096"
            value={contextLength.value ?? ''}
            onChange={({ currentTarget: input }) =>
              input.reportValidity() && (contextLength.value = input.value === '' ? undefined : input.valueAsNumber)
            }
          />
        </Field>
      </section>
    </>
  );
}

function Kept({ model }: { model: KeptFile }) {
  const failure = useSignal<Failure | undefined>(undefined);
  return (
    <li class="choice">
      <div>
        <strong>{nameOf(model.url)}</strong>
        <small>
          {bytes(model.there)}
          {model.complete ? '' : ', not complete: loading it resumes here'} · {new URL(model.url).host}
        </small>
        <Problem failure={failure.value} />
      </div>
      <button type="button" onClick={() => void choose(model.url, nameOf(model.url))} aria-label={`Load ${nameOf(model.url)}`}>
        Load
      </button>
      <IconButton
        icon="trash"
        label={`Delete ${nameOf(model.url)} from this device`}
        onClick={() => void removeKept(model).catch((error: unknown) => (failure.value = failureOf(error)))}
      />
    </li>
  );
}

function DeviceTab() {
  useEffect(() => void lookAtStorage(), [loaded.value]);
  const { value } = storage;
  const memory = deviceMemory();
  const model = loaded.value?.model;
  return (
    <>
      <section>
        <h3>What this device can hold</h3>
        <dl class="facts">
          <div>
            <dt>A page’s memory at most</dt>
            <dd>{bytes(MOST_MEMORY)}</dd>
          </div>
          <div>
            <dt>Memory of this device</dt>
            <dd>{memory === undefined ? 'the browser does not say' : memory >= 8 * 2 ** 30 ? '8 GB or more' : bytes(memory)}</dd>
          </div>
          <div>
            <dt>Cores</dt>
            <dd>{navigator.hardwareConcurrency}</dd>
          </div>
        </dl>
        <p class="hint">
          A model takes its file’s size in memory and some more for the conversation.{' '}
          {model ? `The one that is loaded takes ${bytes(model.stats.memoryBytes)}.` : ''}
        </p>
      </section>
      <section>
        <h3>Threads</h3>
        <p>
          {crossOriginIsolated
            ? `This page is cross-origin isolated, so threads can share memory${model ? `: the model computes on ${model.threads}, with the build ${model.build}` : ''}.`
            : 'This page is not cross-origin isolated: browsers share memory between threads only in pages that are, so the model computes on one. Hosts isolate a page with two headers (COOP same-origin, COEP require-corp); where they cannot, this page’s service worker adds them, unless the address is http of another machine or the window is private.'}
        </p>
      </section>
      <section>
        <h3>Kept on this device</h3>
        {value && value.quota > 0 && (
          <p>
            {bytes(value.usage)} of {bytes(value.quota)} that the browser allows.{' '}
            {value.persistent ? (
              'The browser keeps it until you delete it.'
            ) : (
              <button type="button" onClick={() => void navigator.storage.persist().then(lookAtStorage)}>
                Keep it even when space runs low
              </button>
            )}
          </p>
        )}
        {value?.models.length === 0 && (
          <p class="hint">No model yet. Those that come from an address are kept, so that they load without a network next time.</p>
        )}
        <ul class="choices">
          {value?.models.map((kept) => (
            <Kept key={kept.key} model={kept} />
          ))}
        </ul>
      </section>
    </>
  );
}

const results = signal<readonly BenchResult[]>([]);
const benchStatus = signal('');
const benchFailure = signal<Failure | undefined>(undefined);
const benching = signal<AbortController | undefined>(undefined);
const benchOf = signal({ pp: 128, tg: 64, reps: 3 });

async function bench(): Promise<void> {
  const controller = new AbortController();
  benching.value = controller;
  results.value = [];
  benchFailure.value = undefined;
  try {
    await runBench(loaded.value!, {
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

function BenchTab() {
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
          <button type="submit" class="primary" disabled={busy || !loaded.value}>
            Run
          </button>
          <button type="button" disabled={!busy} onClick={() => benching.value?.abort(new DOMException('stopped', 'AbortError'))}>
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

const TABS: readonly (readonly [Tab, string])[] = [
  ['models', 'Models'],
  ['device', 'This device'],
  ['bench', 'Bench'],
];

/** Tabs as the ARIA practices have them: arrows, Home and End move, one of them is in the order of Tab. */
function Tabs() {
  const bar = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const at = TABS.findIndex(([name]) => name === tab.value);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    tab.value = TABS.at(to % TABS.length)![0];
    bar.current?.querySelector<HTMLElement>(`#tab-${tab.value}`)?.focus();
  };
  return (
    <div role="tablist" aria-label="Models and this device" ref={bar} onKeyDown={move}>
      {TABS.map(([name, title]) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          aria-controls={`panel-${name}`}
          aria-selected={tab.value === name}
          tabindex={tab.value === name ? 0 : -1}
          onClick={() => (tab.value = name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}

const PANELS = { models: ModelsTab, device: DeviceTab, bench: BenchTab };

export function ModelsDialog() {
  return (
    <Dialog open={modelsOpen} title="Models">
      <Tabs />
      <div class="load-state">
        <LoadingBar />
      </div>
      {TABS.map(([name]) => {
        const Panel = PANELS[name];
        return (
          <div key={name} role="tabpanel" id={`panel-${name}`} aria-labelledby={`tab-${name}`} class="panel" hidden={tab.value !== name}>
            {tab.value === name && <Panel />}
          </div>
        );
      })}
    </Dialog>
  );
}

/** In the head of the page: which model answers; where it is changed. */
export const ModelButton = () => (
  <button type="button" class="model-button" onClick={() => (modelsOpen.value = true)}>
    <Icon name="cpu" />
    <span>{loaded.value?.name ?? 'Choose a model'}</span>
  </button>
);
