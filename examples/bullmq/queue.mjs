// What the programs share: the queue, and where it is. REDIS_URL=redis://host:6379/0
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

export const QUEUE = 'quantlet-lines';

/** A connection that is made anew for as long as it takes when Redis is away. */
export function connect() {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: null });
  redis.on('error', (error) => console.error(`redis: ${error.message || error.code}`));
  return redis;
}

/** @param connection of connect() */
export const openQueue = (connection) => new Queue(QUEUE, { connection });
