export const manifest = () => [];
