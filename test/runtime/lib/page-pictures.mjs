// Visits with pictures: attached in every way, shown, kept, and read by the model.
import { drop, limitTokens, listClosed, openList } from './page-visits.mjs';

/**
 * Draws a picture and gives it to the page as a file.
 * @param by how: `choose` in the field of files, `paste`, or `drop`
 * @param more bytes to insert after the first two, as a camera writes EXIF data
 */
const give = ({ page }, { name, type = 'image/png', width = 320, height = 200, transparent = false, more = [], by = 'choose' }) =>
  page.evaluate(
    async ({ name, type, width, height, transparent, more, by }) => {
      const canvas = Object.assign(document.createElement('canvas'), { width, height });
      const context = canvas.getContext('2d');
      if (!transparent) {
        context.fillStyle = '#2a6f97';
        context.fillRect(0, 0, width, height);
      }
      context.fillStyle = '#f4a261';
      context.fillRect(width / 4, height / 4, width / 2, height / 2);
      const blob = await new Promise((resolve) => canvas.toBlob(resolve, type, 0.9));
      const files = new DataTransfer();
      files.items.add(new File([blob.slice(0, 2), Uint8Array.from(more), blob.slice(2)], name, { type }));
      const event = { bubbles: true, cancelable: true };
      if (by === 'paste') {
        // Firefox gives such an event data of its own.
        const paste = Object.defineProperty(new ClipboardEvent('paste', event), 'clipboardData', { value: files });
        return document.querySelector('.composer textarea').dispatchEvent(paste);
      }
      if (by === 'drop') return document.querySelector('main').dispatchEvent(new DragEvent('drop', { ...event, dataTransfer: files }));
      const input = document.querySelector('.composer input[type=file]');
      input.files = files.files;
      return input.dispatchEvent(new Event('change', event));
    },
    { name, type, width, height, transparent, more, by },
  );

/** EXIF data that says "turn by 90 degrees", as a segment of a JPEG file. */
const TURNED = [
  ...[0xff, 0xe1, 0, 34, ...[...'Exif\0\0'].map((letter) => letter.charCodeAt(0))],
  ...[0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0],
];

const chip = ({ see }, name) =>
  see(
    `the thumbnail of ${name}`,
    (name) => {
      const chips = [...document.querySelectorAll('.chips li:not(.reading)')];
      return chips.some((chip) => chip.textContent.includes(name) && chip.querySelector('.thumb')?.naturalWidth > 0);
    },
    name,
  );
const noChips = ({ see }) => see('no attached file', () => !document.querySelector('.chips'));

/** Size, type and first pixel of the last thumbnail, and the note next to it. */
const attached = ({ page }) =>
  page.evaluate(async () => {
    const image = [...document.querySelectorAll('.thumb')].at(-1);
    await image.decode();
    const context = new OffscreenCanvas(1, 1).getContext('2d');
    context.drawImage(image, 0, 0);
    return {
      width: image.naturalWidth,
      height: image.naturalHeight,
      type: image.src.slice(5, image.src.indexOf(';')),
      pixel: [...context.getImageData(0, 0, 1, 1).data],
      hasExif: atob(image.src.slice(image.src.indexOf(',') + 1)).includes('Exif'),
      note: image.closest('li').querySelector('small')?.textContent ?? '',
    };
  });

/** Removes the last attached file by the keyboard. */
async function removeByKeyboard(hands, name) {
  const { page, fault } = hands;
  await page.focus('.composer textarea');
  for (let i = 0; i < 9; i++) {
    await page.keyboard.down('Shift');
    await page.keyboard.press('Tab');
    await page.keyboard.up('Shift');
    if (await page.evaluate((label) => document.activeElement.getAttribute('aria-label') === label, `Remove ${name}`)) break;
  }
  await page.keyboard.press('Enter');
  await noChips(hands);
  // On touch screens the focus would open a keyboard.
  if (!(await page.evaluate(() => matchMedia('(pointer: coarse)').matches || document.activeElement.matches('.composer textarea'))))
    fault('after a picture was removed, the focus is not in the composer');
}

/** Pictures that models would see otherwise than people: the page changes them. */
async function useConversions(hands) {
  const { fault, page, press, see } = hands;
  const same = (what, got, want) => JSON.stringify(got) === JSON.stringify(want) || fault(`${what}: ${JSON.stringify(got)}`);
  const take = async (picture) => {
    await give(hands, picture);
    await chip(hands, picture.name);
    const found = await attached(hands);
    await press(`Remove ${picture.name}`);
    await noChips(hands);
    return found;
  };
  const upright = await take({ name: 'upright.jpg', type: 'image/jpeg' });
  same('a JPEG file', [upright.width, upright.height, upright.type], [320, 200, 'image/jpeg']);
  const turned = await take({ name: 'turned.jpg', type: 'image/jpeg', more: TURNED });
  same('a turned photo', [turned.width, turned.height, turned.hasExif], [200, 320, false]);
  const clear = await take({ name: 'clear.png', transparent: true });
  same('a transparent picture', [clear.type, clear.pixel], ['image/png', [255, 255, 255, 255]]);
  const large = await take({ name: 'large.jpg', type: 'image/jpeg', width: 3000, height: 2000 });
  if (large.width * large.height > 2 ** 22 || large.width < 2400 || !large.note.includes('from 3000 × 2000'))
    fault(`a large picture: ${JSON.stringify(large)}`);
  const other = await take({ name: 'other.webp', type: 'image/webp' });
  if (!['image/png', 'image/jpeg'].includes(other.type)) fault(`a WebP file: ${JSON.stringify(other)}`);
  await drop(hands, [['broken.png', [0x89, 0x50, 0x4e, 0x47, 0, 0xff]]]);
  await see('why it is not there', () =>
    document.querySelector('.composer [role=alert]')?.textContent.includes('not a picture that this browser reads'),
  );
  await hands.look('picture-refused');
  await page.focus('.composer textarea');
}

const lastPicture = ({ see }) =>
  see('the picture in the conversation', () => [...document.querySelectorAll('.message.user .picture img')].at(-1)?.naturalWidth > 0);

/** A camera as phones have one: the browser knows `capture`. */
export const withCamera = ({ page }) =>
  page.evaluateOnNewDocument(() => {
    Object.defineProperty(HTMLInputElement.prototype, 'capture', {
      configurable: true,
      get() {
        return this.getAttribute('capture');
      },
      set(value) {
        this.setAttribute('capture', value);
      },
    });
  });

/** Everything that can be done with pictures on the page of a server whose model sees. */
export async function usePictures(hands) {
  const { page, fault, see, press, say, idle, last, look } = hands;
  await see('the model', () => document.querySelector('.model-name')?.textContent === 'scripted');
  await see(
    'the button of the camera',
    () => document.querySelector('input[type=file][capture=environment]')?.ariaLabel === 'Take a picture',
  );
  await give(hands, { name: 'chosen.png' });
  await chip(hands, 'chosen.png');
  await look('picture-attached');
  await removeByKeyboard(hands, 'chosen.png');
  await useConversions(hands);

  for (const by of ['paste', 'drop']) {
    await give(hands, { name: `${by}.png`, by });
    await chip(hands, `${by}.png`);
  }
  await page.reload();
  await chip(hands, 'drop.png'); // unsent pictures are kept
  await look('two-pictures-attached');
  await press('Remove paste.png');
  await say('What is this?');
  await see('that the picture is being read', () => document.querySelector('.message progress')?.ariaLabel === 'Reading the picture');
  await look('picture-reading');
  await idle();
  if (await page.$('.message progress')) fault('the bar stays after the picture was read');
  if (!/I see \d+ tokens of pictures\. You said: .*What is this\?/s.test(await last()))
    fault(`the model did not get the picture: ${await last()}`);
  await lastPicture(hands);
  await look('picture');
  const seen = Number(/see (\d+)/.exec(await last())[1]);
  await say('And now?');
  await idle();
  if (!(await last()).includes(`I see ${seen} tokens of pictures. You said: And now?`))
    fault(`the second turn has other pictures: ${await last()}`);

  await hands.catchExports();
  await openList(hands);
  await press('Export all');
  const text = await hands.exported();
  await page.reload();
  await lastPicture(hands);
  await openList(hands);
  await hands.click('.conversations .menu summary');
  await press('Delete');
  await press('Delete');
  await see('no conversation', () => document.querySelectorAll('.conversations li').length === 0);
  await listClosed(hands);
  await openList(hands);
  await hands.give('.sidebar input[type=file]', 'conversations.json', text);
  await see('the conversation', () => document.querySelectorAll('.conversations li').length === 1);
  await hands.click('.conversations a');
  await lastPicture(hands);
  await listClosed(hands);
}

/** Files of a host as people choose them. */
const chooseFiles = ({ page }, urls) =>
  page.evaluate(async (urls) => {
    const files = new DataTransfer();
    for (const url of urls) files.items.add(new File([await (await fetch(url)).blob()], url.split('/').at(-1)));
    const input = document.querySelector('dialog input[type=file]');
    input.files = files.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
  }, urls);

/**
 * A picture for a model that runs in the page.
 * @param files URLs of the model and its projector
 * @param loads tells if the page has asked for code for pictures
 */
export async function useInPagePictures(hands, [model, projector], loads) {
  const { page, fault, see, press, say, last, look } = hands;
  await see('the page', () => document.querySelector('.welcome') !== null);
  await press('Try the small one, 1.6 MB');
  await see('the model', () => document.querySelector('.model-button').textContent.includes('tiny stories'));
  await limitTokens(hands, '12');
  await say('The dog');
  await see('its speed', () => /tokens\/s/.test(document.querySelector('.message.assistant')?.textContent));
  await drop(hands, [['picture.png', [0x89, 0x50]]]);
  await see('that this model reads no pictures', () =>
    /reads no pictures/.test(document.querySelector('.composer [role=alert]')?.textContent),
  );
  if (loads()) fault('a page without pictures has loaded code for them');

  await hands.click('.model-button');
  await chooseFiles(hands, [projector]);
  await see('that the projector is of another model', () =>
    /^The projector makes .* projector that was made for/.test(document.querySelector('dialog [role=alert]')?.textContent),
  );
  await look('wrong-projector');
  await chooseFiles(hands, [projector, model]);
  await see('the model that sees', () => document.querySelector('.model-button').textContent.includes('idefics3'));
  await press('New chat');
  await give(hands, { name: 'shapes.png' });
  await chip(hands, 'shapes.png');
  await look('picture-attached');
  await hands.type('.composer textarea', 'What is this?');
  await page.keyboard.press('Enter');
  await see('an answer', () => /tokens\/s/.test([...document.querySelectorAll('.message.assistant')].at(-1)?.textContent));
  const prompt = Number(/prompt ([\d,]+) at/.exec(await last())?.[1].replace(',', ''));
  if (!(prompt > 40)) fault(`the prompt has ${prompt} tokens, so none of a picture: ${(await last()).slice(-200)}`);
  if (!loads()) fault('no code for pictures was loaded, although a picture was read');
  await look('picture');
}
