/**
 * Kept folders as a file that can be mounted: an ext4 with the folders of the tree in `tree`, those of the home in `home`. Untrusted
 * archives of a setup are unpacked by tar alone, as user 65534, in a box of its own that sees only the file system to fill, which has a
 * limited size.
 */
import * as CachedArchive from "@slipway/domain/environment/rules/CachedArchive"
import { parse } from "@slipway/domain/environment/rules/CachePath"
import type { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Result, Schema, Stream } from "effect"
import { chmod, rm } from "node:fs/promises"
import * as SystemFiles from "../host/SystemFiles.ts"
import * as DurableFile from "../node/DurableFile.ts"
import * as NodeBoxProcess from "../node/NodeBoxProcess.ts"
import { Spawn } from "../node/spawner/Spawn.ts"
import { format, PATH, sizeOf } from "./DiskImages.ts"

/** No image was made, and nothing is left of one. A sentence for operators. */
class NoCacheImage extends Schema.TaggedError<NoCacheImage>()("NoCacheImage", { detail: Schema.String }) {
  override get message() {
    return `No image of the cache: ${this.detail}`
  }
}

export interface Options {
  /** The most bytes of content. */
  readonly bytes: number
}

/** Whose the files of an image are; sandboxes see them as their own. */
const NOBODY = 65_534
/** The most files of an image, as many as a sandbox may have by default. */
const FILES = 500_000
const WITHIN = "5 minutes"
const STAGE = "/run/slipway/cache-image"
const IN_BOX = "/image"

/**
 * Arguments: the image, then the command. Writes all down before it ends, and fails where that cannot be: a disk that is full loses
 * what was written to a file system in a file of it.
 */
const SCRIPT = `
image=$1; shift
mkdir -p ${STAGE} && mount -t ext4 -o loop,nodev,nosuid,noatime,noinit_itable -- "$image" ${STAGE} || exit 1
"$@" && sync -f -- ${STAGE}
status=$?
umount -- ${STAGE} && exit $status
`
/** Arguments: those of tar. */
const UNPACK = `mkdir ${IN_BOX}/tree ${IN_BOX}/home && exec tar "$@"`

const box = [
  ...["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", "--no-new-privs", "--"],
  ...["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "LC_ALL", "C"],
  ...["--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--ro-bind", "/usr", "/usr", ...SystemFiles.bubblewrapOptions],
  ...["--dev", "/dev", "--bind", STAGE, IN_BOX, "--chdir", IN_BOX, "--"]
]

/** Fills `file`, which must not be there. Fails as `content` does, or because it cannot be unpacked here. */
export const make = <E>(
  file: string,
  content: Stream.Stream<Uint8Array, E>,
  { bytes }: Options
): Effect.Effect<void, E | NoCacheImage | HostError> =>
  Effect.gen(function*() {
    const { archive, paths: names } = yield* CachedArchive.opened(content, (detail) => new NoCacheImage({ detail }))
    const paths = names.map((name) => parse(name)).filter(Result.isSuccess).map(({ success }) => success)
    if (paths.length !== names.length) return yield* new NoCacheImage({ detail: "it names what may be no cache." })
    const spawn = yield* Spawn
    yield* Effect.tryPromise({
      try: () => format(spawn, file, sizeOf({ diskBytes: bytes, diskFiles: FILES }), NOBODY),
      catch: (error) => new NoCacheImage({ detail: `${error instanceof Error ? error.message : error}.` })
    })
    const tar = ["--extract", "--file=-", "--no-same-owner", "--no-same-permissions", "--delay-directory-restore"]
    const members = CachedArchive.members(paths, ({ base }) => `${IN_BOX}/${base}`)
    const command = paths.length === 0 ? ["true"] : ["sh", "-c", UNPACK, "sh", ...tar, ...members]
    const { process } = yield* Effect.acquireRelease(
      NodeBoxProcess.start("unshare", ["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh", file, ...box, ...command], {
        cwd: "/",
        env: { PATH, LC_ALL: "C" }
      }),
      ({ release }) => release
    )
    const ended = Effect.gen(function*() {
      const { code, signal } = yield* process.exited
      if (code === 0) return
      const said = (yield* process.stderrTail).trim().split("\n").slice(0, 3).join("; ").slice(0, 500)
      return yield* new NoCacheImage({ detail: `unpacking ended with ${code ?? signal}: ${said}.` })
    })
    yield* Effect.raceFirst(Stream.runForEach(archive, process.write), Effect.andThen(ended, Effect.never))
    yield* process.endInput
    yield* Stream.runDrain(process.stdout)
    yield* ended
    yield* Effect.promise(async () => {
      await DurableFile.sync(file)
      await chmod(file, 0o400)
    })
  }).pipe(
    Effect.scoped,
    Effect.timeoutOrElse({
      duration: WITHIN,
      orElse: () => Effect.fail(new NoCacheImage({ detail: `unpacking takes more than ${WITHIN}.` }))
    }),
    Effect.onError(() => Effect.promise(() => rm(file, { force: true })))
  )
