// Indexes in memory: which keys a name leads to. A name that leads nowhere is forgotten. Knows nothing of sessions.

export function link(index: Map<string, Set<string>>, from: string, to: string): void {
  const set = index.get(from);
  if (set) set.add(to);
  else index.set(from, new Set([to]));
}

export function unlink(index: Map<string, Set<string>>, from: string, to: string): void {
  const set = index.get(from);
  set?.delete(to);
  if (set?.size === 0) index.delete(from);
}
