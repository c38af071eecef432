/** Progress on stderr: a bar that is redrawn on a terminal, lines elsewhere. */
import { bytesText } from '../bytes-text.ts';
import type { DownloadProgress } from '../hub/download.ts';
import { printable } from '../printable.ts';
import type { ToolPhase, ToolProgress } from '../tools/common.ts';

const WIDTH = 30;
const bar = (part: number): string => {
  const full = Math.round(Math.min(1, part) * WIDTH);
  return '█'.repeat(full) + '░'.repeat(WIDTH - full);
};

/** Shortest interval between two redraws, in milliseconds. */
const REDRAW_MS = 100;

/** A progress text on stderr; nothing if stderr is not a terminal. */
export function progressLine(): { set(text: string): void; end(): void } {
  const { stderr } = process;
  if (!stderr.isTTY) return { set() {}, end() {} };
  let shown = -Infinity;
  return {
    set(text) {
      if (performance.now() - shown < REDRAW_MS) return;
      shown = performance.now();
      stderr.write(`\r\x1b[K${text}`);
    },
    end() {
      if (shown > -Infinity) stderr.write('\r\x1b[K');
      shown = -Infinity;
    },
  };
}

/** Formats 3725 seconds as 1:02:05. */
export function timeText(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number): string => String(n).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** A progress bar on stderr; nothing if stderr is not a terminal. */
export function progressBar(what: string): { set(part: number): void; end(): void } {
  const { stderr } = process;
  if (!stderr.isTTY) return { set() {}, end() {} };
  let shown = -1;
  return {
    set(part) {
      const percent = Math.floor(part * 100);
      if (percent === shown) return;
      shown = percent;
      stderr.write(`\r${what} ${bar(part)} ${percent} %`);
    },
    end() {
      if (shown >= 0) stderr.write('\r\x1b[K');
      shown = -1;
    },
  };
}

/** Progress bars of a tool, one for each of its phases. */
export function phaseBars(): { set(progress: ToolProgress): void; end(): void } {
  let phase: ToolPhase | undefined;
  let bar = { set(_part: number): void {}, end(): void {} };
  return {
    set(progress) {
      if (progress.phase !== phase) {
        bar.end();
        phase = progress.phase;
        bar = progressBar(phase);
      }
      bar.set(progress.done / progress.total);
    },
    end: () => bar.end(),
  };
}

/** Interval in milliseconds between two lines if stderr is not a terminal. */
const LINE_MS = 10_000;

/** Shows a download: bytes, fraction, average speed. */
export function downloadProgress(file: string): DownloadProgress {
  const name = printable(file);
  const { stderr } = process;
  const terminal = stderr.isTTY === true;
  let began = 0;
  let from = 0;
  let shown = 0;
  let drawn = false;
  let toldWait = false;
  return {
    set(loaded, total) {
      const now = performance.now();
      if (began === 0) [began, from] = [now, loaded];
      else if (now - shown < (terminal ? REDRAW_MS : LINE_MS) && loaded !== total) return;
      else if (!terminal && loaded === total && now - began < LINE_MS) return; // a short download needs only its first line
      shown = now;
      const speed = now - began > 500 ? `, ${bytesText(Math.round(((loaded - from) * 1000) / (now - began)))}/s` : '';
      const of = total === undefined ? bytesText(loaded) : `${bytesText(loaded)} of ${bytesText(total)}`;
      if (!terminal)
        return void stderr.write(`quantlet: downloading ${name}: ${loaded === 0 && total !== undefined ? bytesText(total) : of}${speed}\n`);
      const part = total === undefined || total === 0 ? '' : `${bar(loaded / total)} ${Math.floor((100 * loaded) / total)} % `;
      drawn = true;
      stderr.write(`\r\x1b[K${name} ${part}${of}${speed}`);
    },
    waiting() {
      if (!toldWait) stderr.write(`quantlet: another process is downloading ${name}; waiting for it\n`);
      toldWait = true;
    },
    end() {
      if (drawn) stderr.write('\r\x1b[K');
    },
  };
}
