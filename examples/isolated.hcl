# A task shut in by the driver exec: a root of its own made of read-only parts of the host, its own processes, names,
# message queues and network, one capability, limits. While it runs, "holdfast status isolated" says in a line, and
# "holdfast inspect isolated/box/probe" in full, what it really got. Works as root and as an ordinary user.
job "isolated" {
  type = "batch"

  group "box" {
    task "probe" {
      driver = "exec"

      config {
        # Looked for in /local, then on the PATH, as the task sees them.
        command = "sh"
        args = ["-c", <<EOT
echo "I am $(id -un), process $$ of $(ls -d /proc/[0-9]* | wc -l)"
touch /usr/local/mine 2>&1
touch /local/mine && echo "/local is mine"
grep -E '^(NoNewPrivs|Seccomp|CapBnd)' /proc/self/status
echo "open files: $(ulimit -n), umask $(umask)"
ls -1 /sys/class/net
sleep 2
EOT
        ]
        work_dir = "/local"

        # "private" is what both are without being told; "host" shares those of the host.
        pid_mode = "private"
        ipc_mode = "private"
        # "none": a loopback of its own and nothing else; "host" is the default.
        network_mode = "none"

        # From Nomad's set of 13: all but one are taken away.
        cap_drop = ["all"]
        cap_add  = ["net_bind_service"]
        # Both are the default: set-uid programs give nothing, and system calls that change the host are refused.
        no_new_privs = true
        seccomp      = "default"

        umask         = "027"
        nice          = 5
        oom_score_adj = 100
        ulimit {
          nofile = "256:512"
          core   = "0"
        }
      }

      resources {
        cpu = 100
      }
    }
  }
}
