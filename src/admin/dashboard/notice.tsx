// Tells the operator what the last change did. Knows nothing of how it was made.
import type { ChangedBody } from '../api.js';
import { changeMade } from './format.js';
import { usePage } from './shared.js';

export type Notice = { readonly change: ChangedBody } | { readonly line: string };

interface Props {
  readonly notice: Notice | null;
  onDismiss(): void;
}

export function NoticeBar({ notice: given, onDismiss }: Props) {
  const { live } = usePage();
  const change = given && 'change' in given ? given.change : null;
  // What came after it makes it old news.
  const notice = change && live && live.routes.version > change.version.version ? null : given;
  const unwritten = change?.unwritten ?? null;
  return (
    <div role="status">
      {notice && (
        <div class={unwritten ? 'bar wide warn notice' : 'bar wide good notice'}>
          <p>{'line' in notice ? notice.line : changeMade(notice.change)}</p>
          <button type="button" class="quiet" onClick={onDismiss}>
            Dismiss
          </button>
        </div>
      )}
    </div>
  );
}
