# A program that prints in colours, and at once, only where it finds a terminal: it gets one of its own.
job "terminal" {
  type = "batch"

  group "screen" {
    task "paint" {
      driver = "raw_exec"

      config {
        command = "sh"
        args = ["-c", <<EOT
test -t 1 && echo "on a terminal, $TERM, rows and columns: $(stty size)"
printf '\033[32mgreen\033[0m\n'
EOT
        ]

        # Its input and output; all it writes is logged as stdout, and nobody types anything.
        tty      = true
        tty_size = "120x40"
      }

      # Full files are compressed; `holdfast logs` reads them all the same.
      logs {
        max_files     = 5
        max_file_size = 1
        compress      = true
      }

      resources {
        cpu    = 100
        memory = 32
      }
    }
  }
}
