# A job that does its work and is done.
#
#   holdfast run examples/batch.hcl
#   holdfast logs primes
job "primes" {
  # "batch" means: exit code 0 is the end; anything else is tried again.
  type = "batch"

  # Facts of your own: tasks see them as NOMAD_META_<key>, and a job file as ${meta.<key>}.
  meta {
    limit = 20000
  }

  group "work" {
    task "count" {
      driver = "raw_exec"

      config {
        command = "python3"
        args = ["-u", "-c", <<-EOF
          import os, sys

          limit = int(sys.argv[1])
          found = 0
          for number in range(2, limit):
              if all(number % divisor for divisor in range(2, int(number ** 0.5) + 1)):
                  found += 1
              if number % 5000 == 0:
                  print(f"{number} looked at, {found} primes so far", flush=True)
          with open(os.path.join(os.environ["NOMAD_ALLOC_DIR"], "data", "result.txt"), "w") as result:
              result.write(f"{found}\n")
          print(f"{found} primes below {limit}")
        EOF
        , "${NOMAD_META_limit}"]
      }

      # One more try, soon, and then it has failed.
      restart {
        attempts = 1
        delay    = "1s"
      }
    }
  }
}
