// Holds a scenario to its own names: devices, parties, conversations and placeholders that a step or an expectation uses
// must exist. Knows nothing of what they stand for in a run.
import type { Report } from './read.js';
import type { Play, Scenario, ScenarioFile, Step } from './scenario.js';
import { generators, placeholders } from './values.js';

/** False where something was reported. */
export function checkNames(scenario: Omit<Scenario, 'file' | 'line'>, given: ScenarioFile, report: Report): boolean {
  let fine = true;
  const fail: Report = (path, problem) => {
    fine = false;
    report(path, problem);
  };
  const devices = new Set<string>();
  for (const { name, party } of scenario.devices) {
    if (devices.has(name)) fail(['parties', party], `two devices are called ${name}; give each a name of its own`);
    devices.add(name);
  }
  for (const [name, members] of Object.entries(scenario.conversations)) {
    if (name in given.parties) fail(['conversations', name], `${name} is a party as well; rename the conversation`);
    if (reserved.has(name)) fail(['conversations', name], `${name} is a placeholder; rename the conversation`);
    for (const member of members) {
      if (!(member in given.parties)) fail(['conversations', name], `${member} is not a party; add it to parties`);
    }
  }
  for (const party of Object.keys(given.parties)) {
    if (reserved.has(party)) fail(['parties', party], `${party} is a placeholder; rename the party`);
  }
  const names = { devices, words: wordsOf(scenario) };
  scenario.steps.forEach((step, i) => {
    checkStep(step, ['steps', i], names, fail);
  });
  const expect = given.expect as Record<string, unknown>;
  const outcomes: [string | number, unknown][][] = Array.isArray(expect.oneOf)
    ? [Object.entries(expect).filter(([key]) => key !== 'oneOf'), ...expect.oneOf.map((one) => Object.entries(one))]
    : [Object.entries(expect)];
  outcomes.forEach((outcome, i) => {
    const path = Array.isArray(expect.oneOf) && i > 0 ? ['expect', 'oneOf', i - 1] : ['expect'];
    for (const [device, list] of outcome) {
      if (!devices.has(String(device))) fail([...path, device], unknownDevice(String(device), devices));
      checkValue(list, [...path, device], names, fail, true);
    }
  });
  return fine;
}

interface Names {
  readonly devices: ReadonlySet<string>;
  readonly words: ReadonlySet<string>;
}

const reserved = new Set<string>([...placeholders, 'n']);

function wordsOf(play: Pick<Play, 'devices' | 'conversations'>): Set<string> {
  return new Set([...play.devices.map(({ party }) => party), ...Object.keys(play.conversations)]);
}

function checkStep(step: Step, path: (string | number)[], names: Names, fail: Report): void {
  if ('together' in step) {
    step.together.forEach((one, i) => {
      checkStep(one, [...path, 'together', i], names, fail);
    });
    return;
  }
  for (const key of ['by', 'drop', 'connect', 'at', 'pause', 'resume'] as const) {
    const device = (step as Record<string, unknown>)[key];
    if (typeof device === 'string' && !names.devices.has(device)) {
      fail([...path, key], unknownDevice(device, names.devices));
    }
  }
  if ('payload' in step && 'args' in step) fail([...path, 'args'], 'payload and args exclude each other; keep one');
  for (const key of ['payload', 'args', 'body', 'request'] as const) {
    if (key in step) checkValue((step as Record<string, unknown>)[key], [...path, key], names, fail, false);
  }
}

function checkValue(value: unknown, path: (string | number)[], names: Names, fail: Report, expected: boolean): void {
  if (typeof value === 'string') {
    const whole = /^\$([a-z][\w-]*)(?::([\w-]+))?$/i.exec(value);
    if (whole) checkWord(whole[1] as string, whole[2], path, names, fail, expected);
    for (const [, word] of value.matchAll(/\$\{([^}]*)\}/g)) {
      const [head, rest] = (word as string).split(':');
      checkWord(head as string, rest, path, names, fail, expected);
    }
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  for (const [key, item] of Object.entries(value)) {
    if (key.startsWith('$') && !generators.has(key)) {
      const known = [...generators].filter((name) => name.startsWith('$'));
      fail([...path, key], `${key} is none of ${known.join(', ')}; mend the name`);
    }
    if (key === '$ticket') checkTicket(item, [...path, key], fail);
    checkValue(item, [...path, Array.isArray(value) ? Number(key) : key], names, fail, expected);
  }
}

const ticketFields = ['user', 'conversation', 'participants', 'audience', 'expires', 'forged'];

function checkTicket(spec: unknown, path: (string | number)[], fail: Report): void {
  const keys = typeof spec === 'object' && spec !== null ? Object.keys(spec) : [];
  const missing = ticketFields.slice(0, 3).filter((key) => !keys.includes(key));
  if (missing.length > 0) fail(path, `$ticket has no ${missing.join(', ')}; add it`);
  for (const key of keys.filter((one) => !ticketFields.includes(one))) {
    fail([...path, key], `unknown ${key} in $ticket; it may have ${ticketFields.join(', ')}`);
  }
}

function checkWord(
  word: string,
  rest: string | undefined,
  path: (string | number)[],
  names: Names,
  fail: Report,
  expected: boolean,
): void {
  if (word === 'socket') {
    if (rest === undefined || !names.devices.has(rest.replace(/#\d+$/, ''))) {
      fail(path, `$socket:${rest ?? ''} names no device; write $socket: and one of ${[...names.devices].join(', ')}`);
    }
  } else if (word === 'id') {
    if (rest === undefined)
      fail(path, '$id needs a name: write $id:message, and the same name wherever it must be equal');
  } else if (rest !== undefined || !(names.words.has(word) || reserved.has(word))) {
    const known = [...names.words].map((name) => `$${name}`);
    fail(
      path,
      `$${word} is neither a party nor a conversation (${known.join(', ')}); write $$${word} for the text itself`,
    );
  } else if (!expected && (word === 'any' || word === 'time')) {
    fail(path, `$${word} stands for what is received; it can't be sent`);
  }
}

const unknownDevice = (device: string, devices: ReadonlySet<string>): string =>
  `${device} is no device of this scenario (${[...devices].join(', ')}); add it to parties, or mend the name`;
