/**
 * Bits of a token's attributes, with the values of llama.cpp's `LLAMA_TOKEN_ATTR_*`. `turn` is
 * quantlet's own: such a token begins or ends a turn, but is shown as text and always recognised in
 * text.
 */
export const attr = {
  unknown: 1,
  unused: 2,
  normal: 4,
  control: 8,
  userDefined: 16,
  byte: 32,
  lstrip: 128,
  rstrip: 256,
  turn: 512,
} as const;
