/**
 * A model's conversations. This module is imported while weights are read, which keeps it out of a
 * page's first load.
 */
export { createChat } from './generation.ts';
export { createChatTemplate, fileTemplates } from './template.ts';
