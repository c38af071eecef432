/** Loading a model: start, progress and stop. */
import { signal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import shipped from 'quantlet/models/tiny-stories-q4_0.gguf?url';
import { failureOf } from '../backend.ts';
import { bytes } from '../numbers.ts';
import { Problem, composerFocus, isFocusLost, onceShown } from '../ui.tsx';
import { load, loadFailure, loaded, loading, type Loading, type ModelFiles, type Projector } from './engine.ts';
import { sortFiles } from './sort-files.ts';

export const modelsOpen = signal(false);

export const SHIPPED = { url: new URL(shipped, location.href).href, name: 'tiny stories', bytes: 1_576_160 };

/**
 * Loads a model, with its projector if that is given. After success closes the dialog and puts the
 * focus on the composer.
 */
export async function choose(files: ModelFiles, name: string, projector?: Projector): Promise<void> {
  await load(files, name, projector);
  if (loaded.value?.name !== name || loading.value || loadFailure.value) return;
  if (modelsOpen.value || isFocusLost()) composerFocus.value++;
  modelsOpen.value = false;
}

/** Loads chosen files: a model, its projector, or both. A projector alone is for the loaded model. */
export async function chooseFiles(files: readonly File[]): Promise<void> {
  try {
    const { model, projector } = await sortFiles(files, loaded.value?.files);
    const isSame = model === loaded.value?.files;
    const name = isSame ? loaded.value!.name : (model as readonly File[])[0].name;
    await choose(model, name.replace(/\.gguf$/i, '').replace(/-00001-of-\d{5}$/, ''), projector);
  } catch (error) {
    loadFailure.value = failureOf(error);
  }
}

/** The selected tab of the open models dialog. */
export const openTab = (): HTMLElement | null => document.querySelector('dialog[open] [role=tab][tabindex="0"]');

/** Progress of a load with a button to stop it, or the reason why the load failed. */
export function LoadingBar() {
  const { value } = loading;
  return value ? <Progress loading={value} /> : <Problem failure={loadFailure.value} />;
}

function Progress({ loading: value }: { loading: Loading }) {
  const stop = useRef<HTMLButtonElement>(null);
  // The button that started the load may be gone.
  useLayoutEffect(() => {
    if (isFocusLost()) stop.current?.focus();
    // This button disappears with the load; keep the focus in the dialog or on the button that
    // opens it.
    return () => onceShown(() => isFocusLost() && (openTab() ?? document.querySelector<HTMLElement>('.model-button'))?.focus());
  }, []);
  return (
    <div class="loading">
      <progress aria-label={`Loading ${value.name}`} {...(value.total > 0 ? { max: value.total, value: value.loaded } : {})} />
      <span>
        {value.name}: {value.total > 0 ? `${bytes(value.loaded)} of ${bytes(value.total)}` : 'opening …'}
      </span>
      <button type="button" ref={stop} onClick={value.stop}>
        Stop
      </button>
    </div>
  );
}
