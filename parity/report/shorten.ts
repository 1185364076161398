// Shortens what nobody wants to read in full: descriptions and candidates. Tokens are placeholders before they get here.
// Knows nothing of reports.

const longest = 160;
/** Of what begins as a description or a candidate does: one candidate is shorter than other texts may be. */
const longestOfMedia = 40;
const media = /^(v=0\b|(a=)?candidate:)/;
const mostItems = 40;

/** The same value with long texts cut and long lists counted. */
export function shortened(value: unknown): unknown {
  if (typeof value === 'string') {
    const most = media.test(value) ? longestOfMedia : longest;
    if (value.length <= most) return value;
    // Texts of this length are not searched for tokens when they are normalised.
    return `${value.slice(0, most).replace(/eyJ[\w-]+(\.[\w-]*)*/g, '$token')}… (${value.length} characters)`;
  }
  if (Array.isArray(value)) {
    const shown = value.slice(0, mostItems).map(shortened);
    return value.length > mostItems ? [...shown, `… (${value.length} items)`] : shown;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortened(item)]));
}
