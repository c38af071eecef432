/** The dialog for choosing, measuring and deleting models. */
import { signal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { Dialog, Icon } from '../ui.tsx';
import { BenchTab } from './bench-tab.tsx';
import { DeviceTab } from './device-tab.tsx';
import { loaded } from './engine.ts';
import { LoadingBar, modelsOpen } from './loading-bar.tsx';
import { ModelsTab } from './models-tab.tsx';

type Tab = 'models' | 'device' | 'bench';
const tab = signal<Tab>('models');

const TABS: readonly (readonly [Tab, string])[] = [
  ['models', 'Models'],
  ['device', 'This device'],
  ['bench', 'Bench'],
];

/**
 * Tabs by the ARIA authoring practices: arrows, Home and End select a tab; only the selected one is
 * in Tab order.
 */
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

/** Name of the loaded model in the head of the page; opens the models dialog. */
export const ModelButton = () => (
  <button type="button" class="model-button" onClick={() => (modelsOpen.value = true)}>
    <Icon name="cpu" />
    <span>{loaded.value?.name ?? 'Choose a model'}</span>
  </button>
);
