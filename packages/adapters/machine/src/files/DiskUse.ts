/**
 * How much of a disk a sandbox takes: what lies in its folders, and what its processes keep of files they have deleted. Measured
 * while something runs, where the kernel does not keep to a size by itself (`SizedFolders`). What cannot be measured is too much.
 */
import { ifEnded } from "@slipway/domain/files/rules/SystemError"
import { Clock, Duration, Effect } from "effect"
import { execFile } from "node:child_process"
import { readdirSync, statSync } from "node:fs"
import { stat, statfs } from "node:fs/promises"
import { reason } from "../host/HostAttempt.ts"
import type { Limits } from "../host/Limits.ts"
import { ofUser } from "../kernel/ProcessesOfUser.ts"
import type * as Ownership from "../users/Ownership.ts"
import { WORKSPACE } from "./BoxPaths.ts"

const TIMEOUT_MILLIS = 60_000

/** The folders of one sandbox. */
export interface Place {
  readonly workspace: string
  /** Host folders of the box that lie on a disk. */
  readonly folders: ReadonlyArray<string>
  /** Whose processes have its files open on the machine, `null` when they are ours. */
  readonly user: Ownership.User | null
}

/** How the limits are kept, for people. `lacking`: why not by the kernel, if that is known. */
export const way = (lacking: string | null): string => {
  const why = lacking === null ? "" : ` (${lacking})`
  const held = process.getuid?.() === 0 ? "open or mapped" : "open"
  return `measured while it runs, each 10 seconds and when the disk fills up, not kept by the kernel${why}; ` +
    `counts deleted files that are ${held}; what cannot be measured twice is ended`
}

/** `over`: it takes too much. `unknown`: that cannot be told. Sentences. */
export type Excess = { readonly over: string } | { readonly unknown: string } | null

interface Told {
  readonly output: string
  /** `null`: it saw everything there is. */
  readonly failure: string | null
}

/** Files and processes that vanish meanwhile are no failure; what it was not let into, and being too slow, is. */
const VANISHED = /(?:No such (?:file or directory|process)|Invalid argument)$/u

const tell = (program: string, args: ReadonlyArray<string>, timeoutMillis: number) =>
  Effect.callback<Told>((resume) => {
    const options = {
      timeout: timeoutMillis,
      killSignal: "SIGKILL",
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
      maxBuffer: 2 ** 26
    } as const
    const child = execFile(program, args, options, (error, output, complaints) => {
      const complaint = complaints.split("\n").find((line) => line !== "" && !VANISHED.test(line))
      const ended = error === null || typeof error.code === "number"
      resume(Effect.succeed({ output, failure: ended ? complaint?.slice(0, 200) ?? null : `${program} did not end in time` }))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** A process without root rights may read its own folders that have no read permission as the root of a user namespace. */
const asOwner = (args: ReadonlyArray<string>): readonly [program: string, args: ReadonlyArray<string>] =>
  process.getuid?.() === 0 ? ["du", args] : ["unshare", ["--user", "--map-root-user", "--", "du", ...args]]

const total = Effect.fnUntraced(function*(folders: ReadonlyArray<string>, option: string, timeoutMillis: number) {
  const args = ["-sxc", option, "--", ...folders]
  const owned = yield* tell(...asOwner(args), timeoutMillis)
  // Where there are no such namespaces; what it cannot read is a failure then.
  const told = /unshare/u.test(owned.failure ?? "") ? yield* tell("du", args, timeoutMillis) : owned
  const sum = /^(\d+)\ttotal$/mu.exec(told.output)?.[1]
  return { sum: Number(sum ?? 0), failure: sum === undefined ? told.failure ?? "du says nothing" : told.failure }
})

/** Processes that have the workspace where boxes have it. */
const processesOf = ({ user, workspace }: Place): ReadonlyArray<number> => {
  if (user !== null) return ofUser(user.uid)
  const { dev, ino } = statSync(workspace)
  return ofUser(process.getuid?.() ?? 0).filter((pid) => {
    try {
      const seen = statSync(`/proc/${pid}/root${WORKSPACE}`)
      return seen.dev === dev && seen.ino === ino
    } catch {
      return false
    }
  })
}

/** Where the kernel shows what a process holds: the descriptors of each thread and, to root alone, what is mapped into memory. */
const holdings = (pid: number): ReadonlyArray<string> => {
  try {
    const threads = readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}/fd`)
    return process.getuid?.() === 0 ? [...threads, `/proc/${pid}/map_files`] : threads
  } catch (error) {
    return ifEnded([])(error)
  }
}

/** Bytes of files that are held open and have no name any more, on the disks of `folders`. */
const deleted = Effect.fnUntraced(function*(place: Place, timeoutMillis: number) {
  const held = processesOf(place).flatMap(holdings)
  if (held.length === 0) return { sum: 0, failure: null }
  const disks = new Set((yield* Effect.promise(() => Promise.all(place.folders.map((folder) => stat(folder))))).map(({ dev }) => `${dev}`))
  const told = yield* tell("find", ["-L", ...held, "-maxdepth", "1", "-type", "f", "-links", "0", "-printf", "%D %i %b\\n"], timeoutMillis)
  const files = new Map(
    told.output.split("\n").flatMap((line) => {
      const [disk = "", file = "", blocks = ""] = line.split(" ")
      return disks.has(disk) ? [[`${disk} ${file}`, 512 * Number(blocks)] as const] : []
    })
  )
  return { sum: [...files.values()].reduce((sum, bytes) => sum + bytes, 0), failure: told.failure }
})

interface Look {
  readonly excess: Excess
  readonly bytes: number
}

const look = Effect.fn("DiskUse.look")(function*(place: Place, limits: Limits, timeoutMillis: number) {
  const named = yield* total(place.folders, "--block-size=1", timeoutMillis)
  const held = yield* Effect.catchDefect(deleted(place, timeoutMillis), (defect) => Effect.succeed({ sum: 0, failure: reason(defect) }))
  const bytes = named.sum + held.sum
  const seen = (excess: Excess): Look => ({ excess, bytes })
  if (bytes > limits.diskBytes) {
    const how = held.sum === 0 ? "" : `, ${held.sum} of them in deleted files`
    return seen({ over: `it takes ${bytes} of ${limits.diskBytes} bytes on the disk${how}` })
  }
  const files = yield* total(place.folders, "--inodes", timeoutMillis)
  if (files.sum > limits.diskFiles) return seen({ over: `it has ${files.sum} of ${limits.diskFiles} files` })
  const failure = named.failure ?? held.failure ?? files.failure
  return seen(failure === null ? null : { unknown: failure })
})

/** The limit that a sandbox exceeds. */
export const excess = (place: Place, limits: Limits, timeoutMillis: number = TIMEOUT_MILLIS): Effect.Effect<Excess> =>
  Effect.map(look(place, limits, timeoutMillis), ({ excess }) => excess)

/** The bytes in use on the file systems of `folders`. The call is cheap, and the number grows with every write. */
const used = (folders: ReadonlyArray<string>) =>
  Effect.promise(async () => {
    const all = await Promise.all(
      folders.map((folder) => statfs(folder).then(({ bfree, blocks, bsize }) => (blocks - bfree) * bsize, () => 0))
    )
    return Math.max(...all)
  })

/** The most that looks rest between each other, however much there was to look at. */
const MAXIMUM_REST_MILLIS = 60_000
const GLANCE_MILLIS = 1000

/**
 * Looks from time to time, and rests the longer the more there was to look at, but not while the disk fills up so fast that
 * the sandbox may be why. Twice in a row without an answer is too much.
 */
export const guard = Effect.fnUntraced(function*(options: {
  readonly place: Place
  readonly limits: Limits
  readonly everyMillis: number
  /** Between two looks at how full the file systems are. Default a second. */
  readonly glanceMillis?: number
  /** The timeout of one measurement. Default a minute. */
  readonly timeoutMillis?: number
  /** Nothing grows while nothing runs. */
  readonly isIdle: () => boolean
  readonly exceeded: (excess: string) => Effect.Effect<unknown>
}) {
  const { everyMillis, glanceMillis = GLANCE_MILLIS, limits, place, timeoutMillis = TIMEOUT_MILLIS } = options
  let rest = everyMillis
  let work = 0
  let unanswered = 0
  let seen = { bytes: 0, used: yield* used(place.folders) }
  for (;;) {
    const since = yield* Clock.currentTimeMillis
    for (;;) {
      yield* Effect.sleep(Math.min(rest, glanceMillis))
      const waited = (yield* Clock.currentTimeMillis) - since
      if (waited >= rest) break
      const room = Math.max(0, limits.diskBytes - seen.bytes)
      const now = yield* used(place.folders)
      if (waited >= work && !options.isIdle() && now - seen.used > room / 2) break
      // Deletions of other sandboxes must not hide writes of this one.
      seen = { ...seen, used: Math.min(seen.used, now) }
    }
    if (options.isIdle()) continue
    const before = yield* used(place.folders)
    const [took, { bytes, excess }] = yield* Effect.timed(look(place, limits, timeoutMillis))
    seen = { bytes, used: before }
    work = Duration.toMillis(took)
    unanswered = excess !== null && "unknown" in excess ? unanswered + 1 : 0
    rest = unanswered > 0 ? everyMillis : Math.max(everyMillis, Math.min(10 * work, MAXIMUM_REST_MILLIS))
    if (excess === null) continue
    if ("over" in excess) yield* options.exceeded(excess.over)
    else if (unanswered >= 2) yield* options.exceeded(`what it takes of the disk cannot be measured (${excess.unknown})`)
  }
})
