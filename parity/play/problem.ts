// What keeps a play from going on: no acknowledgement, an event that does not come, a server that is not there.
// Knows nothing of what is played.

/** Ends a play; its transcripts so far are kept and the message is shown with them. */
export class Problem extends Error {}

/** @throws Problem `waited N ms in vain until WHAT`. */
export function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Problem(`waited ${ms} ms in vain until ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
