# A service that is asked whether it is well, and restarted when it is not. Its port is its own.
job "checked" {
  group "site" {
    network {
      port "http" {}
    }

    service {
      name = "site"
      port = "http"

      check {
        name     = "answers"
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"

        check_restart {
          limit = 3
          grace = "5s"
        }
      }
    }

    update {
      min_healthy_time = "3s"
      healthy_deadline = "1m"
    }

    shutdown_delay = "1s"

    task "server" {
      driver = "raw_exec"

      config {
        command = "python3"
        args    = ["-m", "http.server", "--bind", "127.0.0.1", "${NOMAD_PORT_http}"]
      }
    }
  }
}
