// The thread that reads and writes routes files for the admin API: a few kilobytes of YAML can take seconds, which must not be
// the proxy's. Knows nothing of who asks.
import { setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { type Job, work } from './yaml-job.js';

// Where cores are few, calls go first. On Linux this is about the calling thread alone (setpriority(2), C library/kernel
// differences); elsewhere it would be about the whole process.
if (process.platform === 'linux') setPriority(10);

parentPort?.on('message', (job: Job) => parentPort?.postMessage(work(job)));
