/** Owns the way from a checked job to the JSON that PUT /v1/jobs takes. */
import type {
  Artifact,
  Job as JobSpec,
  ReschedulePolicy,
  RestartPolicy,
  Task,
  Template,
  UpdateStrategy,
  VolumeMount,
} from '../../jobspec/types.js';
import type {
  ArtifactJson,
  JobJson,
  PeriodicJson,
  ReschedulePolicyJson,
  ResourcesJson,
  RestartPolicyJson,
  TaskJson,
  TemplateJson,
  UpdateJson,
  VolumeJson,
  VolumeMountJson,
} from './job.js';
import { portsToWire, serviceToWire } from './service-spec.js';
import { msToNs } from './values.js';

/** The job as PUT /v1/jobs takes it. `parseJobJson` of jobspec reads it back to the same job. */
export function jobSpecToWire(job: JobSpec): JobJson {
  return {
    ID: job.id,
    Name: job.name,
    Namespace: job.namespace,
    Region: job.region,
    Type: job.type,
    Priority: job.priority,
    Datacenters: job.datacenters,
    Meta: job.meta,
    TaskGroups: job.groups.map((group) => ({
      Name: group.name,
      Count: group.count,
      Meta: group.meta,
      Tasks: group.tasks.map(taskSpecToWire),
      ...(group.ports === undefined ? {} : { Networks: [portsToWire(group.ports)] }),
      ...(group.volumes === undefined ? {} : { Volumes: volumesToWire(group.volumes) }),
      ...(group.services === undefined ? {} : { Services: group.services.map(serviceToWire) }),
      ...(group.shutdownDelayMs === undefined ? {} : { ShutdownDelay: msToNs(group.shutdownDelayMs) }),
      ...(group.maxRunMs === undefined ? {} : { MaxRunDuration: msToNs(group.maxRunMs) }),
      ...(group.update === undefined ? {} : { Update: updateToWire(group.update) }),
      ...(group.reschedule === undefined ? {} : { ReschedulePolicy: rescheduleToWire(group.reschedule) }),
    })),
    Periodic: periodicToWire(job),
    ParameterizedJob: job.parameterized === undefined ? null : parameterizedToWire(job.parameterized),
  };
}

function periodicToWire({ periodic }: JobSpec): PeriodicJson | null {
  if (periodic === undefined) return null;
  const { crons, timeZone, prohibitOverlap, enabled } = periodic;
  return {
    Enabled: enabled,
    Spec: crons[0] ?? '',
    Specs: crons,
    SpecType: 'cron',
    ProhibitOverlap: prohibitOverlap,
    TimeZone: timeZone,
  };
}

function parameterizedToWire(
  spec: NonNullable<JobSpec['parameterized']>,
): NonNullable<JobJson['ParameterizedJob']> {
  return { Payload: spec.payload, MetaRequired: spec.metaRequired, MetaOptional: spec.metaOptional };
}

function rescheduleToWire(policy: ReschedulePolicy): ReschedulePolicyJson {
  return {
    Attempts: policy.attempts,
    Interval: msToNs(policy.intervalMs),
    Delay: msToNs(policy.delayMs),
    DelayFunction: policy.delayFunction,
    MaxDelay: msToNs(policy.maxDelayMs),
    Unlimited: policy.unlimited,
  };
}

function taskSpecToWire(task: Task): TaskJson {
  return {
    Name: task.name,
    Driver: task.driver,
    User: task.user ?? '',
    Config: task.config,
    Env: task.env,
    Meta: task.meta,
    Resources: resourcesToWire(task),
    RestartPolicy: restartPolicyToWire(task.restart),
    KillTimeout: msToNs(task.killTimeoutMs),
    KillSignal: task.killSignal ?? '',
    ShutdownDelay: msToNs(task.shutdownDelayMs),
    LogConfig: {
      MaxFiles: task.logs.maxFiles,
      MaxFileSizeMB: task.logs.maxFileSizeMib,
      Disabled: task.logs.disabled,
      ...(task.logs.compress === true ? { Compress: true } : {}),
    },
    Leftovers: task.leftovers,
    ...(task.leftoversTimeoutMs === undefined ? {} : { LeftoversTimeout: msToNs(task.leftoversTimeoutMs) }),
    StopSignals: (task.stopSignals ?? []).map(({ signal, waitMs }) =>
      waitMs === undefined ? signal : `${signal}:${waitMs}ms`,
    ),
    Leader: task.leader,
    Lifecycle:
      task.lifecycle === undefined ? null : { Hook: task.lifecycle.hook, Sidecar: task.lifecycle.sidecar },
    ...(task.services === undefined ? {} : { Services: task.services.map(serviceToWire) }),
    ...(task.artifacts === undefined ? {} : { Artifacts: task.artifacts.map(artifactToWire) }),
    ...(task.templates === undefined ? {} : { Templates: task.templates.map(templateToWire) }),
    ...(task.volumeMounts === undefined ? {} : { VolumeMounts: task.volumeMounts.map(volumeMountToWire) }),
    ...(task.dispatchPayload === undefined ? {} : { DispatchPayload: { File: task.dispatchPayload.file } }),
  };
}

function volumesToWire(
  volumes: NonNullable<JobSpec['groups'][number]['volumes']>,
): Readonly<Record<string, VolumeJson>> {
  return Object.fromEntries(
    Object.entries(volumes).map(([name, { source, readOnly }]) => [
      name,
      { Name: name, Type: 'host', Source: source, ReadOnly: readOnly },
    ]),
  );
}

function volumeMountToWire(mount: VolumeMount): VolumeMountJson {
  return { Volume: mount.volume, Destination: mount.destination, ReadOnly: mount.readOnly };
}

function artifactToWire(artifact: Artifact): ArtifactJson {
  return {
    GetterSource: artifact.source,
    GetterOptions: artifact.options,
    GetterHeaders: artifact.headers,
    GetterMode: artifact.mode,
    RelativeDest: artifact.destination,
    Chown: artifact.chown,
  };
}

function templateToWire(template: Template): TemplateJson {
  const { changeScript: script } = template;
  return {
    EmbeddedTmpl: template.data ?? '',
    SourcePath: template.source ?? '',
    DestPath: template.destination,
    ChangeMode: template.changeMode,
    ChangeSignal: template.changeSignal ?? '',
    ...(script === undefined
      ? {}
      : {
          ChangeScript: {
            Command: script.command,
            Args: script.args.length === 0 ? null : script.args,
            Timeout: msToNs(script.timeoutMs),
            FailOnError: script.failOnError,
          },
        }),
    Splay: msToNs(template.splayMs),
    Perms: template.perms,
    Uid: template.uid ?? null,
    Gid: template.gid ?? null,
    Envvars: template.env,
    ErrMissingKey: template.errorOnMissingKey,
    Once: template.once,
    LeftDelim: template.leftDelimiter,
    RightDelim: template.rightDelimiter,
  };
}

/** What a task asks for, in Nomad's keys. */
export function resourcesToWire({ resources }: Pick<Task, 'resources'>): ResourcesJson {
  return {
    CPU: resources.cpuMhz,
    MemoryMB: resources.memoryMib,
    MemoryMaxMB: resources.memoryMaxMib ?? 0,
    DiskMB: 0,
    ...(resources.cpuPercent === undefined ? {} : { CPUPercent: resources.cpuPercent }),
    ...(resources.pids === undefined ? {} : { Pids: resources.pids }),
    ...(resources.cores === undefined ? {} : { Cores: resources.cores }),
    ...(resources.memorySwapMib === undefined ? {} : { MemorySwapMB: resources.memorySwapMib }),
    ...(resources.ioWeight === undefined ? {} : { IOWeight: resources.ioWeight }),
    ...(resources.ioReadMib === undefined ? {} : { IOReadMB: resources.ioReadMib }),
    ...(resources.ioWriteMib === undefined ? {} : { IOWriteMB: resources.ioWriteMib }),
  };
}

function restartPolicyToWire(policy: RestartPolicy): RestartPolicyJson {
  return {
    Attempts: policy.attempts,
    Interval: msToNs(policy.intervalMs),
    Delay: msToNs(policy.delayMs),
    Mode: policy.mode,
    Factor: policy.factor,
    ...(policy.maxDelayMs === undefined ? {} : { MaxDelay: msToNs(policy.maxDelayMs) }),
    Jitter: policy.jitter,
    ...(policy.resetAfterMs === undefined ? {} : { ResetAfter: msToNs(policy.resetAfterMs) }),
  };
}

function updateToWire(update: UpdateStrategy): UpdateJson {
  return {
    Stagger: msToNs(update.staggerMs),
    MaxParallel: update.maxParallel,
    HealthCheck: update.healthCheck,
    MinHealthyTime: msToNs(update.minHealthyMs),
    HealthyDeadline: msToNs(update.healthyDeadlineMs),
    ProgressDeadline: msToNs(update.progressDeadlineMs),
    AutoRevert: update.autoRevert,
    AutoPromote: update.autoPromote,
    Canary: update.canary,
  };
}
