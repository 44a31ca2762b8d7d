# A job that runs when it is asked to, with what it is given. Each dispatch is a job of its own.
#
#   holdfast run examples/parameterized.hcl
#   echo "some words to count" | holdfast dispatch -m who=me words -
#   holdfast logs words/dispatch-...
job "words" {
  type = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["who"]
  }

  group "count" {
    task "count" {
      driver = "raw_exec"

      # The payload as a file in the task's local directory.
      dispatch_payload {
        file = "input.txt"
      }

      config {
        command = "/bin/sh"
        args    = ["-c", "echo \"$NOMAD_META_who sent $(wc -w < \"$NOMAD_TASK_DIR/input.txt\") words\""]
      }
    }
  }
}
