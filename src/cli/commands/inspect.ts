/** Owns `holdfast inspect`. */
import type { Allocation, Job } from '../../api/wire.js';
import { writeJson, type Cli } from '../cli.js';
import { addExamples, addJson, TARGET_HELP, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';
import { fetchTarget, jobPath, mapBounded } from '../fetch.js';
import { isLive, type Target } from '../target.js';

/** Allocs that are asked about for one task. */
const MOST_ALLOCS = 16;

export function define({ command, run }: Definition): void {
  addJson(command).argument('<target>', TARGET_HELP);
  addExamples(command, [
    ['holdfast inspect web', 'the job as it is stored, with every default'],
    ['holdfast inspect web/api/server', 'one of its tasks, and what it really got where it runs'],
    ['holdfast inspect 7a1c9d2e', 'an alloc'],
  ]);
  run(async (cli, _options, [text = '']) => {
    const target = await fetchTarget(cli, text);
    const [only] = target.allocs;
    if ((target.kind === 'alloc' || target.kind === 'alloc-task') && only !== undefined) {
      const alloc = await cli.client.get<Allocation>(`/v1/allocation/${only.ID}`);
      await writeJson(cli, target.task === undefined ? alloc : alloc.TaskStates[target.task]);
      return EXIT.ok;
    }
    const job = await cli.client.get<Job>(jobPath(target.jobId));
    const part = partOf(job, target.group, target.task);
    const { task } = target;
    await writeJson(
      cli,
      task === undefined
        ? part
        : { ...part, Holdfast: { Running: await fetchRunning(cli, target.allocs, task) } },
    );
    return EXIT.ok;
  });
}

/** What the task really got, in each alloc in which it runs. */
async function fetchRunning(cli: Cli, allocs: Target['allocs'], task: string): Promise<object[]> {
  const full = await mapBounded(allocs.filter(isLive).slice(0, MOST_ALLOCS), 8, ({ ID }) =>
    cli.client.get<Allocation>(`/v1/allocation/${ID}`),
  );
  return full.flatMap(({ ID, TaskStates }) => {
    const ours = TaskStates[task]?.Holdfast;
    return ours?.InForce === undefined
      ? []
      : [{ AllocID: ID, RunID: ours.RunID, Pid: ours.Pid, InForce: ours.InForce }];
  });
}

function partOf(job: Job, groupName: string | undefined, taskName: string | undefined): object {
  if (groupName === undefined) return job;
  const group = job.TaskGroups.find(({ Name }) => Name === groupName);
  const part = taskName === undefined ? group : group?.Tasks.find(({ Name }) => Name === taskName);
  if (part !== undefined) return part;
  throw new CliError(
    EXIT.notFound,
    `${job.ID} no longer has this part in version ${job.Version}: "holdfast inspect ALLOC" shows what an old alloc runs`,
  );
}
