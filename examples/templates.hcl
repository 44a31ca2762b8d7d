# A file is fetched, and another one is made of it and of what the task knows, before the task starts.
job "templates" {
  type = "batch"

  group "reader" {
    task "show" {
      driver = "raw_exec"

      artifact {
        source = "file:///etc/passwd"
      }

      template {
        data        = <<EOF
{{ env "NOMAD_TASK_NAME" | toUpper }} knows {{ index (file "local/passwd" | split ":") 0 }}
{{ range $i, $word := split "," "one,two,three" }}{{ add 1 $i }} {{ $word }}
{{ end }}
EOF
        destination = "local/page"
        change_mode = "noop"
      }

      config {
        command = "/bin/cat"
        args    = ["local/page"]
      }
    }
  }
}
