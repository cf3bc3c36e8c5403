/** The system calls that boxes may not make, as the profile that Docker takes. */
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
  tables,
  TIOCLINUX,
  TIOCSTI,
  TYPE_MASK
} from "./SystemCalls.ts"

/** A condition on an argument of a call, in libseccomp's words. Those of one rule must all hold. */
interface Condition {
  readonly index: number
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_GT" | "SCMP_CMP_MASKED_EQ"
  readonly value: number
  /** The required value of {@link value} after masking, for `SCMP_CMP_MASKED_EQ`. */
  readonly valueTwo: number
}

const architectures: Readonly<Record<string, string>> = { x64: "SCMP_ARCH_X86_64", arm64: "SCMP_ARCH_AARCH64" }

const equal = (index: number, value: number): Condition => ({ index, op: "SCMP_CMP_EQ", value, valueTwo: 0 })
const above = (index: number, value: number): Condition => ({ index, op: "SCMP_CMP_GT", value, valueTwo: 0 })
const masked = (index: number, mask: number, value: number): Condition => ({
  index,
  op: "SCMP_CMP_MASKED_EQ",
  value: mask,
  valueTwo: value
})
const refuse = (names: ReadonlyArray<string>, errnoRet: number, args: ReadonlyArray<Condition> = []) => ({
  names,
  action: "SCMP_ACT_ERRNO",
  errnoRet,
  args
})

/** The kernel looks at the low half of these arguments alone. */
const LOW = 0xffffffff
const bits = (set: number): ReadonlyArray<number> => Array.from({ length: 32 }, (_, i) => (1 << i) >>> 0).filter((bit) => (set & bit) !== 0)

/** Every number up to `last` that is not `allowed`, and all above: one condition each, since a rule has no "or". */
const others = (index: number, allowed: ReadonlyArray<number>, last: number): ReadonlyArray<Condition> => [
  ...Array.from({ length: last + 1 }, (_, value) => value).filter((value) => !allowed.includes(value)).map((value) => equal(index, value)),
  above(index, last)
]

const internet = [AF_INET, AF_INET6]

/** JSON for the security option `seccomp=`, or `undefined` for a processor without one: then nothing may run. */
export const profileFor = (arch: string): string | undefined => {
  const table = Object.hasOwn(tables, arch) ? tables[arch] : undefined
  if (table === undefined) return undefined
  return JSON.stringify({
    defaultAction: "SCMP_ACT_ALLOW",
    architectures: [architectures[arch]],
    syscalls: [
      refuse(Object.keys(table.refused), EPERM),
      // Its flags lie in memory, where they cannot be checked. The C library does with `clone` what it is told is missing.
      refuse(["clone3"], ENOSYS),
      ...bits(NEW_NAMESPACES).map((bit) => refuse(["clone"], EPERM, [masked(0, bit, bit)])),
      ...[TIOCSTI, TIOCLINUX].map((request) => refuse(["ioctl"], EPERM, [masked(1, LOW, request)])),
      ...others(0, [AF_UNIX, ...internet, AF_NETLINK], AF_NETLINK).map((family) => refuse(["socket"], EAFNOSUPPORT, [family])),
      ...others(0, [AF_UNIX], AF_NETLINK).map((family) => refuse(["socketpair"], EAFNOSUPPORT, [family])),
      ...internet.flatMap((family) =>
        Array.from(
          { length: TYPE_MASK - SOCK_RAW + 1 },
          (_, i) => refuse(["socket"], EPERM, [equal(0, family), masked(1, TYPE_MASK, SOCK_RAW + i)])
        )
      ),
      ...internet.flatMap((family) =>
        others(2, [IPPROTO_DEFAULT, IPPROTO_TCP, IPPROTO_UDP], IPPROTO_UDP).map((protocol) =>
          refuse(["socket"], EPROTONOSUPPORT, [equal(0, family), protocol])
        )
      ),
      ...others(2, [NETLINK_ROUTE], NETLINK_ROUTE).map((protocol) => refuse(["socket"], EPROTONOSUPPORT, [equal(0, AF_NETLINK), protocol]))
    ]
  })
}
