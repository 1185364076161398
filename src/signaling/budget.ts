// What all observed sessions (observed.ts) may hold together, and how many there are. Knows nothing of what they hold.

/** Bytes of all observed sessions: 1 KiB for each, and the candidates that wait on it. Calls beyond it stay whole at the legacy. */
const mostBytes = 64 * 1024 * 1024;
export const bytesEach = 1024;

export class ObservedBudget {
  bytes = 0;
  /** Calls of which at least one relay is served here. */
  calls = 0;

  take(bytes: number): boolean {
    if (this.bytes + bytes > mostBytes) return false;
    this.bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.bytes -= bytes;
  }
}
