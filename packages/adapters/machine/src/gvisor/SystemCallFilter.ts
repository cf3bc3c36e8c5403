/**
 * The system calls that boxes may not make, as a container's configuration has them (OCI runtime specification 1.0.2). gVisor answers
 * all calls itself, so this keeps programs from the rarer parts of gVisor, not of the machine's kernel. Sockets need no rule: it has no
 * families but internet, unix and netlink, and no raw ones without a capability.
 */
import { NEW_NAMESPACES, tables } from "../kernel/SystemCalls.ts"

interface Condition {
  readonly index: number
  readonly op: "SCMP_CMP_MASKED_EQ"
  /** A mask. */
  readonly value: number
  /** The required value of the masked argument. */
  readonly valueTwo: number
}

interface Rule {
  readonly names: ReadonlyArray<string>
  /** `ERRNO` is always EPERM (gVisor 2022-12); `TRACE` without a tracer is ENOSYS. */
  readonly action: "SCMP_ACT_ERRNO" | "SCMP_ACT_TRACE"
  readonly args?: ReadonlyArray<Condition>
}

export interface Filter {
  readonly defaultAction: "SCMP_ACT_ALLOW"
  readonly architectures: ReadonlyArray<string>
  readonly syscalls: ReadonlyArray<Rule>
}

const architectures: Readonly<Record<string, string>> = { x64: "SCMP_ARCH_X86_64", arm64: "SCMP_ARCH_AARCH64" }

const bits = (set: number): ReadonlyArray<number> => Array.from({ length: 32 }, (_, i) => (1 << i) >>> 0).filter((bit) => (set & bit) !== 0)

/** `undefined` for a processor without one: then nothing may run. */
export const filterFor = (arch: string): Filter | undefined => {
  const table = Object.hasOwn(tables, arch) ? tables[arch] : undefined
  const architecture = architectures[arch]
  if (table === undefined || architecture === undefined) return undefined
  return {
    defaultAction: "SCMP_ACT_ALLOW",
    architectures: [architecture],
    syscalls: [
      // It passes over those that it has no name for, and so does not have.
      { names: Object.keys(table.refused), action: "SCMP_ACT_ERRNO" },
      // Its flags lie in memory, where they cannot be checked. The C library does with `clone` what it is told is missing.
      { names: ["clone3"], action: "SCMP_ACT_TRACE" },
      ...bits(NEW_NAMESPACES).map((bit): Rule => ({
        names: ["clone"],
        action: "SCMP_ACT_ERRNO",
        args: [{ index: 0, op: "SCMP_CMP_MASKED_EQ", value: bit, valueTwo: bit }]
      }))
    ]
  }
}
