// Where the package is: parity runs from its sources and from dist/ alike, and finds its data beside package.json.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const packageRoot: string = (() => {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) {
    const above = dirname(folder);
    if (above === folder) throw new Error('package.json is missing above parity/; install sigfig again');
    folder = above;
  }
  return folder;
})();
