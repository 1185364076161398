// The operator's commands as a tree: names, flags, help, examples. What they do is loaded when one of them runs, so that
// `start` and --help stay quick. Knows nothing of HTTP.
import { Argument, type Command, Option, type OutputConfiguration } from 'commander';
import { groupNames } from '../routing/route.js';
import { shells, suggest } from './completion.js';
import type { ExitCode } from './failure.js';
import type { Action, OperateFlags } from './operate.js';
import * as values from './options.js';
import type { ChangeFlags } from './routes.js';
import type { CliWorld } from './world.js';

/** How a command's faults are written: one line that ends with `hint`, which says what works. */
export type OutputOf = (hint: string) => OutputConfiguration;

interface Tree {
  readonly program: Command;
  readonly world: CliWorld;
  /** The command line without `sigfig`. */
  readonly words: readonly string[];
  readonly outputOf: OutputOf;
  exit(code: ExitCode): void;
}

export function addOperatorCommands(tree: Tree): void {
  addRoutes(tree);
  addCalls(tree);
  const status = leaf(tree, tree.program, {
    name: 'status',
    says: 'how a running sigfig is: readiness, routes and their log, the legacies, Redis, instances, guards',
    example: 'sigfig status',
  });
  act(tree, status, async () => (await import('./status.js')).showStatus());
  addDrain(tree);
  const completion = tree.program
    .command('completion')
    .description('print a completion script for a shell')
    .addArgument(suggest(new Argument('<shell>', shells.join(', ')).choices(shells), shells))
    .configureOutput(tree.outputOf('write: source <(sigfig completion bash)'))
    .addHelpText(
      'after',
      `
bash  source <(sigfig completion bash)                       in ~/.bashrc
zsh   source <(sigfig completion zsh)                        in ~/.zshrc, after compinit
fish  sigfig completion fish > ~/.config/fish/completions/sigfig.fish`,
    );
  completion.action(async (shell: string) => {
    const { completionScript } = await import('./completion.js');
    tree.world.out(completionScript(shell, tree.program));
  });
}

function addRoutes(tree: Tree): void {
  const parent = group(tree, 'routes', 'see and change which path serves which event', ROUTES_HELP);
  const routes = () => import('./routes.js');

  const list = leaf(tree, parent, {
    name: 'list',
    says: 'the table in force',
    example: 'sigfig routes list --json',
  }).option('--yaml', 'as a routes file');
  act(tree, list, async () => (await routes()).listRoutes(list.opts()));

  const set = leaf(tree, parent, {
    name: 'set',
    says: 'change one group of events, for calls that begin from now on',
    example: 'sigfig routes set call-lifecycle canary --percent 5 --users alice,bob --reason "first callers"',
  })
    .addArgument(suggest(new Argument('<target>', `${[...groupNames, 'calls'].join(', ')} (all three)`), TARGETS))
    .addArgument(suggest(new Argument('<mode>', MODES.join(', ')), MODES))
    .option('--namespace <ns>', "the Socket.IO namespace; it is / where it isn't given")
    .option('--percent <n>', 'share of the conversations that a canary takes: 0 to 100, two decimals', values.percent)
    .option('--users <a,b>', 'calls that these users offer are always in; "" empties the list', values.list)
    .option('--conversations <a,b>', 'these are always in', values.list)
    .option('--exclude-users <a,b>', 'calls of these users are never in', values.list)
    .option('--exclude-conversations <a,b>', 'these are never in', values.list)
    .option('--salt <text>', 'another salt draws another share')
    .option('--sole', "the legacy's handlers are gone: nothing of the group is forwarded any more")
    .option('--no-sole', 'they are back')
    .addOption(
      suggest(new Option('--fallback <way>', 'for new calls while the new path is unwell: legacy, refuse'), [
        'legacy',
        'refuse',
      ]),
    )
    .option(
      '--guard <limits>',
      "off, or some of the limits by a routes file's keys: window=60s,max-errors-percent=1",
      values.guard,
    )
    .addHelpText('after', '\nWhat is not given stays as it is in force.');
  changing(set, { compared: true });
  act(tree, set, async () => {
    const [target = '', mode = ''] = set.args;
    const { reason, dryRun, ifVersion, admin, tokenFile, json, ...request } = set.opts();
    return (await routes()).setRoute({ target, mode, ...request }, { reason, dryRun, ifVersion });
  });

  const diff = leaf(tree, parent, {
    name: 'diff',
    says: 'what a routes file would change: exit code 0 nothing, 1 something, 2 it can not be compared',
    example: 'sigfig routes diff routes/production.yaml',
  }).addArgument(file());
  act(tree, diff, async () => (await routes()).diffFile(diff.args[0] ?? ''));

  const apply = leaf(tree, parent, {
    name: 'apply',
    says: 'put a routes file in force, whole',
    example: 'sigfig routes apply routes/production.yaml --reason "as agreed"',
  }).addArgument(file());
  changing(apply, { compared: true });
  act(tree, apply, async () => (await routes()).applyFile(apply.args[0] ?? '', apply.opts<ChangeFlags>()));

  const history = leaf(tree, parent, {
    name: 'history',
    says: 'versions of the table, newest first: who changed what, when and why',
    example: 'sigfig routes history --limit 10',
  })
    .addOption(new Option('--limit <n>', 'at most so many').argParser(values.count(200)).default(20))
    .option('--before <version>', 'only older ones', values.versionNumber);
  act(tree, history, async () => (await routes()).showHistory(history.opts()));

  const rollback = leaf(tree, parent, {
    name: 'rollback',
    says: 'back to the table of a version, or to the one before the one in force; takes effect at once',
    example: 'sigfig routes rollback 41',
  })
    .argument('[version]', 'see "sigfig routes history"', values.versionNumber)
    .option('--end-calls', 'end the calls of the new path too, in the namespaces that it takes back');
  changing(rollback, { compared: false });
  act(tree, rollback, async () => {
    const { endCalls, ...flags } = rollback.opts<ChangeFlags & { endCalls?: boolean }>();
    return (await routes()).rollback(rollback.processedArgs[0] as number | undefined, endCalls, flags);
  });

  const legacy = leaf(tree, parent, {
    name: 'legacy',
    says: 'the big red switch: everything to the legacy, at once',
    example: 'sigfig routes legacy --all',
  })
    .requiredOption('--all', 'everything, in every namespace; there is no smaller one')
    .option('--end-calls', 'end the calls of the new path too, instead of letting them finish there');
  changing(legacy, { compared: false });
  act(tree, legacy, async () => {
    const { endCalls, ...flags } = legacy.opts<ChangeFlags & { endCalls?: boolean }>();
    return (await routes()).allLegacy(endCalls, flags);
  });

  const watch = leaf(tree, parent, {
    name: 'watch',
    says: 'rates, refusals and latencies of each event, live; Ctrl-C ends it',
    example: 'sigfig routes watch',
  }).option('--count <n>', 'end after so many snapshots, about one a second', values.count(1_000_000));
  act(tree, watch, async () => (await import('./watch.js')).watchRoutes(watch.opts()));
}

function addCalls(tree: Tree): void {
  const parent = group(tree, 'calls', 'see live calls on either path, and end one of the new path', EXIT_CODES);
  const calls = () => import('./calls.js');

  const list = leaf(tree, parent, {
    name: 'list',
    says: 'live calls, newest first',
    example: 'sigfig calls list --path new --search alice',
  })
    .addOption(suggest(new Option('--path <path>', 'of this path only: new, legacy'), ['new', 'legacy']))
    .addOption(suggest(new Option('--state <state>', `in this state only: ${STATES.join(', ')}`), STATES))
    .option('--search <text>', "part of a call's id, conversation or user")
    .option('--namespace <ns>', 'of this namespace only')
    .addOption(new Option('--limit <n>', 'at most so many').argParser(values.count(500)).default(50));
  act(tree, list, async () => (await calls()).listCalls(list.opts()));

  const show = leaf(tree, parent, {
    name: 'show',
    says: 'one call, live or ended lately: its states with times and reasons',
    example: 'sigfig calls show 8c1f0e52',
  }).argument('<id>', CALL_ID, values.callId);
  act(tree, show, async () => (await calls()).showCall(show.args[0] ?? ''));

  const end = leaf(tree, parent, {
    name: 'end',
    says: 'end a call of the new path for both of its users',
    example: 'sigfig calls end 8c1f0e52 --reason "asked for by the caller"',
  })
    .argument('<id>', CALL_ID, values.callId)
    .option('--reason <text>', 'why; asked for on a terminal');
  act(tree, end, async () => (await calls()).endCall(end.args[0] ?? '', end.opts().reason));
}

function addDrain(tree: Tree): void {
  const drain = leaf(tree, tree.program, {
    name: 'drain',
    says: 'empty an instance: no new connections, and those that are open are closed in small batches; calls go on',
    example: 'sigfig drain sigfig-7c9d --reason "a new version"',
  })
    .argument(
      '[instance]',
      'its id, or how it begins where no other begins so; by default the one asked',
      values.instanceId,
    )
    .option('--reason <text>', 'why; asked for on a terminal')
    .option('--cancel', 'take it back: it is ready again, and closes no more connections')
    .option('--force', 'also where no other instance is left that is not draining')
    .option('--no-wait', 'end once it has begun, not when its connections are gone')
    .addHelpText('after', EXIT_CODES);
  act(tree, drain, async () => {
    const [instance] = drain.args;
    return (await import('./drain.js')).drainInstance(instance, drain.opts());
  });
}

const CALL_ID =
  'the id that "sigfig calls list" shows, or how it begins: 4 characters at least, where no other begins so';
const TARGETS = ['calls', ...groupNames];
const MODES = ['legacy', 'new', 'canary'];
const STATES = ['OFFERING', 'CONNECTED', 'RENEGOTIATING', 'AWAITING_REJOIN', 'UNKNOWN'];

interface Leaf {
  readonly name: string;
  readonly says: string;
  /** Shown in its help, and beside a fault. */
  readonly example: string;
}

function group({ program, outputOf }: Tree, name: string, says: string, help: string): Command {
  return program
    .command(name)
    .description(says)
    .configureOutput(outputOf(`"sigfig ${name} --help" lists the commands`))
    .addHelpText('after', help);
}

function leaf({ outputOf }: Tree, parent: Command, { name, says, example }: Leaf): Command {
  const command = parent.command(name).description(says);
  const path = pathOf(command).join(' ');
  return command
    .configureOutput(outputOf(`"${path} --help" lists the flags; such as: ${example}`))
    .configureHelp({ sortOptions: false })
    .addHelpText('after', `\nSuch as: ${example}`)
    .option('--admin <url>', 'the admin API of a running sigfig (SIGFIG_ADMIN; default: http://127.0.0.1:9900)')
    .addOption(
      suggest(
        new Option('--token-file <file>', 'a file that holds the token alone (SIGFIG_TOKEN_FILE, or SIGFIG_TOKEN)'),
        'file',
      ),
    )
    .option('--json', "the admin API's answer as JSON; a failure as JSON on stderr");
}

function changing(command: Command, { compared }: { compared: boolean }): void {
  command
    .option('--reason <text>', compared ? 'why, for the history; asked for on a terminal' : 'why, for the history')
    .option('--dry-run', 'show what it would do, in live terms, and change nothing');
  if (compared) {
    command.option(
      '--if-version <n>',
      'only where this version is in force; by default the one found when the command starts',
      values.versionNumber,
    );
  }
}

const file = () => suggest(new Argument('<file>', 'a routes file; - is standard input'), 'file');

/** `load` gives what the command does, once it is known that it runs. */
function act({ world, words, exit }: Tree, command: Command, load: () => Promise<Action>): void {
  command.action(async () => {
    const { operate } = await import('./operate.js');
    exit(await operate(world, command.opts<OperateFlags>(), words, await load()));
  });
}

export function pathOf(command: Command): string[] {
  return [...(command.parent ? pathOf(command.parent) : []), command.name()];
}

const EXIT_CODES = `
Exit codes: 0 done, nothing to do, or a dry run was shown; 1 refused; 2 the command line is wrong; 3 not reachable, or not
known whether a change is made; 4 no token, a wrong one, or one that may only read; 5 somebody else changed the routes meanwhile.`;
const ROUTES_HELP = `
Targets are call-lifecycle, ice-candidate, call-renegotiation, and calls for all three. A call stays on the path that
accepted its offer until it ends; a change decides about calls that begin after it.
${EXIT_CODES}
"routes diff" ends with 0 where the file says what is in force, 1 where it differs, 2 where it can't be compared.`;
