/** `nginx`, `haproxy` and `jq`. */
export const proxies: readonly string[];
/** The path of one of them, or undefined: NGINX_PATH, HAPROXY_PATH or JQ_PATH, then PATH, then the usual places. */
export function findProxy(name: string): string | undefined;
/** Installs it where the system's package manager may be used without a password. */
export function installProxy(name: string, say: (line: string) => void): string | undefined;
