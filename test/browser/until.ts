// Waiting for what gives no event of its own. Knows nothing of what is waited for.

/** Waits until `condition` answers true; throws after 15 s. */
export async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 15_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
