/** Owns the routes of allocs: reading and stopping, and what the client does to their tasks. */
import { z } from 'zod';
import { AgentError } from '../../base/errors.js';
import { signalNumber } from '../../base/signals.js';
import * as answers from '../answers.js';
import { checksToWire } from '../check-view.js';
import { LONGEST_EXEC_MESSAGE_BYTES, serveExec } from '../exec-socket.js';
import { findAlloc } from '../lookup.js';
import { parseBody } from '../query.js';
import { WRITE, type Call, type Route } from '../route.js';
import type { Services } from '../services.js';
import { historyToWire, usageToWire } from '../usage-view.js';
import type { AllocStopResponse } from '../wire.js';

const RestartBody = z.looseObject({ TaskName: z.string().nullish(), AllTasks: z.boolean().nullish() });
const SignalBody = z.looseObject({ Task: z.string().nullish(), Signal: z.string() });

export function allocationRoutes(services: Services): readonly Route[] {
  const { store, view } = services;
  return [
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/allocations',
      summary: 'Lists allocs',
      answer: answers.AllocList,
      list: 'created',
      query: ['prefix'],
      watch: () => 'allocs',
      handle: ({ query }) => view.allocStubs({ prefix: query.text('prefix') ?? '' }),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/allocation/:id',
      summary: 'Reads an alloc',
      answer: answers.Allocation,
      watch: (call) => `alloc/${findAlloc(store, call.param('id')).record.id}`,
      handle: (call) => view.alloc(findAlloc(store, call.param('id'))),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/allocation/:id/stop',
      summary: 'Stops an alloc; a new one takes its place',
      answer: answers.AllocStopped,
      query: ['no_shutdown_delay'],
      handle: (call) => stop(services, call),
    },
    ...clientRoutes(services),
  ];
}

function clientRoutes(services: Services): readonly Route[] {
  const { store, operations } = services;
  return [
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/client/allocation/:id/restart',
      summary: 'Restarts one task (TaskName), all (AllTasks), or the running ones of an alloc',
      answer: answers.Done,
      body: RestartBody,
      handle: (call) => restart(services, call),
    },
    {
      kind: 'json',
      methods: WRITE,
      scope: 'operate',
      path: '/v1/client/allocation/:id/signal',
      summary: 'Sends a signal to one task (Task) or to all running ones of an alloc',
      answer: answers.Done,
      body: SignalBody,
      handle: (call) => signal(services, call),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/allocation/:id/stats',
      summary: 'Says what the running tasks of an alloc use now',
      answer: answers.AllocUsage,
      query: ['task'],
      handle: async (call) => {
        const { record } = findAlloc(store, call.param('id'));
        const usage = await operations.allocUsage(record.id);
        return usageToWire(usage, call.query.text('task'), {
          nowMs: services.clock.wallMs(),
          node: operations.node(),
        });
      },
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/holdfast/allocation/:id/usage',
      summary: 'The last samples of what the running tasks of an alloc used',
      answer: answers.UsageHistory,
      handle: (call) => {
        const { record } = findAlloc(store, call.param('id'));
        return historyToWire(operations.usageHistory(record.id), operations.node());
      },
    },
    {
      kind: 'socket',
      methods: ['GET'],
      scope: 'exec',
      path: '/v1/client/allocation/:id/exec',
      summary: 'Runs a command in a task, as a websocket',
      query: ['task', 'command', 'tty', 'width', 'height'],
      longestMessageBytes: LONGEST_EXEC_MESSAGE_BYTES,
      serve: (call, peer) => serveExec(services, call, peer),
    },
    {
      kind: 'json',
      methods: ['GET'],
      scope: 'read',
      path: '/v1/client/allocation/:id/checks',
      summary: 'Says how the checks of an alloc stand, by id',
      answer: answers.Checks,
      handle: (call) => {
        const { record } = findAlloc(store, call.param('id'));
        return checksToWire(operations.allocChecks(record.id), record);
      },
    },
  ];
}

async function stop(services: Services, call: Call): Promise<AllocStopResponse> {
  const { record } = findAlloc(services.store, call.param('id'));
  const { evalId, index } = await services.operations.stopAlloc(record.id, {
    noShutdownDelay: call.query.flag('no_shutdown_delay'),
  });
  return { EvalID: evalId, Index: index };
}

async function restart(services: Services, call: Call): Promise<object> {
  const { record } = findAlloc(services.store, call.param('id'));
  const body = parseBody(RestartBody, call.body);
  const task = body.TaskName ?? '';
  if (task !== '' && body.AllTasks === true) {
    throw new AgentError('bad_request', 'body: give TaskName or AllTasks, not both');
  }
  await services.operations.restartAlloc(record.id, {
    task: task === '' ? undefined : task,
    allTasks: body.AllTasks === true,
  });
  return {};
}

async function signal(services: Services, call: Call): Promise<object> {
  const { record } = findAlloc(services.store, call.param('id'));
  const body = parseBody(SignalBody, call.body);
  signalNumber(body.Signal);
  const task = body.Task ?? '';
  await services.operations.signalAlloc(record.id, {
    task: task === '' ? undefined : task,
    signal: body.Signal,
  });
  return {};
}
