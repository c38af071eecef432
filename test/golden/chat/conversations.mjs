// Conversations for native llama.cpp's built-in templates: with and without a system message,
// several turns, texts with blanks around them.
const user = (content) => ({ role: 'user', content });
const assistant = (content) => ({ role: 'assistant', content });
const system = (content) => ({ role: 'system', content });

export const conversations = [
  [user('Hello')],
  [system('Be kind.'), user('Hello')],
  [user('Hello'), assistant('Hi there'), user('Who are you?')],
  [
    system('You are a helper.'),
    user('Hello'),
    assistant('Hi there'),
    user('Who are you'),
    assistant('An assistant'),
    user('Another question'),
  ],
  [system(' Be brief.\n'), user('  What is 1 < 2?\n'), assistant(' "Yes" '), user('Größe & 数\nthanks ')],
];
