/**
 * Nothing of another tool's config is lost silently: each key that the tool knows, with a value that is not its default,
 * changes the job file or is told of. Those that say nothing about what runs are listed.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { importCompose } from '../../../src/cli/import/compose.js';
import type { Imported } from '../../../src/cli/import/imported.js';
import { importPm2 } from '../../../src/cli/import/pm2.js';
import { importSupervisor } from '../../../src/cli/import/supervisor.js';
import { importSystemd } from '../../../src/cli/import/systemd.js';

interface Tool {
  /** A config with this key besides what every config needs; undefined = with nothing more. */
  readonly read: (key?: string, value?: string) => Imported;
  /** `key=value`, a key a line. */
  readonly keys: string;
  /** Keys that mean nothing to what runs. */
  readonly silent: readonly string[];
}

const TOOLS: Readonly<Record<string, Tool>> = {
  pm2: {
    read: (key, value) =>
      importPm2(
        JSON.stringify({
          apps: [
            {
              script: '/srv/a.js',
              ...(key === undefined ? {} : { [key]: JSON.parse(value ?? '') as unknown }),
            },
          ],
        }),
        '/srv/ecosystem.json',
      ),
    keys: `name="x"
cwd="/tmp"
args="-a"
interpreter="bun"
interpreter_args="-i"
node_args="-n"
instances=4
instances="max"
exec_mode="cluster"
watch=true
ignore_watch=["x"]
watch_delay=5
max_memory_restart="100M"
max_memory_restart="many"
env={"A":"1"}
env_production={"A":"1"}
env_file=".env"
appendEnvToName=true
source_map_support=true
instance_var="I"
filter_env=["A"]
log_date_format="YYYY"
error_file="e"
out_file="o"
log_file="l"
log_type="json"
combine_logs=true
merge_logs=true
time=true
pid_file="p"
min_uptime="5s"
listen_timeout=8000
kill_timeout=5000
shutdown_with_message=true
wait_ready=true
max_restarts=3
restart_delay=4000
exp_backoff_restart_delay=100
autorestart=false
stop_exit_codes=[0,3]
cron_restart="0 0 * * *"
vizion=false
post_update=["x"]
force=true
namespace="n"
user="app"
uid="app"
gid="app"
treekill=false
automation=false
increment_var="PORT"
disable_trace=true`,
    silent: ['name'],
  },
  supervisor: {
    read: (key, value) =>
      importSupervisor(
        `[program:x]\ncommand=/bin/x\n${key === undefined ? '' : `${key}=${value ?? ''}\n`}`,
        '/srv/s.conf',
      ),
    keys: `numprocs=2
numprocs_start=1
priority=5
autostart=false
autorestart=true
autorestart=false
startsecs=7
startretries=9
exitcodes=0,2
stopsignal=QUIT
stopwaitsecs=20
stopasgroup=false
killasgroup=false
user=app
redirect_stderr=true
stdout_logfile=/x
stdout_logfile_maxbytes=5MB
stdout_logfile_backups=3
stdout_capture_maxbytes=1MB
stdout_events_enabled=true
stdout_syslog=true
stderr_logfile=/x
stderr_logfile_maxbytes=5MB
stderr_logfile_backups=3
stderr_capture_maxbytes=1MB
stderr_events_enabled=true
stderr_syslog=true
environment=A=1
directory=/srv
umask=022
serverurl=AUTO
process_name=%(program_name)s_%(process_num)02d`,
    silent: [],
  },
  systemd: {
    read: (key, value) =>
      importSystemd(
        `[Service]\nExecStart=/bin/x\nRestart=on-failure\n${key === undefined ? '' : `${key}=${value ?? ''}\n`}`,
        'x.service',
      ),
    keys: `Type=forking
Type=notify
Type=dbus
RemainAfterExit=yes
GuessMainPID=no
PIDFile=/run/x
BusName=x
ExecStartPre=/bin/a
ExecStartPost=/bin/a
ExecStop=/bin/a
ExecStopPost=/bin/a
ExecReload=/bin/a
ExecCondition=/bin/a
WorkingDirectory=/srv
WorkingDirectory=~
User=app
Group=app
SupplementaryGroups=app
Environment=A=1
EnvironmentFile=/x
PassEnvironment=A
Restart=always
Restart=on-abnormal
RestartSec=5
RestartSteps=5
RestartMaxDelaySec=5
SuccessExitStatus=3
RestartPreventExitStatus=3
RestartForceExitStatus=3
KillSignal=SIGQUIT
KillMode=process
SendSIGKILL=no
FinalKillSignal=SIGABRT
TimeoutStartSec=5
TimeoutStopSec=5
TimeoutStopSec=infinity
TimeoutSec=5
RuntimeMaxSec=5
WatchdogSec=5
MemoryMax=100M
MemoryMax=50%
MemoryHigh=100M
MemoryLimit=100M
MemorySwapMax=0
CPUQuota=50%
CPUQuota=half
CPUWeight=50
TasksMax=50
TasksMax=50%
IOWeight=50
LimitNOFILE=5
LimitCORE=5
OOMScoreAdjust=5
OOMScoreAdjust=-5
OOMPolicy=kill
Nice=5
UMask=022
StandardInput=tty
StandardOutput=null
StandardError=file:/x
PrivateTmp=yes
ProtectSystem=yes
ProtectHome=yes
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_KILL
AmbientCapabilities=CAP_KILL
SystemCallFilter=@x
RootDirectory=/x
ReadOnlyPaths=/x
RuntimeDirectory=x
StateDirectory=x
DynamicUser=yes
Slice=x
Delegate=yes
Sockets=x
LoadCredential=a:b`,
    silent: [],
  },
  compose: {
    read: (key, value) =>
      importCompose(
        JSON.stringify({
          services: {
            x: { command: 'a', ...(key === undefined ? {} : { [key]: JSON.parse(value ?? '') as unknown }) },
          },
        }),
        '/srv/compose.yaml',
      ),
    keys: `image="i"
build="."
entrypoint="b"
environment={"A":"1"}
environment=["A"]
env_file="x"
working_dir="/srv"
user="app"
user="1:2"
group_add=["x"]
restart="always"
restart="on-failure:3"
stop_signal="SIGQUIT"
stop_grace_period="5s"
stop_grace_period="soon"
mem_limit="100M"
mem_limit="many"
mem_reservation="100M"
memswap_limit="100M"
cpus=0.5
cpu_shares=5
cpuset="0"
pids_limit=5
deploy={"replicas":3}
deploy={"resources":{"limits":{"memory":"100M"}}}
deploy={"resources":{"reservations":{"memory":"100M"}}}
deploy={"restart_policy":{"condition":"any"}}
deploy={"mode":"global"}
scale=3
container_name="x"
tty=true
stdin_open=true
ports=["80:80"]
expose=["80"]
volumes=["/a:/b"]
tmpfs="/x"
depends_on=["y"]
healthcheck={"test":"x"}
networks=["x"]
network_mode="host"
hostname="x"
extra_hosts=["a:1"]
dns="1.1.1.1"
cap_add=["KILL"]
cap_drop=["KILL"]
privileged=true
security_opt=["x"]
read_only=true
ulimits={"nofile":5}
sysctls={"a":1}
devices=["/dev/x"]
logging={"driver":"x"}
labels={"a":"b"}
profiles=["x"]
secrets=["x"]
configs=["x"]
extends={"service":"y"}
shm_size="1M"
oom_score_adj=5
init=true
pid="host"
ipc="host"
platform="linux/arm64"
pull_policy="always"`,
    // Ours are the parent of what they run as well.
    silent: ['init'],
  },
};

describe('import loses nothing silently', () => {
  for (const [tool, { read, keys, silent }] of Object.entries(TOOLS)) {
    it(`of ${tool}`, () => {
      const base = JSON.stringify(read());
      const lost = keys.split('\n').filter((line) => {
        const at = line.indexOf('=');
        const key = line.slice(0, at);
        return !silent.includes(key) && JSON.stringify(read(key, line.slice(at + 1))) === base;
      });
      assert.deepEqual(lost, []);
      // A key that nobody knows is told by its name.
      assert.match(read('made_up_key', '"x"').notes.join('\n'), /not carried over: made_up_key/);
    });
  }

  it('of what stands beside a program', () => {
    const notes = (text: string): string => importSupervisor(text, '/srv/s.conf').notes.join('\n');
    assert.match(
      notes('[supervisord]\nenvironment=A=1\nlogfile=x\n'),
      /^\[supervisord\]: environment is not/,
    );
    assert.match(notes('[group:g]\nprograms=a,b\n'), /\[group:g\]/);
    assert.match(notes('[include]\nfiles=*.conf\n'), /\[include\]/);
    const unit = importSystemd(
      '[Unit]\nAfter=x\n[Service]\nExecStart=/bin/x\n[Timer]\nOnCalendar=daily\n',
      'x.service',
    );
    assert.match(
      unit.notes.join('\n'),
      /\[Timer\]: left out: what runs by the clock[^]*not carried over: After/,
    );
    const compose = importCompose('services: {}\nnetworks: {a: {}}\nvolumes: {b: {}}\n', 'compose.yaml');
    assert.equal(compose.notes.length, 2);
  });
});
