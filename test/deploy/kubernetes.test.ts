// The manifests against the schemas of Kubernetes and of the Prometheus operator, unknown fields included, and for what they refer to:
// labels, ports, probes that the admin listener really answers, settings that sigfig takes with what is mounted, a preStop command that
// exists, times that fit one another.
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { parseRouteTable } from '../../src/routing/table.js';
import { startProxy } from '../harness.js';
import {
  at,
  documentsOf,
  heldSeconds,
  seconds,
  secretText,
  startTakes,
  textOf,
  tokensText,
  unknownSettings,
} from './files.js';
import { faultsOf, type Kind } from './manifest.js';

type Labels = Readonly<Record<string, string>>;
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold: number;
}
interface Container {
  readonly image: string;
  readonly args: readonly string[];
  readonly env: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: {
      readonly secretKeyRef?: { readonly name: string; readonly key: string };
      readonly fieldRef?: { readonly fieldPath: string };
    };
  }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  readonly securityContext: object;
  readonly resources: { readonly requests: Labels; readonly limits: Labels };
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}
interface PodSpec {
  readonly containers: readonly [Container];
  readonly serviceAccountName: string;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: object;
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { readonly name: string };
    readonly secret?: {
      readonly secretName: string;
      readonly defaultMode: number;
      readonly items: readonly { readonly key: string; readonly path: string }[];
    };
  }[];
}
interface Manifest {
  readonly kind: Kind;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Labels };
  readonly data?: Labels;
  // biome-ignore lint/suspicious/noExplicitAny: the schemas say what is in it
  readonly spec?: any;
}

const folder = 'deploy/kubernetes';
const [kustomization] = documentsOf(`${folder}/kustomization.yaml`) as [
  { resources: string[]; images: { name: string }[] },
];
const manifests = kustomization.resources.flatMap((file) => documentsOf(join(folder, file)) as Manifest[]);
const only = (kind: Kind): Manifest => {
  const found = manifests.filter((manifest) => manifest.kind === kind);
  expect(found).toHaveLength(1);
  return found[0] as Manifest;
};

const deployment = only('Deployment');
const labels = deployment.spec.template.metadata.labels as Labels;
const pod = deployment.spec.template.spec as PodSpec;
const [container] = pod.containers;
const services = manifests.filter(({ kind }) => kind === 'Service');
const literal = Object.fromEntries(
  container.env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value]])),
);

describe('every manifest', () => {
  it('is listed, and in one that is listed', () => {
    const there = readdirSync(at(folder)).filter((name) => name !== 'kustomization.yaml');
    expect([...kustomization.resources].sort()).toEqual(there.sort());
  });

  it.each(manifests.map((manifest) => [`${manifest.kind} ${manifest.metadata.name}`, manifest] as const))(
    'is as Kubernetes wants it: %s',
    (_, manifest) => expect(faultsOf(manifest)).toEqual([]),
  );

  it('would be found out: a field that no schema knows, a value of another type', () => {
    const { selector, template } = deployment.spec;
    expect(faultsOf({ ...deployment, spec: { selector, template, replica: 3 } } as Manifest)).toEqual([
      'unknown: /spec/replica',
    ]);
    expect(faultsOf({ ...deployment, spec: { selector, template, replicas: '3' } } as Manifest)).toHaveLength(1);
  });

  it('holds no secret', () => {
    for (const { kind } of manifests) expect(kind).not.toBe('Secret');
    for (const { name, value } of container.env) {
      if (/secret|token|redis/i.test(name) && value !== undefined)
        expect(value, name).toMatch(/^\/etc\/sigfig\/keys\//);
    }
  });
});

describe('labels and ports', () => {
  it('are those of the pods, wherever pods are selected', () => {
    const selectors: Labels[] = [
      deployment.spec.selector.matchLabels,
      ...services.map(({ spec }) => spec.selector),
      only('PodDisruptionBudget').spec.selector.matchLabels,
      ...deployment.spec.template.spec.topologySpreadConstraints.map(
        ({ labelSelector }: { labelSelector: { matchLabels: Labels } }) => labelSelector.matchLabels,
      ),
    ];
    expect(selectors).toHaveLength(5);
    for (const selector of selectors) expect(labels).toMatchObject(selector);
  });

  it('are named in the container, and used by their names', () => {
    const ports = Object.fromEntries(container.ports.map(({ name, containerPort }) => [name, containerPort]));
    for (const { spec } of services) {
      for (const { targetPort } of spec.ports as { targetPort: string }[]) expect(ports).toHaveProperty(targetPort);
    }
    const listens = (setting: string, fallback: string) => Number(/:(\d+)/.exec(literal[setting] ?? fallback)?.[1]);
    const image = textOf('deploy/Dockerfile');
    expect(ports.admin).toBe(listens('SIGFIG_ADMIN', ''));
    expect(ports.browsers).toBe(listens('SIGFIG_LISTEN', /SIGFIG_LISTEN=(\S+)/.exec(image)?.[1] ?? ''));
    expect(ports.metrics).toBe(listens('SIGFIG_METRICS', /SIGFIG_METRICS=(\S+)/.exec(image)?.[1] ?? ''));
  });

  it('lead Prometheus to each pod, as the job that alerts and dashboard expect', () => {
    const { spec } = only('ServiceMonitor');
    const scraped = services.filter(({ metadata }) =>
      Object.entries(spec.selector.matchLabels as Labels).every(([key, value]) => metadata.labels?.[key] === value),
    );
    expect(scraped.map(({ metadata }) => metadata.name)).toEqual(['sigfig-pods']);
    const [endpoint] = spec.endpoints as { port: string; path: string }[];
    expect(scraped[0]?.spec.ports.map(({ name }: { name: string }) => name)).toContain(endpoint?.port);
    expect(scraped[0]?.metadata.labels?.[spec.jobLabel]).toBe('sigfig');
    expect(textOf('deploy/prometheus/alerts.yaml')).toContain('up{job="sigfig"}');
    expect(/SIGFIG_METRICS=\S+?(\/\S+)/.exec(textOf('deploy/Dockerfile'))?.[1]).toBe(endpoint?.path);
  });

  it('let the autoscaler find the deployment and a metric that exists', () => {
    const { spec } = only('HorizontalPodAutoscaler');
    expect(spec.scaleTargetRef).toEqual({
      apiVersion: 'apps/v1',
      kind: deployment.kind,
      name: deployment.metadata.name,
    });
    expect(spec.metrics.map(({ pods }: { pods: { metric: { name: string } } }) => pods.metric.name)).toEqual([
      'sigfig_connections',
    ]);
    // Set in both places, every `kubectl apply` would undo what was scaled.
    expect(deployment.spec).not.toHaveProperty('replicas');
    expect(spec.minReplicas).toBeGreaterThan(1);
    expect(textOf('docs/metrics.md')).toContain('| `sigfig_connections` |');
  });
});

describe('a pod', () => {
  it('runs as nobody, on a file system that is read-only, and talks to no API server', () => {
    expect(pod.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 1000,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(textOf('deploy/Dockerfile')).toMatch(/^USER 1000:1000$/m);
    expect(only('ServiceAccount').metadata.name).toBe(pod.serviceAccountName);
    expect(container.volumeMounts.every(({ readOnly }) => readOnly)).toBe(true);
    expect(container.resources.limits).not.toHaveProperty('cpu');
  });

  it('has settings that sigfig takes, with what is mounted', async () => {
    const secretKeys = ['jwt-secret', 'admin-tokens', 'token', 'redis-url'];
    const created =
      /create secret generic sigfig ([\s\S]*?)\n# {3}kubectl/.exec(textOf(`${folder}/kustomization.yaml`))?.[1] ?? '';
    expect([...created.matchAll(/--from-(?:file|literal)=([a-z-]+)/g)].map(([, key]) => key)).toEqual(secretKeys);

    const contents: Labels = {
      'jwt-secret': secretText,
      'admin-tokens': tokensText,
      token: tokensText.split(' ')[2]!.trim(),
    };
    const files: Record<string, string> = {};
    for (const { name, mountPath } of container.volumeMounts) {
      const volume = pod.volumes.find((one) => one.name === name);
      if (volume?.configMap) {
        const map = only('ConfigMap');
        expect(map.metadata.name).toBe(volume.configMap.name);
        for (const [key, text] of Object.entries(map.data ?? {})) files[join(mountPath, key)] = text;
      }
      for (const { key, path } of volume?.secret?.items ?? []) files[join(mountPath, path)] = contents[key] as string;
    }
    const env = { ...literal };
    for (const { name, valueFrom } of container.env) {
      if (valueFrom?.fieldRef) env[name] = 'sigfig-5d4f8-x7k2p';
      if (!valueFrom?.secretKeyRef) continue;
      expect(secretKeys).toContain(valueFrom.secretKeyRef.key);
      env[name] = 'rediss://:PASSWORD@redis.internal:6379';
    }
    expect(unknownSettings(env)).toEqual([]);
    const taken = await startTakes(
      { ...env, SIGFIG_LISTEN: '0.0.0.0:8080', SIGFIG_METRICS: '0.0.0.0:9464/metrics' },
      files,
    );
    expect(taken.ok ? [] : taken.problems).toEqual([]);
    expect(parseRouteTable(only('ConfigMap').data?.['routes.yaml'] ?? '', 'routes.yaml')).toMatchObject({ ok: true });
  });

  it('is asked at paths that the admin listener answers', async () => {
    const proxy = await startProxy('http://127.0.0.1:9');
    try {
      for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
        expect(probe.httpGet.port).toBe('admin');
        const answer = await fetch(`${proxy.adminUrl}${probe.httpGet.path}`);
        expect(answer.headers.get('content-type')).toContain('json');
        expect([200, 503]).toContain(answer.status);
      }
    } finally {
      await proxy.close();
    }
    // A pod that drains, or whose Redis is away, is not killed for it.
    expect(container.livenessProbe.httpGet.path).toBe('/healthz');
  });

  it('is known not to be ready before it refuses anybody, and has the time to drain twice', () => {
    const { periodSeconds, failureThreshold } = container.readinessProbe;
    const delay = seconds(literal.SIGFIG_DRAIN_DELAY as string);
    const drain = seconds(literal.SIGFIG_DRAIN as string);
    expect(periodSeconds * failureThreshold + 2).toBeLessThan(delay);
    // preStop, then SIGTERM: delay, drain and held seats, in both.
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(2 * (delay + drain + heldSeconds) + 10);
  });

  it('drains by a command that exists', () => {
    const [program, ...words] = container.lifecycle.preStop.exec.command;
    expect(program).toBe('sigfig');
    const [command = '', ...rest] = words;
    const { stdout, status } = spawnSync(process.execPath, [at('dist/src/cli/sigfig.js'), command, '--help'], {
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    for (const flag of rest.filter((word) => word.startsWith('--'))) expect(stdout).toContain(`${flag} `);
    expect(container.args).toEqual(['start']);
  });

  it('is replaced by a new one that is there before', () => {
    expect(deployment.spec.strategy.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 });
    expect(only('PodDisruptionBudget').spec.maxUnavailable).toBe(1);
  });
});

// kubectl needs no cluster for this.
const kubectl = spawnSync('kubectl', ['kustomize', at(folder)], { encoding: 'utf8' });
if (!kubectl.error) {
  it('is what kubectl makes of it', () => {
    expect(kubectl.status, kubectl.stderr).toBe(0);
    const made = parseAllDocuments(kubectl.stdout).map((document) => document.toJS() as Manifest);
    expect(made.map(({ kind }) => kind).sort()).toEqual(manifests.map(({ kind }) => kind).sort());
    for (const manifest of made) {
      expect(manifest.metadata.namespace).toBe('sigfig');
      expect(faultsOf(manifest)).toEqual([]);
    }
    const image = made.find(({ kind }) => kind === 'Deployment')?.spec.template.spec.containers[0].image;
    expect(image).toBe('registry.example/sigfig:0.1.0');
  });
}
