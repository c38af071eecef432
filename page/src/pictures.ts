/**
 * Pictures for a message. Models get PNG and JPEG files as their bytes have them, so what browsers
 * do on their own is done here first: a photo is turned upright, and transparency becomes white.
 */
import { PageError } from './backend.ts';
import type { Picture } from './tree.ts';
import { bytes } from './numbers.ts';

/** Size limit of an attached file. */
const MOST_BYTES = 64 << 20;
/** Most pixels of a picture: 4096 tokens of 32 x 32, which is the most that models see by default. */
const MOST_PIXELS = 1 << 22;
/** Most bytes of a stored picture. All pictures of a conversation are sent with each message. */
const MOST_SENT = 4 << 20;
/** Quality of JPEG files whose loss is hardly visible. */
const QUALITY = 0.92;

type Type = 'image/png' | 'image/jpeg';

function typeOf([first, second]: Uint8Array): Type | undefined {
  if (first === 0x89 && second === 0x50) return 'image/png';
  return first === 0xff && second === 0xd8 ? 'image/jpeg' : undefined;
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView => new DataView(buffer, byteOffset, byteLength);
const latin = (data: Uint8Array, at: number, length: number): string => String.fromCharCode(...data.subarray(at, at + length));

/** True if pixels of a PNG file may be transparent: by an alpha channel, or by a chunk tRNS. */
function isTransparent(data: Uint8Array): boolean {
  if (data[25] & 4) return true;
  for (let at = 8; at + 8 <= data.length; at += 12 + viewOf(data).getUint32(at)) {
    const name = latin(data, at + 4, 4);
    if (name === 'tRNS' || name === 'IDAT') return name === 'tRNS';
  }
  return false;
}

/** Orientation in the EXIF data of a JPEG file; 1, which is upright, if it has none. */
export function orientationOf(data: Uint8Array): number {
  const view = viewOf(data);
  for (let at = 2; at + 20 <= data.length && data[at] === 0xff && data[at + 1] !== 0xda; at += 2 + view.getUint16(at + 2)) {
    if (data[at + 1] !== 0xe1 || latin(data, at + 4, 6) !== 'Exif\0\0') continue;
    const tiff = at + 10;
    const little = data[tiff] === 0x49;
    const entries = tiff + view.getUint32(tiff + 4, little);
    if (entries + 2 > data.length) return 1;
    const end = entries + 2 + 12 * view.getUint16(entries, little);
    for (let entry = entries + 2; entry < end && entry + 12 <= data.length; entry += 12)
      if (view.getUint16(entry, little) === 0x0112) return view.getUint16(entry + 8, little);
  }
  return 1;
}

const isPlain = (data: Uint8Array, type: Type): boolean => (type === 'image/png' ? !isTransparent(data) : orientationOf(data) === 1);

/** Draws a picture, upright and on white, in another size or format. */
async function drawn(bitmap: ImageBitmap, scale: number, type: Type): Promise<Blob> {
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.floor(bitmap.width * scale));
  canvas.height = Math.max(1, Math.floor(bitmap.height * scale));
  const context = canvas.getContext('2d')!;
  context.fillStyle = 'white';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, type, QUALITY));
  if (!blob) throw new PageError('The picture could not be converted: the browser has no memory for it.');
  return blob;
}

const dataUrl = (blob: Blob): Promise<string> =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error!);
    reader.readAsDataURL(blob);
  });

/** A PNG or JPEG file that models read, and the change that people must know. */
async function readable(data: Uint8Array<ArrayBuffer>, bitmap: ImageBitmap): Promise<{ blob: Blob; note?: string }> {
  const { width, height } = bitmap;
  const type = typeOf(data);
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (width * height)));
  const note = scale < 1 ? { note: `made smaller, from ${width} × ${height}` } : {};
  const isKept = type && scale === 1 && isPlain(data, type);
  const blob = isKept ? new Blob([data], { type }) : await drawn(bitmap, scale, type ?? 'image/png');
  if (blob.size <= MOST_SENT) return { blob, ...note };
  return { note: 'compressed', ...note, blob: await drawn(bitmap, scale, 'image/jpeg') };
}

/** @throws PageError if the file is too large or not a picture */
export async function readPicture(file: File): Promise<Picture> {
  const { name, size } = file;
  if (size > MOST_BYTES) throw new PageError(`The picture ${name} has ${bytes(size)}; expected at most ${bytes(MOST_BYTES)}.`);
  const data = new Uint8Array(await file.arrayBuffer());
  // Firefox does not decode a File that was made of several parts.
  const bitmap = await createImageBitmap(new Blob([data])).catch(() => undefined);
  if (!bitmap) throw new PageError(`The file ${name} is not a picture that this browser reads; expected PNG, JPEG, WebP, GIF or AVIF.`);
  try {
    const { blob, ...note } = await readable(data, bitmap);
    return { name, image: await dataUrl(blob), ...note };
  } finally {
    bitmap.close();
  }
}
