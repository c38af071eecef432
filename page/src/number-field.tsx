/** A field for a number within bounds. */
import { useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import { outOfBounds, type Bounds } from './settings.ts';

interface BoundedNumberProps {
  readonly label: string;
  readonly hint: string;
  readonly bounds: Bounds;
  readonly placeholder: string;
  readonly value: number | undefined;
  /** Undefined: the field is empty. */
  readonly onChange: (value: number | undefined) => void;
}

/** A number out of bounds is not set, and the field shows the error. */
export function BoundedNumber({ label, hint, bounds, placeholder, value, onChange }: BoundedNumberProps) {
  const typed = useSignal(String(value ?? ''));
  const error = useSignal<string | undefined>(undefined);
  const field = useRef<HTMLInputElement>(null);
  // Shows a value set from elsewhere, but not while the field has the focus: on a busy machine
  // effects run late and would undo what was typed since.
  useEffect(() => {
    if (document.activeElement === field.current) return;
    if (error.value === undefined && (typed.value === '' ? undefined : Number(typed.value)) !== value) typed.value = String(value ?? '');
  }, [value]);
  const id = useId();
  const wrong = error.value ?? (value === undefined ? undefined : outOfBounds(value, bounds));
  return (
    <label class="field">
      <span>{label}</span>
      <input
        ref={field}
        type="number"
        inputmode="decimal"
        step={bounds.integer ? 1 : 'any'}
        placeholder={placeholder}
        aria-invalid={wrong !== undefined}
        aria-describedby={id}
        value={typed.value}
        onInput={({ currentTarget: input }) => {
          typed.value = input.value;
          const empty = input.value === '' && !input.validity.badInput;
          error.value = empty ? undefined : input.validity.badInput ? 'expected a number' : outOfBounds(input.valueAsNumber, bounds);
          if (error.value === undefined) onChange(empty ? undefined : input.valueAsNumber);
        }}
      />
      {wrong && (
        <small class="wrong" role="alert">
          Not taken: {wrong}.
        </small>
      )}
      <small id={id}>{hint}</small>
    </label>
  );
}
