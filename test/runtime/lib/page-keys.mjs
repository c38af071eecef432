// Every action of the page by keyboard only: reached by Tab under its name, with visible focus,
// used; and afterwards some element has the focus.
import { COMPOSER, keyboardOf } from './page-keyboard.mjs';

const TOOL = '{"name": "get_weather", "parameters": {"type": "object"}}';
const settings = ({ page }) => page.evaluate(() => JSON.parse(localStorage.getItem('settings')));
const stopped = ({ see }) =>
  see('that it was stopped', () => [...document.querySelectorAll('.message')].at(-1).textContent.includes('Stopped'));
const someWords = ({ see }) => see('some words', () => [...document.querySelectorAll('.message')].at(-1).textContent.length > 100);

/** Sends, breaks lines, stops, continues, regenerates, edits, copies. */
async function talk(hands, keys) {
  const { see, answered, fault, page } = hands;
  const { press, write, chord, use, tabTo, focused, atComposer } = keys;
  const say = async (text) => {
    await write(text);
    await press('Enter');
  };
  await atComposer('loading');
  await see('the models', () => document.querySelectorAll('.model-select option').length === 2);
  await write('a line');
  await chord('Shift', 'Enter');
  await say('and another');
  await answered('You said: a line');
  await see('both lines', () => document.querySelector('.message.user .bubble').textContent === 'a line\nand another');
  await use('To the message');
  await atComposer('"To the message"');
  await use('Copy the answer', '.message:last-child');
  await see('that it was copied', () => document.querySelector('body > [role=status]').textContent === 'Copied.');

  await use('Answer again');
  await atComposer('"Answer again"');
  await see('a second version', () => document.querySelector('.message:last-child .versions')?.textContent === '2 / 2');
  await hands.idle();
  await use('Version before');
  await see('the first version', () => document.querySelector('.message:last-child .versions')?.textContent === '1 / 2');
  await use('Version after');
  await see('the second version', () => document.querySelector('.message:last-child .versions')?.textContent === '2 / 2');

  await tabTo('Message', '.composer');
  await say('long');
  await someWords(hands);
  await press('Escape');
  await stopped(hands);
  await atComposer('Escape');
  await use('Continue');
  await answered('Here it went on.');
  await atComposer('"Continue"');
  await say('long');
  await someWords(hands);
  await use('Stop');
  await stopped(hands);
  await atComposer('"Stop"');

  const edit = async (within) => {
    await use('Edit', within);
    await focused('the edit', '.editor textarea');
  };
  await edit('.message.assistant');
  await write(' and the rest');
  await use('Save');
  await see('what was changed', () => [...document.querySelectorAll('.message')].at(-1).textContent.includes(' and the rest'));
  await atComposer('"Save"');
  await edit('.message.user');
  await write('!');
  await use('Cancel');
  await use('Go on editing');
  await use('Send');
  await answered('You said: long!');
  await atComposer('"Send" of an edit');

  await say('code');
  await answered('And how it is called');
  await use('Copy the code');
  await tabTo('Code');
  await tabTo('Message', '.composer');
  await say('think');
  await answered('I thought about it');
  await use('Thoughts', 'summary');
  await see('the thoughts', () => document.querySelector('.reasoning').open);
  await tabTo('Message', '.composer');
  await say('fail');
  await use('Try again');
  await answered('You said: fail');
  await atComposer('"Try again"');
  await use('Conversation', '.log');
  await press('Home');
  await use('To the end');
  await atComposer('"To the end"');
  await see('the end', () => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector('.log');
    return scrollHeight - scrollTop - clientHeight < 50;
  });
  if (!(await page.$eval('.composer [aria-label=Send]', (button) => button.disabled))) fault('an empty message can be sent');
  await page.focus(COMPOSER);
}

/** Files: the keyboard reaches the field. The system's file dialog does not belong to the page. */
async function attach(hands, { write, use, tabTo, press, atComposer }) {
  const { give, see, answered } = hands;
  await tabTo('Attach pictures and text files'); // the server has not said yet if its models see
  await give('.composer input[type=file]', 'one.txt', 'first');
  await use('Remove one.txt');
  await see('no file', () => !document.querySelector('.chips'));
  await atComposer('a file was removed');
  await give('.composer input[type=file]', 'two.txt', 'second');
  await see('the file', () => document.querySelector('.chips') !== null);
  await use('Send', '.composer');
  await answered('second');
  await atComposer('"Send"');
  await use('two.txt', '.attachment');
  await see('its text', () => document.querySelector('.attachment').open);
  await tabTo('Message', '.composer');
  const long = 'word and another '.repeat(4000);
  for (const text of ['older', 'newer']) {
    await give('.composer input[type=file]', 'long.txt', long);
    await see('the file', () => document.querySelector('.chips') !== null);
    await write(text);
    await press('Enter');
    if (text === 'older') await answered('That was a long text.');
  }
  await use('Leave out the oldest messages');
  await answered('the model did not see the oldest');
  await atComposer('"Leave out the oldest messages"');
}

/** Uses a field by the keys of its kind. */
async function fill({ page, fault }, { press, write, chord }) {
  const [kind, name, value] = await page.evaluate(() => {
    const { tagName, type, labels, value } = document.activeElement;
    return [tagName === 'INPUT' ? type : tagName, labels?.[0]?.querySelector('span').textContent ?? '', value];
  });
  const now = () => page.evaluate(() => document.activeElement.value);
  if (kind === 'SELECT') {
    await press('ArrowDown');
    if ((await now()) === value) await press('ArrowUp');
    if ((await now()) === value) fault(`keys do not choose "${name}"`);
    // A text has fewer settings, and a full context is part of another visit.
    if (['chat', 'refuse'].includes(value)) await press('ArrowUp');
    if (name === 'The answer is') await press('ArrowDown');
  } else if (kind === 'SUMMARY') {
    if (!(await page.evaluate(() => document.activeElement.parentElement.open))) await press('Enter');
  } else if (kind === 'number' || kind === 'TEXTAREA' || kind === 'password') {
    await chord('Control', 'A');
    await write('1');
    if ((await now()) !== '1') fault(`keys do not change "${name}"`);
  } else return 0;
  return 1;
}

/** Every field of the settings in the order of Tab; the reset, and its undo. */
async function set(hands, keys) {
  const { page, see, fault, answered } = hands;
  const { press, write, use, focused, tabTo } = keys;
  await use('Settings');
  await see('the window', () => document.querySelector('dialog[open]')?.contains(document.activeElement));
  let filled = 0;
  for (let i = 0; i < 100 && !(await page.evaluate(() => document.activeElement.textContent.startsWith('Reset'))); i++) {
    await press('Tab');
    filled += await fill(hands, keys);
  }
  const all = await page.$$eval('dialog[open] :is(input, select, textarea, summary)', ({ length }) => length);
  if (filled !== all) fault(`Tab comes to ${filled} of ${all} fields of the settings`);
  const changed = await settings(hands);
  const empty = Object.keys(changed).filter((name) => changed[name] === '' && name !== 'grammar');
  if (empty.length > 0 || Object.keys(changed.numbers).length < 20)
    fault(`settings that keys did not change: ${empty.join()}, ${JSON.stringify(changed.numbers)}`);
  await press(' ');
  await see('no settings', () => Object.keys(JSON.parse(localStorage.getItem('settings')).numbers).length === 0);
  await use('Undo the reset');
  if (JSON.stringify(await settings(hands)) !== JSON.stringify(changed)) fault('a reset that is taken back changes settings');
  await use('Reset');
  await press('Escape');
  await focused('what opened the settings', '[aria-label=Settings]');
  await keys.newChat();
  await hands.many(0);
  await use('Settings');
  await use('Functions and thinking');
  await tabTo('Functions the model may call');
  await write(TOOL);
  await use('Close');
  await focused('what opened the settings', '[aria-label=Settings]');
  await tabTo('Message', '.composer');
  await write('weather');
  await press('Enter');
  await tabTo('What get_weather gave');
  await write('21 degrees');
  await use('Go on with the result');
  await answered('It is 21 degrees');
  await keys.atComposer('the result of a function');
}

/** The list: new, opened, named, exported, imported, deleted and restored. */
async function list(hands, keys) {
  const { page, see, fault, many } = hands;
  const { press, write, chord, use, tabTo, focused, newChat, atComposer } = keys;
  const names = () => page.$$eval('.conversations a span', (all) => all.map(({ textContent }) => textContent));
  const listed = (n) => see(`${n} conversations`, (n) => document.querySelectorAll('.conversations li').length === n, n);
  await use('New chat');
  await many(0);
  await atComposer('"New chat"');
  await write('second chat');
  await press('Enter');
  await hands.answered('You said: second chat');
  await newChat();
  await many(0);

  await tabTo('second chat', '.conversations');
  const all = (await names()).length;
  const steps = { ArrowDown: 1, ArrowUp: 0, End: all - 1, Home: 0 };
  for (const [key, at] of Object.entries(steps)) {
    await press(key);
    await see(
      `the conversation that ${key} leads to`,
      (at) => document.activeElement === document.querySelectorAll('.conversations a')[at],
      at,
    );
  }
  await press('Enter');
  await many(2);
  await atComposer('a conversation was opened');

  const rename = async (menu, name) => {
    await use(`More for ${menu}`);
    await use('Rename');
    await focused('the name', '.conversations input');
    await write(name);
  };
  await use('More for second chat');
  await press('Escape');
  await focused('the menu that was closed', '.menu summary');
  await rename('second chat', 'a name');
  await press('Enter');
  await see('the name', () => document.title.startsWith('a name'));
  await focused('what was renamed', '.conversations a');
  await rename('a name', 'not this');
  await press('Escape');
  await see('the name before', () => document.title.startsWith('a name'));
  // The page is left in the same moment in which the last letters are typed.
  await rename('a name', 'half');
  const input = await page.$('.conversations input');
  await Promise.all([
    page.waitForNavigation(),
    input.evaluate((input) => {
      input.value = 'half a na';
      input.dispatchEvent(new InputEvent('input', { bubbles: true }));
      location.reload();
    }),
  ]);
  await see('what was typed of a name', () => document.title.startsWith('half a na'));

  await hands.catchExports();
  await use('More for half');
  await use('Export');
  const file = await hands.exported();
  await focused('the menu after an export', '.menu summary');
  await use('Export all');
  if (JSON.parse(await hands.exported()).conversations.length !== all) fault('keys do not export all conversations');
  await tabTo('Import');
  await hands.give('.sidebar input[type=file]', 'conversations.json', file);
  await listed(all + 1);

  await use('More for half');
  await tabTo('Delete', '.menu');
  // Before the next key, and before the page is painted.
  const asked = await page.evaluate(async () => {
    document.activeElement.click();
    for (let i = 0; i < 20; i++) await undefined;
    return document.activeElement.textContent;
  });
  if (asked !== 'Keep') fault(`the focus is on "${asked}" when the question is asked`);
  await use('Keep');
  await focused('what was kept', '.conversations a');
  await use('More for half');
  await use('Delete');
  await use('Delete', '.confirm');
  await listed(all);
  await atComposer('"Delete"');
  await use('Undo', '.sidebar');
  await listed(all + 1);
  await many(2);
  await atComposer('"Undo"');
  await page.reload();
  await many(2);
  if ((await names()).length !== all + 1) fault('a deleted conversation that was brought back is not kept');

  // In a narrow window the list covers the page.
  const viewport = page.viewport();
  await page.setViewport({ ...viewport, width: 600 });
  await use('Conversations', '.bar');
  await focused('the list', '[aria-label="Close the list"]');
  await press('Escape');
  await focused('what opens the list', '[aria-label=Conversations]');
  await press('Enter');
  await use('Close the list');
  await focused('what opens the list', '[aria-label=Conversations]');
  await press('Enter');
  await tabTo('half', '.conversations');
  await chord('Control', 'Shift', 'O');
  await many(0);
  await atComposer('a new chat');
  await page.setViewport(viewport);
}

/** All actions of a served page. */
export async function useKeys(hands) {
  const keys = keyboardOf(hands);
  await talk(hands, keys);
  await attach(hands, keys);
  await set(hands, keys);
  await list(hands, keys);
  await keys.tabTo('Model', '.bar');
  await keys.press('ArrowDown');
  await keys.tabTo('Message', '.composer');
  await keys.write('who?');
  await keys.press('Enter');
  await hands.answered('second · ');
}

/**
 * All actions of the page that runs the model itself. `origin`: its host, with the hub of
 * page-visits.mjs.
 */
export async function useModelKeys(hands, origin) {
  const { page, see, fault } = hands;
  const keys = keyboardOf(hands);
  const { press, write, use, tabTo, focused, atComposer } = keys;
  // Waits until the service worker that isolates the page has reloaded it.
  await see('isolation', () => crossOriginIsolated && document.querySelector('.welcome') !== null);
  await page.$eval(
    'head',
    (head, content) => head.append(Object.assign(document.createElement('meta'), { name: 'quantlet:hub', content })),
    `${origin}/hub/`,
  );
  const tab = (name) => focused(`the tab ${name}`, `#tab-${name}[aria-selected=true]`);
  await use('Choose a model', '.welcome');
  await tabTo('Models', '[role=tablist]');
  for (const [key, name] of [
    ['ArrowRight', 'device'],
    ['End', 'bench'],
    ['Home', 'models'],
    ['ArrowLeft', 'bench'],
    ['Home', 'models'],
  ]) {
    await press(key);
    await tab(name);
  }
  await tabTo('Search the hub');
  await write('tiny');
  await press('Enter');
  await use('Files of tester/tiny-GGUF');
  await focused('the way back', 'dialog .back');
  await press('Enter');
  await focused('the search', 'dialog input[type=search]');
  await use('Search', 'dialog form');
  await focused('"Search"', 'dialog form button');
  await tabTo('Tokens of a conversation');
  await write('256');
  await tabTo('Choose a GGUF file');
  await tabTo('Address of a GGUF file');
  await write(`${origin}/slow/model.gguf?slow=500`);
  await press('Enter');
  await see('progress', () => document.querySelector('dialog progress')?.value > 0);
  await use('Stop', '.loading');
  await see('no progress', () => !document.querySelector('progress'));
  await see('the focus within the window', () => document.querySelector('dialog[open]').contains(document.activeElement));
  await page.reload();
  await use('Choose a model', '.welcome');
  const kept = await page.$$eval('dialog :is([type=search], [type=url])', (all) => all.map(({ value }) => value));
  if (kept[0] !== 'tiny' || !kept[1].endsWith('slow=500')) fault(`what was typed about models is lost: ${JSON.stringify(kept)}`);
  await press('Escape');
  await use('Try the small one');
  await see('the model', () => document.querySelector('.model-button').textContent.includes('tiny stories'));
  await atComposer('a model was loaded');
  await use('tiny stories', '.bar');
  await tabTo('Models', '[role=tablist]');
  await press('End');
  for (const [name, value] of [
    ['Prompt tokens', '16'],
    ['New tokens', '8'],
    ['Repetitions', '1'],
  ]) {
    await tabTo(name);
    await keys.chord('Control', 'A');
    await write(value);
  }
  await use('Run');
  await see('the end of the bench', () => document.querySelector('#panel-bench [role=status]').textContent.startsWith('Done'));
  await use('Run');
  await use('Stop', '#panel-bench');
  await see('that it was stopped', () => /Stopped|Done/.test(document.querySelector('#panel-bench [role=status]').textContent));
  await tabTo('Bench', '[role=tablist]');
  await press('ArrowLeft');
  await tab('device');
  await see('what is kept', () => document.querySelector('#panel-device [aria-label^="Delete"]') !== null);
  const models = await page.$$eval('#panel-device .choice', ({ length }) => length);
  await use('Delete', '#panel-device');
  await use('Keep', '.confirm');
  await see('the focus', () => document.activeElement.closest('.choice') !== null);
  await use('Delete', '#panel-device');
  await use('Delete', '.confirm');
  await see('one less kept', (n) => document.querySelectorAll('#panel-device .choice').length === n - 1, models);
  await see('the focus within the window', () => document.querySelector('dialog[open]').contains(document.activeElement));
  await tabTo('Models', '[role=tablist]').catch(() => tabTo('This device', '[role=tablist]'));
  await press('Home');
  await use('Load tiny stories');
  await see('the window to be closed', () => !document.querySelector('dialog[open]'));
  await atComposer('a model was loaded from the window');
  await use('tiny stories', '.bar');
  await press('Escape');
  await focused('what opened the window', '.model-button');
}
