/** A code block with its language and a copy button. */
import { CopyButton } from './ui.tsx';

export const Code = ({ code, language, html }: { code: string; language: string; html: string }) => (
  <div class="code">
    <div class="code-head">
      <span>{language || 'text'}</span>
      <CopyButton text={() => code} label="Copy the code" />
    </div>
    <pre tabindex={0} role="group" aria-label="Code">
      <code dangerouslySetInnerHTML={{ __html: html }} />
    </pre>
  </div>
);
