// The thread that reads and writes routes files for the admin API: a few kilobytes of YAML can take seconds, which must not be
// the proxy's. Knows nothing of who asks.
import { parentPort } from 'node:worker_threads';
import { type Job, work } from './yaml-job.js';

parentPort?.on('message', (job: Job) => parentPort?.postMessage(work(job)));
