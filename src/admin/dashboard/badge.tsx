// How a path, a mode and a guard's state look. Always a word, never colour alone.
import type { GroupRoute, Mode } from '../../routing/route.js';
import type { GuardBody } from '../api.js';
import { guardWord, routeName } from './format.js';

export function RouteBadge({ route }: { readonly route: GroupRoute }) {
  return <span class={`badge ${route.mode}`}>{routeName(route)}</span>;
}

export function Badge({ mode, children }: { readonly mode: Mode; readonly children: preact.ComponentChildren }) {
  return <span class={`badge ${mode}`}>{children}</span>;
}

export function GuardBadge({ state }: { readonly state: GuardBody['state'] }) {
  return <span class={`guard ${state}`}>guard {guardWord[state]}</span>;
}
