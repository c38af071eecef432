/** Small components used all over the page. */
import { signal, useSignal, type Signal } from '@preact/signals';
import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import type { Failure } from './backend.ts';
import { say } from './status.ts';

/** SVG outlines on a 24 x 24 grid. */
const ICONS = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  plus: 'M12 5v14M5 12h14',
  settings: 'M4 7h10m4 0h2M4 17h2m4 0h10M16 4.5v5M8 14.5v5',
  send: 'M12 19V5m-6 6 6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'm5 12 5 5 9-10',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  again: 'M19 12a7 7 0 1 1-2-5l2 2m0-5v5h-5',
  goOn: 'M6 5l8 7-8 7zM18 5v14',
  back: 'm15 6-6 6 6 6',
  next: 'm9 6 6 6-6 6',
  close: 'M6 6l12 12M18 6 6 18',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  attach: 'm20 11-8 8a5 5 0 0 1-7-7l8-8a3.3 3.3 0 0 1 5 5l-8 8a1.7 1.7 0 0 1-2.500-2.500l7-7',
  camera: 'M4 8h3l2-3h6l2 3h3v11H4zM12 16a3 3 0 1 0 0-6 3 3 0 0 0 0 6',
  down: 'M12 5v14m-6-6 6 6 6-6',
  cpu: 'M7 7h10v10H7zM10 3v4m4-4v4m-4 10v4m4-4v4M3 10h4m-4 4h4m10-4h4m-4 4h4',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
} as const;
export type IconName = keyof typeof ICONS;

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d={ICONS[name]} />
  </svg>
);

export const Mark = () => (
  <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <rect width="32" height="32" rx="8" />
    <path d="M9 22V10m7 12V6m7 16v-8" />
  </svg>
);

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement>;

/** A button with an icon; screen readers and tooltips use its label. */
export const IconButton = ({ icon, label, ...rest }: { icon: IconName; label: string } & Omit<ButtonProps, 'icon' | 'label'>) => (
  <button type="button" aria-label={label} title={label} {...rest} class={`icon-button ${(rest.class as string | undefined) ?? ''}`}>
    <Icon name={icon} />
  </button>
);

/** Copies a text and shows a tick for a moment. */
export function CopyButton({ text, label = 'Copy' }: { text: () => string; label?: string }) {
  const copied = useSignal(false);
  const copy = async (): Promise<void> => {
    await copyText(text());
    copied.value = true;
    say('Copied.');
    setTimeout(() => (copied.value = false), 1500);
  };
  return <IconButton icon={copied.value ? 'check' : 'copy'} label={label} onClick={() => void copy()} />;
}

async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages at http addresses, except localhost, have no clipboard API; copy a selection instead.
  const area = document.createElement('textarea');
  area.value = text;
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

/** An error, shown next to the action that failed. */
export const Problem = ({ failure, children }: { failure: Failure | undefined; children?: ComponentChildren }) =>
  failure ? (
    <div class="problem" role="alert">
      <span>
        {failure.message} {failure.code && <code>{failure.code}</code>}
      </span>
      {children}
    </div>
  ) : null;

/** A modal dialog: the browser's own, which keeps the focus and closes on Escape. */
export function Dialog({
  open,
  title,
  side,
  children,
}: {
  open: Signal<boolean>;
  title: string;
  side?: boolean;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before painting: closing restores the focus, and effects that put it elsewhere must run after
  // that.
  useLayoutEffect(() => {
    if (open.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open.value]);
  return (
    <dialog
      ref={dialog}
      class={side ? 'side' : ''}
      aria-labelledby={id}
      onClose={() => (open.value = false)}
      onClick={(event) => event.target === dialog.current && (open.value = false)}
    >
      {open.value && (
        <div class="sheet">
          <header>
            <h2 id={id}>{title}</h2>
            <IconButton icon="close" label="Close" onClick={() => (open.value = false)} />
          </header>
          <div class="sheet-body">{children}</div>
        </div>
      )}
    </dialog>
  );
}

/**
 * Asks before something is deleted. The focus is on "Keep". Both callbacks must move the focus,
 * because these buttons disappear.
 */
export function ConfirmDelete({ what, onDelete, onKeep }: { what: string; onDelete: () => void; onKeep: () => void }) {
  const keep = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => keep.current?.focus(), []); // before a key can move the focus elsewhere
  return (
    <>
      <span role="alert">Delete “{what}”?</span>
      <button type="button" class="danger" onClick={onDelete}>
        Delete
      </button>
      <button type="button" ref={keep} onClick={onKeep}>
        Keep
      </button>
    </>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small>{hint}</small>}
    </label>
  );
}

/** Saves a file on this device. */
export function download(name: string, blob: Blob): void {
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** True if the list of conversations is open. On wide windows it is always visible. */
export const sidebarOpen = signal(false);
export const settingsOpen = signal(false);
/** Counts requests to focus the composer. Any action that removes the focused element makes one. */
export const composerFocus = signal(0);
/** Runs a function after the page shows the latest changes. */
export const onceShown = (then: () => void): void => void requestAnimationFrame(then);
/** True if nothing has the focus, because the focused element is gone. */
export const isFocusLost = (): boolean => document.activeElement === null || document.activeElement === document.body;
