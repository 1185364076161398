/** `nginx` and `haproxy`. */
export const proxies: readonly string[];
/** The path of `nginx` or `haproxy`, or undefined: NGINX_PATH or HAPROXY_PATH, then PATH, then the usual places. */
export function findProxy(name: string): string | undefined;
/** Installs it where the system's package manager may be used without a password. */
export function installProxy(name: string, say: (line: string) => void): string | undefined;
