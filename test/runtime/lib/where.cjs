// Loaded into a server by NODE_OPTIONS. On SIGUSR2 it prints where quantlet's threads stand
// (src/threads/where.ts).
process.on('SIGUSR2', () => {
  const living = [...(globalThis[Symbol.for('quantlet.executors')] ?? [])].map((ref) => ref.deref()).filter(Boolean);
  process.stderr.write(`process ${process.pid}: ${living.length} executors\n${living.map((executor) => `${executor.where()}\n`).join('')}`);
});
