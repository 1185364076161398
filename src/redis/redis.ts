// The port to the Redis that instances share: a single server, Sentinel or Cluster, reached through ioredis (`connection.ts`). Knows
// nothing of what is kept there. Settings that must be (docs/scale-out.md): no offline queue, nothing sent again by itself, a
// timeout for each command, what is ready in one turn of the event loop goes out in one round trip, a connection for XREAD.

/** A Lua script; all its keys share a hash tag. */
export interface Script {
  /** For error lines and the count of commands. */
  readonly name: string;
  readonly lua: string;
}

export type Arg = string | number | Buffer;

/**
 * Why a command has no answer. `sent`: it was on its way, so that it may have been executed all the same; otherwise it certainly was
 * not. Everything that is asked of Redis throws this where Redis is away, slow (over a second) or can't write (full, read-only).
 */
export class RedisAway extends Error {
  readonly sent: boolean;

  constructor(why: string, sent: boolean) {
    super(why);
    this.name = 'RedisAway';
    this.sent = sent;
  }
}

/** A key holds another type than what is asked of it, or a script found what it can't understand: `WRONGTYPE …`. */
export class RedisRefused extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'RedisRefused';
  }
}

export interface Redis {
  /** Its address without user and password, for operators. */
  readonly shown: string;
  /**
   * Whether what is asked in one turn of the event loop is executed in that order whatever its keys; a Cluster gives it to several
   * servers.
   */
  readonly ordered: boolean;
  /**
   * `name` in this deployment: prefix, kind and the hash tag, `sigfig:session:{%2F|dm%3Aalice%3Abob}`. `tag` is free text, or
   * several texts by `tagOf` (`keys.ts`); what goes together in one script has the same tag.
   */
  key(kind: string, tag: string): string;
  /** @throws RedisAway, RedisRefused */
  run(script: Script, keys: readonly string[], args: readonly Arg[]): Promise<unknown>;
  /** One command. @throws RedisAway, RedisRefused */
  call(command: string, ...args: Arg[]): Promise<unknown>;
  /** The same on a connection of its own, for commands that wait (XREAD BLOCK); its timeout is longer than they wait. */
  waiting(command: string, ...args: Arg[]): Promise<unknown>;
  /** Whether it answered the last time it was asked. Cheap. */
  well(): boolean;
  /** Told of each change of `well`, and that it is well once more where another server of a Cluster took over; returns how to stop. */
  onWell(listener: (well: boolean) => void): () => void;
  close(): Promise<void>;
}
