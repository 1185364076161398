// Asks for a token. Knows nothing of where it is kept or what it may do.
import { useEffect, useRef, useState } from 'preact/hooks';
import { useId } from './shared.js';
import { tokenIn } from './token.js';

interface Props {
  /** Why the last token was not taken; null where none was tried. */
  readonly refused: string | null;
  onToken(token: string): void;
}

export function SignIn({ refused, onToken }: Props) {
  const [problem, setProblem] = useState(refused);
  const field = useRef<HTMLInputElement>(null);
  const id = useId('token');
  useEffect(() => field.current?.focus(), []);
  return (
    <main class="sign-in">
      <form
        class="panel"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          const typed = tokenIn(field.current?.value ?? '');
          if (typed.ok) onToken(typed.token);
          else setProblem(typed.problem);
        }}
      >
        <h1>sigfig</h1>
        <p>
          Sign in with a token of this admin listener: the last word of a line in the file that it was started with (
          <code>--admin-tokens</code>). It is kept for this tab only.
        </p>
        <label for={id}>Token</label>
        <input
          id={id}
          ref={field}
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          aria-describedby={problem ? `${id}-problem` : undefined}
          aria-invalid={problem !== null}
        />
        {problem !== null && (
          <p id={`${id}-problem`} class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </main>
  );
}
