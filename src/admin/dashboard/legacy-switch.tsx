// The red switch: everything to the legacy, at once. Never waits for figures or a dry run that don't come, and is never taken
// away: whether it works is what the listener answers to it.
import { useState } from 'preact/hooks';
import type { LegacyRequest } from '../api.js';
import { Check } from './change.js';
import { Reason, useCommit } from './commit.js';
import { Dialog, Problems } from './dialog.js';
import { count } from './format.js';
import { PlanView, usePreview } from './plan.js';
import { usePage } from './shared.js';

export function LegacySwitch() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}>
        All to legacy…
      </button>
      {open && <LegacyDialog onClosed={() => setOpen(false)} />}
    </>
  );
}

function LegacyDialog({ onClosed }: { onClosed(): void }) {
  const { client, live } = usePage();
  const [reason, setReason] = useState('');
  const [endCalls, setEndCalls] = useState(false);
  const commit = useCommit();
  const request: LegacyRequest = { endCalls };
  const preview = usePreview(client, 'api/routes/legacy', request);
  const served = live?.calls.new ?? 0;
  const calls = served === 1 ? 'The one call' : `The ${count(served)} calls`;
  return (
    <Dialog
      title="Send everything to the legacy"
      onClosed={onClosed}
      onSubmit={() => {
        commit.run('api/routes/legacy', { ...request, reason: reason.trim() || undefined }, onClosed);
      }}
      actions={
        <button type="submit" class="danger" disabled={commit.busy}>
          {commit.busy ? 'Changing…' : endCalls ? 'All to legacy, end calls' : 'All to legacy'}
        </button>
      }
    >
      <p>
        Every group of every namespace goes to mode <strong>legacy</strong>, on every instance, at once. It can be taken
        back from the history.
      </p>
      {served > 0 && <p class="muted">{calls} that sigfig serves now will finish here, unless they are ended.</p>}
      <Check name="End the calls that sigfig serves now" on={endCalls} set={setEndCalls} />
      <PlanView preview={preview} />
      <Reason value={reason} onInput={setReason} required={false} />
      <Problems lines={commit.problems} />
    </Dialog>
  );
}
