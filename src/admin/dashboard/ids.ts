// A list of ids as text that can be edited, one a line, and back. Pure; whatever an id holds comes back as it was.

export interface Ids {
  readonly ids: readonly string[];
  /** What is wrong with the first line that can't be read; null where all can. */
  readonly wrong: string | null;
}

/** What a line can't show as it is stands there as a JSON text, in double quotes. */
export const textOf = (ids: readonly string[]): string =>
  ids.map((id) => (isPlain(id) ? id : JSON.stringify(id))).join('\n');

/** Blanks around a line and empty lines don't count; an id that is there twice is taken once. */
export function idsOf(text: string): Ids {
  const ids = new Set<string>();
  for (const line of text.split(/\r\n|\n|\r/)) {
    const typed = line.trim();
    if (typed === '') continue;
    const id = typed.startsWith('"') ? quoted(typed) : typed;
    if (id === undefined) {
      return {
        ids: [...ids],
        wrong: `the line ${typed.slice(0, 40)} begins with a quote; write it as JSON does, such as "an id"`,
      };
    }
    ids.add(id);
  }
  return { ids: [...ids], wrong: null };
}

/** A list in a sentence: what holds a comma or a blank is quoted, so that it is seen to be one id. */
export const named = (id: string): string => (/^[^\s,;"]+$/u.test(id) && isPlain(id) ? id : JSON.stringify(id));

const isPlain = (id: string): boolean => id !== '' && id.trim() === id && !id.startsWith('"') && !UNSEEN.test(id);
/** Control characters and line separators of every kind, and halves of characters. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

function quoted(text: string): string | undefined {
  try {
    const id: unknown = JSON.parse(text);
    return typeof id === 'string' && id !== '' ? id : undefined;
  } catch {
    return undefined; // no JSON text
  }
}
