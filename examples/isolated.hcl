# A task shut in by the driver exec, with every option there is: a root of its own made of read-only parts of the host, its
# own processes, names, message queues and network, one capability, limits. While it runs, "holdfast status isolated" says
# in a line, and "holdfast inspect isolated/box/probe" in full, what it really got.
#
# The limits, and another user, need root and cgroups; a core of its own needs a host with two. As an ordinary user:
#   holdfast run -var limits=false isolated.hcl
# With a directory that the operator offers (host_volume in the agent's configuration, see docs/cli.md):
#   holdfast run -var volume=NAME isolated.hcl
variable "limits" {
  type    = bool
  default = true
}

# Time to look at it.
variable "seconds" {
  type    = number
  default = 2
}

variable "volume" {
  type    = string
  default = ""
}

job "isolated" {
  type = "batch"

  group "box" {
    dynamic "volume" {
      for_each = var.volume == "" ? [] : [var.volume]
      labels   = ["shared"]
      content {
        type   = "host"
        source = volume.value
      }
    }

    task "probe" {
      driver = "exec"
      # What it is without being told, as root; never another one's as an ordinary user.
      user = var.limits ? "nobody" : null

      config {
        # Looked for in /local, then on the PATH, as the task sees them.
        command = "sh"
        args = ["-c", <<EOT
echo "I am $(id -un), process $$ of $(ls -d /proc/[0-9]* | wc -l)"
touch /usr/local/mine 2>&1
touch /local/mine && echo "/local is mine"
grep -E '^(NoNewPrivs|Seccomp|CapBnd|Cpus_allowed_list)' /proc/self/status
echo "open files: $(ulimit -n), umask $(umask)"
ls -1 /sys/class/net
if [ -d /shared ]; then ls -1 /shared; fi
sleep ${var.seconds}
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
          nproc  = "5000"
          core   = "0"
        }
        # "kill": the task ends with its executor, should somebody kill that.
        on_executor_death = "adopt"
      }

      dynamic "volume_mount" {
        for_each = var.volume == "" ? [] : ["shared"]
        content {
          volume      = volume_mount.value
          destination = "/shared"
          read_only   = true
        }
      }

      resources {
        # A share of all cores, or cores that no other task has.
        cpu   = var.limits ? null : 100
        cores = var.limits ? 1 : null
        # Of one core, whichever it runs on.
        cpu_percent = var.limits ? 80 : null

        memory      = var.limits ? 64 : null
        memory_max  = var.limits ? 128 : null
        memory_swap = var.limits ? 32 : null
        pids        = var.limits ? 50 : null

        # A second, from and to each disk. Beside them there is io_weight, for disks with the scheduler bfq, or iocost.
        io_read  = var.limits ? "50MiB" : null
        io_write = var.limits ? "20MiB" : null
      }
    }
  }
}
