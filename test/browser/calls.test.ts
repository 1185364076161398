// The whole thing as two people see it: real browsers, real media, one unmodified page, and an operator who moves the
// calls from the legacy to the new path and back while both windows stay open.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { Person } from './person.js';
import { type Path, type Stage, startStage } from './stage.js';
import { until } from './until.js';

const ofACall = ['call-offer', 'call-answer', 'ice-candidate', 'call-renegotiate-offer', 'call-renegotiate-answer'];
const other = (path: Path): Path => (path === 'legacy' ? 'new' : 'legacy');

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(async () => {
  await stage?.close();
});

describe.each(['websocket', 'polling'])('on %s', (transport) => {
  let alice: Person;
  let bob: Person;
  let messages = 0;

  beforeAll(async () => {
    await stage.moveCalls('legacy');
    // The two transports have people of their own.
    alice = await Person.arrive(stage.browser, stage.url, transport, `alice-${transport}`);
    bob = await Person.arrive(stage.browser, stage.url, transport, `bob-${transport}`);
    await alice.open(bob.name);
    await bob.open(alice.name);
  });
  afterEach(async ({ task }) => {
    if (task.result?.state === 'fail') {
      for (const person of [alice, bob]) console.log(`${person.name} saw:\n${await person.events()}`);
    }
    // A test that failed in a call doesn't take the next ones with it.
    for (const person of [alice, bob]) await person.page.evaluate('demo.call.end()');
    expect([...alice.complaints, ...bob.complaints]).toEqual([]);
  });
  afterAll(async () => {
    await alice?.leave();
    await bob?.leave();
  });

  async function chat(): Promise<void> {
    messages += 1;
    await alice.say(`question ${messages}`);
    await bob.hears(`question ${messages}`);
    await bob.say(`answer ${messages}`);
    await alice.hears(`answer ${messages}`);
  }

  async function call(): Promise<void> {
    await alice.click('Call');
    await bob.click('Accept');
    await Promise.all([alice.sees('camera'), bob.sees('camera')]);
  }

  async function hangUp(): Promise<void> {
    await alice.click('Hang up');
    await bob.reaches('idle');
    expect((await bob.shown()).note).toBe(`${alice.name} hung up`);
  }

  /** What was decided while `act` ran, by event and path. */
  async function decidedDuring(act: () => Promise<void>): Promise<Map<string, number>> {
    const before = await stage.decisions();
    await act();
    const grown = new Map<string, number>();
    for (const [key, count] of await stage.decisions()) grown.set(key, count - (before.get(key) ?? 0));
    return grown;
  }

  async function servedBy(path: Path, events: readonly string[], act: () => Promise<void>): Promise<void> {
    const decided = await decidedDuring(act);
    for (const event of events) {
      expect(decided.get(`${event} ${path}`) ?? 0, `${event} on ${path}`).toBeGreaterThan(0);
      expect(decided.get(`${event} ${other(path)}`) ?? 0, `${event} on ${other(path)}`).toBe(0);
    }
  }

  test('they chat', async () => {
    await chat();
    expect((await alice.shown()).transport).toBe(transport);
  });

  test.each<Path>(['legacy', 'new'])(
    'a call on the %s path: media flows, a screen is shared, chat goes on',
    async (path) => {
      await stage.moveCalls(path);
      await servedBy(path, [...ofACall, 'call-end'], async () => {
        await call();
        await chat();
        await alice.click('Share screen');
        await bob.sees('screen');
        await alice.click('Stop sharing');
        await bob.page.waitForFunction('!demo.call.far.screen');
        await Promise.all([alice.sees('camera'), bob.sees('camera')]);
        await hangUp();
      });
      expect(await alice.neverReloaded()).toBe(true);
      expect(await bob.neverReloaded()).toBe(true);
    },
  );

  test.each<Path>(['legacy', 'new'])(
    'both renegotiate at once on the %s path: one is relayed, one refused and made again',
    async (path) => {
      await stage.moveCalls(path);
      await servedBy(path, ofACall, async () => {
        await call();
        const [relayed, offered] = [
          await bob.count('received', 'call-renegotiate-offer'),
          await alice.count('received', 'call-renegotiate-offer'),
        ];
        const refusals = bob.page.getByText('Renegotiation in progress, retry later').and(bob.page.locator('.ack'));
        const refused = await refusals.count();
        const sendAlices = await alice.preparesToRenegotiate();
        const sendBobs = await bob.preparesToRenegotiate();
        await sendAlices();
        await bob.awaits('received', 'call-renegotiate-offer', relayed + 1);
        await sendBobs();
        await until('the refusal', async () => (await refusals.count()) > refused);
        // Bob answers hers, then offers again.
        await alice.awaits('received', 'call-renegotiate-answer', 1);
        await alice.awaits('received', 'call-renegotiate-offer', offered + 1);
        expect(await refusals.count()).toBe(refused + 1);
        await Promise.all([alice.sees('camera'), bob.sees('camera')]);
        await hangUp();
      });
    },
  );

  test('a call that is live when the routes change stays on its path to the end', async () => {
    await stage.moveCalls('legacy');
    await servedBy('legacy', [...ofACall, 'call-end'], async () => {
      await call();
      await stage.moveCalls('new');
      await bob.click('Share screen');
      await alice.sees('screen');
      await hangUp();
    });
    await servedBy('new', ['call-offer', 'call-answer', 'call-end'], async () => {
      await call();
      await stage.moveCalls('legacy');
      await hangUp();
    });
    expect(await alice.neverReloaded()).toBe(true);
  });

  test.each<Path>(['legacy', 'new'])('declining ends a call on the %s path before it began', async (path) => {
    await stage.moveCalls(path);
    await servedBy(path, ['call-offer', 'call-end'], async () => {
      await alice.click('Call');
      await bob.click('Decline');
      await alice.reaches('idle');
    });
  });

  test.each<Path>(['legacy', 'new'])(
    'both call in the same moment on the %s path: one call comes of it',
    async (path) => {
      await stage.moveCalls(path);
      await servedBy(path, ['call-offer', 'call-answer', 'call-end'], async () => {
        const both = [alice, bob];
        // Not through the mouse: a page that rings already would hide the button.
        await Promise.all(both.map((person) => person.page.evaluate('document.getElementById("call").click()')));
        // One was faster: the other one's page answers by itself, or rings where it had not begun to call.
        await until('both to be in the call', async () => {
          const phases = await Promise.all(both.map(async (person) => (await person.shown()).phase));
          const ringing = both[phases.indexOf('ringing')];
          if (ringing) await ringing.click('Accept');
          return phases.every((phase) => phase === 'connected');
        });
        await Promise.all([alice.sees('camera'), bob.sees('camera')]);
        expect((await Promise.all(both.map((person) => person.shown()))).map(({ role }) => role).sort()).toEqual([
          'answerer',
          'offerer',
        ]);
        await hangUp();
      });
    },
  );

  // The last ones: they load the pages anew.
  test.each<Path>(['legacy', 'new'])(
    'one side is gone for a while on the %s path: the other one is told, and the call goes on',
    async (path) => {
      await stage.moveCalls(path);
      await servedBy(path, ['call-rejoin-offer', 'call-rejoin-answer', 'call-end'], async () => {
        await call();
        await bob.page.goto('about:blank');
        await alice.page.getByText(`${bob.name} lost the connection`).waitFor();
        expect((await alice.shown()).phase).toBe('away');
        await bob.page.goBack();
        await Promise.all([alice.reaches('connected'), bob.reaches('connected')]);
        await Promise.all([alice.sees('camera'), bob.sees('camera')]);
        await hangUp();
      });
      expect(await alice.neverReloaded()).toBe(true);
    },
  );

  test.each<Path>(['legacy', 'new'])(
    'reloading in a call on the %s path: it comes back, with the roles kept',
    async (path) => {
      await stage.moveCalls(path);
      await servedBy(path, ['call-rejoin-offer', 'call-rejoin-answer', 'call-end'], async () => {
        await call();
        for (const person of [bob, alice]) {
          const survivor = person === bob ? alice : bob;
          const rejoins = await survivor.count('received', 'call-rejoin-offer');
          await person.page.reload();
          await survivor.awaits('received', 'call-rejoin-offer', rejoins + 1);
          await Promise.all([alice.reaches('connected'), bob.reaches('connected')]);
          await Promise.all([alice.sees('camera'), bob.sees('camera')]);
          expect((await alice.shown()).role).toBe('offerer');
          expect((await bob.shown()).role).toBe('answerer');
        }
        await chat();
        await hangUp();
      });
    },
  );
});
