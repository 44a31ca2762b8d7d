# Two tasks of one group: they run beside each other and share a directory.
#
#   holdfast run examples/two-tasks.hcl
#   holdfast logs pair -f
job "pair" {
  type = "service"

  group "pair" {
    # Inherited by both tasks; a task may set single keys otherwise.
    restart {
      attempts = 3
      interval = "1m"
      delay    = "1s"
    }

    # Writes a line each second into the directory that both can see.
    task "writer" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          n=0
          while true; do
            n=$((n + 1))
            echo "line $n" >> "$NOMAD_ALLOC_DIR/data/shared.log"
            sleep 1
          done
        EOF
        ]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }

    # Follows what the other one writes.
    task "reader" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          touch "$NOMAD_ALLOC_DIR/data/shared.log"
          exec tail -n +1 -f "$NOMAD_ALLOC_DIR/data/shared.log"
        EOF
        ]
      }

      # tail ends at once when asked.
      kill_signal  = "SIGTERM"
      kill_timeout = "2s"

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
