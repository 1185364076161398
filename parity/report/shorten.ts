// Shortens what nobody wants to read in full: descriptions and candidates. Tokens are placeholders before they get here.
// Knows nothing of reports.

const longest = 160;
const mostItems = 40;

/** The same value with long texts cut and long lists counted. */
export function shortened(value: unknown): unknown {
  if (typeof value === 'string') {
    if (value.length <= longest) return value;
    // Texts of this length are not searched for tokens when they are normalised.
    return `${value.slice(0, longest).replace(/eyJ[\w-]+(\.[\w-]*)*/g, '$token')}… (${value.length} characters)`;
  }
  if (Array.isArray(value)) {
    const shown = value.slice(0, mostItems).map(shortened);
    return value.length > mostItems ? [...shown, `… (${value.length} items)`] : shown;
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shortened(item)]));
}
