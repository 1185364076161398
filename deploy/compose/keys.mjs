// Makes the secrets that compose.yaml needs, in the folder that is named, and leaves those alone that are there: the key of login
// tokens, and one operator of the admin API with the token that its commands use. For trying it; in production secrets come mounted.
import { randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [folder] = process.argv.slice(2);
if (!folder) {
  console.error('keys: name the folder to put them into');
  process.exit(2);
}

const random = () => randomBytes(32).toString('base64url');
const token = random();
make('jwt-secret', random());
if (!existsSync(join(folder, 'token'))) {
  make('admin-tokens', `operate operator ${token}\n`, true);
  make('token', token, true);
}

function make(name, text, anew = false) {
  const file = join(folder, name);
  if (!anew && existsSync(file)) return;
  writeFileSync(file, text, { mode: 0o600 });
  console.log(`keys: made ${name}`);
}
