// A modal question: the browser's own dialog, which keeps the focus in and gives it back. Knows nothing of what is asked.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { useId } from './shared.js';

interface Props {
  readonly title: string;
  readonly children: ComponentChildren;
  /** Told however it is closed: Escape, the button, or `close`. */
  onClosed(): void;
  onSubmit(): void;
  readonly actions: ComponentChildren;
}

export function Dialog({ title, children, actions, onClosed, onSubmit }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId('dialog');
  useLayoutEffect(() => {
    const opener = document.activeElement;
    const shown = dialog.current;
    shown?.showModal();
    shown?.querySelector<HTMLElement>('[data-first]')?.focus();
    return () => {
      shown?.close();
      // Taken out of the page it can't give the focus back by itself.
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={onClosed}>
      <form
        // Faults are shown in words of our own, beside the dry run.
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        <h2 id={id}>{title}</h2>
        <div class="body">{children}</div>
        <div class="actions">
          <button type="button" onClick={onClosed}>
            Cancel
          </button>
          {actions}
        </div>
      </form>
    </dialog>
  );
}

export function Problems({ lines }: { readonly lines: readonly string[] }) {
  return (
    <div role="alert" class="problems">
      {lines.map((line) => (
        <p key={line} class="problem">
          {line}
        </p>
      ))}
    </div>
  );
}
