# What `npm run demo` runs: a web service, a task that counts, and one that fails when it is told to.
#
#   holdfast run examples/demo.hcl
#   holdfast logs demo -f
job "demo" {
  type = "service"

  group "demo" {
    # Any of the three is started again one second after it ends, up to three times in a minute.
    restart {
      attempts = 3
      interval = "1m"
      delay    = "1s"
      jitter   = 0
      mode     = "fail"
    }

    # Answers with its pid and how often it has been asked. Port 0 lets the kernel choose a free one; the log says which.
    task "server" {
      driver = "raw_exec"

      config {
        command = "python3"
        args = ["-u", "-c", <<-EOF
          import http.server, os

          class Counter(http.server.BaseHTTPRequestHandler):
              asked = 0

              def do_GET(self):
                  Counter.asked += 1
                  body = f"pid {os.getpid()}, asked {Counter.asked} times\n".encode()
                  self.send_response(200)
                  self.send_header("Content-Type", "text/plain")
                  self.send_header("Content-Length", str(len(body)))
                  self.end_headers()
                  self.wfile.write(body)

              def log_message(self, *_):
                  pass

          server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Counter)
          print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
          server.serve_forever()
        EOF
        ]
      }

      env {
        PORT = 0
      }

      kill_signal = "SIGTERM"

      resources {
        cpu    = 100
        memory = 64
      }
    }

    # Ten numbered lines a second: what is missing or repeated shows.
    task "ticker" {
      driver = "raw_exec"

      config {
        command = "python3"
        args = ["-u", "-c", <<-EOF
          import itertools, time

          for number in itertools.count(1):
              print(f"line {number}", flush=True)
              time.sleep(0.1)
        EOF
        ]
      }

      kill_signal = "SIGTERM"

      resources {
        cpu    = 50
        memory = 64
      }
    }

    # Exits with 3 each time the file `fail` appears in the directory that the tasks of a group share.
    task "fickle" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          cd "$NOMAD_ALLOC_DIR/data"
          echo "waiting for $PWD/fail"
          until [ -e fail ]; do sleep 0.1; done
          rm fail
          echo "that was it"
          exit 3
        EOF
        ]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
