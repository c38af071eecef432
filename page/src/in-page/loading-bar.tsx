/** Loading a model: start, progress and stop. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import shipped from 'quantlet/models/tiny-stories-q4_0.gguf?url';
import { Problem, bytes, composerFocus, isFocusLost, onceShown } from '../ui.tsx';
import { load, loadFailure, loaded, loading, type Loading, type ModelFiles } from './engine.ts';

export const modelsOpen = signal(false);

export const SHIPPED = { url: new URL(shipped, location.href).href, name: 'tiny stories', bytes: 1_576_160 };

/** Loads a model. After success closes the dialog and puts the focus on the composer. */
export async function choose(files: ModelFiles, name: string): Promise<void> {
  await load(files, name);
  if (loaded.value?.name !== name || loading.value || loadFailure.value) return;
  if (modelsOpen.value || isFocusLost()) composerFocus.value++;
  modelsOpen.value = false;
}

export function chooseFiles(files: readonly File[]): void {
  void choose(files, files[0].name.replace(/\.gguf$/i, '').replace(/-00001-of-\d{5}$/, ''));
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
  useEffect(() => {
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
