/** The tab about this device: its memory, and the models stored in this browser. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { KeptFile } from '../../../src/web/kept.ts';
import { failureOf, type Failure } from '../backend.ts';
import { bytes } from '../numbers.ts';
import { ConfirmDelete, IconButton, Problem, onceShown } from '../ui.tsx';
import { MOST_MEMORY, deviceMemory, lookAtStorage, nameOf, removeKept, storage } from './device.ts';
import { loaded } from './engine.ts';
import { choose, openTab } from './loading-bar.tsx';

function Kept({ model }: { model: KeptFile }) {
  const failure = useSignal<Failure | undefined>(undefined);
  const asking = useSignal(false);
  const row = useRef<HTMLLIElement>(null);
  const focusRow = (): void => onceShown(() => (row.current?.isConnected ? row.current.querySelector('button') : openTab())?.focus());
  if (asking.value)
    return (
      <li class="choice confirm">
        <ConfirmDelete
          what={nameOf(model.url)}
          onDelete={() => {
            asking.value = false;
            void removeKept(model).then(focusRow, (error: unknown) => (failure.value = failureOf(error)));
          }}
          onKeep={() => {
            asking.value = false;
            focusRow();
          }}
        />
      </li>
    );
  return (
    <li class="choice" ref={row}>
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
      <IconButton icon="trash" label={`Delete ${nameOf(model.url)} from this device`} onClick={() => (asking.value = true)} />
    </li>
  );
}

export function DeviceTab() {
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
          <p class="hint">No model yet. Models from an address are kept, and load without a network next time.</p>
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
