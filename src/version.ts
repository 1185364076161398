// The version as the package says it, found from the sources and from dist/ alike. Knows nothing else of the package.
import { existsSync, readFileSync } from 'node:fs';

export const version: string = (() => {
  const found = ['../package.json', '../../package.json']
    .map((path) => new URL(path, import.meta.url))
    .find((url) => existsSync(url));
  if (!found) throw new Error('package.json is missing beside src/ or dist/; install sigfig again');
  return (JSON.parse(readFileSync(found, 'utf8')) as { version: string }).version;
})();
