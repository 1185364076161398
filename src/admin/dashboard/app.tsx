// The page as a whole: who looks at it, the live figures, and where each part stands. Knows no part from the inside.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ChangedBody, RoutesBody, StatusBody } from '../api.js';
import { Alerts } from './alerts.js';
import { Calls } from './calls.js';
import { createClient } from './client.js';
import { type Feed, followLive } from './feed.js';
import { clock } from './format.js';
import { Header } from './header.js';
import { History } from './history.js';
import { Instances } from './instances.js';
import { type Notice, NoticeBar } from './notice.js';
import { Routes } from './routes.js';
import { credentials, keepToken } from './session.js';
import { SharedBy, useFetched, useShared } from './shared.js';
import { SignIn } from './sign-in.js';
import { Traffic } from './traffic.js';

export function App() {
  /** Why a token is asked for; null while none is. */
  const [asking, setAsking] = useState<string | null>(null);
  const client = useMemo(() => createClient(credentials, setAsking), []);
  const [feed, setFeed] = useState<Feed>({ link: 'connecting', live: null });
  const [notice, setNotice] = useState<Notice | null>(null);
  const signedIn = asking === null;

  useEffect(() => (signedIn ? followLive(client, setFeed) : undefined), [client, signedIn]);
  useEffect(() => {
    document.title = feed.link === 'lost' ? 'sigfig – connection lost' : 'sigfig';
  }, [feed.link]);

  const { live } = feed;
  const shared = useMemo(
    () =>
      live && {
        client,
        online: feed.link === 'live',
        live,
        now: Date.parse(live.at),
        nameless: credentials().token === null,
        made: (change: ChangedBody) => setNotice({ change }),
        told: (line: string) => setNotice({ line }),
      },
    [client, feed.link, live],
  );

  if (!signedIn) {
    const first = credentials().token === null;
    return (
      <SignIn
        problem={first ? null : asking}
        onToken={(token) => {
          keepToken(token);
          setFeed({ link: 'connecting', live: null });
          setAsking(null);
        }}
      />
    );
  }
  if (!shared) return <Starting link={feed.link} />;
  return (
    <SharedBy value={shared}>
      <Page notice={notice} onDismiss={() => setNotice(null)} />
    </SharedBy>
  );
}

function Starting({ link }: { readonly link: Feed['link'] }) {
  return (
    <main class="starting">
      <p role="status">
        {link === 'lost' ? 'The admin listener can’t be reached. Trying again…' : 'Connecting to the admin listener…'}
      </p>
    </main>
  );
}

interface PageProps {
  readonly notice: Notice | null;
  onDismiss(): void;
}

function Page({ notice, onDismiss }: PageProps) {
  const { live, online } = useShared();
  const { version } = live.routes;
  const routes = useFetched<RoutesBody>('api/routes', version);
  const status = useFetched<StatusBody>('api/status', version, 10_000);
  return (
    <div class={online ? 'page' : 'page lost'}>
      <a class="skip" href="#main">
        Skip to the routes
      </a>
      <Header status={status.data} routes={routes.data} />
      <Lost />
      <NoticeBar notice={notice} onDismiss={onDismiss} />
      <main id="main" tabIndex={-1}>
        <Alerts status={status.data} />
        <Routes routes={routes} />
        <Traffic />
        <div class="columns">
          <Calls />
          <div class="column">
            <History log={status.data?.routes.log} />
            <Instances legacy={status.data?.legacy ?? []} />
          </div>
        </div>
      </main>
    </div>
  );
}

/** Says when the connection goes and when it is back, once each. */
function Lost() {
  const { online, live, now } = useShared();
  const wasLost = useRef(false);
  if (!online) wasLost.current = true;
  const back = online && wasLost.current;
  return (
    <div role="status" class={online ? 'visually-hidden' : 'bar wide bad'}>
      {!online && (
        <>
          <strong>Connection lost.</strong> The figures are from {clock(live.at, now)} and nothing can be changed until
          it is back. Trying again…
        </>
      )}
      {back && 'Connected again.'}
    </div>
  );
}
