/** How much of a disk a sandbox takes. No kernel limit does it everywhere, so it is measured while something runs. */
import { execFile } from "node:child_process"
import { Duration, Effect } from "effect"
import type { Limits } from "./Limits.ts"

const TIMEOUT_MILLIS = 60_000

const total = (folders: ReadonlyArray<string>, option: string) =>
  Effect.callback<number | undefined>((resume) => {
    const child = execFile("du", ["-sxc", option, "--", ...folders], { timeout: TIMEOUT_MILLIS, env: { PATH: "/usr/bin:/bin", LC_ALL: "C" }, maxBuffer: 2 ** 20 }, (_, output) => {
      // Files that vanish meanwhile make it end badly; the sum is there all the same.
      const sum = /^(\d+)\ttotal$/mu.exec(output)?.[1]
      resume(Effect.succeed(sum === undefined ? undefined : Number(sum)))
    })
    return Effect.sync(() => child.kill("SIGKILL"))
  })

/** What the folders take too much of, as a sentence; `undefined` while they keep to the limits. */
export const excess = Effect.fn("DiskUse.excess")(function*(folders: ReadonlyArray<string>, limits: Limits) {
  const bytes = yield* total(folders, "--block-size=1")
  if (bytes !== undefined && bytes > limits.diskBytes) return `it takes ${bytes} of ${limits.diskBytes} bytes on the disk`
  const files = yield* total(folders, "--inodes")
  if (files !== undefined && files > limits.diskFiles) return `it has ${files} of ${limits.diskFiles} files`
  return undefined
})

/** Looks from time to time, and rests the longer the more there was to look at. */
export const guard = Effect.fnUntraced(function*(options: {
  readonly folders: ReadonlyArray<string>
  readonly limits: Limits
  readonly everyMillis: number
  /** Nothing grows while nothing runs. */
  readonly isIdle: () => boolean
  readonly exceeded: (excess: string) => Effect.Effect<unknown>
}) {
  for (let pause = options.everyMillis;;) {
    yield* Effect.sleep(pause)
    if (options.isIdle()) continue
    const [took, found] = yield* Effect.timed(excess(options.folders, options.limits))
    if (found !== undefined) yield* options.exceeded(found)
    pause = Math.max(options.everyMillis, 10 * Duration.toMillis(took))
  }
})
