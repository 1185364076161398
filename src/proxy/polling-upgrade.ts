// The upgrade of a polling session to a WebSocket: which of its WebSockets succeeds, and what of the polling side must
// reach the browser before the WebSocket's own bytes. Knows nothing of frames.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { splitPayload } from '../protocol/payload.js';
import type { Signals } from '../telemetry/signals.js';
import type { Trust } from './headers.js';
import { DecodedItems, type LegacyAnswer } from './polling-answer.js';
import type { PollingSession } from './polling-session.js';
import { breakOff, passUpgrade, tunnel } from './tunnel.js';
import { SplicedWebSocket } from './websocket.js';

/** What is gathered of an answer that nobody fetched before the `5`; over this both sides are broken off. Bytes. */
const MAX_UNFETCHED = 16 * 1024 * 1024;

export interface UpgradeParts {
  readonly trust: Trust;
  readonly signals: Signals;
}

/** Passes the upgrade on; the first WebSocket that is open is the session's, a second one is only relayed. */
export async function upgradeSession(
  session: PollingSession,
  request: IncomingMessage,
  browser: Socket,
  head: Buffer,
  { trust, signals }: UpgradeParts,
): Promise<void> {
  const upgraded = await passUpgrade(request, browser, head, session.upstream, { stripExtensions: true, trust });
  if (!upgraded) return;
  if (session.upgrading || session.state !== 'polling') return tunnel(upgraded);
  session.upgrading = true;
  session.upgradeTried = true;
  const socket = new SplicedWebSocket(upgraded, session.owner, {
    signals,
    handshake: session.handshake,
    hooks: {
      upgrade() {
        if (session.state !== 'polling') return {};
        socket.holdLegacy();
        return {
          taken: session.incomplete(),
          ready: session.posts.idle,
          sockets: session.traffic.sockets,
        };
      },
      upgraded() {
        session.succeed({
          transport: socket,
          take(unfetched) {
            unfetchedPackets(unfetched, session).then(
              (packets) => {
                if (session.state !== 'ws') return;
                const { traffic } = session;
                socket.release({
                  packets,
                  due: traffic.open,
                  shown: traffic.shownIncomplete(),
                  own: session.handOver(),
                });
              },
              (error: Error) => {
                signals.bound('unfetched-overflow', { why: error.message });
                breakOff(upgraded.browser);
                breakOff(upgraded.legacy);
              },
            );
          },
        });
      },
    },
    gone: (cause) => session.lost(cause),
  });
  socket.start();
}

/** What a GET brought and nobody fetched, without `6` and `1`, which are about the transport that is left behind. */
async function unfetchedPackets(
  answer: LegacyAnswer | null,
  session: PollingSession,
): Promise<readonly (string | Buffer)[]> {
  if (!answer) return [];
  const text = answer.rest ? await gatherRest(answer) : answer.text;
  if (!text) return [];
  if (answer.rest) session.scan(text);
  return splitPayload(text)
    .filter((item) => item.length > 0 && !(item.length === 1 && (item[0] === 0x36 || item[0] === 0x31)))
    .map((item) => (item[0] === 0x62 ? Buffer.from(item.toString('latin1', 1), 'base64') : item.toString('utf8')));
}

function gatherRest(answer: LegacyAnswer): Promise<Buffer> {
  const rest = answer.rest!;
  return new Promise((resolve, reject) => {
    const items: Buffer[] = [];
    let size = 0;
    const decoded = new DecodedItems(
      answer,
      (whole) => {
        size += whole.length;
        items.push(whole);
        if (size > MAX_UNFETCHED) rest.destroy(new Error('an answer over 16 MiB was not fetched before the upgrade'));
      },
      MAX_UNFETCHED + 1,
    );
    rest.on('error', reject);
    rest.on('data', (chunk: Buffer) => decoded.write(chunk));
    rest.on('end', () =>
      decoded.end(() => resolve(Buffer.concat(items.flatMap((item, i) => (i ? [RS, item] : [item]))))),
    );
    decoded.write(answer.body);
    rest.resume();
  });
}

const RS = Buffer.from('\x1e');
