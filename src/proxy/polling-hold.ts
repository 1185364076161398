// An answer of the legacy's in which an acknowledgement is held back: the browser's GET waits for it, everything else of
// the session goes on. Knows nothing of who holds it, nor of what the session does with it then.
import type { Scanned } from '../protocol/answer-scanner.js';
import type { LegacyAnswer } from './polling-answer.js';
import { withoutHeader } from './polling-headers.js';

export class AnswerHold {
  /** What nobody may fetch yet. */
  answer: LegacyAnswer | null = null;
  /** GETs that came meanwhile. */
  #behind: (() => void)[] = [];

  /**
   * `over` gets the answer as the browser is to have it, and what was seen in it; null: a fault of ours, told to `fault`, the
   * answer is as it came. Not called where the answer was dropped.
   */
  begin(
    answer: LegacyAnswer,
    scanned: Promise<Scanned>,
    over: (answer: LegacyAnswer, scanned: Scanned | null) => void,
    fault: (error: unknown) => void,
  ): void {
    this.answer = answer;
    scanned
      .catch((error: unknown) => {
        fault(error);
        return null;
      })
      .then((now) => {
        if (this.answer === answer) {
          this.answer = null;
          over(now ? withBody(answer, now.body) : answer, now);
        }
        for (const next of this.#behind.splice(0)) next();
      })
      .catch(fault);
  }

  /** Runs once the answer that is held has gone on, or was dropped and its scan is over. */
  behind(run: () => void): void {
    this.#behind.push(run);
  }

  /** The answer is nobody's any more. */
  drop(): LegacyAnswer | null {
    const { answer } = this;
    this.answer = null;
    return answer;
  }
}

/** The same answer with a body that was decoded and perhaps changed; the very same where it was not. */
export function withBody(answer: LegacyAnswer, body: Buffer): LegacyAnswer {
  if (body === answer.text) return answer;
  const rawHeaders = withoutHeader(answer.rawHeaders, 'content-encoding');
  return { ...answer, rawHeaders, body, encoded: false, text: body };
}
