// Accepted differences: how they are declared.
import { describe, expect, it } from 'vitest';
import { acceptedOf, readDifferences } from './differences.js';

const fine = `- scenario: one
  path: proxy-new
  what: bob gets more
  why: it is better
  since: 2026-12-01
  instead:
    bob:
      - x: 1
`;

describe('accepted differences', () => {
  it('are found by scenario, path and transport', () => {
    const { differences, problems } = readDifferences(fine, 'd.yaml');
    expect(problems).toEqual([]);
    expect(acceptedOf(differences, 'one', 'proxy-new', 'polling')).toMatchObject({
      what: 'bob gets more',
      outcomes: [{ bob: [{ x: 1 }] }],
    });
    expect(acceptedOf(differences, 'one', 'legacy', 'polling')).toBeUndefined();
    expect(acceptedOf(differences, 'two', 'proxy-new', 'polling')).toBeUndefined();
    const { differences: pinned } = readDifferences(`${fine}  transport: websocket\n`, 'd.yaml');
    expect(acceptedOf(pinned, 'one', 'proxy-new', 'polling')).toBeUndefined();
    expect(acceptedOf(pinned, 'one', 'proxy-new', 'websocket')).toBeDefined();
  });

  it('an empty file has none', () => {
    expect(readDifferences('[]\n', 'd.yaml')).toEqual({ differences: [], problems: [] });
    expect(readDifferences('# none\n', 'd.yaml')).toEqual({ differences: [], problems: [] });
  });

  it('are declared once for each play: of two only one would be looked for', () => {
    const problem = ['d.yaml: one on proxy-new is declared twice; join the two'];
    expect(readDifferences(`${fine}${fine}`, 'd.yaml').problems).toEqual(problem);
    expect(readDifferences(`${fine}${fine}  transport: polling\n`, 'd.yaml').problems).toEqual(problem);
    const each = `${fine}  transport: websocket\n${fine}  transport: polling\n`;
    expect(readDifferences(each, 'd.yaml').problems).toEqual([]);
  });

  it.each([
    ['  why: it is better\n', '', /^d\.yaml:1: why .*expected string/],
    ['2026-12-01', 'yesterday', /^d\.yaml:1: since must be a date/],
    ['- x: 1', '- x: 1\n        y: 2', /^d\.yaml:1: instead\.bob\.0 an event is one key/],
    ['- scenario', 'scenario', /^d\.yaml:\d+: .+/],
  ])('%s → %s', (from, to, problem) => {
    expect(readDifferences(fine.replace(from, to), 'd.yaml').problems[0]).toMatch(problem);
  });
});
