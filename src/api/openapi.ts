/**
 * Owns openapi.json: made from the route table and the schemas that check what comes in, so that no route can be
 * missing from it and no body be other than it says.
 */
import { z } from 'zod';
import { AgentError } from '../base/errors.js';
import { jobBodySchema } from '../jobspec/json-schema.js';
import { ANSWER_SCHEMAS } from './answers.js';
import { JOB_IN_BODY } from './job-body.js';
import { LIST_QUERY } from './page.js';
import { QUERY_PARAMETERS } from './query-params.js';
import type { Method, Route } from './route.js';

/** Understood by every route that answers JSON. */
const COMMON_QUERY = ['pretty'];
const BLOCKING_QUERY = ['index', 'wait'];

/** @param version of the daemon */
export function describeRoutes(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const operations = (paths[path] ??= {});
    for (const method of route.methods) operations[method.toLowerCase()] = describeRoute(route, method);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'holdfast',
      version,
      description:
        'The HTTP API of a worker host. Paths and shapes are Nomad’s; what is ours stands under Holdfast.',
    },
    paths,
    components: {
      securitySchemes: {
        token: { type: 'apiKey', in: 'header', name: 'X-Nomad-Token' },
        bearer: { type: 'http', scheme: 'bearer' },
      },
      schemas: { ...describeAnswers(), JobBody: jobBodySchema(schemaAt('JobBody')) },
    },
    security: [{ token: [] }, { bearer: [] }],
  };
}

function schemaAt(name: string): string {
  return `#/components/schemas/${name}`;
}

/** The schema of each answer, by name. Open: a later version may say more. */
function describeAnswers(): Readonly<Record<string, object>> {
  const { schemas } = z.toJSONSchema(ANSWER_SCHEMAS, { io: 'input', unrepresentable: 'any', uri: schemaAt });
  for (const schema of Object.values(schemas)) {
    delete schema.$schema;
    delete schema.$id;
  }
  return schemas;
}

function describeRoute(route: Route, method: Method): object {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const body = route.kind === 'json' ? route.body : undefined;
  return {
    operationId: `${method.toLowerCase()}${route.path.replace(/^\/v1/, '').replaceAll('/', '-').replaceAll(':', '')}`,
    summary: route.summary,
    'x-holdfast-scope': route.scope,
    parameters: [...inPath, ...queryOf(route).map(describeParameter)],
    ...(body === undefined
      ? {}
      : { requestBody: { content: { 'application/json': { schema: schemaOf(body) } } } }),
    responses: {
      ...answerOf(route),
      default: {
        description: 'An error: text, or this with Accept: application/json',
        content: { 'application/json': { schema: { $ref: schemaAt('Error') } } },
      },
    },
  };
}

/** Names of the query parameters that a route understands. */
export function queryOf(route: Route): readonly string[] {
  const isJson = route.kind === 'json';
  return [
    ...(route.query ?? []),
    ...(isJson && route.list !== undefined ? LIST_QUERY : []),
    ...(isJson ? COMMON_QUERY : []),
    ...(isJson && route.watch !== undefined ? BLOCKING_QUERY : []),
  ];
}

function describeParameter(name: string): object {
  const { description, ...schema } = QUERY_PARAMETERS.get(name) ?? { type: 'string', description: '' };
  return { name, in: 'query', description, schema };
}

function schemaOf(body: z.ZodType): object {
  const schema = z.toJSONSchema(body, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema === JOB_IN_BODY) jsonSchema.$ref = schemaAt('JobBody');
    },
  });
  // The dialect is the document's own.
  delete schema.$schema;
  return schema;
}

function answerOf(route: Route): object {
  if (route.kind === 'socket') return { '101': { description: 'A websocket' } };
  if (route.kind === 'stream') return { '200': { description: 'A stream' } };
  const headers = {
    'X-Nomad-Index': { schema: { type: 'integer' } },
    ...(route.list === undefined ? {} : { 'X-Nomad-NextToken': { schema: { type: 'string' } } }),
  };
  const name = ANSWER_SCHEMAS.get(route.answer)?.id;
  if (name === undefined) throw new AgentError('internal', `the answer of ${route.path} has no name`);
  const schema = { $ref: schemaAt(name) };
  return { '200': { description: 'JSON', headers, content: { 'application/json': { schema } } } };
}
