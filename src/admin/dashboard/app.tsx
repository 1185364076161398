// The page as a whole: who looks at it, the live figures, and where each part stands. Knows no part from the inside.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ChangedBody, RoutesBody, StatusBody } from '../api.js';
import { Alerts } from './alerts.js';
import { Calls } from './calls.js';
import { createClient } from './client.js';
import { type Feed, followLive, isStale } from './feed.js';
import { clock } from './format.js';
import { Header } from './header.js';
import { History } from './history.js';
import { Instances } from './instances.js';
import { type Notice, NoticeBar } from './notice.js';
import { Routes } from './routes.js';
import { credentials, keepToken } from './session.js';
import { type Fetched, type PageState, SharedBy, useFetched, usePage, useShared } from './shared.js';
import { SignIn } from './sign-in.js';
import { notKnown } from './token.js';
import { Traffic } from './traffic.js';

export function App() {
  /** A token is asked for: the one that was refused, null where there was none. Undefined: none is asked for. */
  const [refused, setRefused] = useState<string | null>();
  const client = useMemo(() => createClient(credentials, setRefused), []);
  const [feed, setFeed] = useState<Feed>(nothingYet);
  const [notice, setNotice] = useState<Notice | null>(null);
  const signedIn = refused === undefined;

  useEffect(() => (signedIn ? followLive(client, setFeed) : undefined), [client, signedIn]);
  useEffect(() => {
    const trouble = { lost: ' – connection lost', silent: ' – no new figures', refused: ' – no new figures' };
    document.title = `sigfig${{ connecting: '', live: '', ...trouble }[feed.link]}`;
  }, [feed.link]);

  const { live, link, problem } = feed;
  const state = useMemo(
    (): PageState => ({
      client,
      link,
      online: link !== 'lost',
      live,
      you: null,
      mayChange: link !== 'lost',
      nameless: credentials().token === null,
      made: (change: ChangedBody) => setNotice({ change }),
      told: (line: string) => setNotice({ line }),
    }),
    // `signedIn`: another token may be there.
    [client, link, live, signedIn],
  );

  if (!signedIn) {
    return (
      <SignIn
        refused={refused === null ? null : notKnown}
        onToken={(token) => {
          keepToken(token);
          setFeed(nothingYet);
          setRefused(undefined);
        }}
      />
    );
  }
  return (
    <SharedBy value={state}>
      <Page problem={problem} notice={notice} onDismiss={() => setNotice(null)} />
    </SharedBy>
  );
}

const nothingYet: Feed = { link: 'connecting', live: null, problem: null };

interface PageProps {
  /** Why the listener gives no figures. */
  readonly problem: string | null;
  readonly notice: Notice | null;
  onDismiss(): void;
}

/** With the red switch at any time; the rest once there are figures. */
function Page({ problem, notice, onDismiss }: PageProps) {
  const page = usePage();
  const { live, link, online } = page;
  const version = live?.routes.version;
  const routes = useFetched<RoutesBody>(live ? 'api/routes' : null, version);
  const status = useFetched<StatusBody>(live ? 'api/status' : null, version, 10_000);
  const actor = status.data?.you.actor;
  const kind = status.data?.you.kind;
  const known = useMemo(
    (): PageState => ({
      ...page,
      you: actor && kind ? { actor, kind } : null,
      mayChange: online && kind !== 'read',
    }),
    [page, online, actor, kind],
  );
  return (
    <SharedBy value={known}>
      <div class={isStale(link) ? 'page lost' : 'page'}>
        <a class="skip" href="#main">
          Skip to the routes
        </a>
        <Header status={status.data} routes={routes.data} />
        {live && <Lost problem={problem} />}
        <NoticeBar notice={notice} onDismiss={onDismiss} />
        <main id="main" tabIndex={-1} class={live ? undefined : 'starting'}>
          {live ? <Parts routes={routes} status={status.data} /> : <Starting problem={problem} />}
        </main>
      </div>
    </SharedBy>
  );
}

function Starting({ problem }: { readonly problem: string | null }) {
  const { link } = usePage();
  const lost = 'The admin listener can’t be reached. Trying again…';
  return (
    <p role="status">
      {problem ? `No figures: ${problem}. Trying again…` : link === 'lost' ? lost : 'Connecting to the admin listener…'}
    </p>
  );
}

interface PartsProps {
  readonly routes: Fetched<RoutesBody>;
  readonly status: StatusBody | null;
}

function Parts({ routes, status }: PartsProps) {
  return (
    <>
      <Alerts status={status} />
      <Routes routes={routes} />
      <Traffic />
      <div class="columns">
        <Calls />
        <History log={status?.routes.log} />
      </div>
      <Instances status={status} />
    </>
  );
}

/** Says when figures stay away, why, and when they are back, once each. */
function Lost({ problem }: { readonly problem: string | null }) {
  const { link, live, now } = useShared();
  const wasLost = useRef(false);
  const lost = isStale(link);
  if (lost) wasLost.current = true;
  const from = `The figures are from ${clock(live.at, now)}`;
  return (
    <div role="status" class={lost ? 'bar wide bad' : 'visually-hidden'}>
      {link === 'lost' && (
        <>
          <strong>Connection lost.</strong> {from}, and nothing can be changed until it is back; taking back is tried
          all the same. Trying again…
        </>
      )}
      {link === 'silent' && (
        <>
          <strong>No new figures</strong> for more than 3 seconds: sigfig, or the way to it, is stalled. {from}; a
          change may wait as long.
        </>
      )}
      {link === 'refused' && (
        <>
          <strong>No new figures:</strong> {problem}. {from}; changes can be made. Trying again…
        </>
      )}
      {!lost && wasLost.current && 'Connected again.'}
    </div>
  );
}
