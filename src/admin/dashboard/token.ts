// The token in what an operator types or pastes. Pure; knows nothing of who has which token.

/** As in a tokens file: `kind name token`, a line each, and its token alone is as good. */
export type Typed = { readonly ok: true; readonly token: string } | { readonly ok: false; readonly problem: string };

/** The bounds of the file itself: see tokens.ts, which can't be had in a browser (a test compares them). */
const TOKEN = /^[!-~]{16,512}$/;

export function tokenIn(typed: string): Typed {
  const token = typed.trim().split(/\s+/).at(-1) ?? '';
  if (TOKEN.test(token)) return { ok: true, token };
  return { ok: false, problem: `This can’t be a token: one has 16 to 512 letters, digits and signs, without blanks.` };
}

/** Of a token that could be one. */
export const notKnown =
  'This token is not known here. It may have been taken out of the tokens file, or belong to another sigfig.';
