/** Owns openapi.json: made from the route table, so that no route can be missing from it. Schemas come later. */
import type { Route } from './route.js';

/** Understood by every route that answers JSON. */
const COMMON_QUERY = ['pretty'];
const BLOCKING_QUERY = ['index', 'wait'];

/** @param version of the daemon */
export function describeRoutes(routes: readonly Route[], version: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, '{$1}');
    const operations = (paths[path] ??= {});
    for (const method of route.methods) operations[method.toLowerCase()] = describeRoute(route);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'holdfast', version, description: 'The HTTP API of a worker host. Shapes are Nomad’s.' },
    paths,
  };
}

function describeRoute(route: Route): object {
  const inPath = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
  const names = [
    ...(route.query ?? []),
    ...(route.kind === 'json' ? COMMON_QUERY : []),
    ...(route.kind === 'json' && route.watch !== undefined ? BLOCKING_QUERY : []),
  ];
  const inQuery = names.map((name) => ({ name, in: 'query', schema: { type: 'string' } }));
  const ok =
    route.kind === 'socket' ? { '101': { description: 'websocket' } } : { '200': { description: 'ok' } };
  return {
    summary: route.summary,
    'x-holdfast-scope': route.scope,
    parameters: [...inPath, ...inQuery],
    responses: {
      ...ok,
      default: { description: 'error: text, or {"Code","Message"} with Accept: application/json' },
    },
  };
}
