import { html } from '../inline/page.js';

/** A page to chat with the served model (page/): one HTML file without anything from elsewhere. For createHandler's `page`. */
export const chatPage: string = html;
