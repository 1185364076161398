/** The path of a redis-server, or undefined: REDIS_SERVER_PATH, then PATH, then the usual places. */
export function findRedis(): string | undefined;
/** Whether a Docker engine answers within 10 s. */
export function hasDocker(): boolean;
/** Installs Redis where the system's package manager may be used without a password. */
export function installRedis(say: (line: string) => void): string | undefined;
