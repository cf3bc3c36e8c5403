/** Whether this machine shows cache images, found by showing one. */
import * as CachedArchive from "@slipway/domain/environment/rules/CachedArchive"
import { Effect, Stream } from "effect"
import { execFile } from "node:child_process"
import { appendFile, chown, lstat, mkdir, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import * as CacheImages from "./CacheImages.ts"
import { missingProgram, PATH } from "./DiskImages.ts"
import * as Overlays from "./Overlays.ts"

/** Programs beside those of disks and boxes, and the package of Debian and Ubuntu that has them. */
const PROGRAMS: Readonly<Record<string, string>> = { perl: "perl-base", tar: "tar", bwrap: "bubblewrap", setpriv: "util-linux" }

const BYTES = 2 ** 22
/** An unused user id. */
const USER = 1_899_999_999

/** Why overlays do not work, as a part of a sentence; `null`: they work. `place`: an unused disk, on which files are left. */
export const lacking = (place: Overlays.Place): Effect.Effect<string | null> =>
  Effect.gen(function*() {
    const missing = yield* Effect.promise(() => missingProgram(PROGRAMS))
    if (missing !== undefined) return missing
    const [image, tree, given] = [`${place.disk}.image`, join("workspace", "probe"), join(place.folder, "given")]
    const paths = [{ base: "tree", path: "kept" }] as const
    const packed = Effect.tryPromise(async () => {
      await mkdir(join(given, "kept"), { recursive: true })
      await writeFile(join(given, "kept", "file"), "kept")
      await mkdir(join(place.folder, tree), { recursive: true })
      await chown(join(place.folder, tree), USER, USER)
      const args = ["--create", "--file=-", "--format=gnu", ...CachedArchive.members(paths, () => given)]
      return (await promisify(execFile)("tar", args, { encoding: "buffer", env: { PATH } })).stdout
    })
    return yield* Effect.gen(function*() {
      const archive = yield* packed
      yield* CacheImages.make(image, Stream.make(CachedArchive.header(paths), archive), { bytes: BYTES })
      return yield* Effect.tryPromise(async () => {
        await Overlays.lay(place, { image, tree, home: "home", paths })
        const shown = join(place.folder, tree, "kept", "file")
        if ((await lstat(shown)).uid !== USER) return "what it shows is not the sandbox's own"
        await appendFile(shown, " and changed")
        return null
      })
    }).pipe(Effect.ensuring(Effect.promise(async () => {
      await rm(image, { force: true })
      await Overlays.release(place.disk)
    })))
  }).pipe(Effect.catch((error) => {
    const said = error._tag === "UnknownError" && error.cause instanceof Error ? error.cause.message : error.message
    return Effect.succeed(`this machine does not mount one: ${said}`)
  }))
