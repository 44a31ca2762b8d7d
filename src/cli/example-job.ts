/** Owns the example that `holdfast init` writes. A test validates both of its forms and that they mean the same. */

/** The example in the format of a file name; undefined when its extension names none. */
export function exampleJob(fileName: string): string | undefined {
  const extension = /\.([^./]+)$/.exec(fileName)?.[1]?.toLowerCase();
  if (extension === 'hcl' || extension === 'nomad') return HCL;
  return extension === 'yaml' || extension === 'yml' ? YAML : undefined;
}

const HCL = `# A job file of holdfast. Check it with "holdfast validate", run it with "holdfast run".
# All keys with their defaults: docs/jobspec.md.

variable "greeting" {
  type        = string
  default     = "hello"
  description = "set it with --var greeting=hi"
}

job "example" {
  # service: kept running. batch: meant to end.
  type = "service"

  # The tasks of a group run together; each copy of it is an "alloc".
  group "main" {
    count = 1

    # When a task ends: 3 restarts within 5 minutes, 2 seconds apart; then it counts as failed.
    restart {
      attempts = 3
      interval = "5m"
      delay    = "2s"
      mode     = "fail"
    }

    task "hello" {
      # raw_exec runs a program of this host as it is. No shell reads the arguments.
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \\"$GREETING from $NOMAD_TASK_NAME\\"; sleep 5; done"]
      }

      env {
        GREETING = var.greeting
      }

      # Limits; they need root (or delegated cgroups).
      resources {
        cpu    = 100 # MHz: its share when CPU is short
        memory = 64  # MiB
      }

      # How it is asked to stop, and how long it has until SIGKILL.
      kill_signal  = "SIGTERM"
      kill_timeout = "5s"
    }
  }
}
`;

const YAML = `# A job file of holdfast. Check it with "holdfast validate", run it with "holdfast run".
# All keys with their defaults: docs/jobspec.md. For editors: holdfast schema > job.schema.json
# yaml-language-server: $schema=job.schema.json
job:
  example:
    # service: kept running. batch: meant to end.
    type: service
    group:
      # The tasks of a group run together; each copy of it is an "alloc".
      main:
        count: 1
        # When a task ends: 3 restarts within 5 minutes, 2 seconds apart; then it counts as failed.
        restart:
          attempts: 3
          interval: 5m
          delay: 2s
          mode: fail
        task:
          hello:
            # raw_exec runs a program of this host as it is. No shell reads the arguments.
            driver: raw_exec
            config:
              command: /bin/sh
              args:
                - -c
                - while true; do echo "$GREETING from $NOMAD_TASK_NAME"; sleep 5; done
            env:
              GREETING: hello
            # Limits; they need root (or delegated cgroups).
            resources:
              cpu: 100 # MHz: its share when CPU is short
              memory: 64 # MiB
            # How it is asked to stop, and how long it has until SIGKILL.
            kill_signal: SIGTERM
            kill_timeout: 5s
`;
