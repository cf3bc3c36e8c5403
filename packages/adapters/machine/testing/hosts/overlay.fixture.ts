/** Machines that show cache images, for tests; and whether this one does, found without the code under test. */
import * as CachedArchive from "@slipway/domain/environment/rules/CachedArchive"
import { type CachePath, parse } from "@slipway/domain/environment/rules/CachePath"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Context, Effect, Layer, Result, Stream } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as SizedFolders from "../../src/files/SizedFolders.ts"
import { workspacesIn } from "../../src/files/TreesLayout.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import * as CacheImages from "../../src/overlay/CacheImages.ts"
import * as Mounts from "../Mounts.ts"
import { absent, freshId, hostIn, openFolder, run } from "./bubblewrap.fixture.ts"
import { noEgress } from "./isolated.ts"
import { lacking as unsized } from "./sized.fixture.ts"

const MiB = 2 ** 20

const OVERLAY = `
folder=$(mktemp -d) && cd "$folder" && trap 'umount "$folder/disk" 2>/dev/null; rm -r "$folder"' EXIT
mkdir disk && mount -t tmpfs none disk && mkdir disk/l disk/u disk/w disk/m
mount -t overlay -o lowerdir=disk/l,upperdir=disk/u,workdir=disk/w none disk/m && umount disk/m
perl -e 'exit(syscall(442, -1, my $empty = "", 0, 0, 0) < 0 && $!{ENOSYS} ? 1 : 0)' && command -v bwrap
`
const look = (): string | undefined => {
  if (unsized !== undefined || absent !== undefined) return unsized ?? absent
  const { status, stderr } = spawnSync("sh", ["-ec", OVERLAY], { encoding: "utf8" })
  return status === 0 ? undefined : `needs overlays: ${stderr.trim().split("\n").at(-1)}`
}

/** Why there are none; `undefined`: there are. */
export const lacking: string | undefined = look()
if (lacking !== undefined) process.stderr.write(`NOT TESTED: cache images that are mounted; ${lacking}\n`)

export const pathsOf = (...texts: ReadonlyArray<string>): ReadonlyArray<CachePath> => texts.map((text) => Result.getOrThrow(parse(text)))

/** Lines of the kernel's table of mounts that name `text`. */
export const mountsOf = (text: string): ReadonlyArray<string> =>
  readFileSync("/proc/self/mountinfo", "utf8").split("\n").filter((line) => line.includes(text))

/** A cache image of what the script makes in `tree` and `home`, as root. */
export const imageOf = Effect.fnUntraced(function*(
  { images, paths, script, tarArgs = [] }: {
    readonly images: string
    readonly paths: ReadonlyArray<CachePath>
    readonly script: string
    /** Instead of the paths. */
    readonly tarArgs?: ReadonlyArray<string>
  },
  options: CacheImages.Options = { bytes: 64 * MiB }
) {
  const from = yield* openFolder
  for (const folder of ["tree", "home"]) mkdirSync(join(from, folder))
  execFileSync("sh", ["-ec", script], { cwd: from })
  const given = tarArgs.length > 0 ? tarArgs : CachedArchive.members(paths, ({ base }) => join(from, base))
  const archive = execFileSync("tar", ["--create", "--file=-", "--format=gnu", ...given], { cwd: from, maxBuffer: 2 ** 30 })
  const image = join(images, `${readdirSync(images).length}.image`)
  yield* CacheImages.make(image, Stream.make(CachedArchive.header(paths), archive), options)
  return image
})

/** A machine, and a tree called `shop` in each sandbox that is made on it. */
export const machine = Effect.fnUntraced(function*(diskBytes = 64 * MiB) {
  const above = yield* openFolder
  const directory = join(above, "trees")
  const images = join(above, "images")
  mkdirSync(images)
  yield* Effect.addFinalizer(() => Effect.sync(() => Mounts.unmount(directory)))
  const limits: Limits = { ...defaults, diskBytes, diskFiles: 4000 }
  const workspaceOf = workspacesIn(directory)
  const start = Effect.gen(function*() {
    const folders = yield* SizedFolders.make({ directory, limits, overlays: true })
    yield* folders.adopt
    const host = Context.get(yield* Layer.build(Layer.provide(hostIn(above, { folders, limits, workspaceOf }), noEgress)), SandboxHost)
    return { folders, host }
  })
  const { folders, host } = yield* start
  chmodSync(above, 0o711)
  const boxOf = (id: SandboxId, of = host) => of.provision({ sandboxId: id, fence: 1 })
  const sandbox = Effect.gen(function*() {
    const id = freshId()
    yield* Effect.addFinalizer(() => Effect.andThen(Effect.orDie(host.stop(id)), folders.remove(id)))
    yield* folders.open(id)
    const tree = join(workspaceOf(id), "shop")
    mkdirSync(tree, { recursive: true })
    writeFileSync(join(tree, "tracked"), "ours\n")
    const box = yield* boxOf(id)
    const sh = (script: string) => run(box, `cd /workspace/shop && ${script}`)
    yield* sh("git init -q . && echo node_modules > .gitignore && git add . && git -c user.name=a -c user.email=a@b commit -qm first")
    const show = (image: string, paths: ReadonlyArray<CachePath>) =>
      Effect.gen(function*() {
        const ofHome = paths.filter(({ base }) => base === "home").map(({ path }) => `~/'${path}'`)
        if (ofHome.length > 0) yield* run(box, `mkdir -p ${ofHome.join(" ")}`)
        if (box.overlay === undefined) return yield* Effect.die("the box shows nothing")
        return yield* box.overlay({ image, tree: "/workspace/shop", paths })
      })
    return { id, tree, box, sh, show }
  })
  return { above, directory, images, folders, host, start, boxOf, workspaceOf, sandbox }
})
