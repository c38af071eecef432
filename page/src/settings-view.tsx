/** The settings of a conversation; new conversations begin with those that were last used. */
import type { ComponentChildren } from 'preact';
import { setSettings, type Conversation } from './conversations.ts';
import { DEFAULT_SETTINGS, NUMBER_FIELDS, optionsOf, rowOf, type NumberField, type Settings } from './settings.ts';
import { failureOf, type Failure } from './backend.ts';
import { Dialog, Field, Problem, settingsOpen } from './ui.tsx';

function NumberInput({ conversation, field }: { conversation: Conversation; field: NumberField }) {
  const { numbers } = conversation.info.value.settings;
  const { standard, least, most, integer } = rowOf(field.name);
  return (
    <Field label={field.label} hint={field.hint}>
      <input
        type="number"
        inputmode="decimal"
        min={Number.isFinite(least) ? least : undefined}
        max={most}
        step={integer ? 1 : 'any'}
        placeholder={standard === undefined ? 'no limit' : String(standard)}
        value={numbers[field.name] ?? ''}
        onChange={({ currentTarget: input }) => {
          if (!input.reportValidity()) return;
          const { [field.name]: _, ...others } = numbers;
          setSettings(conversation, { numbers: input.value === '' ? others : { ...others, [field.name]: input.valueAsNumber } });
        }}
      />
    </Field>
  );
}

type TextName = 'system' | 'stop' | 'drySequenceBreakers' | 'logitBias' | 'schema' | 'grammar' | 'tools';

/** Why the settings cannot be used as they are. */
function problemOf(settings: Settings): Failure | undefined {
  try {
    optionsOf(settings);
    return undefined;
  } catch (error) {
    return failureOf(error);
  }
}

export function SettingsDialog({ conversation, children }: { conversation: Conversation; children?: ComponentChildren }) {
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
  const choice = <Name extends 'mode' | 'format' | 'toolChoice' | 'thinking'>(
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
  return (
    <Dialog open={settingsOpen} title="Settings" side>
      {children}
      <fieldset>
        <legend>Conversation</legend>
        {choice(
          'mode',
          'Kind',
          { chat: 'Chat: you and the model take turns', text: 'Text: the model continues what is written' },
          'Text is for models that were never taught to chat.',
        )}
        {settings.mode === 'chat' && text('system', 'System prompt', 'Who the model should be, and how it should answer.', 4)}
      </fieldset>
      <Problem failure={problemOf(settings)} />
      {NUMBER_FIELDS.map(({ title, fields }, i) => (
        <details key={title} open={i === 0}>
          <summary>{title}</summary>
          <div class="grid">
            {fields.map((field) => (
              <NumberInput key={field.name} conversation={conversation} field={field} />
            ))}
          </div>
        </details>
      ))}
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
      {settings.mode === 'chat' && (
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
      )}
      <details>
        <summary>Tokens by name</summary>
        {text('logitBias', 'Logit bias', 'JSON: token id to what is added to its logit; -100 bans it.', 2, '{"1234": -100}')}
        {text('drySequenceBreakers', 'DRY sequence breakers', 'One per line: each of them ends a repetition.', 4, '\\n\n:\n"\n*')}
      </details>
      <button
        type="button"
        onClick={() => {
          const { mode, model, system } = settings;
          set({ ...DEFAULT_SETTINGS, mode, model, system });
        }}
      >
        Reset all but the system prompt
      </button>
    </Dialog>
  );
}
