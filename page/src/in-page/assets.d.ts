declare module '*.gguf?url' {
  const url: string;
  export { url as default };
}
