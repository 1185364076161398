// A process of its own that appends versions to a log without end, for a test that kills it: prints the number of each one
// that was said to be kept. Arguments: the built file-log module, the log, the size of a version in characters.
const [module, path, size] = process.argv.slice(2);
const { fileLog } = await import(module);

const log = fileLog(path);
const { last, problems } = await log.read();
for (const problem of problems) console.error(problem);
console.log(`ready ${last}`);
const users = Array.from({ length: 500 }, (_, i) => `${i}-${'u'.repeat(Number(size) / 1_000)}`);
const legacy = { mode: 'legacy', sole: false, canary: null, fallback: 'refuse', guard: null };
const canary = { percent: 5, salt: 's', users, conversations: [], exclude: { users: [], conversations: [] } };
const table = {
  namespaces: {
    '/': {
      'call-lifecycle': { mode: 'canary', sole: false, canary, fallback: 'legacy', guard: null },
      'ice-candidate': legacy,
      'call-renegotiation': legacy,
    },
  },
};
for (let version = last + 1; ; version++) {
  const at = new Date().toISOString();
  const entry = { version, at, actor: 'alice', via: 'cli', kind: 'set', reason: 'again', before: table, after: table };
  try {
    const { conflict } = await log.append(entry);
    console.log(conflict ? `conflict ${conflict.at(-1).version}` : `kept ${version}`);
    if (conflict) version = conflict.at(-1).version;
  } catch (error) {
    console.log(`failed ${error.code ?? error.message}`);
    break;
  }
}
