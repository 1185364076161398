// What a device received, in the order in which it came: the raw entries that everything is compared by.
// Knows nothing of connections or of what was expected.

export type Entry =
  | { readonly kind: 'event'; readonly name: string; readonly args: readonly unknown[] }
  /** `name` is the event that was acknowledged. */
  | { readonly kind: 'ack'; readonly name: string; readonly args: readonly unknown[] }
  | { readonly kind: 'response'; readonly name: string; readonly status: number; readonly body: unknown }
  | { readonly kind: 'disconnected'; readonly name: string };

/** By device. */
export type Transcripts = Readonly<Record<string, readonly Entry[]>>;
