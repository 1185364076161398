// The red switch: everything to the legacy, at once. Never waits for a dry run that doesn't come.
import { useState } from 'preact/hooks';
import type { LegacyRequest } from '../api.js';
import { Check } from './change.js';
import { Reason, useCommit } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { PlanView, usePreview } from './plan.js';
import { useShared } from './shared.js';

export function LegacySwitch() {
  const { online } = useShared();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="danger" disabled={!online} onClick={() => setOpen(true)}>
        All to legacy…
      </button>
      {open && <LegacyDialog onClosed={() => setOpen(false)} />}
    </>
  );
}

function LegacyDialog({ onClosed }: { onClosed(): void }) {
  const { client, online, live } = useShared();
  const [reason, setReason] = useState('');
  const [endCalls, setEndCalls] = useState(false);
  const commit = useCommit();
  const request: LegacyRequest = { endCalls };
  const preview = usePreview(client, 'api/routes/legacy', request);
  const calls = live.calls.new === 1 ? 'The one call' : `The ${live.calls.new} calls`;
  return (
    <Dialog
      title="Send everything to the legacy"
      onClosed={onClosed}
      onSubmit={() => {
        if (online) commit.run('api/routes/legacy', { ...request, reason: reason.trim() || undefined }, onClosed);
      }}
      actions={
        <button type="submit" class="danger" disabled={!online || commit.busy}>
          {commit.busy ? 'Changing…' : endCalls ? 'All to legacy, end calls' : 'All to legacy'}
        </button>
      }
    >
      <p>
        Every group of every namespace goes to mode <strong>legacy</strong>, on every instance, at once. It can be taken
        back from the history.
      </p>
      {live.calls.new > 0 && (
        <p class="muted">{calls} that sigfig serves now will finish here, unless they are ended.</p>
      )}
      <Check name="End the calls that sigfig serves now" on={endCalls} set={setEndCalls} />
      <PlanView preview={preview} />
      <Reason value={reason} onInput={setReason} required={false} />
      <Problems lines={commit.problems} />
    </Dialog>
  );
}
