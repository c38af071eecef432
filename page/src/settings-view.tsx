/** The settings of a conversation. New conversations begin with the last used settings. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { setSettings, type Conversation } from './conversations.ts';
import { DEFAULT_SETTINGS, NUMBER_FIELDS, optionsOf, rowOf, type NumberField, type Settings } from './settings.ts';
import { failureOf, type Failure } from './backend.ts';
import { BoundedNumber } from './number-field.tsx';
import { Dialog, Field, Problem, settingsOpen } from './ui.tsx';

const NumberInput = ({ conversation, field: { name, label, hint } }: { conversation: Conversation; field: NumberField }) => {
  const { numbers } = conversation.info.value.settings;
  const row = rowOf(name);
  return (
    <BoundedNumber
      label={label}
      hint={hint}
      bounds={row}
      placeholder={row.standard === undefined ? 'no limit' : String(row.standard)}
      value={numbers[name]}
      onChange={(value) => {
        const { [name]: _, ...others } = numbers;
        setSettings(conversation, { numbers: value === undefined ? others : { ...others, [name]: value } });
      }}
    />
  );
};

/** Counts resets. A reset draws the fields again with their new values. */
const resets = signal(0);
/** Settings before the last reset, until the dialog is closed. */
const beforeReset = signal<Settings | undefined>(undefined);

function ResetButton({ conversation }: { conversation: Conversation }) {
  useEffect(() => () => void (beforeReset.value = undefined), []);
  const change = (settings: Settings): void => {
    setSettings(conversation, settings);
    resets.value++;
  };
  return (
    <button
      type="button"
      onClick={() => {
        const before = beforeReset.value;
        const { settings } = conversation.info.value;
        const { mode, model, system } = settings;
        beforeReset.value = before ? undefined : settings;
        change(before ?? { ...DEFAULT_SETTINGS, mode, model, system });
      }}
    >
      {beforeReset.value ? 'Undo the reset' : 'Reset everything except the system prompt'}
    </button>
  );
}

type TextName = 'system' | 'stop' | 'drySequenceBreakers' | 'logitBias' | 'schema' | 'grammar' | 'tools';

/** The reason why the settings cannot be used; undefined if they can. */
function problemOf(settings: Settings): Failure | undefined {
  try {
    optionsOf(settings);
    return undefined;
  } catch (error) {
    return failureOf(error);
  }
}

/** The settings' fields for a conversation. */
function fieldsOf(conversation: Conversation) {
  const { settings } = conversation.info.value;
  const set = (changed: Partial<Settings>): void => setSettings(conversation, changed);
  const text = (name: TextName, label: string, hint: string, rows: number, placeholder = '') => (
    <Field label={label} hint={hint}>
      <textarea
        rows={rows}
        placeholder={placeholder}
        spellcheck={name === 'system'}
        class={name === 'system' ? '' : 'mono'}
        value={settings[name]}
        onInput={(event) => set({ [name]: event.currentTarget.value })}
      />
    </Field>
  );
  const choice = <Name extends 'mode' | 'format' | 'toolChoice' | 'thinking' | 'whenFull'>(
    name: Name,
    label: string,
    options: Record<Settings[Name], string>,
    hint?: string,
  ) => (
    <Field label={label} {...(hint ? { hint } : {})}>
      <select value={settings[name]} onChange={(event) => set({ [name]: event.currentTarget.value })}>
        {Object.entries(options).map(([value, title]) => (
          <option key={value} value={value}>
            {title as string}
          </option>
        ))}
      </select>
    </Field>
  );
  return { text, choice };
}

function AnswerFields({ conversation }: { conversation: Conversation }) {
  const { settings } = conversation.info.value;
  const { text, choice } = fieldsOf(conversation);
  return (
    <details>
      <summary>Form of the answer</summary>
      {choice('format', 'The answer is', {
        text: 'Text',
        json_object: 'JSON',
        json_schema: 'JSON that fits a schema',
        grammar: 'Text of a grammar (GBNF)',
      })}
      {settings.format === 'json_schema' &&
        text(
          'schema',
          'JSON schema',
          'Every answer fits it: the model cannot write anything else.',
          8,
          '{"type": "object", "properties": {}}',
        )}
      {settings.format === 'grammar' && text('grammar', 'Grammar', 'In llama.cpp’s GBNF.', 8, 'root ::= "yes" | "no"')}
      {text('stop', 'Stop at', 'One text per line; \\n is a line break. The answer ends before it.', 2)}
    </details>
  );
}

function ToolFields({ conversation }: { conversation: Conversation }) {
  const { text, choice } = fieldsOf(conversation);
  return (
    <details>
      <summary>Functions and thinking</summary>
      {text(
        'tools',
        'Functions the model may call',
        'JSON as OpenAI’s "tools". You give the results yourself.',
        8,
        '[{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]',
      )}
      {choice('toolChoice', 'Calls', { auto: 'The model decides', required: 'It must call one', none: 'None' })}
      {choice(
        'thinking',
        'Thinking',
        { default: 'As the model does by default', on: 'On', off: 'Off' },
        'Only some chat templates can switch it.',
      )}
    </details>
  );
}

export function SettingsDialog({ conversation, children }: { conversation: Conversation; children?: ComponentChildren }) {
  const { settings } = conversation.info.value;
  const { text, choice } = fieldsOf(conversation);
  return (
    <Dialog open={settingsOpen} title="Settings" side>
      {children}
      <fieldset>
        <legend>Conversation</legend>
        {choice(
          'mode',
          'Kind',
          { chat: 'Chat: you and the model take turns', text: 'Text: the model continues what is written' },
          'Text is for models that were not trained to chat.',
        )}
        {choice(
          'whenFull',
          'If the context is full',
          { refuse: 'Say so', leaveOut: 'Leave out the oldest turns' },
          'Omitted turns stay in the conversation, but the model does not see them.',
        )}
        {settings.mode === 'chat' && text('system', 'System prompt', 'Who the model should be, and how it should answer.', 4)}
      </fieldset>
      <Problem failure={problemOf(settings)} />
      {NUMBER_FIELDS.map(({ title, fields }, i) => (
        <details key={`${resets.value} ${title}`} open={i === 0}>
          <summary>{title}</summary>
          <div class="grid">
            {fields.map((field) => (
              <NumberInput key={field.name} conversation={conversation} field={field} />
            ))}
          </div>
        </details>
      ))}
      <AnswerFields conversation={conversation} />
      {settings.mode === 'chat' && <ToolFields conversation={conversation} />}
      <details>
        <summary>Tokens by name</summary>
        {text('logitBias', 'Logit bias', 'JSON: token id to what is added to its logit; -100 bans it.', 2, '{"1234": -100}')}
        {text('drySequenceBreakers', 'DRY sequence breakers', 'One per line: each of them ends a repetition.', 4, '\\n\n:\n"\n*')}
      </details>
      <ResetButton conversation={conversation} />
    </Dialog>
  );
}
