// Holds a manifest to the schema of its kind: what the schema finds wrong, and fields that it does not know, which an API server
// would only drop without a word. Knows the kinds that deploy/ uses.
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Service } from 'kubernetes-models/v1/Service';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';

const kinds = {
  ConfigMap,
  Deployment,
  HorizontalPodAutoscaler,
  PodDisruptionBudget,
  Service,
  ServiceAccount,
  ServiceMonitor,
};
export type Kind = keyof typeof kinds;

/** One line for each fault; none where it is as its kind wants it. */
export function faultsOf(manifest: { readonly kind: Kind }): string[] {
  const model = kinds[manifest.kind];
  if (!model) return [`no schema for the kind ${manifest.kind}`];
  const asked = new Map<string, Set<string | symbol>>();
  try {
    model.prototype.validate.call(watched(manifest, '', asked) as never);
  } catch (error) {
    return [(error as Error).message];
  }
  return unasked(manifest, '', asked);
}

/** The schemas are code that reads each field that it knows: what nobody read is unknown. */
function watched(value: unknown, path: string, asked: Map<string, Set<string | symbol>>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const seen = new Set<string | symbol>();
  asked.set(path, seen);
  const parts = new Map<string | symbol, unknown>(
    Object.entries(value).map(([key, part]) => [key, watched(part, `${path}/${key}`, asked)]),
  );
  return new Proxy(value, {
    get(target, key) {
      seen.add(key);
      return parts.has(key) ? parts.get(key) : Reflect.get(target, key);
    },
  });
}

function unasked(value: unknown, path: string, asked: ReadonlyMap<string, ReadonlySet<string | symbol>>): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    asked.get(path)?.has(key) ? unasked(part, `${path}/${key}`, asked) : [`unknown: ${path}/${key}`],
  );
}
