/** Images and sounds for the prompts of one model. A file is what its first bytes say. */
import { isSoundFile } from '../audio/sound-files.ts';
import type { Hearing } from '../audio/hearing.ts';
import { bytesOf } from '../encoder/source.ts';
import { QuantletError } from '../errors.ts';
import type { AudioSource, ImageReader, ImageSource, MediaSource, PromptImage } from '../run/image-tokens.ts';
import { IMAGE_SOURCE } from '../vision/read-image.ts';
import type { Vision } from '../vision/vision.ts';

const isPixels = (image: ImageSource): boolean => typeof image === 'object' && image !== null && 'data' in image && 'width' in image;

export class MediaReader implements ImageReader {
  private readonly vision: Vision | undefined;
  private readonly hearing: Hearing | undefined;

  constructor(vision: Vision | undefined, hearing: Hearing | undefined) {
    this.vision = vision;
    this.hearing = hearing;
  }

  /**
   * @throws ERR_IMAGE_INVALID, ERR_IMAGE_TRUNCATED, ERR_IMAGE_TOO_LARGE, ERR_AUDIO_INVALID,
   * ERR_AUDIO_TOO_LARGE, ERR_INVALID_ARGUMENT, or signal.reason
   */
  async read(media: MediaSource, signal?: AbortSignal): Promise<PromptImage> {
    if (typeof media === 'object' && media !== null && 'audio' in media) return this.hear(media.audio, signal);
    if (isPixels(media)) return this.see(media, signal);
    const bytes = await bytesOf(media, IMAGE_SOURCE);
    return isSoundFile(bytes) ? this.hear(bytes, signal) : this.see(bytes, signal);
  }

  private see(image: ImageSource, signal: AbortSignal | undefined): Promise<PromptImage> {
    if (this.vision) return this.vision.read(image, signal);
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'the projector of the model is for sounds, and an image was given; leave the image out, or give a projector for images (mmproj)',
    );
  }

  private hear(sound: AudioSource, signal: AbortSignal | undefined): Promise<PromptImage> {
    if (this.hearing) return this.hearing.read(sound, signal);
    throw new QuantletError(
      'ERR_INVALID_ARGUMENT',
      'the projector of the model is for images, and a sound was given; leave the sound out, or give a projector for sounds (mmproj)',
    );
  }

  async dispose(): Promise<void> {
    await Promise.all([this.vision?.dispose(), this.hearing?.dispose()]);
  }
}
