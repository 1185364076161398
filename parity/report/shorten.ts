// Shortens what nobody wants to read in full: descriptions and candidates. Tokens are placeholders before they get here.
// Knows nothing of reports.

const longest = 160;
const mostItems = 40;

/** The same value with long texts cut and long lists counted. */
export function shortened(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.length > longest ? `${value.slice(0, longest)}… (${value.length} characters)` : value;
  }
  if (Array.isArray(value)) {
    const shown = value.slice(0, mostItems).map(shortened);
    return value.length > mostItems ? [...shown, `… (${value.length} items)`] : shown;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortened(item)]));
}
