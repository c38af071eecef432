// Loaded into a server by NODE_OPTIONS: on SIGUSR2 it says where quantlet's threads stand (src/threads/where.ts).
process.on('SIGUSR2', () => {
  const living = [...(globalThis[Symbol.for('quantlet.executors')] ?? [])].map((ref) => ref.deref()).filter(Boolean);
  process.stderr.write(`process ${process.pid}: ${living.length} executors\n${living.map((executor) => `${executor.where()}\n`).join('')}`);
});
