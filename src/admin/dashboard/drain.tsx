// Emptying an instance, or taking that back: what it means, a reason, and the confirmation. Knows nothing of how connections move.
import { useState } from 'preact/hooks';
import type { DrainBody, DrainRequest, InstanceBody } from '../api.js';
import { Check } from './change.js';
import { problemsOf } from './client.js';
import { Reason } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { some } from './format.js';
import { useShared } from './shared.js';

interface Props {
  /** As it was when the button was pressed: what is asked stays what it was, whatever the figures say meanwhile. */
  readonly asked: InstanceBody;
  onClosed(): void;
}

export function DrainDialog({ asked, onClosed }: Props) {
  const { client, live, mayChange, told } = useShared();
  const [reason, setReason] = useState('');
  const [force, setForce] = useState(false);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [busy, setBusy] = useState(false);
  const { id, draining: cancel } = asked;
  const now = live.instances.find((one) => one.id === id);
  const isLast = !cancel && !live.instances.some((one) => one.id !== id && !one.draining);
  const ready = mayChange && !busy && reason.trim() !== '' && (!isLast || force);
  const send = async () => {
    if (!ready) return;
    setBusy(true);
    const request: DrainRequest = {
      reason: reason.trim(),
      ...(cancel ? { cancel } : {}),
      ...(isLast ? { force } : {}),
    };
    try {
      await client.post<DrainBody>(`api/instances/${encodeURIComponent(id)}/drain`, request);
      told(cancel ? `${id} takes connections again.` : `${id} drains.`);
      onClosed();
    } catch (error) {
      setProblems(problemsOf(error, true, 'the instances'));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={cancel ? `Take back the drain of ${id}` : `Drain ${id}`}
      onClosed={onClosed}
      onSubmit={send}
      actions={
        <button type="submit" class={cancel ? 'primary' : 'danger'} disabled={!ready}>
          {cancel ? 'Take back' : 'Drain'}
        </button>
      }
    >
      {cancel ? (
        <p>It is ready again, and closes no more connections. Those that it has closed stay where they are.</p>
      ) : (
        <p>
          It takes no new connections, and closes its {some(now?.connections ?? asked.connections, 'connection')} in
          small batches, so that their browsers connect to other instances. Calls that sigfig serves go on meanwhile.
        </p>
      )}
      {isLast && (
        <>
          <p class="problem">No other instance is left that takes connections.</p>
          <Check name="Drain it all the same" on={force} set={setForce} />
        </>
      )}
      <Reason value={reason} onInput={setReason} required />
      <Problems lines={problems} />
    </Dialog>
  );
}
