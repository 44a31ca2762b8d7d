# Runs nothing at all: mock_driver plays a script, to try what a job file does before there is a program.
#
#   holdfast run examples/mock.hcl
job "mock" {
  type = "batch"

  group "script" {
    # Ends well after two seconds.
    task "fine" {
      driver = "mock_driver"

      config {
        run_for       = "2s"
        exit_code     = 0
        stdout_string = "hello from nobody\n"

        # Three lines more, half a second apart.
        stdout_repeat          = 3
        stdout_repeat_duration = "500ms"
      }
    }

    # Cannot be started at first sight, and the driver says that trying again may help.
    task "late" {
      driver = "mock_driver"

      config {
        start_error             = "the tape is not in yet"
        start_error_recoverable = true
      }

      restart {
        attempts = 2
        interval = "30s"
        delay    = "1s"
      }
    }
  }
}
