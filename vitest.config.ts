import { defineConfig } from 'vitest/config';

const common = { pool: 'forks', testTimeout: 20_000, hookTimeout: 60_000 } as const;

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...common,
          name: 'unit-and-integration',
          include: ['src/**/*.test.ts', 'legacy-stub/**/*.test.ts', 'parity/**/*.test.ts', 'test/**/*.test.ts'],
          exclude: ['test/browser/**', 'test/cluster/**', 'test/trouble/**', '**/node_modules/**', '**/dist/**'],
          // Most tests wait (for a heartbeat, a process, a timeout), so one for each core leaves the cores idle.
          maxWorkers: 3,
          sequence: { groupOrder: 0 },
        },
      },
      {
        // After the others and two at a time: each starts several processes, whose leases of seconds a busy machine takes from them.
        test: {
          ...common,
          name: 'cluster',
          include: ['test/cluster/**/*.test.ts', 'test/trouble/**/*.test.ts'],
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        // After the others and one file at a time: a browser that encodes video wants the machine for itself.
        test: {
          ...common,
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 90_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
