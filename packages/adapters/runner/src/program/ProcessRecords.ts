/**
 * Which groups of processes a runner started, in files: a runner that was killed leaves its processes behind, and its next start ends
 * them. Where the runner is the first process of its machine, the kernel did that already.
 */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import { killGroup } from "@slipway/machine/node/spawner/Spawn"
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const fileOr = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8")
  } catch (error) {
    return ifEnded(undefined)(error)
  }
}

/** A number names another process once this differs; `undefined`: there is none of that number, or no `/proc` to ask. */
const birthOf = (pid: number): string | undefined => {
  const stat = fileOr(`/proc/${pid}/stat`)
  // The name, in brackets, may hold spaces; what follows it does not. Field 22 of proc(5), counted from the third.
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
}

const bootOf = (): string => fileOr("/proc/sys/kernel/random/boot_id")?.trim() ?? ""

export class ProcessRecords {
  readonly #folder: string
  readonly #boot = bootOf()

  constructor(state: string) {
    this.#folder = join(state, "processes")
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
  }

  /** Ends what an earlier runner left. */
  endOld(): void {
    for (const name of readdirSync(this.#folder)) {
      const pid = /^[1-9]\d*$/u.test(name) ? Number(name) : undefined
      const [boot, birth] = (fileOr(join(this.#folder, name)) ?? "").split(" ")
      const now = pid === undefined ? undefined : birthOf(pid)
      // While a group is there, its number is given to no other process: without its first one, what is left is still that group.
      if (pid !== undefined && boot === this.#boot && birth !== undefined && (now === undefined || now === birth)) killGroup(pid)
      rmSync(join(this.#folder, name), { force: true })
    }
  }

  /** In the tick that started it. */
  add(pid: number): void {
    writeFileSync(join(this.#folder, String(pid)), `${this.#boot} ${birthOf(pid) ?? ""}`, { mode: 0o600 })
  }

  remove(pid: number): void {
    rmSync(join(this.#folder, String(pid)), { force: true })
  }
}
