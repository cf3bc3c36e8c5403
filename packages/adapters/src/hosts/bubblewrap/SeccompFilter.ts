/**
 * The system call filter of a box, as the classic BPF program that `bwrap --seccomp` takes. What is not named here is
 * allowed: a box must run any developer's tools. Refused is what such tools do without and what has been a way out of
 * sandboxes: other kernels' surfaces (io_uring, bpf, keyrings, userfaultfd, mounts), other processes' memory, new
 * namespaces, input into terminals, and sockets of all but a few families: a network namespace does not confine AF_VSOCK.
 */

/** System call numbers of one architecture, from the kernel's `syscall_64.tbl` and `asm-generic/unistd.h`. */
interface Table {
  /** `AUDIT_ARCH_*` of `linux/audit.h`. */
  readonly audit: number
  readonly socket: number
  readonly ioctl: number
  readonly clone: number
  readonly refused: Readonly<Record<string, number>>
}

/** Numbers from 424 on are the same on every architecture. */
const shared = {
  io_uring_setup: 425, io_uring_enter: 426, io_uring_register: 427,
  open_tree: 428, move_mount: 429, fsopen: 430, fsconfig: 431, fsmount: 432, fspick: 433, mount_setattr: 442, open_tree_attr: 467,
  pidfd_getfd: 438, process_madvise: 440, quotactl_fd: 443
}

const tables: Readonly<Record<string, Table>> = {
  x64: {
    audit: 0xc000003e, socket: 41, ioctl: 16, clone: 56,
    refused: {
      ...shared,
      keyctl: 250, add_key: 248, request_key: 249,
      ptrace: 101, process_vm_readv: 310, process_vm_writev: 311, kcmp: 312,
      bpf: 321, perf_event_open: 298, userfaultfd: 323, fanotify_init: 300,
      unshare: 272, setns: 308, mount: 165, umount2: 166, pivot_root: 155, chroot: 161,
      kexec_load: 246, kexec_file_load: 320, init_module: 175, finit_module: 313, delete_module: 176,
      swapon: 167, swapoff: 168, reboot: 169, open_by_handle_at: 304, name_to_handle_at: 303, quotactl: 179, acct: 163,
      syslog: 103, lookup_dcookie: 212, modify_ldt: 154, uselib: 134, iopl: 172, ioperm: 173
    }
  },
  arm64: {
    audit: 0xc00000b7, socket: 198, ioctl: 29, clone: 220,
    refused: {
      ...shared,
      keyctl: 219, add_key: 217, request_key: 218,
      ptrace: 117, process_vm_readv: 270, process_vm_writev: 271, kcmp: 272,
      bpf: 280, perf_event_open: 241, userfaultfd: 282, fanotify_init: 262,
      unshare: 97, setns: 268, mount: 40, umount2: 39, pivot_root: 41, chroot: 51,
      kexec_load: 104, kexec_file_load: 294, init_module: 105, finit_module: 273, delete_module: 106,
      swapon: 224, swapoff: 225, reboot: 142, open_by_handle_at: 265, name_to_handle_at: 264, quotactl: 60, acct: 89,
      syslog: 116, lookup_dcookie: 18
    }
  }
}

const CLONE3 = 435

// struct seccomp_data: the number, the architecture, and the low words of the first arguments.
const NUMBER = 0
const ARCHITECTURE = 4
const argument = (index: number) => 16 + 8 * index

const LOAD = 0x20
const AND = 0x54
const EQUAL = 0x15
const AT_LEAST = 0x35
const ANY_BIT = 0x45
const RETURN = 0x06

const ALLOW = 0x7fff0000
const KILL = 0x80000000
const errno = (number: number) => 0x00050000 | number
const EPERM = 1
const ENOSYS = 38
const EPROTONOSUPPORT = 93
const EAFNOSUPPORT = 97

/** `CLONE_NEW*` of user, pid, network, mount, IPC, UTS and cgroup namespaces. */
const NEW_NAMESPACES = 0x7e020000
const TIOCSTI = 0x5412
const TIOCLINUX = 0x541c
/** Numbers of the x32 interface, a second way to the same calls. */
const X32 = 0x40000000

const AF_UNIX = 1
const AF_INET = 2
const AF_INET6 = 10
const AF_NETLINK = 16
const SOCK_RAW = 3
/** Of a socket's type; the rest are flags. */
const TYPE_MASK = 0xf
const IPPROTO_DEFAULT = 0
const IPPROTO_TCP = 6
const IPPROTO_UDP = 17
/** Tells the addresses of the loopback interface, which runtimes ask for. */
const NETLINK_ROUTE = 0

/** One instruction. Jumps name the label they lead to, further down; without one it is the next line. */
interface Instruction {
  readonly code: number
  readonly value: number
  readonly yes?: string
  readonly no?: string
}
type Line = Instruction | { readonly label: string }

const at = (label: string): Line => ({ label })
const load = (offset: number): Line => ({ code: LOAD, value: offset })
const equal = (value: number, yes: string, no?: string): Line => ({ code: EQUAL, value, yes, ...(no === undefined ? {} : { no }) })
const unless = (value: number, no: string): Line => ({ code: EQUAL, value, no })
const end = (label: string, value: number): ReadonlyArray<Line> => [at(label), { code: RETURN, value }]

const program = ({ audit, clone, ioctl, refused, socket }: Table): ReadonlyArray<Line> => [
  load(ARCHITECTURE),
  unless(audit, "foreign"),
  load(NUMBER),
  { code: AT_LEAST, value: X32, yes: "unknown" },
  ...Object.values(refused).map((number) => equal(number, "refused")),
  // Its flags lie in memory, where they cannot be checked. The C library does with `clone` what it is told is missing.
  equal(CLONE3, "unknown"),

  unless(clone, "not clone"),
  load(argument(0)),
  { code: ANY_BIT, value: NEW_NAMESPACES, yes: "refused", no: "allowed" },
  at("not clone"),

  unless(ioctl, "not ioctl"),
  load(argument(1)),
  equal(TIOCSTI, "refused"),
  equal(TIOCLINUX, "refused", "allowed"),
  at("not ioctl"),

  unless(socket, "allowed"),
  load(argument(0)),
  equal(AF_UNIX, "allowed"),
  equal(AF_INET, "internet"),
  equal(AF_INET6, "internet"),
  equal(AF_NETLINK, "netlink", "no family"),
  at("internet"),
  load(argument(1)),
  { code: AND, value: TYPE_MASK },
  { code: AT_LEAST, value: SOCK_RAW, yes: "refused" },
  load(argument(2)),
  equal(IPPROTO_DEFAULT, "allowed"),
  equal(IPPROTO_TCP, "allowed"),
  equal(IPPROTO_UDP, "allowed", "no protocol"),
  at("netlink"),
  load(argument(2)),
  equal(NETLINK_ROUTE, "allowed", "no protocol"),

  ...end("refused", errno(EPERM)),
  ...end("unknown", errno(ENOSYS)),
  ...end("no family", errno(EAFNOSUPPORT)),
  ...end("no protocol", errno(EPROTONOSUPPORT)),
  ...end("foreign", KILL),
  ...end("allowed", ALLOW)
]

/** `struct sock_filter`: u16 code, u8 distance if true, u8 distance if false, u32 value. */
const INSTRUCTION_BYTES = 8

const assemble = (lines: ReadonlyArray<Line>): Uint8Array => {
  const places = new Map<string, number>()
  const instructions: Array<Instruction> = []
  for (const line of lines) {
    if ("label" in line) places.set(line.label, instructions.length)
    else instructions.push(line)
  }
  const bytes = Buffer.alloc(instructions.length * INSTRUCTION_BYTES)
  for (const [i, { code, no, value, yes }] of instructions.entries()) {
    const distance = (label: string | undefined) => label === undefined ? 0 : (places.get(label) ?? -1) - i - 1
    const start = i * INSTRUCTION_BYTES
    bytes.writeUInt16LE(code, start)
    // Refuses what does not lead forward, or too far.
    bytes.writeUInt8(distance(yes), start + 2)
    bytes.writeUInt8(distance(no), start + 3)
    bytes.writeUInt32LE(value >>> 0, start + 4)
  }
  return bytes
}

/** The filter for a processor as Node names it, or `undefined` where there is none: then nothing may run. */
export const filterFor = (arch: string): Uint8Array | undefined => {
  const table = Object.hasOwn(tables, arch) ? tables[arch] : undefined
  return table === undefined ? undefined : assemble(program(table))
}
