# A small web server that is kept running.
#
#   holdfast run examples/web.hcl
#   curl http://127.0.0.1:8080/
#
# Needs nothing but python3. web.yaml and web.json are the same job in the two other formats.
job "web" {
  # "service" means: shall run for ever, so it is started again whenever it ends.
  type = "service"

  group "site" {
    # How many copies shall run. Two would need two ports.
    count = 1

    task "server" {
      # raw_exec runs a program of this host as it is, without a file system of its own.
      driver = "raw_exec"

      config {
        command = "python3"

        # The program stands right here, so the example is one file. <<-EOF cuts the indentation off.
        args = ["-u", "-c", <<-EOF
          import http.server, os

          class Hello(http.server.BaseHTTPRequestHandler):
              def do_GET(self):
                  body = f"Hello from {os.environ['NOMAD_ALLOC_NAME']}, pid {os.getpid()}\n".encode()
                  self.send_response(200)
                  self.send_header("Content-Type", "text/plain")
                  self.send_header("Content-Length", str(len(body)))
                  self.end_headers()
                  self.wfile.write(body)

          port = int(os.environ.get("PORT", "8080"))
          server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Hello)
          print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
          server.serve_forever()
        EOF
        ]
      }

      # The environment of the task; nothing of the daemon's own leaks into it.
      env {
        PORT = 8080
      }

      # Asked to stop, it gets this signal and has this long before it is killed.
      kill_signal  = "SIGTERM"
      kill_timeout = "5s"

      # If it fails: again after a second, at most five times within five minutes.
      restart {
        attempts = 5
        interval = "5m"
        delay    = "1s"
        mode     = "fail"
      }

      resources {
        cpu    = 100 # MHz, a share when the CPU is short
        memory = 128 # MiB
      }
    }
  }
}
