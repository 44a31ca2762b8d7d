# A task that always fails: watch it being restarted, a little later each time, and given up.
#
#   holdfast run examples/crashing.hcl
#   holdfast history crashing
#   holdfast events crashing
job "crashing" {
  type = "service"

  group "main" {
    task "boom" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo working; sleep 0.3; echo 'no luck' >&2; exit 3"]
      }

      restart {
        # Three restarts within ten seconds, then the task is failed ("delay" would go on after the interval).
        attempts = 3
        interval = "10s"
        mode     = "fail"

        # 0.5 s, then 1 s, then 2 s, never more than 2 s, and nothing added at random.
        delay     = "500ms"
        factor    = 2
        max_delay = "2s"
        jitter    = 0
      }
    }
  }
}
