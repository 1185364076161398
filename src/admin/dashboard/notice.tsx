// Tells the operator what the last change did. Knows nothing of how it was made.
import type { ChangedBody } from '../api.js';
import { useShared } from './shared.js';

export type Notice = { readonly change: ChangedBody } | { readonly line: string };

interface Props {
  readonly notice: Notice | null;
  onDismiss(): void;
}

export function NoticeBar({ notice: given, onDismiss }: Props) {
  const { live } = useShared();
  const change = given && 'change' in given ? given.change : null;
  // What came after it makes it old news.
  const notice = change && live.routes.version > change.version.version ? null : given;
  const unwritten = change?.unwritten ?? null;
  return (
    <div role="status">
      {notice && (
        <div class={unwritten ? 'bar wide warn notice' : 'bar wide good notice'}>
          <p>{'line' in notice ? notice.line : sentence(notice.change)}</p>
          <button type="button" class="quiet" onClick={onDismiss}>
            Dismiss
          </button>
        </div>
      )}
    </div>
  );
}

function sentence({ changed, version, confirmed, endedCalls, unwritten }: ChangedBody): string {
  if (!changed) return `Nothing changed: the routes were like that already (version ${version.version}).`;
  const where = confirmed.of === 1 ? '' : ` on ${confirmed.instances} of ${confirmed.of} instances`;
  const parts = [`Version ${version.version} is in force${where}.`];
  if (endedCalls > 0) parts.push(`${endedCalls} ${endedCalls === 1 ? 'call was' : 'calls were'} ended.`);
  if (unwritten) parts.push(`It is not in the log yet: ${unwritten}`);
  return parts.join(' ');
}
