// For tests: openapi.yaml, and whether an answer fits what it says.
import { readFileSync } from 'node:fs';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parse } from 'yaml';

type Operation = {
  readonly parameters?: readonly { readonly schema: object }[];
  readonly responses: Readonly<Record<string, { readonly $ref?: string; readonly content?: unknown }>>;
};
export const described = parse(readFileSync(new URL('./openapi.yaml', import.meta.url), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly responses: Readonly<Record<string, unknown>>; readonly schemas: object };
};
type Content = { readonly content: Readonly<Record<string, { readonly schema: object }>> };

const ajv = new Ajv2020({
  strict: true,
  allowUnionTypes: true,
  strictRequired: false,
  strictTypes: false,
  allErrors: true,
});
ajv.addFormat('date-time', (text: string) => new Date(text).toISOString() === text);
ajv.addKeyword('components');
ajv.addSchema({ $id: 'api', components: described.components });
const validators = new Map<string, ValidateFunction>();

/** What is described for this answer; the pointer leads to its schema. */
function pointerOf(path: string, method: string, status: number): string {
  const operation = described.paths[path]?.[method.toLowerCase()];
  const response = operation?.responses[String(status)];
  if (!response) throw new Error(`${method} ${path} → ${status} is not described`);
  const ref = response.$ref?.replace('#/components/responses/', '');
  const { content } = (ref ? described.components.responses[ref] : response) as Content;
  const schema = content['application/json']?.schema;
  const key = JSON.stringify(schema);
  if (!validators.has(key)) {
    validators.set(key, ajv.compile(JSON.parse(key.replaceAll('"#/', '"api#/')) as object));
  }
  return key;
}

/** What of the answer doesn't fit; empty: it does. @throws where the answer is not described at all. */
export function misfits(path: string, method: string, status: number, body: unknown): readonly string[] {
  const validate = validators.get(pointerOf(path, method, status));
  if (!validate) throw new Error(`${method} ${path} has no schema`);
  return validate(body) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`);
}
