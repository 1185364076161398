// The end of every change: a reason, a name where the API asks for no token, the confirmation, and what came of it.
// Knows no single change.
import { useRef, useState } from 'preact/hooks';
import type { ChangedBody } from '../api.js';
import { problemsOf, Refused } from './client.js';
import { credentials, keepActor } from './session.js';
import { useId, usePage } from './shared.js';

export interface Commit {
  readonly busy: boolean;
  readonly problems: readonly string[];
  /** It was refused because somebody else had changed the routes: the version in force. */
  readonly conflict: number | null;
  run(path: string, body: object, onMade: () => void): Promise<void>;
  clear(): void;
}

/** Sends a change once, however often it is confirmed. */
export function useCommit(): Commit {
  const { client, made } = usePage();
  const [busy, setBusy] = useState(false);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [conflict, setConflict] = useState<number | null>(null);
  const running = useRef(false);
  return {
    busy,
    problems,
    conflict,
    clear() {
      setProblems([]);
      setConflict(null);
    },
    async run(path, body, onMade) {
      if (running.current) return;
      running.current = true;
      setBusy(true);
      try {
        made(await client.post<ChangedBody>(path, body));
        onMade();
      } catch (error) {
        const current = error instanceof Refused && error.code === 'conflict' ? error.current : undefined;
        setConflict(current ?? null);
        setProblems(current === undefined ? problemsOf(error, true) : []);
      }
      running.current = false;
      setBusy(false);
    },
  };
}

interface ReasonProps {
  readonly value: string;
  onInput(value: string): void;
  readonly required: boolean;
}

/** The API's own bound. */
const MOST = 500;

export function Reason({ value, onInput, required }: ReasonProps) {
  const { nameless } = usePage();
  const id = useId('reason');
  const name = useId('name');
  return (
    <div class="reason">
      <div>
        <label for={id}>
          Reason <small>{required ? 'for the history' : 'optional'}</small>
        </label>
        <input
          id={id}
          data-first={required ? undefined : true}
          type="text"
          maxLength={MOST}
          autocomplete="off"
          required={required}
          value={value}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      </div>
      {nameless && (
        <div class="name">
          <label for={name}>Your name</label>
          <input
            id={name}
            type="text"
            maxLength={64}
            autocomplete="nickname"
            placeholder="local"
            defaultValue={credentials().actor ?? ''}
            onInput={(event) => keepActor(event.currentTarget.value)}
          />
        </div>
      )}
    </div>
  );
}
