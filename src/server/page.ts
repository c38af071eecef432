import { html } from '../inline/page.js';

/**
 * A page to chat with the served model (page/): one HTML file without external resources. For
 * createHandler's `page`.
 */
export const chatPage: string = html;
