/*
 * seccomp.c - the system calls a task has no business with: those that change the host, its clock, its mounts or its
 * kernel, that reach into other tasks by ways that namespaces do not cover, or that are the usual way into the
 * kernel. A list of what is denied, with EPERM: a program that tries one goes on without it, and new calls of
 * new kernels work. Why a table of our own: docs/adr/0013-seccomp-table.md.
 */
#define _GNU_SOURCE
#include "privileges.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp table for this machine"
#endif

/* Calls of the x32 personality have this bit; they would slip through a list of numbers. */
#define X32_BIT 0x40000000U
/* No capability lets it through. */
#define NEVER (-1)
/* Newer than the headers of the distributions we build on; the same on every machine. */
#define NR_PIDFD_GETFD 438
#define NR_MOUNT_SETATTR 442
#define NR_QUOTACTL_FD 443
#define NR_OPEN_TREE_ATTR 467
#define NAMESPACES                                                                                        \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define NEW_TIME 0x80U
#define TIOCSTI_NUMBER 0x5412U
#define TIOCLINUX_NUMBER 0x541CU

/* A call, and the capability that lets it through. */
static const struct rule {
	int number, capability;
} rules[] = {
	/* mounts, and ways around them */
	{ SYS_mount, CAP_SYS_ADMIN },
	{ SYS_umount2, CAP_SYS_ADMIN },
	{ SYS_pivot_root, CAP_SYS_ADMIN },
	{ SYS_fsopen, CAP_SYS_ADMIN },
	{ SYS_fsconfig, CAP_SYS_ADMIN },
	{ SYS_fsmount, CAP_SYS_ADMIN },
	{ SYS_fspick, CAP_SYS_ADMIN },
	{ SYS_open_tree, CAP_SYS_ADMIN },
	{ SYS_move_mount, CAP_SYS_ADMIN },
	{ NR_MOUNT_SETATTR, CAP_SYS_ADMIN },
	{ NR_OPEN_TREE_ATTR, CAP_SYS_ADMIN },
	{ SYS_swapon, CAP_SYS_ADMIN },
	{ SYS_swapoff, CAP_SYS_ADMIN },
	{ SYS_quotactl, CAP_SYS_ADMIN },
	{ NR_QUOTACTL_FD, CAP_SYS_ADMIN },
	{ SYS_setns, CAP_SYS_ADMIN },
	{ SYS_sethostname, CAP_SYS_ADMIN },
	{ SYS_setdomainname, CAP_SYS_ADMIN },
	{ SYS_fanotify_init, CAP_SYS_ADMIN },
	{ SYS_open_by_handle_at, CAP_DAC_READ_SEARCH },
	/* the kernel itself */
	{ SYS_init_module, CAP_SYS_MODULE },
	{ SYS_finit_module, CAP_SYS_MODULE },
	{ SYS_delete_module, CAP_SYS_MODULE },
	{ SYS_kexec_load, CAP_SYS_BOOT },
	{ SYS_kexec_file_load, CAP_SYS_BOOT },
	{ SYS_reboot, CAP_SYS_BOOT },
	{ SYS_bpf, CAP_BPF },
	{ SYS_perf_event_open, CAP_PERFMON },
	{ SYS_syslog, CAP_SYSLOG },
	{ SYS_acct, CAP_SYS_PACCT },
	{ SYS_userfaultfd, CAP_SYS_PTRACE },
	{ SYS_io_uring_setup, NEVER },
	{ SYS_io_uring_enter, NEVER },
	{ SYS_io_uring_register, NEVER },
	{ SYS_lookup_dcookie, NEVER },
	{ SYS_nfsservctl, NEVER },
	{ SYS_vhangup, CAP_SYS_TTY_CONFIG },
	/* clocks */
	{ SYS_settimeofday, CAP_SYS_TIME },
	{ SYS_clock_settime, CAP_SYS_TIME },
	{ SYS_clock_adjtime, CAP_SYS_TIME },
	/* keys know no namespaces */
	{ SYS_add_key, NEVER },
	{ SYS_request_key, NEVER },
	{ SYS_keyctl, NEVER },
	/* looking at others */
	{ SYS_kcmp, CAP_SYS_PTRACE },
#if defined(__x86_64__)
	{ SYS_iopl, CAP_SYS_RAWIO },
	{ SYS_ioperm, CAP_SYS_RAWIO },
	{ SYS_modify_ldt, NEVER },
	{ SYS_uselib, NEVER },
	{ SYS_create_module, NEVER },
	{ SYS_get_kernel_syms, NEVER },
	{ SYS_query_module, NEVER },
	{ SYS__sysctl, NEVER },
	{ SYS_sysfs, NEVER },
	{ SYS_ustat, NEVER },
#endif
};

/* Only where the task sees the processes of the host: in a pid namespace it can only trace what is its own. */
static const struct rule host_pid_rules[] = {
	{ SYS_ptrace, CAP_SYS_PTRACE },
	{ SYS_process_vm_readv, CAP_SYS_PTRACE },
	{ SYS_process_vm_writev, CAP_SYS_PTRACE },
	{ NR_PIDFD_GETFD, CAP_SYS_PTRACE },
};

#define FIELD(name) ((uint32_t) offsetof(struct seccomp_data, name))
/* The lower half of an argument; both machines are little endian. */
#define ARG(n) (FIELD(args) + (uint32_t) (n) * 8U)
#define DENY(error) (SECCOMP_RET_ERRNO | ((uint32_t) (error) & SECCOMP_RET_DATA))
/* Room for two instructions a rule, and what is around them. */
#define PROGRAM_CAP (2U * (ARRAY_LEN(rules) + ARRAY_LEN(host_pid_rules)) + 48U)

struct program {
	struct sock_filter at[PROGRAM_CAP];
	size_t len;
};

static void add(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
	p->at[p->len++] = (struct sock_filter){ .code = code, .jt = yes, .jf = no, .k = k };
}

static void load(struct program *p, uint32_t offset) {
	add(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void finish(struct program *p, uint32_t verdict) {
	add(p, BPF_RET | BPF_K, verdict, 0, 0);
}

static void deny_number(struct program *p, int number, int error) {
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) number, 0, 1);
	finish(p, DENY(error));
}

static void deny_rules(struct program *p, const struct rule *list, size_t len, uint64_t caps) {
	for (size_t i = 0; i < len; i++) {
		if (list[i].capability == NEVER || !(caps >> list[i].capability & 1U))
			deny_number(p, list[i].number, EPERM);
	}
}

/* Denies a call when any of `bits` is in its argument; the number is in the accumulator before and after. */
static void deny_bits(struct program *p, int number, uint32_t offset, uint32_t bits) {
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) number, 0, 4);
	load(p, offset);
	add(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
	finish(p, DENY(EPERM));
	load(p, FIELD(nr));
}

/* Denies a call when its argument is this value. */
static void deny_value(struct program *p, int number, uint32_t offset, uint32_t value) {
	add(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) number, 0, 4);
	load(p, offset);
	add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	finish(p, DENY(EPERM));
	load(p, FIELD(nr));
}

static void compose(struct program *p, uint64_t caps, bool host_pids) {
	load(p, FIELD(arch));
	add(p, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
	/* A program for another machine would call by other numbers. */
	finish(p, SECCOMP_RET_KILL_PROCESS);
	load(p, FIELD(nr));
#if defined(__x86_64__)
	add(p, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
	finish(p, DENY(ENOSYS));
#endif
	if (!(caps >> CAP_SYS_ADMIN & 1U)) {
		deny_bits(p, SYS_clone, ARG(0), NAMESPACES);
		deny_bits(p, SYS_unshare, ARG(0), NAMESPACES | NEW_TIME);
		/* Its flags lie in memory, where no filter sees them; libc goes on with clone. */
		deny_number(p, SYS_clone3, ENOSYS);
	}
	/* They type into the terminal that the task shares with whoever started it. */
	deny_value(p, SYS_ioctl, ARG(1), TIOCSTI_NUMBER);
	deny_value(p, SYS_ioctl, ARG(1), TIOCLINUX_NUMBER);
	deny_rules(p, rules, ARRAY_LEN(rules), caps);
	if (host_pids)
		deny_rules(p, host_pid_rules, ARRAY_LEN(host_pid_rules), caps);
	finish(p, SECCOMP_RET_ALLOW);
}

int seccomp_filter(uint64_t caps, bool host_pids) {
	static struct program p;
	p.len = 0;
	compose(&p, caps, host_pids);
	const struct sock_fprog filter = { .len = (unsigned short) p.len, .filter = p.at };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0 ? -errno : 0;
}
