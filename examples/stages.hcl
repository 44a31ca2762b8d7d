# Tasks of one group that start and end in stages.
#
#   holdfast run examples/stages.hcl
#   holdfast status stages
#
# "prepare" runs to its end before anything else starts. "clock" is a sidecar: it runs beside the main task. "work" is
# the main task; when it ends, the sidecar is ended, and "tidy" runs last, also after `holdfast stop stages`.
job "stages" {
  type = "batch"

  group "work" {
    task "prepare" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo 3 > $NOMAD_ALLOC_DIR/data/rounds; echo prepared"]
      }
      lifecycle {
        hook = "prestart"
      }
    }

    task "clock" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "while sleep 0.2; do date +%T; done"]
      }
      lifecycle {
        hook    = "prestart"
        sidecar = true
      }
    }

    task "work" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "for i in $(seq $(cat $NOMAD_ALLOC_DIR/data/rounds)); do echo round $i; sleep 0.3; done"]
      }
    }

    task "tidy" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "rm $NOMAD_ALLOC_DIR/data/rounds && echo tidied"]
      }
      lifecycle {
        hook = "poststop"
      }
    }
  }
}
