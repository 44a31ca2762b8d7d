/** Owns what each query parameter is, in one line: for openapi.json. A parameter means the same on every route. */

interface Parameter {
  readonly type: 'string' | 'integer' | 'boolean';
  readonly description: string;
  readonly enum?: readonly string[];
}

const text = (description: string): Parameter => ({ type: 'string', description });
const count = (description: string): Parameter => ({ type: 'integer', description });
const flag = (description: string): Parameter => ({ type: 'boolean', description });

export const QUERY_PARAMETERS: ReadonlyMap<string, Parameter> = new Map([
  ['alloc', text('Alloc id, or a prefix that is unique')],
  ['command', text('Command and arguments, as a JSON list of strings')],
  ['filter', text('Expression that picks items, as Status == "running" and ID contains "web"')],
  ['file', text('Log file to resume in, as a frame named it')],
  ['follow', flag('Go on while there is more to come')],
  ['format', { ...text('Format of the metrics'), enum: ['prometheus'] }],
  ['height', count('Lines of the terminal to begin with')],
  ['idempotency_token', text('A dispatch with the same token gives the job that was made then')],
  ['index', count('Answer only when something has changed after this index; of the feed: begin after it')],
  ['job', text('Job id')],
  ['limit', count('At most so many: events, or bytes of a file')],
  ['lines', count('Begin with the last so many lines')],
  ['log_json', flag('JSON instead of text')],
  ['log_level', { ...text('Lines of this level and above'), enum: ['debug', 'info', 'warn', 'error'] }],
  ['next_token', text('X-Nomad-NextToken of the page before')],
  ['no_shutdown_delay', flag('Do not wait for the shutdown_delay of tasks')],
  ['offset', count('Bytes from the origin')],
  ['origin', { ...text('From where the offset counts'), enum: ['start', 'end'] }],
  ['path', text("Path below the alloc's directory")],
  ['per_page', count('At most so many items')],
  ['plain', flag('Bytes instead of frames')],
  ['prefix', text('Only ids that begin so')],
  ['pretty', flag('Indented JSON')],
  ['purge', flag('Forget the job once its allocs have ended')],
  ['reverse', flag('The last first')],
  ['since', text('Nothing before this time: RFC 3339, or milliseconds since 1970')],
  ['snapshot', flag('Begin with the whole state')],
  ['task', text('Name of a task')],
  ['topic', text('Topic:key of events, may be repeated')],
  ['tty', flag('Run it on a terminal')],
  ['type', { ...text('Stream of the task'), enum: ['stdout', 'stderr'] }],
  ['wait', text('How long to block at most, as 60s')],
  ['width', count('Columns of the terminal to begin with')],
]);
