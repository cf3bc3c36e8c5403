/** Processes of a box as the machine sees them. */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import { Duration, Effect } from "effect"
import { readFileSync } from "node:fs"

/** Enough for the kernel to end a killed process. */
const PAUSE_MILLIS = 5

/** The first process of a box: all others in its process namespace end with it, and before it is gone. */
interface First {
  readonly pid: number
  /** In ticks since boot: tells it from a later process of the same number. */
  readonly startedAt: string
}

/** When a process started, `undefined` when it has ended: what is left of it then holds nothing. */
const startOf = (pid: number): string | undefined => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1")
    // The name in parentheses may itself hold parentheses and spaces.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19]
  } catch (error) {
    return ifEnded(undefined)(error)
  }
}

export const first = (pid: number): First | undefined => {
  const startedAt = startOf(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

export const isRunning = ({ pid, startedAt }: First): boolean => startOf(pid) === startedAt

export const kill = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // Ended meanwhile.
  }
}

/** Kills what `find` names until it names nothing. Answers what is left after `within`. */
export const killAll = (find: () => ReadonlyArray<number>, within: Duration.Input): Effect.Effect<ReadonlyArray<number>> =>
  Effect.gen(function*() {
    let left = find()
    const rounds = Math.ceil(Duration.toMillis(within) / PAUSE_MILLIS)
    for (let round = 0; left.length > 0 && round < rounds; round++) {
      left.forEach(kill)
      yield* Effect.sleep(PAUSE_MILLIS)
      left = find()
    }
    return left
  })
