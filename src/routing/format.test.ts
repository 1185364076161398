import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatTable, parseRouteTable, routeTable, tableOf } from './table.js';
import { anyTable } from './tables.fixture.js';

describe('a table written as a routes file', () => {
  test('reads back to the same table', () => {
    fc.assert(
      fc.property(anyTable, (table) => {
        const read = parseRouteTable(formatTable(table), 'routes.yaml');
        if (!read.ok) throw new Error(`${read.problems.join('\n')}\n${formatTable(table)}`);
        expect(read.table.toJSON()).toEqual(table.toJSON());
        expect(read.table.summary).toBe(table.summary);
      }),
      { numRuns: 300 },
    );
  });

  test('has no more words than it needs', () => {
    const table = routeTable(
      new Map([
        [
          '/',
          {
            'call-lifecycle': {
              mode: 'canary',
              canary: { percent: 0.5, users: ['alice', '007'], exclude: { users: ['bob'], conversations: [] } },
              guard: { windowMs: 30_000, minSamples: 50, maxErrors: 0.07, maxRefusals: 0.05, maxP99Ms: 250 },
            },
            'ice-candidate': { mode: 'new', sole: true },
          },
        ],
        ['/chat', { 'call-renegotiation': { mode: 'new', guard: null } }],
      ]),
    );
    expect(formatTable(table)).toBe(`# yaml-language-server: $schema=./schema.json
namespaces:
  /:
    call-lifecycle:
      mode: canary
      percent: 0.5
      users: [ alice, "007" ]
      exclude:
        users: [ bob ]
      guard: { window: 30s, max-errors-percent: 7, max-p99: 250ms }
    ice-candidate:
      mode: new
      sole: true
    call-renegotiation: legacy
  /chat:
    call-lifecycle: legacy
    ice-candidate: legacy
    call-renegotiation:
      mode: new
      guard: off
`);
  });
});

describe('a table written as JSON', () => {
  test('reads back to the same table', () => {
    fc.assert(
      fc.property(anyTable, (table) => {
        const read = tableOf(JSON.parse(JSON.stringify(table)));
        if (!read.ok) throw new Error(read.problems.join('\n'));
        expect(read.table.toJSON()).toEqual(table.toJSON());
      }),
    );
  });
});
