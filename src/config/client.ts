// Where the operator's commands find the admin API, and what they show it: flags, then the environment. Knows nothing of what
// is asked there.
import { address, Unfit, word } from './values.js';

/** Of the commands that talk to a running sigfig. */
export interface ClientConfig {
  /** Without a trailing slash: `http://127.0.0.1:9900`, or with the path that a reverse proxy gives it. */
  readonly admin: string;
  /** Never logged, never shown. */
  readonly token: string | undefined;
  /** False where NO_COLOR is set, or the terminal is a dumb one. */
  readonly colors: boolean;
}

export type LoadedClient =
  | { readonly ok: true; readonly config: ClientConfig }
  /** One clear line each. */
  | { readonly ok: false; readonly problems: readonly string[] };

export interface ClientFlags {
  readonly admin?: string | undefined;
  readonly 'token-file'?: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

export const defaultAdmin = 'http://127.0.0.1:9900';

/**
 * Flags win over `SIGFIG_ADMIN`, `SIGFIG_TOKEN` and `SIGFIG_TOKEN_FILE`. `SIGFIG_ADMIN` may be what `sigfig start` takes it to
 * be (`host:port`). Never throws.
 */
export function clientConfig(flags: ClientFlags, env: Environment): LoadedClient {
  const problems: string[] = [];
  const tried = <T>(label: string, parse: () => T): T | undefined => {
    try {
      return parse();
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      problems.push(`${label}: ${error.message}`);
      return undefined;
    }
  };
  const [where, label] =
    flags.admin === undefined ? [env.SIGFIG_ADMIN || defaultAdmin, 'SIGFIG_ADMIN'] : [flags.admin, '--admin'];
  const admin = tried(label, () => adminUrl(where));
  const token = tokenOf(flags, env, tried, problems);
  if (problems.length > 0 || admin === undefined) return { ok: false, problems };
  return { ok: true, config: { admin, token, colors: !env.NO_COLOR && env.TERM !== 'dumb' } };
}

/** `http://host:port`, `https://host/path` or `host:port`; where that listens everywhere, it is reached on loopback. */
export function adminUrl(text: string): string {
  if (!/^[a-z][a-z+.-]*:\/\//i.test(text)) {
    const { host, port } = addressOf(text);
    if (port === 0) throw new Unfit(`"${text}" names no port; write the one of sigfig's "ready" line: host:port`);
    return reachable(new URL(`http://${host.includes(':') ? `[${host}]` : host}:${port}`));
  }
  let url: URL;
  try {
    url = new URL(text);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Unfit(`"${text}" is no URL; write ${defaultAdmin}`);
  }
  if (url.username || url.password) {
    throw new Unfit(`it holds a name or password; write ${url.protocol}//${url.host} and give a token by --token-file`);
  }
  if ((url.protocol !== 'http:' && url.protocol !== 'https:') || url.search || url.hash) {
    throw new Unfit(`"${text}" is no plain http:// or https:// URL; write ${defaultAdmin}`);
  }
  return reachable(url);
}

function addressOf(text: string) {
  try {
    return address(text);
  } catch (error) {
    if (!(error instanceof Unfit)) throw error;
    throw new Unfit(`"${text}" is no address of the admin API; write ${defaultAdmin} or 127.0.0.1:9900`);
  }
}

function reachable(url: URL): string {
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1';
  if (url.hostname === '[::]') url.hostname = '[::1]';
  return url.href.replace(/\/+$/, '');
}

function tokenOf(
  flags: ClientFlags,
  env: Environment,
  tried: <T>(label: string, parse: () => T) => T | undefined,
  problems: string[],
): string | undefined {
  const here = process.cwd();
  const file = flags['token-file'];
  if (file !== undefined) return tried('--token-file', () => word(file, here));
  const { SIGFIG_TOKEN: given, SIGFIG_TOKEN_FILE: named } = env;
  if (given && named) {
    problems.push('SIGFIG_TOKEN: given beside SIGFIG_TOKEN_FILE; set only one of them');
    return undefined;
  }
  if (named) return tried('SIGFIG_TOKEN_FILE', () => word(named, here));
  if (!given) return undefined;
  if (/^[!-~]+$/.test(given)) return given;
  problems.push('SIGFIG_TOKEN: holds more than one word; set it to the token alone');
  return undefined;
}
