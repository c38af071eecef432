/** What a model's conversations take. Imported while weights are read, so that a page's first load does without it. */
export { createChat } from './generation.ts';
export { createChatTemplate, fileTemplates } from './template.ts';
