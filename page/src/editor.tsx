/** The editor for a message that has been sent. */
import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { readDraft, writeDraft } from './drafts.ts';
import { isEnter, isEscape } from './keys.ts';

export const editKey = (id: string): string => `edit ${id}`;

interface EditorProps {
  /** Id of the message. */
  readonly id: string;
  readonly text: string;
  readonly action: string;
  readonly hint: string;
  readonly onSave: (text: string) => void;
  readonly onCancel: () => void;
}

/**
 * Edits a message. The edited text is kept until it is sent or discarded, even if the page is left.
 */
export function Editor({ id, text, action, hint, onSave, onCancel }: EditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const keepButton = useRef<HTMLButtonElement>(null);
  const asking = useSignal(false);
  const begun = useRef(readDraft(editKey(id)) || text);
  useLayoutEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(begun.current.length, begun.current.length);
  }, []);
  useLayoutEffect(() => {
    if (asking.value) keepButton.current?.focus();
  }, [asking.value]);
  const leave = (then: () => void): void => {
    writeDraft(editKey(id), '');
    then();
  };
  const save = (): void => {
    const edited = area.current!.value;
    if (edited.trim()) leave(() => onSave(edited));
  };
  const cancel = (): void => {
    if (area.current!.value === text) leave(onCancel);
    else asking.value = true;
  };
  const keep = (): void => {
    asking.value = false;
    area.current?.focus();
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
      onKeyDown={(event) => {
        if (!isEscape(event)) return;
        event.stopPropagation();
        if (asking.value) keep();
        else cancel();
      }}
    >
      <textarea
        ref={area}
        aria-label="Message"
        rows={Math.min(20, begun.current.split('\n').length + 1)}
        defaultValue={begun.current}
        onInput={({ currentTarget: { value } }) => writeDraft(editKey(id), value === text ? '' : value)}
        onKeyDown={(event) => {
          if (!isEnter(event)) return;
          event.preventDefault();
          save();
        }}
      />
      {asking.value ? (
        <div class="row">
          <span role="alert">Discard your changes?</span>
          <button type="button" class="danger" onClick={() => leave(onCancel)}>
            Discard
          </button>
          <button type="button" ref={keepButton} onClick={keep}>
            Go on editing
          </button>
        </div>
      ) : (
        <div class="row">
          <button type="submit" class="primary" aria-keyshortcuts="Enter">
            {action}
          </button>
          <button type="button" aria-keyshortcuts="Escape" onClick={cancel}>
            Cancel
          </button>
          <small>{hint}</small>
        </div>
      )}
    </form>
  );
}
