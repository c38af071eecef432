/** Changes of conversations that a page was left with. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { beginWriting, takeUnwritten } from '../../page/src/unwritten.ts';

/** The browser's storage: own properties are the stored keys, as in browsers. */
class FakeStorage {
  [key: string]: unknown;
  getItem(key: string): string | null {
    return Object.hasOwn(this, key) ? (this[key] as string) : null;
  }
  setItem(key: string, value: string): void {
    this[key] = value;
  }
  removeItem(key: string): void {
    delete this[key];
  }
}

beforeEach(() => vi.stubGlobal('localStorage', new FakeStorage()));
afterEach(() => void vi.unstubAllGlobals());

it('a change that was written leaves nothing', () => {
  beginWriting('a', { title: 'x' })();
  expect(takeUnwritten()).toEqual([]);
});

it('changes of a page that was left are taken once, by conversation, the newest values', () => {
  localStorage.setItem('settings', '{}');
  beginWriting('a', { title: 'x', named: true, settings: { system: 's', mode: 'text' } });
  beginWriting('a', { title: 'xy', settings: { system: 'sy' } });
  beginWriting('b', { leaf: 'm' });
  expect(takeUnwritten()).toEqual([
    ['a', { title: 'xy', named: true, settings: { system: 'sy', mode: 'text' } }],
    ['b', { leaf: 'm', settings: {} }],
  ]);
  expect(takeUnwritten()).toEqual([]);
  expect(localStorage.getItem('settings')).toBe('{}');
});

it('a written change does not remove a later one', () => {
  const written = beginWriting('a', { title: 'x' });
  const later = beginWriting('a', { title: 'y' });
  written();
  expect(takeUnwritten()).toEqual([['a', { title: 'y', settings: {} }]]);
  later();
});

it('storage that is absent or holds other text hinders nothing', () => {
  localStorage.setItem('unwritten a', 'no JSON');
  expect(takeUnwritten()).toEqual([]);
  vi.stubGlobal('localStorage', undefined);
  beginWriting('a', { title: 'x' })();
  expect(takeUnwritten()).toEqual([]);
});
