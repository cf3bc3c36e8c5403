/** The system call filter of a box, as the classic BPF program that `bwrap --seccomp` takes. */
import {
  AF_INET,
  AF_INET6,
  AF_NETLINK,
  AF_UNIX,
  EAFNOSUPPORT,
  ENOSYS,
  EPERM,
  EPROTONOSUPPORT,
  IPPROTO_DEFAULT,
  IPPROTO_TCP,
  IPPROTO_UDP,
  NETLINK_ROUTE,
  NEW_NAMESPACES,
  SOCK_RAW,
  type Table,
  tables,
  TIOCLINUX,
  TIOCSTI,
  TYPE_MASK
} from "../kernel/SystemCalls.ts"

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
/** Numbers of the x32 interface, a second way to the same calls. */
const X32 = 0x40000000

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

const program = ({ audit, clone, ioctl, refused, socket, socketpair }: Table): ReadonlyArray<Line> => [
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

  unless(socketpair, "not socketpair"),
  load(argument(0)),
  equal(AF_UNIX, "allowed", "no family"),
  at("not socketpair"),

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
