// What the cluster tells operators: a part of the vocabulary in `telemetry/signals.ts`, which is a room beside this one.

export interface ClusterSignals {
  bound(what: string, detail: Readonly<Record<string, string | number>>): void;
  unreadable(key: string, why: string): void;
  message(way: 'out' | 'in', topic: string, bytes: number): void;
  clock(ahead: number, apart: boolean): void;
  internalError(where: string, error: unknown): void;
}
