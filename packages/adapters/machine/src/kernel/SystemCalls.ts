/**
 * Which system calls a box may not make. What is not named here is allowed: a box must run any developer's tools. Refused is
 * what such tools do without and what has been a way out of sandboxes: other kernels' surfaces (io_uring, bpf, keyrings,
 * userfaultfd, mounts), other processes' memory, new namespaces, input into terminals, and sockets of all but a few
 * families, alone or in pairs: a network namespace does not confine AF_VSOCK.
 */

/** System call numbers of one architecture, from the kernel's `syscall_64.tbl` and `asm-generic/unistd.h`. */
export interface Table {
  /** `AUDIT_ARCH_*` of `linux/audit.h`. */
  readonly audit: number
  readonly socket: number
  readonly socketpair: number
  readonly ioctl: number
  readonly clone: number
  readonly refused: Readonly<Record<string, number>>
}

/** Numbers from 424 on are the same on every architecture. */
const shared = {
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  mount_setattr: 442,
  open_tree_attr: 467,
  pidfd_getfd: 438,
  process_madvise: 440,
  quotactl_fd: 443
}

export const tables: Readonly<Record<string, Table>> = {
  x64: {
    audit: 0xc000003e,
    socket: 41,
    socketpair: 53,
    ioctl: 16,
    clone: 56,
    refused: {
      ...shared,
      keyctl: 250,
      add_key: 248,
      request_key: 249,
      ptrace: 101,
      process_vm_readv: 310,
      process_vm_writev: 311,
      kcmp: 312,
      bpf: 321,
      perf_event_open: 298,
      userfaultfd: 323,
      fanotify_init: 300,
      unshare: 272,
      setns: 308,
      mount: 165,
      umount2: 166,
      pivot_root: 155,
      chroot: 161,
      kexec_load: 246,
      kexec_file_load: 320,
      init_module: 175,
      finit_module: 313,
      delete_module: 176,
      swapon: 167,
      swapoff: 168,
      reboot: 169,
      open_by_handle_at: 304,
      name_to_handle_at: 303,
      quotactl: 179,
      acct: 163,
      syslog: 103,
      lookup_dcookie: 212,
      modify_ldt: 154,
      uselib: 134,
      iopl: 172,
      ioperm: 173
    }
  },
  arm64: {
    audit: 0xc00000b7,
    socket: 198,
    socketpair: 199,
    ioctl: 29,
    clone: 220,
    refused: {
      ...shared,
      keyctl: 219,
      add_key: 217,
      request_key: 218,
      ptrace: 117,
      process_vm_readv: 270,
      process_vm_writev: 271,
      kcmp: 272,
      bpf: 280,
      perf_event_open: 241,
      userfaultfd: 282,
      fanotify_init: 262,
      unshare: 97,
      setns: 268,
      mount: 40,
      umount2: 39,
      pivot_root: 41,
      chroot: 51,
      kexec_load: 104,
      kexec_file_load: 294,
      init_module: 105,
      finit_module: 273,
      delete_module: 106,
      swapon: 224,
      swapoff: 225,
      reboot: 142,
      open_by_handle_at: 265,
      name_to_handle_at: 264,
      quotactl: 60,
      acct: 89,
      syslog: 116,
      lookup_dcookie: 18
    }
  }
}

export const EPERM = 1
export const ENOSYS = 38
export const EPROTONOSUPPORT = 93
export const EAFNOSUPPORT = 97

/** `CLONE_NEW*` of user, pid, network, mount, IPC, UTS and cgroup namespaces. */
export const NEW_NAMESPACES = 0x7e020000
export const TIOCSTI = 0x5412
export const TIOCLINUX = 0x541c
export const AF_UNIX = 1
export const AF_INET = 2
export const AF_INET6 = 10
export const AF_NETLINK = 16
export const SOCK_RAW = 3
/** The mask of a socket's type; the other bits are flags. */
export const TYPE_MASK = 0xf
export const IPPROTO_DEFAULT = 0
export const IPPROTO_TCP = 6
export const IPPROTO_UDP = 17
/** Tells the addresses of the loopback interface, which runtimes ask for. */
export const NETLINK_ROUTE = 0
