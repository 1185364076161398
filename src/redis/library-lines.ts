// What ioredis writes to the console by itself, which is no place for it: stderr is one JSON object a line. Its lines are recognised and
// held back, everybody else's go through. Knows nothing of connections.

const NEEDLESS = /does not require a password, but a password was supplied/;
const OURS = [
  NEEDLESS,
  // The user has no +info: what it would tell, the first write does.
  /^Skipping the ready check because INFO command fails/,
  // The refusal itself is told as any other.
  /^\[ERROR\] The server returned "wrong number of arguments for 'auth' command"/,
];

const listeners = new Set<() => void>();
let restore: (() => void) | undefined;

/** `needless` is called when a server that asks for none was given a password. Returns how to stop; the last one leaves all as it was. */
export function holdBackLibraryLines(needless: () => void): () => void {
  listeners.add(needless);
  restore ??= filter(console.warn);
  return () => {
    listeners.delete(needless);
    if (listeners.size > 0) return;
    restore?.();
    restore = undefined;
  };
}

function filter(warn: typeof console.warn): () => void {
  const filtered = (...args: unknown[]): void => {
    const [text] = args;
    if (typeof text !== 'string' || !OURS.some((pattern) => pattern.test(text))) warn.apply(console, args);
    else if (NEEDLESS.test(text)) for (const listener of [...listeners]) listener();
  };
  console.warn = filtered;
  return () => {
    if (console.warn === filtered) console.warn = warn;
  };
}
