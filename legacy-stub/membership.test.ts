// One suite for the stores of membership: memory always, PostgreSQL where TEST_POSTGRES_URL names a database to write to.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { directParticipants, type MembershipStore, openMembership } from './membership.js';

const { TEST_POSTGRES_URL } = process.env;

describe.each(['memory', ...(TEST_POSTGRES_URL ? [TEST_POSTGRES_URL] : [])])('membership in %s', (spec) => {
  let store: MembershipStore;
  const [group, unknown, ann] = [randomUUID(), randomUUID(), `ann-${randomUUID()}`];

  beforeAll(async () => {
    store = await openMembership(spec, 5);
    await store.create({ id: group, participants: [ann, 'ben', 'cleo'] });
  });
  afterAll(() => store.close());

  it('answers one lookup', async () => {
    const before = store.lookups;
    expect(await store.participants(group)).toEqual([ann, 'ben', 'cleo']);
    expect(await store.participants(unknown)).toBeUndefined();
    expect(await store.participants('dm:alice:bob')).toEqual(['alice', 'bob']);
    expect(store.lookups).toBe(before + 3);
  });

  it('answers many with one lookup, in order', async () => {
    const before = store.lookups;
    expect(await store.participantsOfAll(['dm:b:a', unknown, group, group])).toEqual([
      ['b', 'a'],
      undefined,
      [ann, 'ben', 'cleo'],
      [ann, 'ben', 'cleo'],
    ]);
    expect(store.lookups).toBe(before + 1);
  });

  it('never overwrites a conversation', async () => {
    await store.create({ id: group, participants: ['mallory'] });
    expect(await store.participants(group)).toEqual([ann, 'ben', 'cleo']);
  });

  it('lists those of a user', async () => {
    const later = { id: randomUUID(), participants: ['dora', ann] };
    await store.create(later);
    expect(await store.ofUser(ann)).toEqual([{ id: group, participants: [ann, 'ben', 'cleo'] }, later]);
    expect(await store.ofUser(unknown)).toEqual([]);
  });

  it('waits as long as it was told to', async () => {
    const started = performance.now();
    await store.participants(group);
    expect(performance.now() - started).toBeGreaterThan(3.5);
  });
});

describe('membership', () => {
  it.each([
    ['dm:alice:bob', ['alice', 'bob']],
    ['dm:bob:alice', ['bob', 'alice']],
    ['dm:alice:alice', undefined],
    ['dm:alice:', undefined],
    ['dm::bob', undefined],
    ['dm:alice', undefined],
    ['dm:a:b:c', undefined],
    ['DM:a:b', undefined],
    ['', undefined],
  ])('of %s by its name alone', (id, participants) => {
    expect(directParticipants(id)).toEqual(participants);
  });

  it('is kept nowhere else', async () => {
    await expect(openMembership('mysql://db', 0)).rejects.toThrow('membership must be');
  });
});
