// Writes a generated lifecycle as a scenario file: YAML as a person would write it, with what docs/calls.md expects. Knows
// nothing of how it was found.
import { Document, isCollection, isMap, isSeq, visit } from 'yaml';
import type { Scripted } from './moves.js';

export const schemaLine = '# yaml-language-server: $schema=../scenario.schema.json\n';

/** One YAML document, to be put into a file by itself or behind others with `---` between. */
export function scenarioText({ play, parties, outcome }: Scripted, name: string, about: string): string {
  const shortParties = Object.entries(parties).map(([party, { devices }]) => {
    const [only, ...more] = devices as { name: string }[];
    if (more.length > 0 || !only) return [party, { devices }];
    const { name: _same, ...fields } = only;
    return [party, Object.keys(fields).length > 0 ? fields : null];
  });
  const [first, second] = Object.keys(parties);
  const { conversations } = play;
  const usual = Object.keys(conversations).length === 1 && conversations.call?.join() === [first, second].join();
  const scenario = {
    name,
    about,
    parties: Object.fromEntries(shortParties),
    ...(usual ? {} : { conversations }),
    steps: play.steps.map((step) => ('barrier' in step ? 'barrier' : step)),
    expect: outcome,
  };
  const document = new Document(scenario, { aliasDuplicateObjects: false });
  const inOneLine = (node: unknown): void => {
    if (isCollection(node)) node.flow = true;
  };
  const eachOf = (node: unknown, make: (one: unknown) => void): void => {
    if (isSeq(node)) for (const item of node.items) make(item);
    if (isMap(node)) for (const { value } of node.items) make(value);
  };
  for (const key of ['parties', 'conversations', 'steps']) eachOf(document.get(key), inOneLine);
  eachOf(document.get('expect'), (list) => eachOf(list, inOneLine));
  visit(document, {
    Scalar(key, node) {
      if (key === 'value' && node.value === null) node.source = '';
    },
    Seq(_key, node) {
      if (node.items.length === 0) node.flow = true;
    },
  });
  return document.toString({ lineWidth: 0, nullStr: 'null', flowCollectionPadding: true });
}
