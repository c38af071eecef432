/**
 * How long the caller's event loop stands still while a threads build generates: `node --import tsx bench/event-loop.ts [model]`.
 * Two figures: the longest callback of the host (time between an operation's start and its end on this thread, by async hooks around
 * every callback is not needed: event loop utilisation gives busy time, a timer of 1 ms the longest gap), and how late timers came.
 */
import { existsSync } from 'node:fs';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';

/** What a user would notice as a stutter in an interface is some 50 ms; a server wants far less. */
const LIMIT_MS = 5;
