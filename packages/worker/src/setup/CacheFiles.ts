/**
 * Packs and unpacks the folders of a cache. The box's own tar does it inside the box, so the service never walks files that a setup
 * made. Names are passed as arguments, never as shell text.
 */
import * as CachedArchive from "@slipway/domain/environment/rules/CachedArchive"
import { type CachePath, overlap, show } from "@slipway/domain/environment/rules/CachePath"
import type { Box, BoxCommand, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Schema, Stream } from "effect"

/** The folders were not packed or unpacked completely. The caller runs the setup instead. */
export class CacheFilesFailed extends Schema.TaggedError<CacheFilesFailed>()("CacheFilesFailed", {
  /** A sentence for operators. */
  detail: Schema.String
}) {
  override get message() {
    return `Cached folders: ${this.detail}`
  }
}

export interface Folders {
  readonly box: Box
  /** The folder of the repository's working tree, as the box has it. */
  readonly tree: string
  readonly paths: ReadonlyArray<CachePath>
}

/** Refuses a path with a link on the way: `$1` is the base, `$2` the path below it. */
const WITHIN = `
within() {
  at=$1 rest=$2
  while case $rest in */*) true;; *) false;; esac; do
    at=$at/\${rest%%/*} rest=\${rest#*/}
    if [ -L "$at" ]; then return 1; fi
  done
}
`
/** Arguments: base and path of each entry. Prints the indices of the entries that are folders. */
const LOOK = `${WITHIN}
case $(tar --version) in *"GNU tar"*) ;; *) exit 3;; esac
i=0
while [ $# -gt 0 ]; do
  if within "$1" "$2" && [ -d "$1/$2" ] && [ ! -L "$1/$2" ]; then echo $i; fi
  i=$((i+1)); shift 2
done
`
/** Fails if a path exists or has a link on the way, so nothing is overwritten. */
const FREE = `${WITHIN}
case $(tar --version) in *"GNU tar"*) ;; *) exit 3;; esac
while [ $# -gt 0 ]; do
  within "$1" "$2" || exit 4
  if [ -e "$1/$2" ] || [ -L "$1/$2" ]; then exit 5; fi
  shift 2
done
`
const meaning: Readonly<Record<number, string>> = {
  3: "the box has no GNU tar.",
  4: "a link is on the way to one of them.",
  5: "one of them is there already.",
  127: "the box has no GNU tar."
}

const failed = (detail: string) => new CacheFilesFailed({ detail })

const command = (command: string, args: ReadonlyArray<string>): BoxCommand => ({ command, args, env: { LC_ALL: "C" }, isOffline: true })

const baseOf = ({ box, tree }: Folders, { base }: CachePath) => base === "home" ? box.home : tree
const pairs = (folders: Folders) => folders.paths.flatMap((path) => [baseOf(folders, path), path.path])

/** Arguments of tar. */
const members = (folders: Folders, paths: ReadonlyArray<CachePath>) => CachedArchive.members(paths, (path) => baseOf(folders, path))

const ended = Effect.fnUntraced(function*(
  { exited, stderrTail }: Effect.Success<ReturnType<Box["spawn"]>>,
  what: string
) {
  const { code, signal } = yield* exited
  if (code === 0) return
  const said = (yield* stderrTail).trim().split("\n").slice(0, 3).join("; ").slice(0, 500)
  return yield* failed(meaning[code ?? -1] ?? `${what} ended with ${code ?? signal}: ${said}`)
})

const shell = Effect.fnUntraced(function*(folders: Folders, script: string) {
  const process = yield* folders.box.spawn(command("sh", ["-c", script, "sh", ...pairs(folders)]))
  yield* process.endInput
  const output = yield* Stream.mkString(Stream.decodeText(process.stdout))
  yield* ended(process, "sh")
  return output
}, Effect.scoped)

/** The content of the folders that exist. Fails at the end if a file could not be read. */
export const pack = (folders: Folders): Stream.Stream<Uint8Array, CacheFilesFailed | HostError> =>
  Stream.unwrap(Effect.gen(function*() {
    const there = (yield* shell(folders, LOOK)).split("\n").filter((line) => line !== "").map(Number)
    const paths = folders.paths.filter((_, i) => there.includes(i))
    const header = CachedArchive.header(paths)
    if (paths.length === 0) return Stream.make(header)
    const tar = yield* folders.box.spawn(command("tar", ["--create", "--file=-", "--format=gnu", ...members(folders, paths)]))
    yield* tar.endInput
    return Stream.make(header).pipe(
      Stream.concat(tar.stdout),
      Stream.concat(Stream.fromEffectDrain(ended(tar, "tar")))
    )
  }))

const remove = (folders: Folders, paths: ReadonlyArray<CachePath>) =>
  Effect.gen(function*() {
    const rm = yield* folders.box.spawn(
      command("rm", ["-rf", "--", ...paths.map((path) => `${baseOf(folders, path)}/${path.path}`)])
    )
    yield* rm.endInput
    yield* rm.exited
  }).pipe(Effect.scoped, Effect.ignore)

/**
 * Restores packed folders. None of them may exist. A failed or incomplete unpacking leaves nothing behind, unless the box ends
 * meanwhile.
 */
export const unpack = <E>(folders: Folders, bytes: Stream.Stream<Uint8Array, E>): Effect.Effect<void, E | CacheFilesFailed | HostError> =>
  Effect.gen(function*() {
    const { archive, paths: names } = yield* CachedArchive.opened(bytes, failed)
    const paths = folders.paths.filter((path) => names.includes(show(path)))
    if (paths.length !== names.length) return yield* failed("they are others than those that are asked for.")
    yield* shell(folders, FREE)
    if (paths.length === 0) return yield* Stream.runDrain(archive)
    yield* Effect.gen(function*() {
      const tar = yield* folders.box.spawn(command("tar", [
        "--extract",
        "--file=-",
        "--no-same-owner",
        "--no-same-permissions",
        "--delay-directory-restore",
        ...members(folders, paths)
      ]))
      // Reads the whole archive to find damage, but stops when tar fails.
      yield* Effect.raceFirst(Stream.runForEach(archive, tar.write), Effect.andThen(ended(tar, "tar"), Effect.never))
      yield* tar.endInput
      yield* Stream.runDrain(tar.stdout)
      yield* ended(tar, "tar")
    }).pipe(Effect.scoped, Effect.onError(() => remove(folders, paths)))
  }).pipe(Effect.scoped)

/** Mounts the folders of a cache image in the box, if the box can. `false`: nothing has changed. */
export const overlay = Effect.fn("CacheFiles.overlay")(function*(folders: Folders, image: string) {
  const { box, paths, tree } = folders
  if (box.overlay === undefined) return false
  yield* shell(folders, FREE)
  const ofHome = paths.filter(({ base }) => base === "home")
  const places = ofHome.map((path) => `${baseOf(folders, path)}/${path.path}`)
  if (places.length > 0) yield* Effect.scoped(Effect.flatMap(box.spawn(command("mkdir", ["-p", "--", ...places])), ({ exited }) => exited))
  const problem = yield* box.overlay({ image, tree, paths })
  if (problem === null) return true
  yield* Effect.logWarning("what a setup filled is unpacked, since it cannot be shown", { reason: problem })
  yield* remove(folders, ofHome)
  return false
})

/** Arguments: the home, and paths in it. A path with a link on the way is skipped. */
const REMOVE_FROM_HOME = `
cd "$1" && shift || exit 0
for path; do
  at= rest=$path
  while case $rest in */*) true;; *) false;; esac; do
    at=$at\${rest%%/*} rest=\${rest#*/}
    if [ -L "$at" ]; then continue 2; fi
    at=$at/
  done
  rm -rf -- "./$path"
done
`

/** Removes cached folders of the home that an earlier run of the setup left. Folders that overlap with `others` stay. */
export const removeFromHome = Effect.fn("CacheFiles.removeFromHome")(
  function*(box: Box, paths: ReadonlyArray<CachePath>, others: ReadonlyArray<CachePath>) {
    const own = paths.filter((path) => path.base === "home" && !others.some((other) => overlap(path, other)))
    if (own.length === 0) return
    const process = yield* box.spawn({
      command: "/bin/sh",
      args: ["-c", REMOVE_FROM_HOME, "sh", box.home, ...own.map(({ path }) => path)],
      env: {},
      isOffline: true
    })
    yield* process.endInput
    yield* process.exited
  },
  Effect.scoped,
  // Folders that remain prevent the use of the cache, so the setup runs.
  (self) => Effect.ignore(self)
)
