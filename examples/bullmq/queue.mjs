// The queue, shared by all programs. Set REDIS_URL=redis://host:6379/0 for another Redis.
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

export const QUEUE = 'quantlet-lines';

/** A connection that reconnects for as long as Redis is unavailable. */
export function connect() {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: null });
  redis.on('error', (error) => console.error(`redis: ${error.message || error.code}`));
  return redis;
}

/** @param connection from connect() */
export const openQueue = (connection) => new Queue(QUEUE, { connection });
