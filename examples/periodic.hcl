# A job that runs by the clock. Each launch is a job of its own.
#
#   holdfast run examples/periodic.hcl
#   holdfast periodic force report     launches it now, and watches it
#   holdfast ps                        shows the launches
job "report" {
  type = "batch"

  periodic {
    # Minute, hour, day of the month, month, day of the week. With six fields, the first is the second.
    crons     = ["*/15 * * * *"]
    time_zone = "UTC"
    # A launch is passed over while the one before it is not over.
    prohibit_overlap = true
  }

  group "report" {
    task "uptime" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"$NOMAD_JOB_ID: $(cut -d ' ' -f 1 /proc/uptime) s\""]
      }
    }
  }
}
