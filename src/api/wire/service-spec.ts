/** Owns the way from the services and ports of a checked job to Nomad's JSON. */
import type { Port, Service, ServiceCheck } from '../../jobspec/types.js';
import type { CheckJson, NetworkJson, ServiceJson } from './job.js';
import { msToNs } from './values.js';

export function portsToWire(ports: readonly Port[]): NetworkJson {
  return {
    Mode: 'host',
    ReservedPorts: ports.flatMap(({ label, static: number }) =>
      number === undefined ? [] : [{ Label: label, Value: number }],
    ),
    DynamicPorts: ports.flatMap(({ label, static: number }) =>
      number === undefined ? [{ Label: label }] : [],
    ),
  };
}

export function serviceToWire(service: Service): ServiceJson {
  const addresses = service.checks.flatMap(({ probe }) => (probe.kind === 'script' ? [] : [probe.address]));
  return {
    Name: service.name,
    Provider: 'nomad',
    Address: addresses[0] ?? '',
    Tags: service.tags.length === 0 ? null : service.tags,
    Checks: service.checks.map(checkToWire),
  };
}

function checkToWire(check: ServiceCheck): CheckJson {
  const { restart } = check;
  return {
    Name: check.name,
    Type: check.probe.kind,
    Interval: msToNs(check.intervalMs),
    Timeout: msToNs(check.timeoutMs),
    TaskName: check.task ?? '',
    ...probeToWire(check),
    InitialStatus: check.initialStatus ?? '',
    SuccessBeforePassing: check.successBeforePassing,
    FailuresBeforeCritical: check.failuresBeforeCritical,
    OnUpdate: check.onUpdate,
    CheckRestart:
      restart === undefined
        ? null
        : { Limit: restart.limit, Grace: msToNs(restart.graceMs), IgnoreWarnings: restart.ignoreWarnings },
  };
}

function probeToWire({ probe }: ServiceCheck): Partial<CheckJson> {
  switch (probe.kind) {
    case 'script':
      return { Command: probe.command, Args: probe.args.length === 0 ? null : probe.args };
    case 'tcp':
      return { PortLabel: probe.port };
    case 'http':
      return {
        PortLabel: probe.port,
        Protocol: probe.protocol,
        Path: probe.path,
        Method: probe.method,
        Header: Object.keys(probe.headers).length === 0 ? null : probe.headers,
        Body: probe.body,
        TLSSkipVerify: probe.skipVerify,
        TLSServerName: probe.serverName ?? '',
      };
  }
}
