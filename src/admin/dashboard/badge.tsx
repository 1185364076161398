// How a path, a mode and a guard's state look. Always a word, never colour alone.
import type { GroupRoute, Mode } from '../../routing/route.js';
import type { GuardBody } from '../api.js';
import { guardStateWord, routeName } from './format.js';

export function RouteBadge({ route }: { readonly route: GroupRoute }) {
  return <span class={`badge ${route.mode}`}>{routeName(route)}</span>;
}

export function Badge({ mode, children }: { readonly mode: Mode; readonly children: preact.ComponentChildren }) {
  return <span class={`badge ${mode}`}>{children}</span>;
}

export function GuardBadge({ guard }: { readonly guard: Pick<GuardBody, 'state' | 'reason'> }) {
  return <span class={`guard ${guard.state}`}>guard {guardStateWord(guard)}</span>;
}
