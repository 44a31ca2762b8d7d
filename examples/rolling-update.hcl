# Three copies of a server. A new version replaces one after the other, and only as long as the new ones are well.
#
#   holdfast run examples/rolling-update.hcl
#   (change the greeting) holdfast run examples/rolling-update.hcl
#   (make it exit 1)      holdfast run examples/rolling-update.hcl   goes back to the version before
job "greeter" {
  group "greeter" {
    count = 3

    update {
      # So many places are between two versions at a time.
      max_parallel = 1
      # So long all tasks of an alloc have to run until it counts as healthy.
      min_healthy_time = "500ms"
      # An alloc that is not healthy by then has failed; so has the deployment.
      healthy_deadline  = "30s"
      progress_deadline = "1m"
      # After a failure the job goes back to the newest version that was healthy.
      auto_revert = true
    }

    task "greet" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"$GREETING from $NOMAD_ALLOC_INDEX\"; exec sleep 86400"]
      }

      env {
        GREETING = "hello"
      }
    }
  }
}
