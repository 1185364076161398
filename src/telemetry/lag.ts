// How late the event loop runs: what everybody on it waits. Knows nothing of what keeps it.
import { monitorEventLoopDelay } from 'node:perf_hooks';

export interface Lag {
  /** 99th percentile of the last 5 to 10 s; milliseconds. */
  p99Ms(): number;
  close(): void;
}

const RESOLUTION_MS = 20;
const WINDOW_MS = 5_000;

export function measureLag(): Lag {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  let last = 0;
  // What is measured is how long a timer of the resolution really took.
  const now = () => (delay.count === 0 ? 0 : Math.max(0, delay.percentile(99) / 1e6 - RESOLUTION_MS));
  const timer = setInterval(() => {
    last = now();
    delay.reset();
  }, WINDOW_MS);
  timer.unref();
  return {
    p99Ms: () => Number(Math.max(last, now()).toFixed(1)),
    close() {
      clearInterval(timer);
      delay.disable();
    },
  };
}
